"""A dump is read in whatever form its files store their columns, and what is none is said in a sentence."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark import made

from apportion.errors import BadInput, Unavailable
from apportion.spark import job, sources
from apportion.spark.location import locate

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def test_a_dump_is_read_as_people_store_it(spark: Any, tmp_path: Path) -> None:
    """Nanoseconds, times without a zone, 64-bit numbers and large strings, file by file."""
    dump = made.write_dump(tmp_path / "d", [made.commit(i) for i in range(40)], files=4)
    first, second, third, _ = sorted((dump / "records").glob("*.parquet"))
    rewrite(first, "timestamp", pa.timestamp("ns", tz="UTC"))
    rewrite(second, "timestamp", pa.timestamp("ms"))
    rewrite(third, "partition", pa.int64())
    rewrite(third, "topic", pa.large_string())
    ends = pq.read_table(dump / "ends.parquet")
    (dump / "ends.parquet").unlink()
    (dump / "ends.parquet").mkdir()
    for number in range(2):
        pq.write_table(ends.slice(2 * number, 2), dump / "ends.parquet" / f"part-{number}.parquet")
    pq.write_table(
        pa.table({"topic": ["t"], "topic_id": pa.nulls(1), "partition": [0], "racks": [[None]]}),
        dump / "topics.parquet",
    )
    there = sources.open_dump(spark, locate(dump))
    assert there.read("ends").count() == ends.num_rows
    assert [tuple(row) for row in there.read("topics").collect()] == [("t", None, 0, [None])]
    rows = sorted(
        sources.open_dump(spark, locate(dump)).read("records").select("partition", "offset", "timestamp").collect()
    )
    start = datetime.fromtimestamp(made.START_MS / 1000, UTC)
    expected = sorted((i % 3, i // 3, (start + timedelta(seconds=i)).timestamp()) for i in range(40))
    assert [(p, o, t.astimezone(UTC).timestamp()) for p, o, t in rows] == expected


def rewrite(file: Path, column: str, kind: pa.DataType) -> None:
    """A file with one column in another type."""
    table = pq.read_table(file)
    place = table.schema.get_field_index(column)
    pq.write_table(table.set_column(place, column, table[column].cast(kind)), file)


def test_a_dump_that_spark_cannot_reach_is_named_and_not_the_tables(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"^s3://bucket/dump: Spark reads and writes S3 as s3a://"):
        job.build("s3://bucket/dump", tmp_path / "out", spark=spark)
    with pytest.raises(Unavailable, match=r"no driver for gs://bucket/dump;"):
        job.build("gs://bucket/dump", tmp_path / "out", spark=spark)


def test_what_is_no_dump_is_said_in_one_sentence(spark: Any, tmp_path: Path) -> None:
    """A folder without records, a cut file, a wrong type, a missing column, missing ends: each names the place."""
    whole = made.write_dump(tmp_path / "whole", [made.commit(i) for i in range(9)])
    file = whole / "records" / "part-0.parquet"

    def complains(words: str, change: Any) -> None:
        shutil.rmtree(tmp_path / "bad", ignore_errors=True)
        shutil.copytree(whole, tmp_path / "bad")
        change(tmp_path / "bad")
        with pytest.raises(BadInput, match=words) as raised:
            sources.open_dump(spark, locate(tmp_path / "bad"))
        assert "\n" not in str(raised.value)

    raw = file.read_bytes()
    complains("no folder records", lambda d: shutil.rmtree(d / "records"))
    complains("no such folder", shutil.rmtree)
    complains("part-0.parquet: found no whole Parquet", lambda d: (d / "records/part-0.parquet").write_bytes(raw[:-20]))
    complains("part-1.parquet, column key", lambda d: rewrite(d / "records/part-1.parquet", "key", pa.string()))
    complains(
        "column offset: found type string", lambda d: rewrite(d / "records/part-1.parquet", "offset", pa.string())
    )
    complains("found no ends.parquet", lambda d: (d / "ends.parquet").unlink())
    complains(
        "column partition: found no such column",
        lambda d: pq.write_table(pa.table({"topic": ["t"]}), d / "ends.parquet"),
    )


def test_records_that_stand_twice_count_once_unless_they_differ(spark: Any, tmp_path: Path) -> None:
    """Two copies of a file are one; two clusters in a folder are refused."""
    dump = made.write_dump(tmp_path / "d [1] {a,b} * 100%", [made.commit(i) for i in range(30)], files=1)
    shutil.copy(dump / "records/part-0.parquet", dump / "records/copy.parquet")
    built = job.build(dump, tmp_path / "out", assignors=["range"], spark=spark)
    assert (built.rows["silver/commits"], built.rows["silver/gaps"]) == (30, 0)
    shutil.copy(dump / "records/part-0.parquet", dump / "records/third.parquet")
    again = job.build(dump, tmp_path / "out", assignors=["range"], spark=spark)
    assert again.whole == "records that were read before are there twice, or came late"
    assert again.rows == built.rows
    other = made.write_dump(tmp_path / "o", [made.commit(i + 1) for i in range(30)], files=1)
    shutil.copy(other / "records/part-0.parquet", dump / "records/copy.parquet")
    with pytest.raises(BadInput, match="two different records"):
        job.build(dump, tmp_path / "out", assignors=["range"], spark=spark)

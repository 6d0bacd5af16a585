"""Silver by Arrow in the workers is silver by Spark's queries, value by value, whatever files the records lie in."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark import made
from tests.spark.conftest import rows_of
from tests.spark.test_sinks import rewrite

from apportion.errors import ApportionError
from apportion.spark import job, local_silver, schemas, sinks, slices, sources
from apportion.spark.bundles import Bundled

pytestmark = pytest.mark.spark
SILVER = [name for name in schemas.TABLES if name.startswith("silver/")]


def silver(spark: Any, dump: Path, out: Path, here: bool) -> Mapping[str, Path]:
    """The silver tables of a dump's files, by the one way or the other: table to its folder."""
    source = sources.read_dump(spark, dump)
    steps = job._steps(source if here else replace(source, files=None), 0, None, "drop")
    tables: dict[str, Any] = {}
    with sinks.parquet(out) as sink:
        sink.reader = lambda: spark
        for name in SILVER:
            rows = steps[name](tables)
            assert isinstance(rows, Bundled | pa.Table) is here
            sink.write(name, rows, schemas.TABLES[name], 2)
            tables[name] = sink.now(name)
        sink.publish()
    return {name: out / name for name in SILVER}


def in_pieces(folder: Path, rows: pa.Table, rng: random.Random, files: int) -> None:
    """Rows in any order, in several files of small row groups."""
    (file,) = folder.glob("part-0.parquet")
    file.unlink()
    shuffled = rows.take(pa.array(rng.sample(range(rows.num_rows), rows.num_rows)))
    step = -(-rows.num_rows // files)
    for number in range(files):
        pq.write_table(shuffled.slice(number * step, step), folder / f"part-{number}.parquet", row_group_size=170)


@contextmanager
def patch_of(module: Any, name: str) -> Iterator[list[Any]]:
    """What a function was asked first of each time; it does what it did."""
    asked: list[Any] = []
    function = getattr(module, name)

    def recorded(first: Any, *more: Any) -> Any:
        asked.append(first)
        return function(first, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, name, recorded)
        yield asked


def test_both_ways_give_the_same_rows(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hostile records of three days and of no day, with gaps, in foreign types; samples twice and none; tiny slices."""
    rng = random.Random(3)
    pairs = made.mutated(made.every_kind(), 1200, seed=9) + made.every_kind()
    dump = made.write_dump(tmp_path / "dump [1] {a,b} * 100%", pairs, files=1)
    whole = pq.read_table(dump / "records" / "part-0.parquet")
    day = [rng.choice((0, 1, 2, -400_000)) * 86_400_000_000 for _ in range(whole.num_rows)]
    at = pa.array(
        [t + d for t, d in zip(whole["timestamp"].cast(pa.int64()).to_pylist(), day, strict=True)], pa.int64()
    )
    column = whole.schema.get_field_index("timestamp")
    whole = whole.set_column(column, "timestamp", at.cast(pa.timestamp("us", tz="UTC")))
    kept = [row for row in range(whole.num_rows) if row % 37]
    in_pieces(dump / "records", whole.take(pa.array(kept)), rng, 5)
    rewrite(dump / "records" / "part-1.parquet", "partition", pa.int64())
    rewrite(dump / "records" / "part-2.parquet", "key", pa.large_binary())
    rewrite(dump / "records" / "part-3.parquet", "timestamp", pa.timestamp("us"))
    ends = pq.read_table(dump / "ends.parquet")
    (dump / "samples").mkdir()
    pq.write_table(ends, dump / "samples" / "ends-1.parquet")
    earlier = pa.array([datetime(2026, 11, 20, tzinfo=UTC) + timedelta(hours=n) for n in range(4)], ends["at"].type)
    pq.write_table(ends.set_column(5, "at", earlier), dump / "samples" / "ends-2.parquet")
    topics = {
        "topic": ["t", "t", "s"],
        "topic_id": ["x", None, None],
        "partition": [1, 0, 7],
        "racks": [["a"], None, [None]],
    }
    pq.write_table(pa.table(topics, schema=schemas.arrow_schema(schemas.TOPICS)), dump / "topics.parquet")
    monkeypatch.setattr(slices, "ROWS_A_SLICE", 300)
    monkeypatch.setattr(local_silver, "ROWS_A_TASK", 300)
    with patch_of(local_silver, "slices_of") as cut:
        one = silver(spark, dump, tmp_path / "one", here=True)
    files = [file for some in cut for file in some]
    assert len(files) == len(set(files)) == 9, "no file is cut twice"
    other = silver(spark, dump, tmp_path / "other", here=False)
    for name in SILVER:
        assert rows_of(one[name]) == rows_of(other[name]), name
        assert len(rows_of(one[name])) > 1, name
        for file in one[name].glob("*.parquet"):
            table = schemas.TABLES[name]
            rows = pq.ParquetFile(file).read()
            in_order = sinks.sorted_rows(rows, table, schemas.arrow_schema(table))
            assert rows.equals(in_order.select(rows.schema.names)), file
    assert {file.name[:10] for file in one["silver/commits"].iterdir()} == {
        *(f"2025-11-{n}" for n in (21, 22, 23)), "undated-00"
    }  # fmt: skip


def test_two_builds_of_the_same_files_are_the_same_bytes(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files decide how rows are dealt to files, not the order in which tasks come to an end."""
    monkeypatch.setattr(slices, "ROWS_A_SLICE", 100)
    monkeypatch.setattr(local_silver, "ROWS_A_TASK", 100)
    dump = made.write_dump(tmp_path / "dump", made.every_kind() * 6, files=3)
    one, other = (silver(spark, dump, tmp_path / name, here=True) for name in "ab")
    for name in SILVER:
        files = sorted(one[name].iterdir())
        assert [(f.name, f.read_bytes()) for f in files] == [
            (f.name, f.read_bytes()) for f in sorted(other[name].iterdir())
        ]


def test_a_record_that_stands_twice_is_left_to_spark(spark: Any, tmp_path: Path) -> None:
    """In files of their own, or side by side in one: whether the two are equal only Spark looks."""
    dump = made.write_dump(tmp_path / "d", [made.commit(i) for i in range(30)], files=1)
    source = sources.read_dump(spark, dump)
    assert local_silver.local_silver(spark, source.files, source.count) is not None
    rows = pq.read_table(dump / "records" / "part-0.parquet")
    pq.write_table(rows.slice(7, 1), dump / "records" / "part-1.parquet")
    source = sources.read_dump(spark, dump)
    assert local_silver.local_silver(spark, source.files, source.count) is None
    (dump / "records" / "part-1.parquet").unlink()
    pq.write_table(pa.concat_tables([rows, rows.slice(29)]), dump / "records" / "part-0.parquet")
    source = sources.read_dump(spark, dump)
    assert local_silver.local_silver(spark, source.files, source.count) is None
    built = job.build(dump, tmp_path / "out", spark=spark, assignors=["range"])
    assert built.rows["silver/commits"] == 30


def test_a_dump_without_records_or_samples_gives_empty_tables(spark: Any, tmp_path: Path) -> None:
    """Every table is there, with its columns."""
    dump = made.write_dump(tmp_path / "d", [], files=1)
    ends = pq.read_table(dump / "ends.parquet")
    pq.write_table(ends.slice(0, 0), dump / "ends.parquet")
    tables = silver(spark, dump, tmp_path / "out", here=True)
    for name, folder in tables.items():
        assert pq.read_table(folder).schema.equals(schemas.arrow_schema(schemas.TABLES[name]))
        assert not pq.read_table(folder).num_rows


def test_what_a_worker_cannot_read_is_told_by_its_name(spark: Any, tmp_path: Path) -> None:
    """A page of keys that is spoilt: the footer is whole, and so are the columns that a build looks at first."""
    dump = made.write_dump(tmp_path / "d", [made.commit(i) for i in range(3000)], files=1)
    file = dump / "records" / "part-0.parquet"
    keys = pq.read_metadata(file).row_group(0).column(0)
    assert keys.path_in_schema == "key"
    raw = bytearray(file.read_bytes())
    raw[keys.dictionary_page_offset : keys.dictionary_page_offset + 400] = bytes(400)
    file.write_bytes(raw)
    with pytest.raises(ApportionError, match=r"part-0\.parquet cannot be read to its end; copy it again$"):
        job.build(dump, tmp_path / "out", spark=spark)


def test_slices_have_few_rows_and_bytes_and_every_row_group_once(tmp_path: Path) -> None:
    """A row group that is too large is a slice of its own."""
    for number, rows in enumerate((10, 5000, 10)):
        table = pa.table({"a": [bytes(20)] * rows})
        pq.write_table(table, tmp_path / f"{number}.parquet", row_group_size=1000)
    files = sorted(tmp_path.glob("*.parquet"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "ROWS_A_SLICE", 2000)
        cut = slices.slices_of(files)
        assert [one.rows for one in cut] == [1010, 2000, 2000, 10]
        patch.setattr(slices, "BYTES_A_SLICE", 1)
        assert all(len(one.groups) == 1 for one in slices.slices_of(files))
    every = [(str(file), n) for file in files for n in range(pq.read_metadata(file).num_row_groups)]
    assert [group for one in cut for group in one.groups] == every
    with patch_of(pq, "read_metadata") as asked:
        few = slices.slices_of(files, 3)
    assert asked == files, "each footer is read once"
    assert [one.rows for one in few] == [1010, 1000, 1000, 1000, 1010]
    assert [group for one in few for group in one.groups] == every

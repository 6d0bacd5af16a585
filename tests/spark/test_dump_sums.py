"""A dump's check sums follow its rows alone, and a few new records are decoded as Spark decodes them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark import made

from apportion.errors import BadInput
from apportion.inputs import dump_files
from apportion.spark import decode, dump_sums, few_records, schemas, sources
from apportion.spark.schemas import TABLES


def sums(dump: Path, before_us: int = -(2**62)) -> tuple[Any, ...]:
    files = dump_files.find(dump)
    return dump_sums.records(files, {}), dump_sums.ends(files, before_us), dump_sums.topics_sum(files)


def dumped(folder: Path, rows: dict[str, pa.Table], pieces: int = 1) -> Path:
    """A dump of these tables, dealt to some files each."""
    for name, table in rows.items():
        (folder / name).mkdir(parents=True)
        for number in range(pieces):
            first, last = (table.num_rows * n // pieces for n in (number, number + 1))
            pq.write_table(table.slice(first, last - first), folder / name / f"part-{number}.parquet")
    return folder


def rows_of(dump: Path) -> dict[str, pa.Table]:
    topics = pa.table({
        "topic": ["t", "t", None], "topic_id": ["x", None, "y"], "partition": pa.array([0, 1, 2], pa.int32()),
        "racks": [["a", "b"], [None], [""]],
    })  # fmt: skip
    return {"records": pq.read_table(dump / "records"), "ends.parquet": pq.read_table(dump / "ends.parquet"),
            "topics.parquet": topics}  # fmt: skip


def shuffled(table: pa.Table, seed: int) -> pa.Table:
    order = list(range(table.num_rows))
    random.Random(seed).shuffle(order)
    return table.take(pa.array(order))


@pytest.fixture
def rows(tmp_path: Path) -> dict[str, pa.Table]:
    return rows_of(made.write_dump(tmp_path / "d", made.every_kind()))


@pytest.mark.parametrize("seed", range(3))
def test_sums_do_not_depend_on_files_order_or_form(tmp_path: Path, rows: dict[str, pa.Table], seed: int) -> None:
    """Nor on how often a sample of log ends is stored."""
    whole = sums(dumped(tmp_path / "one", rows))
    other = {name: shuffled(table, seed) for name, table in rows.items()}
    ends = other["ends.parquet"]
    other["ends.parquet"] = pa.concat_tables([ends, ends.slice(0, 1)])
    at = other["records"].schema.get_field_index("timestamp")
    ns = other["records"]["timestamp"].cast(pa.timestamp("ns"))
    other["records"] = other["records"].set_column(at, "timestamp", ns)
    topic = other["topics.parquet"]["topic"].dictionary_encode()
    other["topics.parquet"] = other["topics.parquet"].set_column(0, "topic", topic)
    assert sums(dumped(tmp_path / "other", other, pieces=3)) == whole
    files = dump_files.find(tmp_path / "one")
    newest = whole[1]["at"]
    assert dump_sums.ends(files, newest)["old"] == whole[1]["all"]
    assert dump_sums.ends(files, newest - 1)["old"] < whole[1]["all"]
    assert dump_sums.newer_ends(files, newest).num_rows == 0
    newer = dump_sums.newer_ends(dump_files.find(tmp_path / "other"), newest - 1)
    every = rows["ends.parquet"].select(newer.column_names).to_pylist()
    assert sorted(map(repr, newer.to_pylist())) == sorted(map(repr, every)), "all were sampled at one moment"


@pytest.mark.parametrize("name", ["records", "ends.parquet", "topics.parquet"])
def test_any_other_value_changes_the_sum(tmp_path: Path, rows: dict[str, pa.Table], name: str) -> None:
    """In any column that is looked at, of any row; null is a value too."""
    columns = {"records": dump_sums.PLACE, "ends.parquet": schemas.ENDS.schema.names,
               "topics.parquet": schemas.TOPICS.schema.names}[name]  # fmt: skip
    table = rows[name].select(list(columns))
    seen = {tuple(dump_sums.row_hashes(table).tolist())}
    changes = 0
    for column in columns:
        values = table[column].to_pylist()
        for row in {0, table.num_rows - 1}:
            others = {repr(v): v for v in (None, values[1 - row] if row < 2 else values[0]) if v != values[row]}
            for value in others.values():
                new = pa.array([*values[:row], value, *values[row + 1 :]], table[column].type)
                at = table.schema.get_field_index(column)
                seen.add(tuple(dump_sums.row_hashes(table.set_column(at, column, new)).tolist()))
                changes += 1
    assert changes > len(columns)
    assert len(seen) == 1 + changes


def test_a_record_without_a_place_is_left_to_spark(tmp_path: Path, rows: dict[str, pa.Table]) -> None:
    """Where no statistics tell of it, the footers' check believes that there is none."""
    records = rows["records"]
    at = records.schema.get_field_index("offset")
    offsets = pa.array([None, *records["offset"].to_pylist()[1:]], records["offset"].type)
    dump = dumped(tmp_path / "null", rows)
    file = dump / "records/part-0.parquet"
    pq.write_table(records.set_column(at, "offset", offsets), file, write_statistics=False)
    for look in (dump_sums.records, lambda files, read: few_records.new_records(files, read, 1)):
        with pytest.raises(dump_sums.BROKEN):
            look(dump_files.find(dump), {})


def test_what_was_read_before_is_told_by_partition_and_offset() -> None:
    """A partition that was never read is new from its beginning."""
    partition, offset = np.array([0, 0, 3, 3, 5]), np.array([4, 5, 0, 9, 0])
    assert dump_sums.behind(partition, offset, {0: 4, 3: 9}).tolist() == [False, True, False, False, True]
    assert dump_sums.behind(partition, offset, {}).all()


@pytest.mark.spark
def test_a_few_records_are_decoded_as_spark_decodes_them(spark: Any, tmp_path: Path) -> None:
    """Every kind of record, behind what was read, some of them twice; two of one place that differ are refused."""
    dump = made.write_dump(tmp_path / "d", made.every_kind() * 3, files=2)
    files = dump_files.find(dump)
    read = {0: 3, 1: 10, 2: -3}  # as if two offsets before the first were missing
    pq.write_table(pq.read_table(dump / "records/part-0.parquet").slice(0, 7), dump / "records/again.parquet")
    files = dump_files.find(dump)
    count = dump_sums.records(files, {}).count
    records = few_records.new_records(files, read, count)
    assert records is not None
    assert few_records.new_records(files, read, few_records.RECORDS_MAX + 1) is None
    one_way = few_records.silver(records, read)
    news = decode.deduplicate(sources.read_files(spark, files).records.where(decode_behind(read)))
    commits, generations, epochs = decode.commits(news), decode.generations(news), decode.epochs(news)
    other_way = {
        "silver/commits": commits, "silver/generations": generations, "silver/epochs": epochs,
        "silver/rejects": decode.rejects(news), "silver/gaps": decode.gaps(news, read),
        "silver/counts": decode.counts(commits, generations, epochs, news),
    }  # fmt: skip
    for name, frame in other_way.items():
        names = TABLES[name].schema.names
        pair = [sorted(map(repr, table.select(names).to_pylist())) for table in (one_way[name], frame.toArrow())]
        assert pair[0] == pair[1], name
        assert pair[0] or name == "silver/rejects", name
    changed = pq.read_table(dump / "records/again.parquet")
    at = changed.schema.get_field_index("value")
    changed = changed.set_column(at, "value", pa.array([b"another"] * changed.num_rows, pa.binary()))
    pq.write_table(changed, dump / "records/again.parquet")
    with pytest.raises(BadInput, match="two different records"):
        few_records.new_records(dump_files.find(dump), {}, count)


def decode_behind(read: dict[int, int]) -> Any:
    from apportion.spark.incremental import behind

    return behind(read)

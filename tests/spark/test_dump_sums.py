"""A dump's check sums follow its rows alone, and a few new records are decoded as Spark decodes them."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark import made

from apportion.errors import BadInput
from apportion.inputs import dump_files
from apportion.spark import decode, dump_sums, few_records, incremental, schemas, sources
from apportion.spark.schemas import TABLES


def sums(dump: Path, before_us: int = -(2**62)) -> tuple[Any, ...]:
    files = dump_files.find(dump)
    seen = dump_sums.records(files, {})
    records = seen.last, seen.count, seen.sum, seen.old_count, seen.old_sum
    return records, dump_sums.ends(files, before_us), dump_sums.topics_sum(files)[0]


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


def test_files_that_were_summed_before_are_not_read_as_rows_again(
    tmp_path: Path, rows: dict[str, pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sums are those of all rows; a file that changed, came or went is seen, and so is a sample that came late."""
    dump = dumped(tmp_path / "dump", rows, pieces=2)
    files = dump_files.find(dump)
    first, ends, (_, topics) = dump_sums.records(files, {}), dump_sums.ends_since(files, -(2**62)), topics_of(files)
    again = dump_sums.records(files, first.last, first.seen)
    assert (again.last, again.count, again.sum) == (first.last, first.count, first.sum)
    assert (again.old_count, again.old_sum) == (first.count, first.sum)
    assert again.settled == set(files.records)

    with monkeypatch.context() as nothing_is_read:
        nothing_is_read.setattr(dump_sums, "_read", None)
        assert dump_sums.records(files, first.last, first.seen) == again
        sums = ends.sums
        known = dump_sums.ends_since(files, sums["at"], ends.seen, sums["all"], sums["all_sum"])
        assert {**known.sums, "old": sums["old"], "old_sum": sums["old_sum"]} == sums
        assert known.newer is not None
        assert known.newer.num_rows == 0
        assert dump_sums.topics_sum(files, topics) == topics_of(files, topics)

    file = dump / "records/part-0.parquet"
    pq.write_table(pq.read_table(file).slice(1), file)
    changed = dump_sums.records(dump_files.find(dump), first.last, first.seen)
    assert changed.settled == {dump / "records/part-1.parquet"}
    assert (changed.count, changed.old_count) == (first.count - 1, first.count - 1)
    assert changed.sum != first.sum

    at = rows["ends.parquet"].schema.get_field_index("at")
    for later, alone in ((10**9, True), (0, False), (-(10**9), False)):
        moved = pa.array([sums["at"] + later] * rows["ends.parquet"].num_rows).cast(pa.timestamp("us", tz="UTC"))
        sample = rows["ends.parquet"].set_column(at, "at", moved)
        (dump / "samples").mkdir(exist_ok=True)
        pq.write_table(pa.concat_tables([sample, sample]), dump / "samples/ends-1.parquet")
        files = dump_files.find(dump)
        since = dump_sums.ends_since(files, sums["at"], ends.seen, sums["all"], sums["all_sum"])
        assert since.sums == dump_sums.ends(files, sums["at"])
        assert (since.newer is not None) == alone
        if since.newer is not None:
            asked = dump_sums.newer_ends(files, sums["at"])
            assert sorted(map(repr, since.newer.to_pylist())) == sorted(map(repr, asked.to_pylist())) != []
    (dump / "ends.parquet/part-0.parquet").unlink()
    files = dump_files.find(dump)
    gone = dump_sums.ends_since(files, sums["at"], ends.seen, sums["all"], sums["all_sum"])
    assert gone.sums == dump_sums.ends(files, sums["at"])


def test_the_newest_sample_is_one_of_those_that_are_there(tmp_path: Path, rows: dict[str, pa.Table]) -> None:
    """Also where a later one was seen before and is gone, as when a clock was put right; none where none has a time."""
    dump = dumped(tmp_path / "dump", rows)
    ends = rows["ends.parquet"]
    newest = dump_sums.ends(dump_files.find(dump), dump_sums.NO_TIME)["at"]
    for before in (newest - 1, newest, newest + 10**9):
        assert dump_sums.ends(dump_files.find(dump), before)["at"] == newest
    untimed = ends.set_column(ends.schema.get_field_index("at"), "at", pa.nulls(len(ends), ends["at"].type))
    pq.write_table(untimed, dump / "samples.parquet")
    files = dump_files.checked(list(dump_files.find(dump).records), [dump / "samples.parquet"], [], [])
    sums = dump_sums.ends(files, newest)
    assert (sums["at"], sums["old"]) == (dump_sums.NO_TIME, len(ends)), "a sample without a time is no newer one"


@pytest.mark.spark
def test_samples_have_the_times_that_spark_gives_them(spark: Any, tmp_path: Path, rows: dict[str, pa.Table]) -> None:
    """Of a dump that is looked at by a query the newest one is the same, and so are those up to a moment."""
    dump = dumped(tmp_path / "dump", rows)
    ends = rows["ends.parquet"]
    at = ends.schema.get_field_index("at")
    untimed = ends.set_column(at, "at", pa.nulls(len(ends), ends["at"].type))
    newest = dump_sums.ends(dump_files.find(dump), dump_sums.NO_TIME)["at"]
    for name, before in (("some", newest + 1), ("some", newest - 1), ("some", dump_sums.NO_TIME), ("none", newest)):
        table = untimed if name == "none" else pa.concat_tables([ends, untimed.slice(0, 1)])
        for file in (dump / "ends.parquet").iterdir():
            pq.write_table(table, file)
        files = dump_files.find(dump)
        state = incremental.BuildState("", {}, "", ends_at=before)
        by_query = incremental._ends(replace(sources.read_files(spark, files), files=None), state).sums
        here = dump_sums.ends(files, before)
        assert {one: here[one] for one in ("all", "at", "old")} == {one: by_query[one] for one in ("all", "at", "old")}


def topics_of(files: dump_files.DumpFiles, known: dict[str, int] | None = None) -> tuple[int, dict[str, int]]:
    return dump_sums.topics_sum(files, known)


def test_the_digest_of_a_file_follows_the_columns_that_are_looked_at(tmp_path: Path, rows: dict[str, pa.Table]) -> None:
    """Of two files whose footers are one, any other byte of such a column is another digest; of others it is not."""
    table = rows["records"].slice(0, 1)
    for name, is_seen in (("offset", True), ("value", False)):
        file = tmp_path / "one.parquet"
        pq.write_table(table, file, compression="none", use_dictionary=False, write_statistics=False)
        before = dump_sums.digest(file, dump_sums.PLACE)
        footer = pq.read_metadata(file)
        (column,) = [
            one for one in map(footer.row_group(0).column, range(footer.num_columns)) if one.path_in_schema == name
        ]
        content = bytearray(file.read_bytes())
        content[column.data_page_offset + column.total_compressed_size - 1] ^= 1
        file.write_bytes(content)
        assert (dump_sums.digest(file, dump_sums.PLACE) != before) is is_seen


def test_a_file_is_digested_in_pieces_whatever_their_size(
    tmp_path: Path, rows: dict[str, pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A column of many pieces is never in memory as a whole; a file that ends early has a digest too."""
    records = rows["records"]
    file = tmp_path / "long.parquet"
    long = pa.concat_tables([records] * 200)
    pq.write_table(long, file, compression="none", use_dictionary=False)
    column = pq.read_metadata(file).row_group(0).column(records.schema.get_field_index("offset"))
    assert column.total_compressed_size > 10_000
    whole = dump_sums.digest(file, dump_sums.PLACE)
    for piece in (1000, column.total_compressed_size, column.total_compressed_size - 1):
        monkeypatch.setattr(dump_sums, "PIECE", piece)
        assert dump_sums.digest(file, dump_sums.PLACE) == whole
    monkeypatch.setattr(dump_sums, "PIECE", 1000)
    with file.open("rb") as stored:
        size = file.stat().st_size
        assert [len(piece) for piece in dump_sums._pieces(stored, size - 2500, 2500)] == [1000, 1000, 500]
        assert [len(piece) for piece in dump_sums._pieces(stored, size - 1500, 2**62)] == [1000, 500]


def test_what_was_read_before_is_told_by_partition_and_offset() -> None:
    """A partition that was never read is new from its beginning."""
    partition, offset = np.array([0, 0, 3, 3, 5]), np.array([4, 5, 0, 9, 0])
    assert dump_sums.behind(partition, offset, {0: 4, 3: 9}).tolist() == [False, True, False, False, True]
    assert dump_sums.behind(partition, offset, {}).all()


@pytest.mark.spark
def test_records_have_the_sum_that_spark_gives_them(spark: Any, tmp_path: Path) -> None:
    """So that a dump which is looked at by a query, because it grew, is not taken for another one."""
    files = dump_files.find(made.write_dump(tmp_path / "d", made.every_kind() * 3, files=2))
    here = dump_sums.records(files, {0: 3, 1: 10})
    by_query = incremental._records(replace(sources.read_files(spark, files), files=None), {0: 3, 1: 10}, None)
    assert here.sum != here.old_sum != 0
    assert replace(here, seen={}) == by_query
    one = pa.table(
        {"partition": pa.array([None], pa.int32()), "offset": [-1], "timestamp": pa.array([None], pa.int64())}
    )
    [row] = spark.sql("SELECT xxhash64(CAST(NULL AS int), -1L, CAST(NULL AS timestamp)) AS hash").collect()
    assert dump_sums.place_hashes(one).view(np.int64).tolist() == [row["hash"]]


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

"""The rows of some groups are replaced in files of many groups, and files that hold none of them stay the same ones."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from apportion.spark import files, schemas, sinks
from apportion.spark.few_update import _RowsByName
from apportion.spark.other_groups import _stored, keep_others, rows_after, rows_with
from apportion.spark.sorted_rows import coded

NAME, TABLE = "gold/verdicts", schemas.VERDICTS
SCHEMA = schemas.arrow_schema(TABLE)
Pairs = list[tuple[str | None, int]]


def table_of(pairs: Pairs) -> pa.Table:
    """Rows of (group, lag)."""
    rows = [{"group": group, "topic": "t", "partition": i, "lag": lag} for i, (group, lag) in enumerate(pairs)]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def pairs_of(table: pa.Table) -> Pairs:
    return list(zip(table["group"].to_pylist(), table["lag"].to_pylist(), strict=True))


def published(root: Path) -> dict[str, tuple[int, Pairs]]:
    """File to its inode and rows."""
    files_there = sorted((root / NAME).glob("*.parquet"))
    return {file.name: (file.stat().st_ino, pairs_of(pq.read_table(file))) for file in files_there}


def lay(root: Path, *contents: Pairs) -> None:
    """A published table of some files."""
    with sinks.parquet(root) as sink:
        stage = sink.staging / "new" / NAME
        stage.mkdir(parents=True)
        for number, pairs in enumerate(contents):
            pq.write_table(table_of(pairs), stage / f"part-{number:05d}.parquet")
        sink.written.append(NAME)
        sink.publish()


def groups(*names: str) -> pa.Table:
    return pa.table({"group": pa.array(names, pa.string())})


def change(root: Path, spark: Any, pairs: Pairs, *names: str) -> None:
    with sinks.parquet(root) as sink:
        sink.reader = lambda: spark
        sink.replace_groups(NAME, table_of(pairs), groups(*names), TABLE, 3)
        staged = sink.now(NAME)
        assert staged is not None
        expected = sorted(map(repr, [(row["group"], row["lag"]) for row in staged.collect()]))
        some = sink.rows_with(NAME, "group", names)
        assert some is not None
        assert sorted(pairs_of(some)) == sorted(pairs), "what was staged is read"
        sink.publish()
    assert sorted(repr(pair) for _, rows in published(root).values() for pair in rows) == expected


@pytest.mark.spark
@pytest.mark.parametrize("links", [True, False], ids=["links", "no links"])
def test_a_file_without_touched_groups_is_the_same_file(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    """Others are written anew without them; where the file system has no links, it is copied, byte by byte."""
    if not links:

        def refused(*args: Any, **named: Any) -> None:
            raise OSError(errno.EPERM, "no links here")

        monkeypatch.setattr(os, "link", refused)
    lay(tmp_path, [("a", 1), ("b", 2)], [("c", 3), ("d", 4)])
    before = published(tmp_path)
    raw = (tmp_path / NAME / "part-00001.parquet").read_bytes()
    change(tmp_path, spark, [("a", 10), ("e", 50)], "a", "e")
    after = published(tmp_path)
    assert {name: rows for name, (_, rows) in after.items()} == {
        "part-00000.parquet": [("b", 2)],
        "part-00000+1.parquet": [("a", 10), ("e", 50)],
        "part-00001.parquet": [("c", 3), ("d", 4)],
    }
    assert (after["part-00001.parquet"][0] == before["part-00001.parquet"][0]) == links
    assert (tmp_path / NAME / "part-00001.parquet").read_bytes() == raw
    change(tmp_path, spark, [("a", 11)], "a", "e")
    again = published(tmp_path)
    assert list(again) == ["part-00000+2.parquet", "part-00000.parquet", "part-00001.parquet"], (
        "a file that is empty goes"
    )
    assert (again["part-00000.parquet"][0] == after["part-00000.parquet"][0]) == links


@pytest.mark.spark
def test_a_table_that_loses_its_last_group_still_shows_its_columns(spark: Any, tmp_path: Path) -> None:
    """And takes rows again."""
    lay(tmp_path, [("a", 1)])
    change(tmp_path, spark, [], "a")
    assert published(tmp_path).keys() == {"empty.parquet"}
    assert pq.read_schema(tmp_path / NAME / "empty.parquet") == SCHEMA
    change(tmp_path, spark, [("b", 2)], "b")
    assert {name: rows for name, (_, rows) in published(tmp_path).items()} == {"part-00000+1.parquet": [("b", 2)]}


@pytest.mark.spark
def test_many_changes_leave_few_files(spark: Any, tmp_path: Path) -> None:
    """Each change of another group adds a file, until all are made one again."""
    lay(tmp_path, [(f"g{i}", i) for i in range(40)])
    most = 0
    for i in range(sinks.PIECES + 3):
        change(tmp_path, spark, [(f"g{i}", -i)], f"g{i}")
        most = max(most, len(published(tmp_path)))
    assert most <= sinks.PIECES + 1
    assert len(published(tmp_path)) < 6
    rows = [pair for _, pairs in published(tmp_path).values() for pair in pairs]
    assert sorted(rows) == sorted((f"g{i}", -i if i < sinks.PIECES + 3 else i) for i in range(40))


@pytest.mark.parametrize("seed", range(5))
def test_a_file_shared_by_many_groups_keeps_the_rows_of_the_others_in_their_order(tmp_path: Path, seed: int) -> None:
    """Whatever is taken out of whichever row groups; rows without a group stay."""
    rng = random.Random(seed)
    pairs: Pairs = [(rng.choice([None, *"abcdefgh"]), i) for i in range(200)]
    file, target = tmp_path / "file.parquet", tmp_path / "kept.parquet"
    pq.write_table(table_of(pairs), file, row_group_size=7)
    for count in (0, 1, 4, 8):
        gone = rng.sample("abcdefgh", count)
        keep_others(file, target, pa.array(gone, pa.string()), SCHEMA)
        assert pairs_of(pq.read_table(target)) == [pair for pair in pairs if pair[0] not in gone]
        assert os.path.samefile(file, target) == (count == 0)
        assert [field.type for field in pq.read_schema(target)] == [field.type for field in SCHEMA], "texts, not words"
        if count:
            kept = pq.ParquetFile(target, read_dictionary=["group"])
            groups_of = [kept.read_row_group(n)["group"].chunk(0) for n in range(kept.num_row_groups)]
            written = {word for column in groups_of for word in column.dictionary.to_pylist()}
            assert not written & {*gone}, "nothing of a group that left"
        target.unlink()
        some = rows_with([file], SCHEMA, "group", gone, ["group", "lag"])
        assert some is not None
        assert pairs_of(some) == [pair for pair in pairs if pair[0] in gone]
    whole = rows_with([file], SCHEMA, "group", None)
    assert whole is not None
    assert whole.num_rows == 200
    assert rows_with([file], SCHEMA, "group", None, bytes_max=whole.nbytes // 2) is None
    words = rows_with([file, file], SCHEMA, "group", None, words=True)
    assert words is not None
    assert pa.types.is_dictionary(words["group"].type)
    assert words.equals(coded(words)), "in one piece, of one dictionary"
    assert words.cast(SCHEMA).equals(pa.concat_tables([whole, whole]).combine_chunks())
    empty = rows_with([], SCHEMA, "group", None, words=True)
    assert empty is not None
    assert empty.schema.equals(words.schema)


@pytest.mark.parametrize("seed", range(5))
def test_rows_by_name_are_those_of_the_asked_names_each_ones_as_they_come(seed: int) -> None:
    """Whatever the words' order; unknown names have none, and rows without a name are nobody's."""
    rng = random.Random(seed)
    pairs: Pairs = [(rng.choice([None, *"hgfedcba"]), i) for i in range(200)]
    for rows in (table_of(pairs), coded(table_of(pairs))):
        named = _RowsByName.of(rows, "group")
        assert named.counted() == Counter(group for group, _ in pairs if group is not None)
        for count in (0, 1, 4, 8):
            some = rng.sample("abcdefgh", count)
            expected = [pair for name in some for pair in pairs if pair[0] == name]
            for asked in ({*some, "nobody"}, pa.array([*some, "nobody"], pa.string())):
                taken = pairs_of(named.some(asked))
                assert sorted(taken) == sorted(expected)
                for name in some:
                    assert [pair for pair in taken if pair[0] == name] == [pair for pair in pairs if pair[0] == name]


def test_sorted_rows_in_large_pieces_stay_as_they_are_and_others_are_sorted() -> None:
    """A piece that begins before the last one's end is seen."""
    low: Pairs = [("a", i) for i in range(files.ROWS_A_GROUP + 1)]
    high: Pairs = [("b", i) for _, i in low]
    for order in ((low, high), (high, low)):
        rows = pa.concat_tables([table_of(pairs) for pairs in order])
        ordered = files.nulls_first(rows, ["group", "lag"])
        assert pairs_of(ordered) == low + high
    small = pa.concat_tables([table_of([("a", 1)]), table_of([]), table_of([("b", 2)])])
    assert files.nulls_first(small, ["group", "lag"])["group"].num_chunks == 1


@pytest.mark.spark
def test_rows_of_this_process_are_all_given_to_spark(spark: Any) -> None:
    """Spark itself loses those behind a piece without rows."""
    pieces = pa.concat_tables([table_of([("a", 1)]), table_of([]), table_of([("b", 2), ("c", 3)])])
    assert sorted(row["lag"] for row in sinks.as_frame(spark, pieces, TABLE).collect()) == [1, 2, 3]
    assert sinks.as_frame(spark, pieces.slice(0, 0), TABLE).collect() == []


KILLED = """
import os, signal, sys
from pathlib import Path
import pyarrow as pa
from apportion.spark import sinks
from tests.spark.test_other_groups import NAME, TABLE, groups, table_of
keep, turns = sinks.keep_others, []
def once(*args):
    if len(turns) == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    turns.append(1)
    keep(*args)
sinks.keep_others = once
with sinks.parquet(Path(sys.argv[1])) as sink:
    sink.replace_groups(NAME, table_of([("a", 10)]), groups("a"), TABLE, 1)
"""


@pytest.mark.spark
@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_change_that_is_killed_half_way_leaves_the_old_rows(spark: Any, tmp_path: Path, after: int) -> None:
    """By SIGKILL after some of the files: their links and copies go, and the next change comes through."""
    lay(tmp_path, [("b", 2)], [("a", 1), ("c", 3)], [("d", 4)])
    before = published(tmp_path)
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), str(after)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert published(tmp_path) == before
    assert list(tmp_path.glob(f"{sinks.STAGING}*")), "something was begun"
    change(tmp_path, spark, [("a", 10)], "a")
    assert not list(tmp_path.glob(f"{sinks.STAGING}*"))
    rows = [pair for _, pairs in published(tmp_path).values() for pair in pairs]
    assert sorted(rows) == [("a", 10), ("b", 2), ("c", 3), ("d", 4)]


def test_rows_of_this_process_are_written_in_the_order_of_spark(tmp_path: Path) -> None:
    """By day, nulls first, days before 1970 and from the year 10000 on are none."""
    day_us = 86_400_000_000
    times = [3 * day_us, None, -1, 253_402_300_800_000_000, 3 * day_us + 5, 2 * day_us]
    rows = pa.Table.from_pylist(
        [{"group": "g" if i else None, "source_offset": -i} for i in range(len(times))],
        schema=schemas.arrow_schema(schemas.REBALANCES),
    )
    at = pa.array(times, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    rows = rows.set_column(rows.schema.get_field_index("at"), "at", at)
    ordered = sinks.sorted_rows(rows, schemas.REBALANCES, rows.schema)
    assert ordered["_day"].to_pylist() == ["1970-01-03", "1970-01-04", "1970-01-04", *["undated"] * 3]
    assert ordered["source_offset"].to_pylist() == [-5, 0, -4, -3, -2, -1]
    written = files.writing(tmp_path, rows.schema, "_day", "+3")(ordered.to_batches())
    names = [row["file"] for batch in written for row in batch.to_pylist()]
    assert names == ["1970-01-03-00000+3.parquet", "1970-01-04-00000+3.parquet", "undated-00000+3.parquet"]


def test_rows_after_a_moment_are_given_whatever_times_there_are(tmp_path: Path) -> None:
    """In row groups of one row, also at times that no calendar of Python's reaches; not without a time."""
    schema = schemas.arrow_schema(schemas.ENDS)
    times = [-(10**18), 0, 5, 6, 300_000_000_000_000_000, 8 * 10**18, None]
    kinds = {"at": pa.array(times, pa.int64()).cast(schema.field("at").type)}
    number = pa.array(range(len(times)), pa.int64())
    columns = {"topic": pa.array(["t"] * len(times)), "partition": number, **kinds}
    ends = pa.table([columns.get(one.name, number).cast(one.type) for one in schema], schema=schema)
    pq.write_table(ends, tmp_path / "ends.parquet", row_group_size=1)
    for moment in (-(2**62), 5, 10**17):
        later = [n for n, at in enumerate(times) if at is not None and at > moment]
        assert rows_after([tmp_path / "ends.parquet"], schema, "at", moment)["end"].to_pylist() == later


@pytest.mark.parametrize("seed", range(10))
def test_one_field_of_structs_in_a_list_is_that_of_the_whole_column(tmp_path: Path, seed: int) -> None:
    """Whatever the inner lists are called in the file; of members without topics and rows without members too."""
    rng = random.Random(seed)

    def member() -> dict[str, Any] | None:
        topics = rng.choice([None, [], ["a"], ["b", None, "a"]])
        owned = [{"topic": "c", "partitions": [1, 2]}] * rng.randrange(3)
        return rng.choice([None, {"member_id": "m", "topics": topics, "owned": owned}])

    rows = [
        {"group": rng.choice("abc"), "members": rng.choice([None, [member() for _ in range(rng.randrange(3))]])}
        for _ in range(40)
    ]
    whole = pa.Table.from_pylist(rows, schema=schemas.arrow_schema(schemas.GENERATIONS))
    file, names = tmp_path / "part.parquet", ("members.topics", "group")
    pq.write_table(whole, file, row_group_size=15, use_compliant_nested_type=bool(seed % 2))
    some = None if seed < 5 else ["a"]
    read = rows_with([file], whole.schema, "group", some, names)
    expected = [
        {"members": row["members"] and [one and {"topics": one["topics"]} for one in row["members"]],
         "group": row["group"]} for row in rows if some is None or row["group"] in some
    ]  # fmt: skip
    assert read is not None
    assert read.to_pylist() == expected
    assert read.schema.equals(schemas.arrow_schema(schemas.GENERATIONS, names))
    only = pq.ParquetFile(file)
    assert _stored(only, read.schema) == [
        path for path in (only.schema.column(n).path for n in range(len(only.schema)))
        if path == "group" or path.startswith(("members.list.element.topics", "members.list.item.topics"))
    ]  # fmt: skip

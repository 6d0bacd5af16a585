"""Commits, logs and facts of many groups at once, on columns, are what the plain rules say row by row."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.test_rules_in_sql import T0, moment, records

from apportion.history.commits import CommittedOffset, GroupCommits
from apportion.history.lag_time import SAMPLES_MAX
from apportion.history.verdicts import WINDOW
from apportion.spark import bundles, by_group, facts, few_groups, groups, logs, schemas, slices, sorted_rows, standing

Row = dict[str, Any]


def table(rows: list[Row], kind: schemas.TableSchema, columns: tuple[str, ...]) -> pa.Table:
    schema = schemas.arrow_schema(kind)
    return pa.Table.from_pylist(rows, pa.schema([schema.field(name) for name in columns]))


def commits_of(rows: list[Row]) -> pa.Table:
    shuffled = random.Random(1).sample(rows, len(rows))
    return standing.sorted_commits(table(shuffled, schemas.COMMITS, standing.ASKED))


def plain_millis(row: Row) -> int:
    return round(row["commit_time"].timestamp() * 1000)


def by_place(rows: list[Row]) -> dict[tuple[str, str, int], list[Row]]:
    places: dict[tuple[str, str, int], list[Row]] = {}
    for row in rows:
        places.setdefault((row["group"], row["topic"], row["partition"]), []).append(row)
    return places


def without_spark(rows: list[Row], marks: list[tuple[str, int]]) -> dict[str, GroupCommits]:
    taken: dict[str, GroupCommits] = {}
    for row in rows:
        before = [offset for group, offset in marks if group == row["group"] and offset < row["source_offset"]]
        at = None if row["commit_time"] is None else round(row["commit_time"].timestamp() * 1000)
        place = (row["topic"], row["partition"])
        group = taken.setdefault(row["group"], GroupCommits())
        group.take(place, row["committed"], row["topic_id"], at, max(before, default=-1))
    return taken


@pytest.mark.parametrize("seed", [5, 6])
def test_standing_commits_and_their_cadence_are_those_of_the_reader_without_spark(seed: int) -> None:
    rows, marks = records(seed)
    taken, commits = without_spark(rows, marks), commits_of(rows)
    found: dict[str, Any] = {name: {} for name in taken}
    for row in standing.newest(standing.places(commits, 0)).to_pylist():
        at = None if row["commit_time"] is None else plain_millis(row)
        place = (row["topic"], row["partition"])
        found[row["group"]][place] = CommittedOffset(row["committed"], row["topic_id"], at)
    assert found == {name: group.standing for name, group in taken.items()}
    assert found["only-deletions"] == {}

    sorted_marks = sorted(marks)
    mark_table = pa.table({"group": [g for g, _ in sorted_marks], "source_offset": [o for _, o in sorted_marks]})
    last = dict(sorted_marks)
    counted: dict[str, set[Any]] = {name: set() for name in taken}
    for row in standing.cadence(commits, mark_table).to_pylist():
        counted[row.pop("group")].add(
            tuple(row[name] for name in ("after", "topic", "partition", "n", "first", "last"))
        )
    ours = {
        name: {
            (one.after, one.topic, one.partition, one.n, one.first, one.last)
            for one in group.times.intervals()
            if one.after < last[name]  # those after a group's last record are asked for by nobody
        }
        for name, group in taken.items()
    }
    assert counted == ours
    assert len(ours["g"]) > 10


@pytest.mark.parametrize("seed", [7, 8])
def test_windows_and_recent_commits_are_those_of_each_place(seed: int) -> None:
    rows, _ = records(seed)
    since = T0 + 6_000
    found = standing.places(commits_of(rows), since).to_pylist()
    expected = by_place(rows)
    assert [(row["group"], row["topic"], row["partition"]) for row in found] == sorted(
        expected, key=lambda place: (place[0].encode(), place[1].encode(), place[2])
    )
    for row in found:
        mine = expected[row["group"], row["topic"], row["partition"]]
        alive = mine[max((n for n, one in enumerate(mine) if one["tombstone"]), default=-1) + 1 :][-WINDOW:]
        at = [None if one["commit_time"] is None else plain_millis(one) for one in alive]
        assert (row["window_at"], row["window_offset"]) == (at, [one["committed"] for one in alive])
        timed = sorted({(plain_millis(one), one["committed"]) for one in mine if one["commit_time"] is not None})
        furthest = sorted(dict(timed).items())
        before = [pair for pair in furthest if pair[0] < since][-1:]
        chosen = before + [pair for pair in furthest if pair[0] >= since]
        assert list(zip(row["recent_at"], row["recent_offset"], strict=True)) == chosen


def test_logs_have_their_newest_ends_and_every_sample() -> None:
    rng = random.Random(3)
    ends, expected = [], {}
    for topic, p in (("a", 0), ("a", 1), ("ü", -1), ("z", 2**31 - 1)):
        count = rng.choice([1, 2, SAMPLES_MAX + 7])
        moments = sorted(rng.sample(range(10_000_000), count))
        samples = [(T0 + at, rng.choice([0, 5, 2**63 - 1])) for at in moments]
        expected[topic, p] = samples
        ends += [
            {"topic": topic, "partition": p, "begin": 0, "end": end, "last_stable": end, "at": moment(at)}
            for at, end in samples
        ]
    rng.shuffle(ends)
    ends += ends[:50]
    topics: list[Row] = [
        {"topic": "a", "partition": 1, "topic_id": "A" * 22, "racks": ["r"]},
        {"topic": "never sampled", "partition": 4, "topic_id": None, "racks": None},
    ]
    whole, kinds = table(ends, schemas.ENDS, logs._ENDS), table(topics, schemas.TOPICS, logs._TOPICS)
    known = logs.described(whole, kinds).to_pylist()
    few = logs.few_samples(pa.concat_tables([logs.few_samples(whole.slice(0, 900)), whole.slice(900)]))
    assert few.num_rows == sum(min(len(samples), SAMPLES_MAX) for samples in expected.values()) < whole.num_rows
    assert logs.described(few, kinds).to_pylist() == known
    places = sorted({*expected, ("never sampled", 4)}, key=lambda place: (place[0].encode(), place[1]))
    assert [(row["topic"], row["partition"]) for row in known] == places
    for row in known:
        samples = expected.get((row["topic"], row["partition"]), [])
        assert list(zip(row["sample_at"], row["sample_end"], strict=True)) == samples[-SAMPLES_MAX:]
        assert row["end"] == (samples[-1][1] if samples else None)
        assert row["earlier_ms"] == (samples[-2][0] if len(samples) > 1 else None)
        is_described = (row["topic"], row["partition"]) == ("a", 1)
        assert (row["topic_id"], row["racks"]) == (("A" * 22, ["r"]) if is_described else (None, None))


def test_a_task_judges_the_same_in_pieces_as_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, _ = records(9)
    left = by_group.left_of({"commits": table(rows, schemas.COMMITS, standing.ASKED)}, 0)
    ends = [
        {"topic": t, "partition": p, "begin": 0, "end": 3 + n, "last_stable": 3, "at": moment(T0 + 4_000 * n)}
        for t in ("a", "ü")
        for p in (0, 1)
        for n in range(3)
    ]
    known = logs.described(table(ends, schemas.ENDS, logs._ENDS), schemas.arrow_schema(schemas.TOPICS).empty_table())
    tables = {**left, "logs": known}
    whole = facts.facts_of(tables, T0 + 8_000, 0)
    monkeypatch.setattr(facts, "SAMPLES_AT_ONCE", 5)
    assert len(list(facts.Asked.of(tables).pieces())) > 10
    pieces = facts.facts_of(tables, T0 + 8_000, 0)
    assert {name: one.to_pylist() for name, one in pieces.items()} == {
        name: one.to_pylist() for name, one in whole.items()
    }
    assert whole["lag"].num_rows == standing.newest(left["places"]).num_rows > whole["verdicts"].num_rows > 5


def test_bundles_bring_each_row_to_its_task_from_a_table_and_from_files(tmp_path: Any) -> None:
    names = [f"g-{n % 97}" for n in range(5_000)]
    rows = pa.table({"group": names, "n": list(range(5_000)), "other": [None] * 5_000})
    pq.write_table(rows.slice(0, 3_000), tmp_path / "a.parquet", row_group_size=500)
    pq.write_table(rows.slice(3_000), tmp_path / "b.parquet", row_group_size=700)
    cut = slices.slices_of(sorted(tmp_path.glob("*.parquet")), 3)
    assert [one.rows for one in cut] == [1500, 1500, 1400, 600]
    numbers = pa.RecordBatch.from_pydict({"id": list(range(len(cut)))})

    def packed(batches: Iterator[pa.RecordBatch], shelf: Path | None = None) -> list[pa.RecordBatch]:
        out = []
        for some in slices.gathered(batches):
            task = bundles.task_of(some["group"], 7)
            out += list(bundles.for_tasks(some.append_column("_task", task), "k", shelf))
        return out

    read = bundles._rows_of(iter([numbers]), cut, ["group", "n"])
    of_files = packed(read)
    of_table = packed(iter(rows.select(["group", "n"]).to_batches(max_chunksize=300)))
    in_files = packed(iter(rows.select(["group", "n"]).to_batches()), tmp_path)
    assert all(some["rows"].null_count == 1 for some in in_files)
    for bundle in (of_files, of_table, in_files):
        seen: dict[str, int] = {}
        arrived = []
        for task, kind, some in bundles.unpacked(bundle):
            assert kind == "k"
            for row in some.to_pylist():
                assert seen.setdefault(row["group"], task) == task
                arrived.append((row["n"], row["group"]))
        assert sorted(arrived) == list(enumerate(names))
        assert len(set(seen.values())) == 7


def test_rows_that_come_in_number_are_shrunk_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundles, "MOST_ROWS", 10)
    sizes = []

    def distinct(rows: pa.Table) -> pa.Table:
        sizes.append(rows.num_rows)
        return rows.group_by("n").aggregate([])

    arrived = bundles._Arrived(distinct)
    for first in range(0, 60, 3):
        arrived.take(pa.table({"n": [n % 7 for n in range(first, first + 3)]}))
    assert set(arrived.whole()["n"].to_pylist()) == set(range(7))
    assert 2 < len(sizes) < 10
    assert max(sizes) <= 17


def test_a_folder_without_rows_is_one_empty_slice() -> None:
    assert slices.slices_of([]) == [slices.Slice([])]


@pytest.mark.parametrize("seed", range(6))
def test_holes_before_a_record_are_all_offsets_missing_up_to_it(seed: int) -> None:
    """In any order of the gaps, as files of several tasks have them; the reference adds up gap by gap."""
    rng = random.Random(seed)
    gaps = [(p, n * 10 + 4, 1 + rng.randrange(3)) for p in range(4) for n in range(9) if rng.random() < 0.6]
    if seed % 2:
        rng.shuffle(gaps)
    records = [(f"g{n % 5}", rng.randrange(5), rng.randrange(100)) for n in range(40)]
    missing = pa.schema([("source_partition", pa.int32()), ("before_offset", pa.int64()), ("missing", pa.int64())])
    columns = by_group.HOLE.names[:-1]
    schema = pa.schema([by_group.HOLE.field(name) for name in columns])
    halves = [pa.table(list(zip(*some, strict=True)), schema=schema) for some in (records[:25], records[25:])]
    table = pa.table([list(one) for one in zip(*gaps, strict=True)], schema=missing)
    expected = []
    for group, partition, offset in records:
        before = sum(n for p, at, n in gaps if p == partition and at <= offset)
        expected += [(group, partition, offset, before)] if before else []
    holes = few_groups.holes(halves, table)
    assert holes.schema.equals(by_group.HOLE)
    assert [tuple(row.values()) for row in holes.to_pylist()] == expected
    assert few_groups.holes(halves, table.slice(0, 0)).num_rows == 0


def test_what_tasks_of_a_cluster_import_reads_no_parquet() -> None:
    """Arrow's Parquet asks an executor's Python for more than Arrow does, and no task there reads files of ours."""
    rooms = ("bundles", "by_group", "facts", "logs", "plan_bundles", "standing", "slices")
    imports = ", ".join(f"apportion.spark.{room}" for room in rooms)
    asked = f"import sys, {imports}; print('pyarrow.parquet' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"


def test_a_group_that_cannot_be_folded_says_why_and_no_other_group_is_the_worse_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What could be folded of it is told all the same."""
    epoch = {"source_offset": 1, "at_ms": 7, "tombstone": False, "key_type": 3, "member_id": None, "epoch": 4}
    row: dict[str, Any] = {"group": "g", "generations": [], "habits": [], "names": {}}
    unread = groups.folded_rows({**row, "epochs": [{**epoch, "body": "{"}]})
    [present] = unread.pop("present")
    assert present["state"].startswith("Unreadable: JSONDecodeError: ")
    rest = {name: value for name, value in present.items() if name != "state"}
    assert rest == {
        "group": "g", "type": "consumer", "protocol": None, "generation": None, "readable": False, "members": []
    }  # fmt: skip
    assert unread == {"rebalances": [], "epochs": []}

    def broken(*_: Any) -> Any:
        raise ValueError("a fault")

    monkeypatch.setattr(groups, "rebalances", broken)
    rows = groups.folded_rows({**row, "epochs": [{**epoch, "body": '{"epoch": 4}'}]})
    assert rows["present"][0]["state"] == "Unreadable: ValueError: a fault"
    assert [(one["epoch"], one["at"]) for one in rows["epochs"]] == [(4, 7000)]


@pytest.mark.parametrize("seed", range(3))
def test_texts_as_numbers_of_words_give_the_rows_of_texts(seed: int) -> None:
    """Of some rows of a table whose words are coded, others' words among them: ranks, places and wanted topics."""
    rng = random.Random(seed)
    texts = pa.array([rng.choice(["b", "ä", "", "a", "z", None]) for _ in range(50)])
    others = pa.array([rng.choice(["c", "a", None]) for _ in range(20)])
    some = pa.array(rng.sample(range(50), 12))
    plain, names = sorted_rows.ranked(texts.take(some), others)
    numbers, same_names = sorted_rows.ranked(texts.dictionary_encode().take(some), others)
    assert names.equals(same_names)
    assert [one.tolist() for one in plain] == [one.tolist() for one in numbers]
    assert [None if n < 0 else names[n].as_py() for n in plain[0].tolist()] == texts.take(some).to_pylist()

    whole = table(records(seed)[0], schemas.COMMITS, standing.ASKED)
    of = pa.array(rng.sample(range(whole.num_rows), whole.num_rows // 2))
    kept = [standing.places(standing.sorted_commits(rows.take(of)), 0) for rows in (whole, sorted_rows.coded(whole))]
    assert kept[1].cast(kept[0].schema).equals(kept[0])
    assert kept[0].num_rows > 3
    no_members = groups_that_are_there([])
    wants = [
        by_group.named_topics(by_group.topics_of(no_members), by_group.NAME.empty_table(), no_members, one)
        .sort_by("topic")
        .sort_by("group")
        for one in kept
    ]
    standing_pairs = {
        (row["group"], row["topic"]) for row in kept[0].filter(kept[0]["standing"]).to_pylist()
    }  # fmt: skip
    for pairs in wants:
        assert {tuple(row.values()) for row in pairs.to_pylist()} == standing_pairs
        assert pairs.num_rows == len(standing_pairs)


def groups_that_are_there(rows: list[Row]) -> pa.Table:
    return table(rows, schemas.GROUP_STATE, groups.PRESENT)

"""Commits, logs and facts of many groups at once, on columns, are what the plain rules say row by row."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from tests.pipeline.in_process import tables_of
from tests.pipeline.made_rows import T0, moment, records, table

from apportion.demo import dump
from apportion.history.commits import CommittedOffset, GroupCommits
from apportion.history.lag_time import NEAR
from apportion.history.stood_still import standstills
from apportion.history.verdicts import WINDOW
from apportion.pipeline import end_samples, fold_rows, group_rows, newest_commits
from apportion.sources.load_history import load_histories
from apportion.tables import schemas
from apportion.tables.schemas import arrow_schema

Row = dict[str, Any]


def commits_of(rows: list[Row]) -> pa.Table:
    shuffled = random.Random(1).sample(rows, len(rows))
    return newest_commits.sorted_commits(table(shuffled, schemas.COMMITS, newest_commits.COLUMNS))


def asked_of(commits: pa.Table, since_ms: int) -> dict[str, pa.Table]:
    """What log ends are asked with of groups that only commit."""
    places = newest_commits.places(commits, since_ms)
    present = group_rows._present(group_rows._SCHEMAS["present"].empty_table(), places)
    named = group_rows.named_topics(group_rows.WANTED.empty_table(), places)
    return {"places": places, "present": present, "named": named}


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
    for row in newest_commits.newest(newest_commits.places(commits, 0)).to_pylist():
        at = None if row["commit_time"] is None else plain_millis(row)
        place = (row["topic"], row["partition"])
        found[row["group"]][place] = CommittedOffset(row["committed"], row["topic_id"], at)
    assert found == {name: group.standing for name, group in taken.items()}
    assert found["only-deletions"] == {}

    sorted_marks = sorted(marks)
    mark_table = pa.table({"group": [g for g, _ in sorted_marks], "source_offset": [o for _, o in sorted_marks]})
    last = dict(sorted_marks)
    counted: dict[str, set[Any]] = {name: set() for name in taken}
    for row in newest_commits.cadence(commits, mark_table).to_pylist():
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
    found = newest_commits.places(commits_of(rows), since).to_pylist()
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


def test_commits_that_meet_at_an_offset_come_in_one_order_however_they_came() -> None:
    """Only a hostile log has a group in several partitions; then time, what was committed and the partition decide."""
    rows: list[Row] = []
    for offset in (7, 3):
        for at in (None, T0, T0 + 1):
            for committed in (None, 5, 9):
                for source in (4, 2):
                    row: Row = dict.fromkeys(arrow_schema(schemas.COMMITS).names)
                    row |= {"group": "g", "topic": "a", "partition": 0, "tombstone": committed is None, "key_type": 1}
                    row |= {"committed": committed, "source_partition": source, "source_offset": offset}
                    rows.append(row | {"commit_time": None if at is None else moment(at), "at": moment(T0)})

    def key(row: Row) -> tuple[Any, ...]:
        at = row["commit_time"]
        time = -(2**63) if at is None else round(at.timestamp() * 1000)
        return row["source_offset"], time, row["committed"] or 0, row["source_partition"]

    names = ("source_offset", "commit_time", "committed", "source_partition")
    expected = [tuple(row[name] for name in names) for row in sorted(rows, key=key)]
    for seed in range(4):
        shuffled = random.Random(seed).sample(rows, len(rows))
        found = newest_commits.sorted_commits(table(shuffled, schemas.COMMITS, newest_commits.COLUMNS)).to_pylist()
        assert [tuple(row[name] for name in names) for row in found] == expected


@pytest.mark.parametrize("known", [False, True])
def test_a_commit_without_a_time_is_none_of_the_recent_ones(known: bool) -> None:
    """Nor is a deletion; also where the build before kept some."""
    kinds = ((None, 5), (T0 + 7_000, 9), (None, 11), (T0 + 8_000, 12), (T0 + 9_000, None), (None, None))
    rows: list[Row] = [
        {
            **dict.fromkeys(arrow_schema(schemas.COMMITS).names), "group": "g", "topic": "a", "partition": 0,
            "tombstone": committed is None, "committed": committed, "source_partition": 3, "source_offset": n,
            "commit_time": None if at is None else moment(at), "at": moment(T0), "key_type": 1,
        }
        for n, (at, committed) in enumerate(kinds)
    ]  # fmt: skip
    before = newest_commits.places(commits_of(rows[:2]), T0) if known else None
    [row] = newest_commits.places(commits_of(rows[2:] if known else rows), T0, before).to_pylist()
    assert (row["recent_at"], row["recent_offset"]) == ([T0 + 7_000, T0 + 8_000], [9, 12])
    assert (row["window_at"], row["window_offset"], row["standing"]) == ([], [], False)


def test_logs_have_their_newest_ends_and_every_sample() -> None:
    rng = random.Random(3)
    ends, expected = [], {}
    for topic, p in (("a", 0), ("a", 1), ("ü", -1), ("z", 2**31 - 1)):
        count = rng.choice([1, 2, 1_007])
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
    whole, kinds = table(ends, schemas.ENDS, None), table(topics, schemas.TOPICS, None)
    known = end_samples.described(whole, kinds).to_pylist()
    places = sorted({*expected, ("never sampled", 4)}, key=lambda place: (place[0].encode(), place[1]))
    assert [(row["topic"], row["partition"]) for row in known] == places
    for row in known:
        samples = expected.get((row["topic"], row["partition"]), [])
        assert list(zip(row["sample_at"], row["sample_end"], strict=True)) == samples
        assert row["end"] == (samples[-1][1] if samples else None)
        assert row["earlier_ms"] == (samples[-2][0] if len(samples) > 1 else None)
        is_described = (row["topic"], row["partition"]) == ("a", 1)
        assert (row["topic_id"], row["racks"]) == (("A" * 22, ["r"]) if is_described else (None, None))


@pytest.mark.parametrize("seed", range(6))
def test_samples_are_the_fewer_the_older_and_thinned_again_and_again_they_are_those_thinned_once(seed: int) -> None:
    """Two logs, sampled at even and uneven moments; the plain rule stays the last of each span."""
    rng = random.Random(seed)
    rows, at = [], T0
    for _ in range(4_000):
        at += rng.choice([500, 1_000, 60_000, 1 if seed % 2 else 60_000])
        rows += [("t", p, at) for p in range(2) if rng.random() < 0.7]
    whole = table([
        {"topic": t, "partition": p, "begin": 0, "end": at, "last_stable": at, "at": moment(at)} for t, p, at in rows
    ], schemas.ENDS, None)  # fmt: skip
    once, kept, first = end_samples.thinned_samples(whole), whole.slice(0, 0), 0
    for behind in [*sorted(rng.randrange(len(rows)) for _ in range(7)), len(rows)]:
        kept = end_samples.thinned_samples(pa.concat_tables([kept, whole.slice(first, behind - first)]))
        assert kept.num_rows < 2 * 130
        first = behind
    assert kept.to_pylist() == once.to_pylist()
    for p in range(2):
        moments = [at for _, partition, at in rows if partition == p]
        span = [((moments[-1] - at) // NEAR).bit_length() - 1 if moments[-1] - at > 600_000 else 0 for at in moments]
        stays = [a for (a, b), s in zip(pairwise(moments), span[:-1], strict=True) if a >> s != b >> s]
        assert [row["end"] for row in once.to_pylist() if row["partition"] == p] == [*stays, moments[-1]]


@pytest.mark.parametrize("seed", range(6))
def test_places_of_some_commits_at_a_time_are_those_of_all_at_once(seed: int) -> None:
    """Windows and recent commits go on from what stood before, deletions and a later window too."""
    rows, _ = records(seed)
    rng = random.Random(seed)
    cuts = [0, *sorted(rng.randrange(len(rows)) for _ in range(3)), len(rows)]
    kept = None
    for turn, (first, behind) in enumerate(pairwise(cuts)):
        kept = newest_commits.places(commits_of(rows[first:behind]), T0 + 1_000 * turn, kept)
    whole = newest_commits.places(commits_of(rows), T0 + 3_000)
    assert kept is not None
    assert kept.to_pylist() == whole.to_pylist()
    assert not newest_commits.are_astray(commits_of(rows[5:]), newest_commits.places(commits_of(rows[:5]), 0))
    assert newest_commits.are_astray(commits_of(rows), kept), "what was read is read again"


def test_a_group_that_cannot_be_folded_says_why_and_no_other_group_is_the_worse_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What could be folded of it is told all the same."""
    epoch = {"source_offset": 1, "at_ms": 7, "tombstone": False, "key_type": 3, "member_id": None, "epoch": 4}
    row: dict[str, Any] = {"group": "g", "generations": [], "habits": [], "names": {}}
    unread = fold_rows.folded_rows({**row, "epochs": [{**epoch, "body": "{"}]})
    [present] = unread.pop("present")
    assert present["state"].startswith("Unreadable: JSONDecodeError: ")
    rest = {name: value for name, value in present.items() if name != "state"}
    assert rest == {
        "group": "g", "type": "consumer", "protocol": None, "generation": None, "readable": False, "members": []
    }  # fmt: skip
    assert unread == {"rebalances": [], "epochs": []}

    def broken(*_: Any) -> Any:
        raise ValueError("a fault")

    monkeypatch.setattr(fold_rows, "rebalances", broken)
    rows = fold_rows.folded_rows({**row, "epochs": [{**epoch, "body": '{"epoch": 4}'}]})
    assert rows["present"][0]["state"] == "Unreadable: ValueError: a fault"
    assert [(one["epoch"], one["at"]) for one in rows["epochs"]] == [(4, 7000)]


def test_standstill_in_gold_is_that_of_the_reader_without_spark() -> None:
    memory = load_histories(str(dump()))
    stood = {
        (name, offset): still
        for name, group in memory.groups.items()
        for offset, still in standstills(group.folded.generations, group.rebalances).items()
    }
    rows = tables_of(dump())["gold/rebalances"].to_pylist()
    assert len(rows) == len(stood)
    for row in rows:
        still = stood[row["group"], row["source_offset"]]
        assert (row["stopped"], row["stopped_ms"]) == tuple(still.columns(row["kind"]).values())
    assert sum(row["stopped"] or 0 for row in rows) > 100

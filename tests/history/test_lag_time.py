"""Lag in time: bounds hold the truth, nothing is extrapolated, growth is said, and speeds need enough to tell."""

from __future__ import annotations

from itertools import accumulate
from math import inf
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.history.one_partition import age, lag_time

from apportion.demo import dump
from apportion.history import time_window
from apportion.history.lag_time import (
    IN_WORDS,
    LagTimes,
    Samples,
    Series,
    lag_times,
    of_group,
    of_readers,
    rates,
)
from apportion.history.member_speeds import Speed, speed_of
from apportion.model.build import build
from apportion.model.group_json import read_group
from apportion.report import lag_text as lag_times_shown
from apportion.report.lag_text import in_a_sentence
from apportion.sources import series as inputs_series


@given(st.lists(st.integers(0, 50), min_size=2, max_size=40), st.data())
def test_the_bounds_hold_the_true_age_whatever_the_log_did_between_samples(
    grown: list[int], data: st.DataObject
) -> None:
    truth = list(accumulate(grown))  # the end at the end of each second
    sampled = sorted(data.draw(st.sets(st.integers(0, len(truth) - 1), min_size=1)) | {len(truth) - 1})
    ends = [(second * 1000, truth[second]) for second in sampled]
    committed = data.draw(st.integers(0, truth[-1]))
    now = len(truth) * 1000
    shown = age(ends, committed, now)
    if committed >= truth[-1]:
        assert shown.seconds == 0
        return
    written = next(second for second, end in enumerate(truth) if end > committed)
    true_age = now / 1000 - written
    assert shown.at_least is not None
    assert shown.at_least <= true_age
    if shown.at_most is not None and shown.seconds is not None:
        assert true_age <= shown.at_most
        assert shown.at_least <= shown.seconds <= shown.at_most


def test_an_end_that_went_back_is_another_log() -> None:
    assert age([(0, 500), (1000, 10), (2000, 20)], 15, 3000).seconds == 1.4
    older = age([(0, 0), (1000, 500), (2000, 10), (3000, 20)], 5, 4000)
    assert (older.seconds, older.at_least, older.at_most) == (None, 2, None)


def test_a_growing_lag_has_no_end_and_no_negative_time() -> None:
    """Over 100 s; the newest commit stood there 40 s ago or more."""
    grows = lag_time(Series([(0, 0), (100_000, 1000)], [(0, 0), (100_000, 400)]), 100_000)
    assert (grows.lag, grows.trend, grows.in_words, grows.catch_up_s) == (600, 6, "growing", inf)
    shrinks = lag_time(Series([(0, 1000), (100_000, 1100)], [(0, 0), (100_000, 600)]), 100_000)
    assert (shrinks.in_words, shrinks.catch_up_s) == ("shrinking", 100)
    stands = lag_time(Series([(0, 100), (100_000, 200)], [(0, 0), (100_000, 100)]), 100_000)
    assert (stands.in_words, stands.catch_up_s) == ("standing", inf)
    assert lag_time(Series([(0, 5)], [(0, 5)]), 10).in_words == "caught up"
    assert lag_time(Series([(0, 9)], [(0, 5)]), 10).in_words == "unknown"


def test_without_a_commit_or_an_end_no_lag_is_told() -> None:
    for series in (Series([(0, 5), (10, 9)]), Series((), [(0, 5), (10, 9)]), Series()):
        assert (lag_time(series, 20).lag, lag_time(series, 20).in_words) == (None, "unknown")


def test_who_is_a_few_seconds_behind_keeps_up_whatever_the_rates_say() -> None:
    """Written evenly by 10 a second; the first unread message is 15 s old, or a message's time more."""
    ends = [(0, 0), (100_000, 1000)]
    keeps = lag_time(Series(ends, [(0, 0), (100_000, 849)]), 100_000)
    assert (keeps.age.seconds, keeps.in_words, keeps.catch_up_s) == (15, "keeping up", 0)
    behind = lag_time(Series(ends, [(0, 0), (100_000, 848)]), 100_000)
    assert (behind.in_words, behind.catch_up_s) == ("growing", inf)


def test_one_message_a_minute_that_is_read_at_once_is_never_told_behind() -> None:
    """Written at any second of each minute, committed 4 s later, sampled every 60 s: what is unread is new."""
    for second in range(1, 61):
        written = [(minute * 60 + second) * 1000 for minute in range(38)]
        for now in range(60_000, 38 * 60_000, 60_000):
            ends = [(at, sum(w <= at for w in written)) for at in range(0, now + 1, 60_000)]
            commits = [(w + 4_000, i + 1) for i, w in enumerate(written) if w + 4_000 <= now]
            told = lag_time(Series(ends, [(0, 0), *commits]), now)
            assert told.in_words in ("caught up", "keeping up"), (second, now)
            assert told.age.at_least is not None
            assert told.age.at_least <= 4


def test_a_reader_that_dies_is_growing_from_the_first_sample_on() -> None:
    """It read as fast as was written, 10 a second, and committed every 5 s; then nothing more."""
    commits = [(at * 1000, at * 10) for at in range(0, 301, 5)]
    for now in range(320_000, 600_000, 10_000):
        ends = [(at, at // 100) for at in range(0, now + 1, 10_000)]
        told = lag_time(Series(ends, commits), now, now - 600_000)
        assert (told.in_words, told.catch_up_s) == ("growing", inf), now


def test_a_lag_that_may_be_of_markers_is_neither_standing_nor_without_an_end() -> None:
    """A transaction of nine messages and its marker, all read, and then silence; of three unread it is none."""
    ends = [(0, 0), (10_000, 10), (600_000, 10)]
    told = lag_time(Series(ends, [(0, 0), (12_000, 9)]), 600_000)
    assert (told.lag, told.to_read, told.in_words, told.catch_up_s) == (1, 0, "maybe at a marker", 0)
    assert in_a_sentence(told).startswith("1 message unread for")
    stands = lag_time(Series(ends, [(0, 0), (12_000, 7)]), 600_000, 20_000)
    assert (stands.in_words, stands.catch_up_s) == ("standing", inf)
    rows = Samples.of([ends]), Samples.of([[(0, 0), (12_000, 9)]]), np.array([9]), np.array([1])
    known = lag_times(*rows, 600_000, 20_000, np.array([True]))
    assert (known.row(0).in_words, known.row(0).catch_up_s) == ("standing", inf), "a message that is known to be one"


def readers(parts: list[Series], owner: list[int], members: int) -> tuple[LagTimes, LagTimes]:
    """Members, and the whole group, of partitions looked at after 100 s."""
    ends, commits = Samples.of([part.ends for part in parts]), Samples.of([part.commits for part in parts])
    unread = np.array([part.commits[-1][1] for part in parts])
    lag = np.array([part.ends[-1][1] for part in parts]) - unread
    times = lag_times(ends, commits, unread, lag, 100_000, 0)
    who = np.array(owner)
    return of_readers(times, who, members), of_group(times, who, members)


def part(lag: int, read: float) -> Series:
    """A log that stands, with so much left, and read at so many messages a second."""
    whole = round(lag + 100 * read)
    return Series([(0, whole), (100_000, whole)], [(0, 0), (100_000, round(100 * read))])


def test_a_group_has_caught_up_when_its_last_member_has() -> None:
    slow, fast = part(1000, 10), part(1000, 100)
    members, whole = readers([slow, fast], [0, 1], 2)
    assert members.catch_up_s.tolist() == [100, 10]
    assert whole.catch_up_s.tolist() == [100]
    members, whole = readers([slow, fast], [0, 0], 1)
    assert (members.lag.tolist(), members.read.tolist()) == ([2000], [110]), "one member shares its pace"
    assert members.catch_up_s.tolist() == whole.catch_up_s.tolist() == [pytest.approx(2000 / 110)]
    members, _ = readers([slow, fast], [0, 1], 4)
    assert members.lag.tolist() == [1000, 1000, -1, -1], "two read nothing"
    assert members.lag.dtype == np.int64
    first = members.part(0, 1)
    assert [first.row(i) for i in range(len(first))] == [members.row(0)]
    _, whole = readers([slow, fast, part(5, 0)], [0, 1, -1], 2)
    assert whole.catch_up_s.tolist() == [inf], "what nobody reads is never read"
    assert whole.row(0).in_words == "shrinking"
    assert "some member never catches up at this pace" in in_a_sentence(whole.row(0))


def test_offsets_that_no_broker_gives_add_up_to_no_negative_lag() -> None:
    """Ends and commits of any 64 bits: sums end at the largest number, and ages stay between their bounds."""
    most, least = 2**63 - 1, -(2**63)
    ends = Samples.of([[(0, least), (10_000, most)], [(0, 0), (10_000, most)]])
    nothing = Samples.of([(), ()])
    with np.errstate(all="raise"):
        times = lag_times(ends, nothing, np.array([0, 5]), np.array([most, most]), 20_000, 0)
        whole = of_group(times, np.array([0, 0]), 1)
    assert times.seconds.tolist() == [pytest.approx(15.0), pytest.approx(20.0)]
    assert (whole.lag.tolist(), whole.to_read.tolist()) == ([2**63 - 1024], [2**63 - 1024])


def test_a_rate_needs_two_samples_of_one_log() -> None:
    rows = [[(0, 5)], [(0, 5), (1000, 3)], [(0, 0), (1000, 10), (3000, 20)], [], [(0, 9), (1000, 3), (2000, 13)]]
    nan, since = np.nan, 1000
    assert rates(Samples.of(rows), since).tolist() == pytest.approx([nan, nan, 5, nan, 10], nan_ok=True)


def test_one_commit_in_the_window_counts_from_the_one_before_it_and_none_is_a_standstill() -> None:
    ends = [(0, 0), (100_000, 1000)]
    seldom = lag_time(Series(ends, [(0, 0), (60_000, 300)]), 100_000, 50_000)
    assert (seldom.read, seldom.written) == (3, 10), "of the silence after it too: something was unread"
    stopped = lag_time(Series(ends, [(0, 0), (40_000, 300)]), 100_000, 50_000)
    assert (stopped.read, stopped.in_words) == (0, "growing")
    first = lag_time(Series(ends, [(60_000, 300)]), 100_000, 50_000)
    assert (first.read, first.in_words) == (None, "unknown")


logs = st.lists(
    st.tuples(st.lists(st.integers(-3, 40), min_size=1, max_size=8), st.lists(st.integers(-2, 30), max_size=8)),
    min_size=1, max_size=6,
)  # fmt: skip


@given(logs)
def test_partitions_beside_each_other_do_not_touch_each_other(grown: list[tuple[list[int], list[int]]]) -> None:
    """Many at once give what each gives alone; of ends and commits that go back too."""
    rows = []
    for ends, commits in grown:
        paired = [
            [(at * 7000, max(0, 50 + offset)) for at, offset in enumerate(accumulate(steps))]
            for steps in (ends, commits)
        ]
        rows.append(Series(*paired))
    now, since = 60_000, 20_000
    committed = np.array([row.commits[-1][1] if row.commits else -1 for row in rows])
    lag = np.array([max(row.ends[-1][1] - row.commits[-1][1], 0) if row.commits else -1 for row in rows])
    both = Samples.of([row.ends for row in rows]), Samples.of([row.commits for row in rows])
    times = lag_times(*both, committed, lag, now, since)
    alone = [lag_time(row, now, since) for row in rows]
    assert [times.row(p) for p in range(len(rows))] == alone
    assert [IN_WORDS[state] for state in times.states()] == [one.in_words for one in alone]
    assert all(one.catch_up_s is None or one.catch_up_s >= 0 for one in alone)


def test_a_speed_is_told_from_busy_intervals_alone_and_only_from_enough() -> None:
    busy = Series([(0, 10_000), (40_000, 10_000)], [(0, 0), (20_000, 2000), (40_000, 6000)])
    speed = speed_of([busy], 0, 40_000)
    assert (speed.intervals, speed.low, speed.median, speed.high) == (40, 100, 150, 200)
    idle = Series([(0, 0), (40_000, 4000)], [(0, 0), (40_000, 4000)])
    assert speed_of([idle], 0, 40_000).median is None


def test_weights_come_from_log_ends_else_from_commits_and_it_is_said() -> None:
    group = read_group({"topics": {"t": 3}, "members": {"a": {"topics": ["t"]}}})
    series = {
        ("t", 0): Series([(0, 0), (10_000, 100)], [(0, 0), (10_000, 40)]),
        ("t", 1): Series([(10_000, 100)], [(0, 0), (10_000, 40)]),
    }
    weights = time_window.rates(group, series, 600)
    assert weights.weight[:2].tolist() == [10, 4]
    assert np.isnan(weights.weight[2])
    assert "of 1 partition by what was written" in weights.how[0]
    assert "of 1 partition by their commits" in weights.how[0]
    assert "of 1 partition not at all" in weights.how[0]


def sampled_dump(folder: Path) -> Path:
    """The demo's records, and log ends as if they had been sampled every 10 s, growing by 100 messages."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    copy = folder / "dump"
    copy.mkdir()
    (copy / "records").symlink_to(dump() / "records")
    (copy / "topics.parquet").symlink_to(dump() / "topics.parquet")
    ends = pq.read_table(dump() / "ends.parquet").to_pylist()
    rows = []
    for back in range(6):
        for row in ends:
            at = row["at"].timestamp() * 1000 - back * 10_000
            rows.append({**row, "end": row["end"] - 100 * back, "at": round(at)})
    table = pa.Table.from_pylist(rows).set_column(
        pa.Table.from_pylist(rows).schema.get_field_index("at"), "at",
        pa.array([row["at"] for row in rows], pa.timestamp("ms", "UTC")),
    )  # fmt: skip
    pq.write_table(table, copy / "ends.parquet")
    return copy


def test_the_command_line_tells_lag_in_time_and_measures_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from apportion.cli import main

    folder = str(sampled_dump(tmp_path))
    assert main(["describe", folder, "--group", "ads-range", "--time", "-o", "csv"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[0].startswith("group,topic,partition,lag,seconds,trend,in_words,catch_up_s,written,read")
    assert all(",10," in row for row in rows[1:])
    assert main(["size", folder, "--group", "ads-range", "--capacity", "100"]) == 0
    shown = capsys.readouterr().out
    assert "by what was written to their logs" in shown
    assert "ads-range: 200 by weight" in shown


def test_lag_in_time_of_all_groups_reads_a_folder_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each group's table is the one that it has alone; a dump of a thousand groups is not read a thousand times."""
    from apportion.cli import main
    from apportion.sources import dump as reader

    folder = str(sampled_dump(tmp_path))
    alone = []
    for name in ("ads-range", "feed-cooperative"):
        assert main(["describe", folder, "--group", name, "--time"]) == 0
        alone.append(capsys.readouterr().out)
    reads: list[str] = []
    for name in ("load_histories", "every_commit", "end_samples"):
        read = getattr(reader, name)

        def counted(path: str, name: str = name, read: Any = read) -> Any:
            reads.append(name)
            return read(path)

        monkeypatch.setattr(reader, name, counted)
    assert main(["describe", folder, "--time"]) == 0
    shown = capsys.readouterr().out
    assert all(one in shown for one in alone)
    assert sorted(reads) == ["end_samples", "every_commit", "load_histories"]
    for form in ("csv", "ndjson"):
        assert main(["describe", folder, "--time", "-o", form]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert sum(line.startswith("group,topic,") for line in lines) == (form == "csv"), "the columns are named once"
        assert sum("ads-range" in line for line in lines) > 1 < sum("feed-cooperative" in line for line in lines)


def test_the_window_keeps_what_rates_and_ages_need_of_longer_series(tmp_path: Path) -> None:
    """With a window all is as with every commit and sample, and other topics' samples are not kept."""
    random = Random(3)
    topics = {"t": 3, "u": 1}
    commits = [
        ("g", ("t", random.randrange(3)), 1_000 * random.randint(0, 900), random.randint(0, 500)) for _ in range(300)
    ]
    ends = [((t, p), 1_000 * s, s + p) for t, n in topics.items() for p in range(n) for s in range(0, 900, 30)]
    source = SimpleNamespace(every_commit=lambda path: iter(commits), end_samples=lambda path: iter(ends))
    group = build({"group": "g", "topics": {"t": 3}, "members": {"a": {"topics": ["t"], "owned": {"t": [0, 2]}}}})

    def over(window_s: float) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(inputs_series, "reader_of", lambda path: source)
            recorded = inputs_series.FolderSeries("", {"g": ["t"]}, window_s)
            return recorded, recorded.of(group)

    (short, some), (_, every) = over(120), over(10**6)
    assert {where[0] for where in short._ends} == {"t"}
    assert sum(len(one.commits) for one in some.values()) < sum(len(one.commits) for one in every.values())
    times = [time_window.group_time(group, series, 120, now_ms=short.now_ms) for series in (some, every)]
    assert times[0].whole == times[1].whole
    assert times[0].speeds == times[1].speeds
    for name in ("seconds", "at_least", "at_most", "written", "read", "catch_up_s"):
        columns = [getattr(one.partitions, name) for one in times]
        np.testing.assert_array_equal(*columns)


def test_a_file_tells_of_one_moment_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from apportion.cli import main

    (tmp_path / "group.json").write_text('{"topics": {"t": 1}, "members": {"a": {"topics": ["t"]}}}')
    assert main(["describe", str(tmp_path / "group.json"), "--time"]) == 2
    assert "only one moment" in capsys.readouterr().err
    assert main(["size", str(tmp_path / "group.json"), "--capacity", "learned", "--by", "partitions"]) == 2
    assert "needs a history" in capsys.readouterr().err


def test_compare_tells_who_is_faster_and_of_whom_too_little_is_known() -> None:
    group = read_group({
        "topics": {"t": 3},
        "members": {m: {"topics": ["t"], "owned": {"t": [p]}, "generation": 1} for p, m in enumerate("abc")},
    })  # fmt: skip
    waiting = [(0, 90_000), (40_000, 90_000)]
    series = {
        ("t", 0): Series(waiting, [(0, 0), (40_000, 4000)]),
        ("t", 1): Series(waiting, [(0, 0), (40_000, 8000)]),
        ("t", 2): Series([(0, 5), (40_000, 5)], [(0, 5), (40_000, 5)]),
    }
    speed_of = time_window.speeds(group, series, 0, 40_000)
    assert [speed_of[m].median for m in "abc"] == [100, 200, None]
    table = lag_times_shown.speeds(group, speed_of)
    assert [row[:2] for row in table.rows] == [("a", 100), ("b", 200), ("c", None)]
    few, faster = lag_times_shown.speed_notes(speed_of, 40)
    assert few.startswith("Of 1 member of 3 too little is known")
    assert faster.startswith("b was 2 times as fast as a")
    series["t", 1] = Series(waiting, [(0, 0), (20_000, 1000), (40_000, 5000)])
    assert "the spreads of" in lag_times_shown.speed_notes(time_window.speeds(group, series, 0, 40_000), 40)[1]


def test_a_member_that_read_nothing_while_it_had_lag_is_no_measure_of_the_others() -> None:
    """Nothing is so and so many times as fast as nothing."""
    speed_of = {"a": Speed(0.0, 0.0, 0.0, 40), "b": Speed(500.0, 400.0, 600.0, 40)}
    (note,) = lag_times_shown.speed_notes(speed_of, 40)
    assert note == "a mostly read nothing while it had lag, and b did: check what is blocking it."


def test_speeds_need_a_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from apportion.cli import main

    (tmp_path / "group.json").write_text('{"topics": {"t": 1}, "members": {"a": {"topics": ["t"]}}}')
    assert main(["compare", str(tmp_path / "group.json"), "--speeds"]) == 2
    assert "--speeds needs a history" in capsys.readouterr().err


def test_a_live_group_has_the_offsets_of_the_last_look_where_there_was_one() -> None:
    topic = [{"partition": p, "begin": 0, "end": 10, "committed": 4} for p in range(2)]
    group = read_group({"topics": {"t": topic}, "members": {"a": {"topics": ["t"]}}})
    newest = time_window.as_of_last_look(group, {("t", 1): Series([(0, 10), (9, 30)], [(0, 4), (9, 25)])})
    assert newest.offsets is not None
    assert (newest.offsets.end.tolist(), newest.offsets.committed.tolist()) == ([10, 30], [4, 25])
    assert newest.lag.tolist() == [6, 5]


def test_a_speed_from_two_looks_is_one_measurement_without_a_spread() -> None:
    """Forty intervals between two samples are one straight line: they say nothing of how far the speed varies."""
    group = read_group({
        "topics": {"t": 3},
        "members": {m: {"topics": ["t"], "owned": {"t": [p]}, "generation": 1} for p, m in enumerate("abc")},
    })  # fmt: skip
    waiting = [(0, 90_000), (40_000, 90_000)]
    often = [(at * 1000, at * 300 + at % 2) for at in range(0, 41, 4)]
    series = {
        ("t", 0): Series(waiting, [(0, 0), (40_000, 4000)]),
        ("t", 1): Series(waiting, [(0, 0), (40_000, 8000)]),
        ("t", 2): Series(waiting, [(-90_000, 0), (0, 0), *often[1:], (50_000, 13_000)]),
    }
    speed_of = time_window.speeds(group, series, 0, 40_000)
    assert [(one.measured, one.spread_known) for one in speed_of.values()] == [(1, False), (1, False), (10, True)]
    rows = lag_times_shown.speeds(group, speed_of).rows
    assert [row[1:] for row in rows[:2]] == [(100, None, None, 1), (200, None, None, 1)]
    assert rows[2][-1] == 10
    assert None not in rows[2]
    (line,) = lag_times_shown.speed_notes({m: speed_of[m] for m in "ab"}, 40)
    assert line == "b was 2 times as fast as a, measured between two commits once: look longer before you rely on it."
    takes, how = time_window.learned_capacity({m: speed_of[m] for m in "ab"})
    assert takes == 200
    assert "(measured once, between two commits, so that its spread is not known)" in how
    assert "(quartiles from 300 to 300)" in time_window.learned_capacity({"c": speed_of["c"]})[1]
    whole = lag_times_shown.members(group, time_window.group_time(group, series, 40))
    assert [row[-2:] for row in whole.rows[:2]] == [(None, 1), (None, 1)]

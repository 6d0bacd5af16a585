"""Lag in time: bounds hold the truth, nothing is extrapolated, growth is said, and speeds need enough to tell."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.demo import dump
from apportion.history import measured
from apportion.history.lag_time import Series, SpeedSamples, age, busy_rates, lag_time, rate, together
from apportion.model.group_json import read_group
from apportion.serve.end_times import EndTimes


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


@given(st.lists(st.integers(1, 50), min_size=2, max_size=20), st.integers(0, 400))
def test_the_live_view_says_the_same_age(grown: list[int], committed: int) -> None:
    ends = list(accumulate(grown))
    table = EndTimes(None, np.array([0]))
    for second, end in enumerate(ends):
        table.add(float(second), np.array([end]))
    (live,) = table.lag_seconds(np.array([0]), np.array([committed]), float(len(ends))).tolist()
    shown = age([(second * 1000, end) for second, end in enumerate(ends)], committed, len(ends) * 1000)
    assert live == pytest.approx(shown.at_least if shown.seconds is None else shown.seconds)


def test_an_end_that_went_back_is_another_log() -> None:
    assert age([(0, 500), (1000, 10), (2000, 20)], 15, 3000).seconds == 1.5


def test_a_growing_lag_has_no_end_and_no_negative_time() -> None:
    grows = lag_time(Series([(0, 0), (10_000, 1000)], [(0, 0), (10_000, 400)]), 10_000)
    assert (grows.lag, grows.trend, grows.in_words, grows.catch_up_s) == (600, 60, "growing", None)
    shrinks = lag_time(Series([(0, 1000), (10_000, 1100)], [(0, 0), (10_000, 600)]), 10_000)
    assert (shrinks.in_words, shrinks.catch_up_s) == ("shrinking", 10)
    stands = lag_time(Series([(0, 100), (10_000, 200)], [(0, 0), (10_000, 100)]), 10_000)
    assert (stands.in_words, stands.catch_up_s) == ("standing", None)
    assert lag_time(Series([(0, 5)], [(0, 5)]), 10).in_words == "caught up"
    assert lag_time(Series([(0, 9)], [(0, 5)]), 10).in_words == "unknown"


def test_a_group_has_caught_up_when_its_last_member_has() -> None:
    def part(lag: int, read: int) -> Series:
        return Series([(0, lag), (10_000, lag)], [(0, 0), (10_000, 10 * read)])

    slow, fast = lag_time(part(1100, 10), 10_000), lag_time(part(1100, 100), 10_000)
    assert (slow.catch_up_s, fast.catch_up_s) == (100, 1)
    assert together([slow, fast]).catch_up_s == 100
    one = together([slow, fast], one_reader=True)
    assert (one.lag, one.read, one.catch_up_s) == (1100, 110, 10)


def test_a_rate_needs_two_samples_of_one_log() -> None:
    assert rate([(0, 5)]) is None
    assert rate([(0, 5), (1000, 3)]) is None
    assert rate([(0, 0), (1000, 10), (3000, 20)], since_ms=1000) == 5


def test_a_speed_is_told_from_busy_intervals_alone_and_only_from_enough() -> None:
    busy = Series([(0, 10_000), (40_000, 10_000)], [(0, 0), (20_000, 2000), (40_000, 6000)])
    speed = SpeedSamples(busy_rates([busy], 0, 40_000)).speed()
    assert (speed.intervals, speed.low, speed.median, speed.high) == (40, 100, 150, 200)
    idle = Series([(0, 0), (40_000, 4000)], [(0, 0), (40_000, 4000)])
    assert SpeedSamples(busy_rates([idle], 0, 40_000)).speed().median is None


def test_weights_come_from_log_ends_else_from_commits_and_it_is_said() -> None:
    group = read_group({"topics": {"t": 3}, "members": {"a": {"topics": ["t"]}}})
    series = {
        ("t", 0): Series([(0, 0), (10_000, 100)], [(0, 0), (10_000, 40)]),
        ("t", 1): Series([(10_000, 100)], [(0, 0), (10_000, 40)]),
    }
    rates = measured.rates(group, series, 600)
    assert rates.weight[:2].tolist() == [10, 4]
    assert np.isnan(rates.weight[2])
    assert "of 1 partition by what was written" in rates.how[0]
    assert "of 1 partition by their commits" in rates.how[0]
    assert "of 1 partition not at all" in rates.how[0]


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


def test_a_file_tells_of_one_moment_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from apportion.cli import main

    (tmp_path / "group.json").write_text('{"topics": {"t": 1}, "members": {"a": {"topics": ["t"]}}}')
    assert main(["describe", str(tmp_path / "group.json"), "--time"]) == 2
    assert "one moment only" in capsys.readouterr().err
    assert main(["size", str(tmp_path / "group.json"), "--capacity", "learned", "--by", "partitions"]) == 2
    assert "needs a history" in capsys.readouterr().err

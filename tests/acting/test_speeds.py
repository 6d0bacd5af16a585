"""How fast members are: by what they read while they had something to read, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from apportion.acting.loop import Loop
from apportion.acting.rule import Acting
from apportion.acting.speeds import OffsetHistory, Sample
from apportion.assignors import find
from apportion.history.lag_time import Series
from apportion.history.member_speeds import KEPT_S, speed_of
from apportion.history.time_window import learned_capacity
from apportion.model.build import build

Rate = Callable[[int], float]


class Reader:
    """Members that read partitions as fast as they can, second by second, and commit now and then."""

    def __init__(self, owner: list[int], incoming: list[Rate], speed: list[Rate], commit_s: int = 5) -> None:
        self.owner, self.incoming, self.speed, self.commit_s = np.array(owner), incoming, speed, commit_s
        self.end, self.read, self.committed = (np.zeros(len(owner)) for _ in range(3))
        self.unreadable: set[int] = set()

    def step(self, second: int) -> None:
        """One second."""
        self.end += [rate(second) for rate in self.incoming]
        for m, speed in enumerate(self.speed):
            mine = [p for p in np.flatnonzero(self.owner == m).tolist() if p not in self.unreadable]
            unread = np.array([self.end[p] - self.read[p] for p in mine])
            share = min(1.0, speed(second) / unread.sum()) if unread.sum() else 0.0
            self.read[mine] += unread * share
        if second % self.commit_s == 0:
            self.committed = self.read.copy()

    def sample(self, second: int) -> Sample:
        return Sample(float(second), self.end.astype(np.int64), self.committed.astype(np.int64))


def history_of(reader: Reader, seconds: int) -> OffsetHistory:
    """What is known after some seconds of looks."""
    history = OffsetHistory(15.0, 60.0)
    history.given(reader.owner, [f"m{m}" for m in range(len(reader.speed))])
    watch(history, reader, 0, seconds)
    return history


def watch(history: OffsetHistory, reader: Reader, begin: int, end: int, every_s: int = 5) -> None:
    for second in range(begin, end):
        reader.step(second)
        if second % every_s == 0:
            history.add(reader.sample(second))


def steady(rate: float) -> Rate:
    return lambda second: rate


def bursts(second: int) -> float:
    """42 a second, in bursts of ten seconds each minute."""
    return 42 * 6.0 if second % 60 < 10 else 0.0


@pytest.mark.parametrize("commit_s", [1, 5, 20, 45, 60])
@pytest.mark.parametrize("rate", [steady(42.0), bursts])
def test_a_member_that_keeps_up_has_no_speed_however_rarely_it_commits(commit_s: int, rate: Rate) -> None:
    history = history_of(Reader([0, 0], [rate, rate], [steady(1_000.0)], commit_s), 900)
    assert history.speed("m0").median is None
    assert not history.is_behind("m0")
    assert history.at_least("m0") <= 1_000


@pytest.mark.parametrize("commit_s", [1, 5, 20, 45])
def test_the_speed_of_a_member_that_is_behind_is_what_it_reads_from_commit_to_commit(commit_s: int) -> None:
    history = history_of(Reader([0, 0], [steady(90.0)] * 2, [steady(100.0)], commit_s), 900)
    assert history.speed("m0").median == pytest.approx(100, rel=0.12)
    assert history.is_behind("m0")


def test_samples_that_follow_fast_on_each_other_do_not_make_learning_impossible() -> None:
    """A feed that is asked ten times a second, and stretches of minutes: thousands of samples lie in each."""
    reader = Reader([0], [steady(150.0)], [steady(100.0)], 1)
    history = OffsetHistory(120.0, 240.0)
    history.given(reader.owner, ["m0"])
    for second in range(1_200):
        reader.step(second)
        for tenth in range(10):
            history.add(
                Sample(second + tenth / 10, *[offsets.astype(np.int64) for offsets in (reader.end, reader.read)])
            )
    assert history.speed("m0").median == pytest.approx(100, rel=0.05)
    assert history.incoming().tolist() == pytest.approx([150], rel=0.05), "over the whole window"
    assert len(history) <= 64


def test_a_partition_that_nobody_can_read_makes_nobody_busy_and_is_named() -> None:
    reader = Reader([0, 0, 1], [steady(40.0)] * 3, [steady(500.0)] * 2)
    reader.unreadable.add(1)
    history = history_of(reader, 600)
    assert history.speed("m0").median is None
    assert history.stuck().tolist() == [False, True, False]
    assert history.stands_still() == []
    reader.unreadable.clear()
    watch(history, reader, 600, 700)
    assert not history.stuck().any(), "it moves again"


def test_a_partition_that_its_owner_has_no_time_for_is_not_stuck() -> None:
    """The owner is behind with others: another member may read it."""
    reader = Reader([0, 0], [steady(400.0), steady(40.0)], [steady(200.0)])
    reader.unreadable.add(1)
    history = history_of(reader, 600)
    assert not history.stuck().any()


def test_a_member_that_stands_still_is_told_from_a_stuck_partition_and_is_fast_again_afterwards() -> None:
    def stalls(second: int) -> float:
        return 0.0 if 300 <= second < 600 else 200.0

    reader = Reader([0, 0, 0], [steady(40.0)] * 3, [stalls])
    history = history_of(reader, 500)
    assert history.stands_still() == ["m0"]
    assert not history.stuck().any()
    watch(history, reader, 500, 1_200)
    assert history.stands_still() == []
    assert (history.speed("m0").median or 200) >= 115, "it reached that while it kept up"


def test_old_observations_are_forgotten() -> None:
    def recovers(second: int) -> float:
        return 50.0 if second < 600 else 1_000.0

    reader = Reader([0, 0], [steady(40.0)] * 2, [recovers])
    history = history_of(reader, 600)
    assert history.speed("m0").median == pytest.approx(50, rel=0.1)
    watch(history, reader, 600, 600 + int(KEPT_S) + 120)
    assert history.speed("m0").median is None


def test_a_member_is_never_rated_slower_than_it_was_while_it_kept_up() -> None:
    """A short disturbance makes it slow for some stretches."""

    def disturbed(second: int) -> float:
        return 30.0 if 400 <= second < 520 else 300.0

    history = history_of(Reader([0, 0], [steady(60.0)] * 2, [disturbed]), 510)
    speed = history.speed("m0")
    assert speed.median is None or speed.median >= 110
    assert history.at_least("m0") == pytest.approx(120, rel=0.1)


def test_a_member_without_partitions_is_unknown() -> None:
    reader = Reader([0, 1], [steady(150.0)] * 2, [steady(100.0)] * 2)
    history = history_of(reader, 600)
    assert history.speed("m0").median == pytest.approx(100, rel=0.1)
    history.given(np.array([1, 1]), ["m0", "m1"])
    assert (history.speed("m0").median, history.at_least("m0")) == (None, 0.0)
    assert history.speed("m1").median == pytest.approx(100, rel=0.1)


def test_a_group_acts_on_no_partition_that_nobody_can_read() -> None:
    """Nor does it shift the others about for it; the loop says which it is."""
    members = {f"m{m}": {"topics": ["t"]} for m in range(3)}
    group = build({"topics": {"t": 9}, "members": members, "auto_offset_reset": "earliest"})
    reader = Reader([0, 1, 2] * 3, [steady(40.0)] * 9, [steady(200.0)] * 3)
    reader.unreadable.add(4)
    loop = Loop(Acting(), find("cooperative-lag-aware", {"max_skew": 9}), learned=True)
    loop.generation(0.0, group, reader.owner)
    for second in range(1_800):
        reader.step(second)
        if second % 5 == 0:
            sample = reader.sample(second)
            planned = loop.look(sample, sample.end - sample.committed, np.ones(9, dtype=np.bool_))
            assert not planned.decision.act, planned.decision.why
    (sentence,) = loop.stuck()
    assert sentence.startswith("t-4: unread, although the owner keeps up with the rest.")


# -- tables and sizes: the same rule on a history ----------------------------------------------------------------------


def recorded(reader: Reader, seconds: int, sampled_s: int = 10) -> list[Series]:
    """What a dump holds of each partition: commits, and log ends sampled now and then; milliseconds."""
    ends: list[list[tuple[int, int]]] = [[] for _ in reader.owner]
    commits: list[list[tuple[int, int]]] = [[] for _ in reader.owner]
    for second in range(seconds):
        reader.step(second)
        for p in range(len(reader.owner)):
            if second % sampled_s == 0:
                ends[p].append((second * 1000, int(reader.end[p])))
            if second % reader.commit_s == 0:
                commits[p].append((second * 1000 + 3 * p, int(reader.committed[p])))
    return [Series(end, commit) for end, commit in zip(ends, commits, strict=True)]


@pytest.mark.parametrize("sampled_s", [1, 10, 60])
@pytest.mark.parametrize("rate", [steady(21.0), lambda second: bursts(second) / 2])
def test_what_comes_in_is_not_taken_for_what_a_member_can_read(sampled_s: int, rate: Rate) -> None:
    """Three equal members of 100 a second get 42 each: nobody is full, and nothing tells how much they can take."""
    series = recorded(Reader([0, 0, 1, 1, 2, 2], [rate] * 6, [steady(100.0)] * 3), 600, sampled_s)
    speeds = {f"m{m}": speed_of(series[2 * m : 2 * m + 2], 0, 600_000) for m in range(3)}
    capacity, _ = learned_capacity(speeds)
    assert capacity is None or capacity >= 90, speeds


@pytest.mark.parametrize("sampled_s", [1, 10, 60])
def test_a_member_that_works_off_a_backlog_shows_what_it_can_take(sampled_s: int) -> None:
    reader = Reader([0, 0, 1, 1], [steady(21.0)] * 4, [steady(100.0)] * 2)
    reader.end += 20_000
    series = recorded(reader, 600, sampled_s)
    speeds = {f"m{m}": speed_of(series[2 * m : 2 * m + 2], 0, 600_000) for m in range(2)}
    assert learned_capacity(speeds)[0] == pytest.approx(100, rel=0.05)


def test_a_stuck_partition_is_no_slow_member_in_a_table() -> None:
    reader = Reader([0, 0], [steady(21.0)] * 2, [steady(100.0)])
    reader.unreadable.add(1)
    assert speed_of(recorded(reader, 600), 0, 600_000).median is None

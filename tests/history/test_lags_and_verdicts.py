"""The word on one partition: lag and status by the table of traps, and Burrow's verdicts."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from tests.history import verdict_of_one
from tests.history.verdict_of_one import CommitSample

from apportion.arrays import Bools
from apportion.history.lag_columns import STATUSES, Known, Lags, lags
from apportion.history.lag_time import Samples
from apportion.history.verdicts import WORST, lags_at, lags_left, verdicts
from apportion.model.lag import lag_of

Numbers = Sequence[int | None]


@pytest.mark.parametrize(
    ("committed", "begin", "end", "fields", "expected"),
    [
        (90, 0, 100, {}, (10, 10, "ok")),
        (100, 0, 100, {}, (0, 0, "ok")),
        (103, 0, 100, {}, (-3, 0, "ahead")),
        (10, 40, 100, {}, (90, 60, "expired_data")),
        (40, 40, 100, {}, (60, 60, "ok")),
        (0, 7, 7, {}, (7, 0, "expired_data")),
        (90, 0, 100, {"same_topic": False}, (10, None, "invalid")),
        (900, 0, 100, {"same_topic": False}, (-800, None, "invalid")),
        (90, 0, 100, {"wanted": False}, (10, 10, "unsubscribed")),
        (10, 40, 100, {"wanted": False}, (90, 60, "unsubscribed")),
        (103, 0, 100, {"wanted": False}, (-3, 0, "unsubscribed")),
        (10, 40, 100, {"wanted": False, "same_topic": False}, (90, None, "invalid")),
        (-(2**63), 40, 100, {}, (None, 60, "expired_data")),
        (90, None, None, {}, (None, None, "unknown_topic")),
        (90, None, None, {"same_topic": False, "wanted": False}, (None, None, "unknown_topic")),
    ],
)
def test_the_first_status_that_fits_counts(committed, begin, end, fields, expected) -> None:  # type: ignore[no-untyped-def]
    same, wanted = (np.array([fields.get(name, True)]) for name in ("same_topic", "wanted"))
    row = on_columns([committed], [begin], [end], [end], same, wanted)
    assert (*row.raw.to_list(), *row.lag.to_list(), *row.words()) == expected


def test_partitions_without_a_commit_and_readers_of_committed_messages() -> None:
    committed = [None, 5, 5, 5, 60]
    begin, end, last_stable = [0, 0, 10, 0, 0], [50, 50, 50, None, 50], [40, 40, 40, 40, None]
    rows = on_columns(committed, begin, end, last_stable, np.ones(5, np.bool_), np.ones(5, np.bool_))
    assert rows.words() == ["never_committed", "ok", "expired_data", "unknown_topic", "ahead"]
    assert rows.stable.to_list() == [None, 35, 30, None, 0]
    assert rows.lost.to_list() == [None, 0, 5, None, 0]
    assert rows.begin.to_list() == [0, 0, 10, None, 0], "half a log is none"
    assert rows.last_stable.to_list() == [40, 40, 40, None, None]


def on_columns(
    committed: Numbers, begin: Numbers, end: Numbers, last_stable: Numbers, same: Bools, wanted: Bools
) -> Lags:
    return lags(Known.of(committed), Known.of(begin), Known.of(end), Known.of(last_stable), same, wanted)


INT64 = range(-(2**63), 2**63)
EDGES = [None, -(2**63), -(2**63) + 1, -(2**62), -1, 0, 1, 5, 9, 10, 2**62, 2**63 - 2, 2**63 - 1]


def told(numbers: tuple[int | None, ...], same: bool, wanted: bool) -> tuple[Any, ...]:
    """The rule in numbers without bounds: raw lag, lag, stable lag, lost, status; None where 64 bits hold no answer."""

    def held(number: int) -> int | None:
        return number if number in INT64 else None

    committed, begin, end, last_stable = numbers
    if committed is None:
        return None, None, None, None, "never_committed"
    if begin is None or end is None:
        return None, None, None, None, "unknown_topic"
    stop = max(begin, end if last_stable is None else min(end, last_stable))
    lag, stable = (held(min(max(last - committed, 0), max(last - begin, 0))) for last in (end, stop))
    fits = [
        (not same, "invalid"), (not wanted, "unsubscribed"), (committed > end, "ahead"),
        (committed < begin, "expired_data"), (True, "ok"),
    ]  # fmt: skip
    lost = held(max(0, begin - committed)) if wanted else 0
    known = (lag, stable, lost) if same else (None, None, None)
    return held(end - committed), *known, next(s for fit, s in fits if fit)


def test_columns_say_what_numbers_without_bounds_say() -> None:
    """Every combination of four numbers at the edges of 64 bits and around each other, with every flag."""
    flags = [(True, True), (True, False), (False, True)]
    numbers = list(product(EDGES, repeat=4))
    same, wanted = (np.array([flags[i % 3][k] for i in range(len(numbers))]) for k in (0, 1))
    committed, begin, end, last_stable = ([row[k] for row in numbers] for k in range(4))
    rows = on_columns(committed, begin, end, last_stable, same, wanted)
    columns = [column.to_list() for column in (rows.raw, rows.lag, rows.stable, rows.lost)]
    ours = list(zip(*columns, rows.words(), strict=True))
    assert ours == [told(row, *flags[i % 3]) for i, row in enumerate(numbers)]
    assert set(rows.words()) == set(STATUSES)


def test_a_plan_counts_the_lag_that_the_tables_count() -> None:
    """Of offsets as a broker has them: what ``lag_of`` gives a group with a commit."""
    numbers = [row for row in product([0, 1, 5, 9, 10, 2**62], repeat=3) if row[0] <= row[1]]
    begin, end, committed = ([row[k] for row in numbers] for k in range(3))
    rows = on_columns(committed, begin, end, end, *(np.ones(len(numbers), np.bool_) for _ in range(2)))
    assert rows.lag.to_list() == lag_of(np.array(begin), np.array(end), np.array(committed), "latest").tolist()


def test_no_rows_are_no_rows() -> None:
    nothing = np.zeros(0, np.bool_)
    assert on_columns([], [], [], [], nothing, nothing).words() == []


Window = list[CommitSample]
Partition = tuple[Window, int | None, int, int | None, Sequence[int | None]]
"""Its window, lag, the moment, since when it is behind, and the lags when its log's end was sampled."""


def on_windows(partitions: Sequence[Partition], allowed_lag: int = 0) -> list[str]:
    """The columns' verdicts."""
    commits = [commit for window, *_ in partitions for commit in window]
    start = np.cumsum([0, *(len(window) for window, *_ in partitions)])
    samples = Samples(np.array([c.at for c in commits], float), np.array([c.committed for c in commits], int), start)
    left, lag = Known.of(commit.lag for commit in commits), Known.of(lag for _, lag, *_ in partitions)
    now = np.array([now for _, _, now, *_ in partitions], dtype=float)
    since = np.array([np.nan if since is None else since for *_, since, _ in partitions], dtype=float)
    sampled = Known.of(lag for *_, lags in partitions for lag in lags)
    begins = np.cumsum([0, *(len(lags) for *_, lags in partitions)])
    return [WORST[code] for code in verdicts(samples, left, lag, now, since, (sampled, begins), allowed_lag).tolist()]


def verdict(
    window: Window, lag: int | None, now: int, allowed_lag: int = 0, behind_since: int | None = None,
    sampled: Sequence[int | None] = (),
) -> str:  # fmt: skip
    """The columns' verdict on one partition, which is the plain rule's."""
    (word,) = on_windows([(window, lag, now, behind_since, sampled)], allowed_lag)
    assert word == verdict_of_one.verdict(window, lag, now, sampled, allowed_lag, behind_since)
    return word


def window(*offsets: int, lags: list[int | None] | None = None) -> list[CommitSample]:
    return [
        CommitSample(1000 * i, o, lag)
        for i, (o, lag) in enumerate(zip(offsets, lags or [None] * len(offsets), strict=True))
    ]


STILL = window(5, 5, 5, 5, lags=[4, 5, 6, 7])
MOVING = window(5, 6, 7, 8, lags=[4, 5, 6, 7])


def test_no_lag_is_well_whatever_the_window_says() -> None:
    assert verdict(STILL, 0, 4000) == "OK"
    assert verdict(STILL, None, 4000) == "OK"
    assert verdict([], 9, 4000) == "OK"


def test_a_group_that_commits_the_same_offset_again_and_again_stalls() -> None:
    assert verdict(STILL, 7, 4000) == "STALL"


def test_lag_that_does_not_shrink_from_sample_to_sample_is_a_warning() -> None:
    assert verdict(MOVING, 7, 4000, sampled=[4, 5, 6, 7]) == "WARN"
    assert verdict(MOVING, 7, 4000, sampled=[None, 6, 4, 7, 8, 7]) == "WARN", "it swings with each commit, and grows"
    assert verdict(MOVING, 6, 3000, sampled=[7, 5, 6]) == "OK"
    assert verdict(MOVING, 6, 3000, sampled=[None, 6]) == "OK", "one lag has no direction"


def test_an_end_that_is_sampled_seldom_hides_no_growing_lag() -> None:
    """Written by 100 a second, read by 90, committed every 5 s, sampled every 60: at commits the lag only shrinks."""
    commits = [(at * 1000, at * 90) for at in range(0, 601, 5)]
    ends = [(at * 1000, at * 100 + 1000) for at in range(0, 601, 60)]
    recent = verdict_of_one.with_lags(commits[-10:], ends)
    assert [later.lag < sooner.lag for sooner, later in pairwise(recent)][:8] == [True] * 8  # type: ignore[operator]
    sampled = lags_at(Samples.of([ends]), Samples.of([commits]), 0).to_list()
    assert sampled == verdict_of_one.lags_at(ends, commits, 0) == [1000 + 10 * at for at in range(0, 601, 60)]
    assert verdict(recent, 7000, 600_000, sampled=sampled) == "WARN"


def test_silence_longer_than_the_window_is_a_stop() -> None:
    slow = [CommitSample(30_000 * i, 5 + i, 7) for i in range(4)]
    assert verdict(slow, 7, 90_000 + 90_001) == "STOP"
    assert verdict(slow, 7, 90_000 + 90_000) == "OK"


def test_silence_has_a_least_time() -> None:
    """Ten commits within a second, as of a reader that commits each message, are no reason to alarm after two."""
    quick = [CommitSample(100 * i, 5 + i, 7) for i in range(10)]
    assert verdict(quick, 7, 900 + 60_000) == "OK"
    assert verdict(quick, 7, 900 + 60_001) == "STOP"


def test_silence_with_nothing_to_read_is_no_stop() -> None:
    caught_up = window(5, 6, 7, 8, lags=[0, 0, 0, 0])
    assert verdict(caught_up, 7, 100_000, behind_since=99_000) == "OK"
    assert verdict(caught_up, 7, 100_000, behind_since=39_000) == "STOP"


@pytest.mark.parametrize("lag", [1, 2])
def test_what_may_be_the_marker_of_a_transaction_is_no_stop_and_no_stall(lag: int) -> None:
    assert verdict(MOVING, lag, 10**9) == "OK"
    assert verdict(STILL, lag, 4000) == "OK"
    assert verdict(MOVING, 3, 10**9) == "STOP"


def test_an_offset_that_went_back_is_a_rewind_until_it_is_reached_again() -> None:
    assert verdict(window(5, 9, 6, 7), 5, 4000) == "REWIND"
    assert verdict(window(5, 9, 6, 9, lags=[4, 0, 3, 0]), 5, 4000) == "OK"


def test_an_allowed_lag_counts_in_every_rule() -> None:
    assert verdict(STILL, 7, 4000, allowed_lag=7) == "OK"
    assert verdict(STILL, 7, 4000, allowed_lag=6) == "OK", "it was within the allowed lag at some commits"
    assert verdict(STILL, 7, 4000, allowed_lag=3) == "STALL"
    assert verdict(MOVING, 200_000, 4000, allowed_lag=100) == "OK"


def test_a_lag_that_nobody_measured_is_not_zero() -> None:
    assert verdict(window(5, 5, 5), 7, 3000) == "STALL"
    assert verdict(window(5, 6, 7), 7, 3000) == "OK", "no two lags are known, so nothing never shrank"


@pytest.mark.parametrize("allowed_lag", [0, 3])
def test_many_partitions_at_once_are_judged_as_each_by_itself(allowed_lag: int) -> None:
    """Windows of every length, no samples or many, commits of one moment and of times that run backwards."""
    rng = random.Random(allowed_lag)
    partitions: list[Partition] = []
    commits, ends, recent = [], [], []
    for p in range(5_000):
        steps = (0, 0, 1, 5, -3) if p % 3 else (0, 1)
        offset, at, mine = 100, 1_000, []
        for _ in range(rng.choice((0, 1, 2, 3, 10))):
            at, offset = at + rng.choice((0, 500, 2_000, -300)), offset + rng.choice(steps)
            mine.append((at, offset))
        times = sorted(rng.sample(range(0, 20_000, 250), rng.choice((0, 0, 2, 9))))
        sampled = list(zip(times, sorted(rng.randrange(90, 200) for _ in times), strict=True))
        commits.append(mine)
        ends.append(sampled)
        lag, since = rng.choice((None, 0, 2, 3, 4, 50)), rng.choice((None, 0, 9_000, 84_000))
        mine = sorted(mine, key=lambda commit: commit[0])
        recent.append(mine)
        lags = verdict_of_one.lags_at(sampled, mine, 4_000)
        partitions.append(
            (verdict_of_one.with_lags(commits[-1], sampled), lag, rng.choice((5_000, 85_000)), since, lags)
        )
    left = lags_left(Samples.of(commits), Samples.of(ends))
    assert left.to_list() == [commit.lag for window, *_ in partitions for commit in window]
    sampled_lags = lags_at(Samples.of(ends), Samples.of(recent), 4_000)
    assert sampled_lags.to_list() == [lag for *_, lags in partitions for lag in lags]
    words = on_windows(partitions, allowed_lag)
    assert words == [verdict_of_one.verdict(w, lag, now, s, allowed_lag, since) for w, lag, now, since, s in partitions]
    assert set(words) == set(WORST)


def test_a_lag_that_is_not_known_is_well_whatever_number_stands_in_its_place() -> None:
    still = Samples.of([[(0, 5), (1, 5), (2, 5)]])
    left, moment, nothing = Known.of([None, None, None]), np.array([3.0]), (Known.of([]), np.array([0, 0]))
    for there, word in ((True, "STALL"), (False, "OK")):
        lag = Known(np.array([9]), np.array([there]))
        assert verdicts(still, left, lag, moment, np.array([np.nan]), nothing).tolist() == [WORST.index(word)]


def test_a_moment_that_no_timestamp_holds_is_no_silence_and_leaves_no_lag() -> None:
    at = Samples(np.array([np.nan, np.nan]), np.array([5, 6]), np.array([0, 2]))
    left = lags_left(at, Samples.of([[(1, 100)]]))
    assert left.to_list() == [None, None]
    late, unknown, nothing = np.array([9e15]), np.array([np.nan]), (Known.of([]), np.array([0, 0]))
    assert verdicts(at, left, Known.of([94]), late, unknown, nothing).tolist() == [WORST.index("OK")]
    assert lags_left(Samples.of([[(1, 5)], []]), Samples.of([[], []])).to_list() == [None]
    assert lags_left(Samples.of([[(1, -(2**63))]]), Samples.of([[(1, 2**63 - 1)]])).to_list() == [None]
    assert lags_left(Samples.of([[(1, 2**63 - 1)]]), Samples.of([[(1, -2)]])).to_list() == [0]

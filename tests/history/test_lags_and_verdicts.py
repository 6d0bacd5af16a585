"""The word on one partition: lag and status by the table of traps, and Burrow's verdicts."""

from __future__ import annotations

import pytest

from apportion.history.lags import lag_of_commit
from apportion.history.verdicts import CommitSample, verdict, worst


@pytest.mark.parametrize(
    ("committed", "begin", "end", "fields", "expected"),
    [
        (90, 0, 100, {}, (10, 10, "ok")),
        (100, 0, 100, {}, (0, 0, "ok")),
        (103, 0, 100, {}, (-3, 0, "ahead")),
        (10, 40, 100, {}, (90, 60, "expired_data")),
        (40, 40, 100, {}, (60, 60, "ok")),
        (0, 7, 7, {}, (7, 0, "expired_data")),
        (90, 0, 100, {"same_topic": False}, (10, 10, "invalid")),
        (900, 0, 100, {"same_topic": False}, (-800, 0, "invalid")),
        (90, 0, 100, {"wanted": False}, (10, 10, "unsubscribed")),
        (10, 40, 100, {"wanted": False}, (90, 60, "expired_data")),
        (-(2**63), 40, 100, {}, (None, 60, "expired_data")),
        (90, None, None, {}, (None, None, "unknown_topic")),
        (90, None, None, {"same_topic": False, "wanted": False}, (None, None, "unknown_topic")),
    ],
)
def test_the_first_status_that_fits_counts(committed, begin, end, fields, expected) -> None:  # type: ignore[no-untyped-def]
    assert lag_of_commit(committed, begin, end, **fields) == expected


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


def test_lag_that_never_shrinks_is_a_warning() -> None:
    assert verdict(MOVING, 7, 4000) == "WARN"
    assert verdict(window(5, 6, 7, lags=[7, 5, 6]), 6, 3000) == "OK"


def test_silence_longer_than_the_window_is_a_stop() -> None:
    assert verdict(MOVING, 7, 3000 + 3001) == "STOP"
    assert verdict(MOVING, 7, 3000 + 3000) == "WARN"


def test_silence_with_nothing_to_read_is_no_stop() -> None:
    caught_up = window(5, 6, 7, 8, lags=[0, 0, 0, 0])
    assert verdict(caught_up, 7, 100_000, behind_since=99_000) == "OK"
    assert verdict(caught_up, 7, 100_000, behind_since=90_000) == "STOP"


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


def test_a_group_is_as_its_worst_partition() -> None:
    assert worst(["OK", "WARN", "STOP", "STALL"]) == "STOP"
    assert worst([]) == "OK"

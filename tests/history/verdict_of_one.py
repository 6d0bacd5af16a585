"""The verdict on one partition, rule by rule in plain Python: what the columns are held against."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CommitSample:
    """One commit of the window: when (ms), how far, and the lag it left; None where no log end was known then."""

    at: int
    committed: int
    lag: int | None = None


def with_lags(commits: Sequence[tuple[int, int]], ends: Sequence[tuple[int, int]]) -> list[CommitSample]:
    """Commits (ms, offset) with the lag that each left, by the last end (ms, offset) sampled up to then."""
    times = [at for at, _ in ends]
    window = []
    for at, offset in commits:
        i = bisect_right(times, at)
        window.append(CommitSample(at, offset, max(0, ends[i - 1][1] - offset) if i else None))
    return window


def lags_at(ends: Sequence[tuple[int, int]], commits: Sequence[tuple[int, int]], since: int) -> list[int | None]:
    """The lag when each end (ms, offset) was sampled, by the last commit (ms, offset) up to then."""
    times = [at for at, _ in commits]
    lags: list[int | None] = []
    for at, end in ends:
        i = bisect_right(times, at)
        lags.append(max(0, end - commits[i - 1][1]) if i and at >= since else None)
    return lags


def verdict(
    window: Sequence[CommitSample], lag: int | None, now: int, sampled: Sequence[int | None] = (),
    allowed_lag: int = 0, behind_since: int | None = None,
) -> str:  # fmt: skip
    if lag is None or lag <= allowed_lag or lag in (1, 2) or not window:
        return "OK"
    first, last = window[0], window[-1]
    if len(window) > 1 and now - max(last.at, behind_since or 0) > max(last.at - first.at, 60_000):
        return "STOP"
    if last.committed < max(commit.committed for commit in window):
        return "REWIND"
    if len(window) < 2 or any(commit.lag is not None and commit.lag <= allowed_lag for commit in window):
        return "OK"
    if all(commit.committed == first.committed for commit in window):
        return "STALL"
    known = [lag for lag in sampled if lag is not None]
    half = len(known) // 2
    return "WARN" if half and min(known[half:]) >= max(known[:half]) else "OK"

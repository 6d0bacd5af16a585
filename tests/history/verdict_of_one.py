"""The verdict on one partition, rule by rule in plain Python: what the columns are held against."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


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


def verdict(
    window: Sequence[CommitSample], lag: int | None, now: int, allowed_lag: int = 0, behind_since: int | None = None
) -> str:
    if lag is None or lag <= allowed_lag or not window:
        return "OK"
    first, last = window[0], window[-1]
    if len(window) > 1 and now - max(last.at, behind_since or 0) > last.at - first.at:
        return "STOP"
    if last.committed < max(commit.committed for commit in window):
        return "REWIND"
    if len(window) < 2 or any(commit.lag is not None and commit.lag <= allowed_lag for commit in window):
        return "OK"
    if all(commit.committed == first.committed for commit in window):
        return "STALL"
    known = [commit.lag for commit in window if commit.lag is not None]
    return "WARN" if len(known) > 1 and all(later >= sooner for sooner, later in pairwise(known)) else "OK"

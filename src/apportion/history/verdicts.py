"""Burrow's word on partitions: OK, WARN, STALL, STOP or REWIND, from their last commits and the lag these left.

On columns: a row a partition, its window of commits one after the other, all partitions in some passes.

Source: linkedin/Burrow, ``core/internal/evaluator/caching.go``, with repairs: ``allowed_lag`` counts in every rule
(there, some compare with 0), a lag that nobody measured is unknown rather than 0, silence has a least time (its
``min-distance`` lengthens the window instead), WARN looks at lags when log ends were sampled and not at commits, where
an end that nobody looked at again seems to stand still, and a lag that may be of markers is none.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from apportion.arrays import Bools, Floats, Ints
from apportion.history.lag_columns import Known, difference
from apportion.history.lag_time import Samples, maybe_markers, newest_before

WINDOW: Final = 10
"""Commits looked at, as in Burrow's default."""
STOP_MIN_MS: Final = 60_000.0
"""Silence up to which nobody is called stopped: a restart takes as long, and a session 45 s to end."""
OK, WARN, STALL, STOP, REWIND = "OK", "WARN", "STALL", "STOP", "REWIND"
WORST: Final = (OK, WARN, STALL, REWIND, STOP)
"""From well to worst; a group is as its worst partition, and in error from STALL on."""


def lags_left(commits: Samples, ends: Samples) -> Known:
    """(N,) the lag that each of N commits left, by the last end of its log that was sampled up to then.

    commits, ends
        Of the same partitions, ends by ascending time. Not known: nothing was sampled by then, or no 64 bits hold it.
    """
    end, sampled = newest_before(ends, commits)
    behind, held = difference(end, commits.offset)
    return Known(np.maximum(behind, 0), sampled & (held | (behind < 0)))


def lags_at(ends: Samples, commits: Samples, since_ms: float) -> Known:
    """(N,) the lag at each of N samples of log ends, by the last commit up to then; not known before ``since_ms``.

    ends, commits
        Of the same partitions, commits by ascending time.
    """
    committed, sampled = newest_before(commits, ends)
    behind, held = difference(ends.offset, committed)
    return Known(np.maximum(behind, 0), sampled & (held | (behind < 0)) & (ends.at >= since_ms))


def verdicts(
    window: Samples, lag_left: Known, lag: Known, now: Floats, behind_since: Floats, sampled: tuple[Known, Ints],
    allowed_lag: int = 0,
) -> Ints:  # fmt: skip
    """(P,) the verdicts on partitions, as places in ``WORST``.

    window
        The last commits of each, oldest first; a moment that no timestamp holds is NaN.
    lag_left
        (N,) the lag that each of them left, as ``lags_left`` gives it.
    lag, now
        (P,) messages left, and the moment (ms) when the log end was sampled.
    behind_since
        (P,) when (ms) the log end went past the last commit; NaN where that is not known: silence before it had no
        cause.
    sampled
        (N,) lags when log ends were sampled, as ``lags_at`` gives them, and (P + 1,) where each partition's begin.
    allowed_lag
        Messages that count as none.
    Returns
        OK where the lag is unknown or allowed, or may be of markers, or nothing was committed. Else STOP where nothing
        was committed, though there was something to read, for longer than the whole window took and than
        ``STOP_MIN_MS``; REWIND where an offset went back and was not reached again; and unless the lag was allowed at
        some commit of the window, STALL where offsets stood still, WARN where no lag of the later half of the samples
        is below one of the earlier half. Else OK.
    """
    counts = np.diff(window.start)
    answer = np.zeros(len(counts), dtype=np.int64)
    rows = np.flatnonzero(counts)
    if not len(rows):
        return answer
    first, last = window.start[:-1][rows], window.start[1:][rows] - 1
    many = counts[rows] > 1
    began, ended = window.at[first], window.at[last]
    silent = now[rows] - np.fmax(ended, behind_since[rows]) > np.maximum(ended - began, STOP_MIN_MS)
    highest, lowest = (of.reduceat(window.offset, first) for of in (np.maximum, np.minimum))
    allowed = np.logical_or.reduceat(lag_left.is_known & (lag_left.value <= allowed_lag), first)
    cases = [
        (~lag.is_known | (lag.value <= allowed_lag) | maybe_markers(lag.value))[rows], many & silent,
        highest > window.offset[last], ~many | allowed, highest == lowest, _did_not_shrink(*sampled)[rows],
    ]  # fmt: skip
    answer[rows] = np.select(cases, [WORST.index(word) for word in (OK, STOP, REWIND, OK, STALL, WARN)], 0)
    return answer


def _did_not_shrink(lags: Known, start: Ints) -> Bools:
    """(P,) whether two lags at least are known, and none of the later half is less than one of the earlier.

    Halves, since a lag swings with every commit: how often logs are sampled must not decide.
    """
    count = len(start) - 1
    of = np.repeat(np.arange(count), np.diff(start))[lags.is_known]
    value = lags.value[lags.is_known]
    known = np.bincount(of, minlength=count)
    rank = np.arange(len(of)) - np.repeat(np.cumsum(known) - known, known)
    early = rank < (known // 2)[of]
    most, least = np.full(count, np.iinfo(np.int64).min), np.full(count, np.iinfo(np.int64).max)
    np.maximum.at(most, of[early], value[early])
    np.minimum.at(least, of[~early], value[~early])
    answer: Bools = (known > 1) & (least >= most)
    return answer

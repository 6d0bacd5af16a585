"""Burrow's word on partitions: OK, WARN, STALL, STOP or REWIND, from their last commits and the lag these left.

On columns: a row a partition, its window of commits one after the other, all partitions in some passes.

Source: linkedin/Burrow, ``core/internal/evaluator/caching.go``, with two repairs: ``allowed_lag`` counts in every rule
(there, some compare with 0), and a lag that nobody measured is unknown rather than 0.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from apportion.arrays import Bools, Floats, Ints
from apportion.history.lag_time import Samples
from apportion.history.lags import Known, difference

WINDOW: Final = 10
"""Commits looked at, as in Burrow's default."""
OK, WARN, STALL, STOP, REWIND = "OK", "WARN", "STALL", "STOP", "REWIND"
WORST: Final = (OK, WARN, STALL, REWIND, STOP)
"""From well to worst; a group is as its worst partition, and in error from STALL on."""


def lags_left(commits: Samples, ends: Samples) -> Known:
    """(N,) the lag that each of N commits left, by the last end of its log that was sampled up to then.

    commits, ends
        Of the same partitions, ends by ascending time. Not known: nothing was sampled by then, or no 64 bits hold it.
    """
    which, whose = (np.repeat(np.arange(len(one.start) - 1), np.diff(one.start)) for one in (commits, ends))
    # Logs are sampled together, so the moments are few: each end and each commit is found by partition and moment.
    moments = np.unique(ends.at)
    keys = whose * (len(moments) + 1) + np.searchsorted(moments, ends.at, "right")
    last = (
        np.searchsorted(keys, which * (len(moments) + 1) + np.searchsorted(moments, commits.at, "right"), "right") - 1
    )
    there = (last >= ends.start[:-1][which]) & ~np.isnan(commits.at)
    end = ends.offset[np.where(there, last, 0)] if len(ends.offset) else np.zeros(len(which), dtype=np.int64)
    behind, held = difference(end, commits.offset)
    return Known(np.maximum(behind, 0), there & (held | (behind < 0)))


def verdicts(window: Samples, left: Known, lag: Known, now: Floats, behind_since: Floats, allowed_lag: int = 0) -> Ints:
    """(P,) the verdicts on partitions, as places in ``WORST``.

    window
        The last commits of each, oldest first; a moment that no timestamp holds is NaN.
    left
        (N,) the lag that each of them left, as ``lags_left`` gives it.
    lag, now
        (P,) messages left, and the moment (ms) when the log end was sampled.
    behind_since
        (P,) when (ms) the log end went past the last commit; NaN where that is not known: silence before it had no
        cause.
    allowed_lag
        Messages that count as none.
    Returns
        OK where the lag is unknown or allowed, or nothing was committed. Else STOP where nothing was committed, though
        there was something to read, for longer than the whole window took; REWIND where an offset went back and was
        not reached again; and unless the lag was allowed at some commit of the window, STALL where offsets stood still,
        WARN where the lag never shrank. Else OK.
    """
    counts = np.diff(window.start)
    answer = np.zeros(len(counts), dtype=np.int64)
    rows = np.flatnonzero(counts)
    if not len(rows):
        return answer
    first, last = window.start[:-1][rows], window.start[1:][rows] - 1
    many = counts[rows] > 1
    began, ended = window.at[first], window.at[last]
    silent = now[rows] - np.fmax(ended, behind_since[rows]) > ended - began
    highest, lowest = (of.reduceat(window.offset, first) for of in (np.maximum, np.minimum))
    allowed = np.logical_or.reduceat(left.there & (left.value <= allowed_lag), first)
    cases = [
        (~lag.there | (lag.value <= allowed_lag))[rows], many & silent, highest > window.offset[last], ~many | allowed,
        highest == lowest, _never_shrank(left, np.repeat(np.arange(len(rows)), counts[rows]), len(rows)),
    ]  # fmt: skip
    answer[rows] = np.select(cases, [WORST.index(word) for word in (OK, STOP, REWIND, OK, STALL, WARN)], 0)
    return answer


def _never_shrank(left: Known, row: Ints, rows: int) -> Bools:
    """Where two lags at least are known, and none is less than the one known before it."""
    values, of = left.value[left.there], row[left.there]
    fell = (values[1:] < values[:-1]) & (of[1:] == of[:-1])
    kept: Bools = (np.bincount(of, minlength=rows) > 1) & (np.bincount(of[1:][fell], minlength=rows) == 0)
    return kept

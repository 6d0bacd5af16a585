"""Burrow's word on a partition: OK, WARN, STALL, STOP or REWIND, from its last commits and the lag they left.

Source: linkedin/Burrow, ``core/internal/evaluator/caching.go``, with two repairs: ``allowed_lag`` counts in every rule
(there, some compare with 0), and a lag that nobody measured is unknown rather than 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

WINDOW: Final = 10
"""Commits looked at, as in Burrow's default."""
OK, WARN, STALL, STOP, REWIND = "OK", "WARN", "STALL", "STOP", "REWIND"
WORST: Final = (OK, WARN, STALL, REWIND, STOP)
"""From well to worst; a group is as its worst partition, and in error from STALL on."""


@dataclass(frozen=True, slots=True)
class CommitSample:
    """One commit of the window: when (ms), how far, and the lag it left; None where no log end was known then."""

    at: int
    committed: int
    lag: int | None = None


def verdict(
    window: Sequence[CommitSample], lag: int | None, now: int, allowed_lag: int = 0, behind_since: int | None = None
) -> str:
    """The verdict on one partition.

    window
        Its last commits, oldest first, at least one.
    lag, now
        Messages left, and the moment (ms) when the log end was sampled.
    allowed_lag
        Messages that count as none.
    behind_since
        When (ms) the log end went past the last commit, as far as that is known: silence before it had no cause.
    Returns
        OK where the lag is unknown or allowed. Else STOP where nothing was committed, though there was something to
        read, for longer than the whole window took; REWIND where an offset went back and was not reached again; and
        unless the lag was allowed at some commit of the window, STALL where offsets stood still, WARN where the lag
        never shrank. Else OK.
    """
    if lag is None or lag <= allowed_lag or not window:
        return OK
    first, last = window[0], window[-1]
    if len(window) > 1 and now - max(last.at, behind_since or 0) > last.at - first.at:
        return STOP
    if _rewound(window):
        return REWIND
    if len(window) < 2 or any(commit.lag is not None and commit.lag <= allowed_lag for commit in window):
        return OK
    if all(commit.committed == first.committed for commit in window):
        return STALL
    known = [commit.lag for commit in window if commit.lag is not None]
    never_shrank = all(later >= sooner for sooner, later in pairwise(known))
    return WARN if len(known) > 1 and never_shrank else OK


def _rewound(window: Sequence[CommitSample]) -> bool:
    """Whether an offset went back and no later commit came up to it again."""
    highest = window[0].committed
    for commit in window:
        highest = max(highest, commit.committed)
    return window[-1].committed < highest


def worst(verdicts: Sequence[str]) -> str:
    """The group's verdict: the worst of its partitions'."""
    return max(verdicts, key=WORST.index, default=OK)

"""How fast members read while they had something to read: one rule, for tables, for sizes and for a group that acts.

A speed is measured on stretches from one commit of a member to a later one: between commits nobody knows where it
stands. A stretch is busy if, on some partition that moved, the later commit does not reach what the log already held at
the first one: so there was something to read all the time, and what the member read it could not have read faster. Lag
at both ends alone says nothing, for a reader that keeps up is always some messages behind. On any other stretch the
member kept up: it is at least so fast, and nobody rates it slower than that.

A partition that does not move makes nobody busy: a record that nobody can read, or a pause, is no slow member. A member
none of whose partitions moves although several have something to read stands still itself, once that lasts much longer
than it takes between commits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final, NamedTuple

import numpy as np

from apportion.arrays import UNKNOWN, Bools, Longs, ints
from apportion.history.lag_time import Series

ENOUGH: Final = 5
"""Stretches' worth of busy time below which a speed is not told, and measurements below which its spread is not."""
STRETCHES: Final = 20
"""The newest busy stretches of a member that count, and the newest others."""
KEPT_S: Final = 600.0
"""Seconds after which a stretch is forgotten: members and their work change. Of rare commits the newest ten count."""
PATIENCE: Final = 4
"""A member stands still once it has been silent so many times longer than it ever was between its last commits."""
SEVERAL: Final = 2
"""Partitions that must wait for a member before it stands still itself."""
SILENT_S: Final = 60.0
"""Seconds of silence below which nobody stands still."""


@dataclass(frozen=True)
class Speed:
    """How fast a member was while it had something to read.

    median, low, high
        Messages a second: the median and the quartiles of its busy time; None where there is too little to tell.
    intervals
        Its busy time, in stretches of the least length.
    stretches
        How often it was measured, from one commit to another: no more than these tell anything of their own. None
        where nobody counted.
    """

    median: float | None
    low: float | None
    high: float | None
    intervals: int
    stretches: int | None = None

    @property
    def measured(self) -> int:
        """How often the speed was really measured."""
        return self.intervals if self.stretches is None else min(self.intervals, self.stretches)

    @property
    def spread_known(self) -> bool:
        """Whether the quartiles say how far the speed varies: of fewer measurements they are equal by themselves."""
        return self.median is not None and self.measured >= ENOUGH


class Stretch(NamedTuple):
    """From one commit to a later one: when it ended, how long it was, and messages a second that were read on it."""

    until_s: float
    seconds: float
    rate: float


class SpeedSample(NamedTuple):
    """A member's partitions (p,) at a moment: its commits, and the logs' ends; -1 unknown."""

    at_s: float
    committed: Longs
    end: Longs


class ReadingStretches:
    """One member's stretches, look by look; the partitions are the same from look to look until ``restart``.

    stretch_s
        The least length of a stretch in seconds: shorter ones would measure how commits are spaced.
    timed
        Whether each look is the moment of a commit; else commits were made at some time since the look before.
    """

    def __init__(self, stretch_s: float, *, timed: bool = False) -> None:
        self.stretch_s, self._timed = stretch_s, timed
        self._busy: deque[Stretch] = deque(maxlen=STRETCHES)
        self._idle: deque[Stretch] = deque(maxlen=STRETCHES)
        self._silences: deque[float] = deque(maxlen=10)
        self._now_s = 0.0
        self.restart()

    def restart(self) -> None:
        """The member reads other partitions now; the measures stay known."""
        self._last: SpeedSample | None = None
        self._begin: SpeedSample | None = None
        self._moved_s: float | None = None
        self._waits_s: float | None = None

    def add(self, look: SpeedSample) -> None:
        """Take one look, newer than those before."""
        last, self._last, self._now_s = self._last, look, look.at_s
        if last is None or not len(look.committed):
            self._begin = look if self._timed else None
            self._moved_s = look.at_s if self._timed else None
            return
        if moved(last, look).any():
            if self._moved_s is not None:
                self._silences.append(look.at_s - self._moved_s)
            self._moved_s = look.at_s
            if self._begin is None:
                self._begin = look
            elif look.at_s - self._begin.at_s >= self.stretch_s:
                self._close(self._begin, look)
            self._waits_s = None
        elif self._begin is not None and self.stands_still:
            since_s = max(self._begin.at_s, self._moved_s or 0.0)
            if look.at_s - since_s >= self.stretch_s:
                self._busy.append(Stretch(look.at_s, look.at_s - since_s, 0.0))
                self._begin = look
        if np.count_nonzero(_unread(look)) < SEVERAL:
            self._waits_s = None
        elif self._waits_s is None:
            self._waits_s = look.at_s

    @property
    def longest_silence_s(self) -> float:
        """The longest time between two of its newest commits; 0 if there were not two."""
        return max(self._silences, default=0.0)

    @property
    def stands_still(self) -> bool:
        """Whether several partitions wait for it for much longer than it ever was silent; one alone may be stuck."""
        if self._waits_s is None or not self._silences:
            return False
        return self._now_s - self._waits_s > max(PATIENCE * self.longest_silence_s, SILENT_S)

    @property
    def is_behind(self) -> bool:
        """Whether the newest stretch was a busy one."""
        return bool(self._busy) and (not self._idle or self._idle[-1].until_s < self._busy[-1].until_s)

    @property
    def keeps_up_since_s(self) -> float | None:
        """When the newest stretch ended, if the member kept up on it; None if it was busy, or none is known."""
        return self._idle[-1].until_s if self._idle and not self.is_behind else None

    def _close(self, begin: SpeedSample, look: SpeedSample) -> None:
        went = moved(begin, look)
        seconds = look.at_s - begin.at_s
        stretch = Stretch(look.at_s, seconds, float((look.committed - begin.committed)[went].sum()) / seconds)
        is_busy = bool((went & (look.committed < begin.end)).any())
        (self._busy if is_busy else self._idle).append(stretch)
        self._begin = look

    def speed(self) -> Speed:
        """The member's speed with its spread; nothing if the samples are too few."""
        busy, at_least = self._fresh(self._busy), self.at_least()
        # Each stretch counts by its length: one that is twice as long says twice as much.
        rates = sorted(rate for _, seconds, rate in busy for _ in range(max(1, round(seconds / self.stretch_s))))
        if len(rates) < ENOUGH:
            return Speed(None, None, None, len(rates), len(busy))
        middle, low, high = (max(_quantile(rates, share), at_least) for share in (0.5, 0.25, 0.75))
        return Speed(middle, low, high, len(rates), len(busy))

    def at_least(self) -> float:
        """Messages a second that it was seen to read while it kept up, at the median; 0 if it never did."""
        rates = [rate for _, _, rate in self._fresh(self._idle)]
        return median(rates) if rates else 0.0

    def _fresh(self, stretches: Iterable[Stretch]) -> list[Stretch]:
        kept_s = max(KEPT_S, 10 * self.longest_silence_s)
        return [stretch for stretch in stretches if stretch.until_s >= self._now_s - kept_s]


def moved(begin: SpeedSample, end: SpeedSample) -> Bools:
    """(p,) partitions that were read on from one look to another."""
    went: Bools = (begin.committed != UNKNOWN) & (end.committed > begin.committed)
    return went


def _unread(look: SpeedSample) -> Bools:
    unread: Bools = (look.committed != UNKNOWN) & (look.committed < look.end)
    return unread


def _quantile(ordered: Sequence[float], share: float) -> float:
    position = share * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (position - low) * (ordered[high] - ordered[low])


def speed_of(series: Iterable[Series], since_ms: int, until_ms: int, steps: int = 40) -> Speed:
    """A member's speed in a window.

    series
        Of the partitions that it held from ``since_ms`` to ``until_ms``.
    steps
        Of so many equal parts of the window each stretch is at least one long.
    """
    rows = list(series)
    stretches = ReadingStretches(max((until_ms - since_ms) / steps / 1000, 0.001), timed=True)
    moments = ints(sorted({at for row in rows for at, _ in row.commits if since_ms <= at <= until_ms} | {until_ms}))
    if not rows or until_ms - since_ms < steps:
        return stretches.speed()
    # Of a log the newest sample counts: what it held then it held later too, whatever came in between.
    committed, end = (
        np.array([_newest(getattr(row, side), moments) for row in rows]).T for side in ("commits", "ends")
    )
    i = 0
    while i < len(moments):
        stretches.add(SpeedSample(float(moments[i]) / 1000, committed[i], end[i]))
        # Commits of one request are some milliseconds apart: the last of them closes a stretch.
        i = max(i + 1, int(np.searchsorted(moments, moments[i] + 1000 * stretches.stretch_s)))
    if moments[-1] == until_ms:
        stretches.add(SpeedSample(until_ms / 1000, committed[-1], end[-1]))
    return stretches.speed()


def _newest(samples: Sequence[tuple[int, int]], moments: Longs) -> Longs:
    """(S,) the offset at the last sample up to each moment; -1 none."""
    at, offset = ints([at for at, _ in samples]), ints([UNKNOWN, *(offset for _, offset in samples)])
    return offset[np.searchsorted(at, moments, "right")]

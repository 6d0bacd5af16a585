"""How fast members were while they had something to read: their speed with its spread, if enough tells it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from apportion.history.lag_time import Pairs, Series

ENOUGH = 5
"""Intervals below which a speed is not told, and measurements below which its spread is not."""


@dataclass(frozen=True)
class Speed:
    """How fast a member was while it had something to read.

    median, low, high
        Messages a second: of its intervals the median and the quartiles; None where there is too little to tell.
    intervals
        Equal parts of the window on which the member had lag all along.
    stretches
        Between two commits of one partition, on the one that has most of them: reading is taken as even in each, so
        that no more intervals than these tell anything of their own. None where nobody counted.
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


@dataclass
class SpeedSamples:
    """Messages a second in each interval in which a member was busy."""

    rates: list[float] = field(default_factory=list)
    stretches: int | None = None

    def speed(self) -> Speed:
        """Median and quartiles, where there are enough intervals."""
        ordered = sorted(self.rates)
        n = len(ordered)
        if n < ENOUGH:
            return Speed(None, None, None, n, self.stretches)
        median, low, high = (_quantile(ordered, share) for share in (0.5, 0.25, 0.75))
        return Speed(median, low, high, n, self.stretches)


def _quantile(ordered: Sequence[float], share: float) -> float:
    position = share * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (position - low) * (ordered[high] - ordered[low])


def busy_rates(series: Iterable[Series], since_ms: int, until_ms: int, steps: int = 40) -> list[float]:
    """Messages a second that a member read in each of some equal intervals in which it had lag from end to end.

    series
        Of the partitions that it held from ``since_ms`` to ``until_ms``.
    """
    rows = list(series)
    width = (until_ms - since_ms) / steps
    rates = []
    for i in range(steps if width >= 1 else 0):
        start, stop = since_ms + i * width, since_ms + (i + 1) * width
        read, busy = 0.0, False
        for row in rows:
            first, last = _at(row.commits, start), _at(row.commits, stop)
            if first is None or last is None:
                continue
            read += max(last - first, 0)
            # Behind at both ends: what it read, it could not have read faster for want of messages.
            busy = busy or (_behind(row, start, first) and _behind(row, stop, last))
        if busy:
            rates.append(read * 1000 / width)
    return rates


def stretches(series: Iterable[Series], since_ms: int, until_ms: int) -> int:
    """Stretches between two commits in the window, of the partition that has most."""
    return max((_gaps(row.commits, since_ms, until_ms) for row in series), default=0)


def _gaps(samples: Pairs, since_ms: int, until_ms: int) -> int:
    return sum(a < b and since_ms < b and a < until_ms for (a, _), (b, _) in pairwise(samples))


def _at(samples: Pairs, when_ms: float) -> float | None:
    """The offset at a moment, linear between samples; None outside of them."""
    i = bisect_right(samples, when_ms, key=lambda sample: sample[0])
    if i == 0 or (i == len(samples) and samples[-1][0] < when_ms):
        return None
    if i == len(samples):
        return float(samples[-1][1])
    (t0, a), (t1, b) = samples[i - 1], samples[i]
    return a + (b - a) * (when_ms - t0) / (t1 - t0) if t1 > t0 else float(b)


def _behind(row: Series, when_ms: float, committed: float) -> bool:
    end = _at(row.ends, when_ms)
    return end is not None and end - committed > 0

"""Lag in time: how old the first unread message is, whether the lag grows, and when it will be worked off. One rule.

The message at the committed offset was written when the log's end passed that offset. Between two samples a log is
taken to grow evenly; the true moment lies between the two, and both are given as bounds. An offset that was passed
before the first sample is older than that sample, which is a bound and no estimate. Nothing is extrapolated.

Rates are what was written and read between the first and the last sample of a window. A lag whose reading is no faster
than its writing never ends: it is said to grow (or to stand), and no time is given for it, least of all a negative one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

Samples = Sequence[tuple[int, int]]
"""(milliseconds, offset) by ascending time: a log's end, or a committed offset, at that moment."""


@dataclass(frozen=True)
class Series:
    """What is known of one partition over time: its log's ends, and the group's commits."""

    ends: Samples = ()
    commits: Samples = ()


@dataclass(frozen=True)
class Age:
    """How old the first unread message is, in seconds; None where nothing tells.

    at_least, at_most
        Bounds; ``at_most`` None: it may be older than the first sample.
    """

    seconds: float | None
    at_least: float | None
    at_most: float | None


@dataclass(frozen=True)
class LagTime:
    """One partition, member or group.

    lag
        Messages left to read; None unknown.
    written, read
        Messages a second in the window; None unknown.
    catch_up_s
        Seconds until the lag is gone at these rates; 0 without lag; None where it never is, or is not known.
    """

    age: Age
    lag: int | None = None
    written: float | None = None
    read: float | None = None
    catch_up_s: float | None = None

    @property
    def trend(self) -> float | None:
        """Messages a second by which the lag grows; negative where it shrinks."""
        return None if self.written is None or self.read is None else self.written - self.read

    @property
    def in_words(self) -> str:
        """``caught up``, ``growing``, ``standing``, ``shrinking`` or ``unknown``."""
        if self.lag == 0:
            return "caught up"
        if self.lag is None or self.trend is None:
            return "unknown"
        return "growing" if self.trend > 0 else "standing" if self.trend == 0 else "shrinking"


def age(ends: Samples, committed: int | None, now_ms: int) -> Age:
    """How old the first unread message is at a moment.

    ends
        The log's end, sampled; ends that go back mean another log, and what was before counts no more.
    committed
        The next offset to read; None: no commit.

    >>> age([(0, 0), (10_000, 100)], 50, 20_000)
    Age(seconds=15.0, at_least=10.0, at_most=20.0)
    >>> age([(0, 60), (10_000, 100)], 50, 20_000)
    Age(seconds=None, at_least=20.0, at_most=None)
    """
    ends = _of_this_log(ends)
    if committed is None or not ends:
        return Age(None, None, None)
    offsets = [end for _, end in ends]
    after = bisect_right(offsets, committed)
    if after == len(ends):
        return Age(0.0, 0.0, 0.0)
    then_ms, high = ends[after]
    at_least = max(now_ms - then_ms, 0) / 1000
    if after == 0:
        return Age(None, at_least, None)
    before_ms, low = ends[after - 1]
    passed_ms = before_ms + (committed - low) / (high - low) * (then_ms - before_ms)
    return Age(max(now_ms - passed_ms, 0) / 1000, at_least, max(now_ms - before_ms, 0) / 1000)


def _of_this_log(ends: Samples) -> Samples:
    """The samples since the end last went back."""
    start = 0
    for i in range(1, len(ends)):
        if ends[i][1] < ends[i - 1][1]:
            start = i
    return ends[start:]


def rate(samples: Samples, since_ms: int | None = None) -> float | None:
    """Messages a second between the first and last sample of a window; None of fewer than two, or after a reset."""
    window = [sample for sample in samples if since_ms is None or sample[0] >= since_ms]
    if len(window) < 2 or window[-1][0] <= window[0][0] or window[-1][1] < window[0][1]:
        return None
    return (window[-1][1] - window[0][1]) * 1000 / (window[-1][0] - window[0][0])


def lag_time(series: Series, now_ms: int, since_ms: int | None = None) -> LagTime:
    """One partition at a moment; rates over the samples since ``since_ms``.

    A log that was sampled once, and read to its end, is taken to be written as fast as it is read.
    """
    committed = series.commits[-1][1] if series.commits else None
    lag = None
    if committed is not None and series.ends:
        lag = max(series.ends[-1][1] - committed, 0)
    written, read = rate(series.ends, since_ms), rate(series.commits, since_ms)
    if read is None and series.commits and len(series.ends) > 1:
        read = 0.0 if written is not None else None
    return LagTime(age(series.ends, committed, now_ms), lag, written, read, catch_up(lag, written, read))


def catch_up(lag: int | None, written: float | None, read: float | None) -> float | None:
    """Seconds until a lag is gone; None where it never is, or nobody knows."""
    if lag == 0:
        return 0.0
    if lag is None or written is None or read is None or read <= written:
        return None
    return lag / (read - written)


def together(parts: Iterable[LagTime], one_reader: bool = False) -> LagTime:
    """Several partitions as one: of a member (``one_reader``: its pace is shared by all it has), or of members.

    The age is that of the oldest; a rate is known where all are. Members do not help each other, so that they have
    caught up when the last one has.
    """
    rows = list(parts)
    ages = [row.age for row in rows]
    oldest = Age(
        _max([a.seconds for a in ages if a.at_least is not None], all_known=True),
        _max([a.at_least for a in ages if a.at_least is not None]),
        _max([a.at_most for a in ages if a.at_least is not None], all_known=True),
    )
    known = [row.lag for row in rows if row.lag is not None]
    lag = sum(known) if known else None
    written, read = _sum([row.written for row in rows]), _sum([row.read for row in rows])
    if one_reader:
        return LagTime(oldest, lag, written, read, catch_up(lag, written, read))
    return LagTime(oldest, lag, written, read, _max([row.catch_up_s for row in rows], all_known=True))


def _max(values: Sequence[float | None], all_known: bool = False) -> float | None:
    known = [value for value in values if value is not None]
    return max(known) if known and (not all_known or len(known) == len(values)) else None


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


@dataclass(frozen=True)
class Speed:
    """How fast a member was while it had something to read.

    median, low, high
        Messages a second: of its intervals the median and the quartiles; None where there is too little to tell.
    intervals
        Between two commits on which the member had lag all along.
    """

    median: float | None
    low: float | None
    high: float | None
    intervals: int


ENOUGH = 5
"""Intervals below which a speed is not told."""


@dataclass
class SpeedSamples:
    """Messages a second in each interval in which a member was busy."""

    rates: list[float] = field(default_factory=list)

    def speed(self) -> Speed:
        """Median and quartiles, where there are enough intervals."""
        ordered = sorted(self.rates)
        n = len(ordered)
        if n < ENOUGH:
            return Speed(None, None, None, n)
        return Speed(_quantile(ordered, 0.5), _quantile(ordered, 0.25), _quantile(ordered, 0.75), n)


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


def _at(samples: Samples, when_ms: float) -> float | None:
    """The offset at a moment, linear between samples; None outside of them."""
    i = bisect_right([at for at, _ in samples], when_ms)
    if i == 0 or (i == len(samples) and samples[-1][0] < when_ms):
        return None
    if i == len(samples):
        return float(samples[-1][1])
    (t0, a), (t1, b) = samples[i - 1], samples[i]
    return a + (b - a) * (when_ms - t0) / (t1 - t0) if t1 > t0 else float(b)


def _behind(row: Series, when_ms: float, committed: float) -> bool:
    end = _at(row.ends, when_ms)
    return end is not None and end - committed > 0

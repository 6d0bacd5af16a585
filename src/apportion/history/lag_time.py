"""Lag in time: how old the first unread message is, whether the lag grows, and when it will be worked off. One rule.

``describe --time``, the table ``gold/lag``, the page and the live view all call ``lag_times``: the same samples give
the same answer everywhere.

The message at the committed offset c was written when the log's end reached c + 1. Between two samples a log is
taken to grow evenly; the true moment lies between the two, and both are given as bounds. An offset that was passed
before the first sample is older than that sample, which is a bound and no estimate. Nothing is extrapolated. What
alarms goes by the lower bound.

A transaction ends with a marker, which takes an offset and is no message: a group that has read all of it may have
committed the marker's offset, and stays 1 behind for ever (2 after an abort that had begun alone). Such a lag is told
as what it may be, unless the caller knows that it is of messages.

Rates are what was written and read between the first and the last sample of a window. Where something is unread,
reading ends at the log's last sample and not at the last commit: silence is no reading. A lag whose reading is no
faster than its writing never ends: it is said to grow (or to stand), and no time is given for it, least of all a
negative one. Readers commit every few seconds, so that there is always something uncommitted in a topic that is written
to: a group whose first unread message is a few seconds old keeps up, whatever the two rates seem to say.

All arrays are flat, partition by partition; a million partitions take some passes over their samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from apportion.arrays import NOBODY, UNKNOWN, Bools, Floats, Ints, Longs
from apportion.model.lag import MARKERS_MAX, WINDOW_S

CAUGHT_UP_S: Final = 15.0
"""Age of the first unread message up to which a reader keeps up."""
LAG_MAX: Final = 2.0**63 - 1024
"""The largest lag of several partitions that is told: no float above it is a number of 64 bits."""
DRAINED, DRAIN_MS = 0.9, 30_000.0
"""A burst is worked off once its lag is down to this part of its highest, after so long at least."""
SAMPLES_MAX: Final = 1_000
"""Commits of one partition that are looked at, the newest."""
NEAR: Final = 4
"""Samples of log ends stay that are about this part of their age apart: some hundred of a year's, taken each minute."""
CAUGHT_UP, KEEPING_UP, GROWING, STANDING, SHRINKING, NOT_KNOWN, MARKER = (
    "caught up", "keeping up", "growing", "standing", "shrinking", "unknown", "maybe at a marker",
)  # fmt: skip
IN_WORDS: Final = (NOT_KNOWN, CAUGHT_UP, MARKER, KEEPING_UP, GROWING, STANDING, SHRINKING)
"""All states; ``LagTimes.states`` gives places here."""

Pairs = Sequence[tuple[int, int]]
"""(milliseconds, offset) by ascending time: a log's end, or a committed offset, at that moment."""


def thinned(log: Longs, at_ms: Longs) -> Bools:
    """(N,) which samples of log ends stay: the older the fewer, by the age that each has at its log's newest one.

    log, at_ms
        (N,) of each sample, sorted by these.

    Those of the window of rates all stay. Before it time is cut into spans of powers of two, each no wider than a
    quarter of the age of what is in it, and the last moment of each stays. Older spans are made of younger ones: what
    is thinned and added to and thinned again is what all samples thinned once are.
    """
    if not len(log):
        return np.zeros(0, dtype=np.bool_)
    ends_log = np.append(log[1:] != log[:-1], True)
    ends_moment = ends_log | np.append(at_ms[1:] != at_ms[:-1], True)
    last = np.flatnonzero(ends_moment)
    at, ends_log = np.maximum(at_ms[last], -(2**60)), ends_log[last]
    newest = at[ends_log][np.cumsum(ends_log) - ends_log]
    age = newest - at
    span = np.where(age > WINDOW_S * 1000, np.frexp(np.maximum(age // NEAR, 1).astype(np.float64))[1] - 1, 0)
    stays = ends_log | np.append((at[1:] >> span[:-1]) != (at[:-1] >> span[:-1]), True)
    return np.repeat(stays, np.diff(last, prepend=-1))


@dataclass(frozen=True)
class Series:
    """One partition over time, as far as it is known: its log's ends, and the group's commits."""

    ends: Pairs = ()
    commits: Pairs = ()


@dataclass(frozen=True, eq=False)
class Samples:
    """Offsets that were seen at moments, of P partitions one after the other.

    at
        (N,) milliseconds, ascending within a partition.
    offset
        (N,) a log's end, or a committed offset, then.
    start
        (P + 1,) where each partition's samples begin; the last entry is N.
    """

    at: Floats
    offset: Longs
    start: Ints

    @staticmethod
    def of(rows: Sequence[Pairs]) -> Samples:
        """From pairs, a row a partition."""
        start = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum([len(row) for row in rows], out=start[1:])
        flat = np.array([pair for row in rows for pair in row], dtype=np.int64).reshape(-1, 2)
        return Samples(flat[:, 0].astype(np.float64), flat[:, 1], start)

    @staticmethod
    def of_table(at: Floats, offsets: Longs) -> Samples:
        """From P partitions that were sampled together: ``at`` (S,), ``offsets`` (S, P) with -1 for unknown."""
        width, tall = offsets.shape[1], len(at)
        offset, start = offsets.T.ravel(), np.arange(width + 1) * tall
        moments = np.broadcast_to(at, (width, tall)).ravel()
        known = offset != UNKNOWN
        if known.all():
            return Samples(moments, offset, start)
        return Samples(moments[known], offset[known], np.concatenate(([0], np.cumsum(known)))[start])

    @staticmethod
    def joined(parts: Sequence[Samples]) -> Samples:
        """Those of several runs of partitions, one after the other."""
        if len(parts) == 1:
            return parts[0]
        counts = np.concatenate([np.zeros(0, np.int64), *(np.diff(part.start) for part in parts)])
        at = np.concatenate([np.zeros(0), *(part.at for part in parts)])
        offset = np.concatenate([np.zeros(0, np.int64), *(part.offset for part in parts)])
        return Samples(at, offset, np.concatenate(([0], np.cumsum(counts))))

    def of_columns(self, columns: Ints) -> Samples:
        """Those of some partitions, each as often as it is named; -1 is one without samples."""
        start = np.append(self.start, self.start[-1])  # what -1 is: a partition of no samples, the last
        counts = np.diff(start)[columns]
        fresh = np.concatenate(([0], np.cumsum(counts)))
        places = np.repeat(start[:-1][columns] - fresh[:-1], counts) + np.arange(fresh[-1])
        return Samples(self.at[places], self.offset[places], fresh)

    def since_reset(self) -> Ints:
        """(P,) each partition's first sample after its offsets last went back: those of before are of another log."""
        first = self.start[:-1].copy()
        goes_back = np.zeros(len(self.offset) + 1, dtype=np.bool_)
        goes_back[1:-1] = self.offset[1:] < self.offset[:-1]
        goes_back[self.start] = False  # that is another partition's
        back = np.flatnonzero(goes_back)
        # Ascending, so that the last of a partition is the one that stays.
        first[np.searchsorted(self.start, back, "right") - 1] = back
        return first

    def before(self, first: Ints, these: Bools) -> Ints:
        """(P,) how many samples, from ``first`` on, are before a cut that goes through each partition once.

        these
            (N,) whether a sample is before the cut.
        """
        counted = np.concatenate(([0], np.cumsum(these)))
        count: Ints = counted[self.start[1:]] - counted[first]
        return count


@dataclass(frozen=True, eq=False)
class LagTimes:
    """Lag in time of partitions, of members, or of a whole group: each array has an entry for each.

    seconds, at_least, at_most
        How old the first unread message is, and its bounds; NaN unknown. ``at_most`` is NaN where it may be older than
        the first sample.
    lag
        Messages left to read; -1 unknown.
    to_read
        Those of them that are more than a few seconds old.
    written, read
        Messages a second in the window; NaN unknown.
    catch_up_s
        Seconds until the lag is gone at these rates; 0 where a reader keeps up, infinite where it never is, NaN
        unknown.
    """

    seconds: Floats
    at_least: Floats
    at_most: Floats
    lag: Longs
    to_read: Longs
    written: Floats
    read: Floats
    catch_up_s: Floats

    def __len__(self) -> int:
        return len(self.lag)

    def part(self, first: int, behind: int) -> LagTimes:
        """Some entries side by side."""
        rows = slice(first, behind)
        return LagTimes(
            self.seconds[rows], self.at_least[rows], self.at_most[rows], self.lag[rows], self.to_read[rows],
            self.written[rows], self.read[rows], self.catch_up_s[rows],
        )  # fmt: skip

    def row(self, i: int) -> LagTime:
        """One entry, with None for unknown fields."""
        age = Age(_or_none(self.seconds[i]), _or_none(self.at_least[i]), _or_none(self.at_most[i]))
        lag = None if self.lag[i] == UNKNOWN else int(self.lag[i])
        rates = _or_none(self.written[i]), _or_none(self.read[i])
        return LagTime(age, lag, int(self.to_read[i]), *rates, _or_none(self.catch_up_s[i]))

    def states(self) -> Ints:
        """Each entry's state, as its place in ``IN_WORDS``; see ``LagTime.in_words``."""
        with np.errstate(invalid="ignore"):
            trend = self.written - self.read
            read_up = self.to_read == 0
            marker = read_up & ~(self.seconds <= CAUGHT_UP_S)
            conditions = (self.lag == UNKNOWN, self.lag == 0, marker, read_up, trend > 0, trend == 0, trend < 0)
        answer: Ints = np.select(conditions, range(len(IN_WORDS)), 0)
        return answer


@dataclass(frozen=True)
class Age:
    """How old the first unread message is, in seconds; None if it is unknown.

    at_least, at_most
        Bounds; ``at_most`` None: it may be older than the first sample.
    """

    seconds: float | None
    at_least: float | None
    at_most: float | None


@dataclass(frozen=True)
class LagTime:
    """One entry of ``LagTimes``; None is unknown, an infinite ``catch_up_s`` is never."""

    age: Age
    lag: int | None = None
    to_read: int = 0
    written: float | None = None
    read: float | None = None
    catch_up_s: float | None = None

    @property
    def trend(self) -> float | None:
        """Messages a second by which the lag grows; negative if it shrinks."""
        return None if self.written is None or self.read is None else self.written - self.read

    @property
    def oldest_unread(self) -> tuple[float | None, str]:
        """The age of the oldest unread message in seconds, or the least that it can be with a sentence that says so."""
        if self.lag == 0:
            return 0.0, ""
        if self.age.seconds is not None:
            return self.age.seconds, ""
        least = self.age.at_least
        return (
            least,
            "a message whose age is not known" if not least else f"a message that is at least {least:,.0f} s old",
        )

    @property
    def in_words(self) -> str:
        """One of ``IN_WORDS``."""
        if self.lag is None:
            return NOT_KNOWN
        if not self.to_read:
            old = self.age.seconds is None or self.age.seconds > CAUGHT_UP_S
            return CAUGHT_UP if not self.lag else MARKER if old else KEEPING_UP
        if self.trend is None:
            return NOT_KNOWN
        return GROWING if self.trend > 0 else STANDING if self.trend == 0 else SHRINKING


def _or_none(value: float) -> float | None:
    return None if value != value else float(value)


# -- partitions ----------------------------------------------------------------------------------------------------


def lag_times(
    ends: Samples, commits: Samples, unread: Longs, lag: Longs, now_ms: float, since_ms: float,
    messages: Bools | None = None,
) -> LagTimes:  # fmt: skip
    """Every partition at a moment.

    ends, commits
        The log's ends, and the offsets that the group committed.
    unread
        (P,) offset of the first message that is still to be read: what was committed, or the log's start where that is
        later; -1 unknown.
    lag
        (P,) messages left to read; -1 unknown.
    since_ms
        Where the window of the rates begins.
    messages
        (P,) where what is unread is known to hold a message; else up to ``MARKERS_MAX`` may be markers.
    """
    seconds, at_least, at_most = ages(ends, unread, now_ms)
    sampled = ends.start[1:] > ends.start[:-1]
    looked = np.full(len(lag), np.nan)
    looked[sampled] = ends.at[ends.start[1:][sampled] - 1]
    until = np.where(lag > 0, looked, np.nan)
    written, read = rates(ends, since_ms), rates(commits, since_ms, until)
    newest = np.full(len(lag), -np.inf)
    has_commits = commits.start[1:] > commits.start[:-1]
    newest[has_commits] = commits.at[commits.start[1:][has_commits] - 1]
    # A group that committed nothing in the whole window has read nothing in it, as far as anybody can tell.
    read[(newest < since_ms) & ~np.isnan(written)] = 0.0
    with np.errstate(invalid="ignore"):
        to_read = np.where((lag > 0) & ~(seconds <= CAUGHT_UP_S) & ~maybe_markers(lag, messages), lag, 0)
        rows = np.flatnonzero((to_read > 0) & (read <= written))
    if len(rows):
        worked_off = peaks(ends.of_columns(rows), commits.of_columns(rows), since_ms)
        rows, since = rows[worked_off > since_ms], worked_off[worked_off > since_ms]
        written[rows] = rates(ends.of_columns(rows), since)
        read[rows] = rates(commits.of_columns(rows), since, until[rows])
    return LagTimes(seconds, at_least, at_most, lag, to_read, written, read, catch_up(lag, to_read, written, read))


def maybe_markers(lag: Longs, messages: Bools | None = None) -> Bools:
    """(P,) whether a lag may be of markers alone.

    messages
        As ``lag_times`` takes it.
    """
    short_lag: Bools = (lag > 0) & (lag <= MARKERS_MAX)
    return short_lag if messages is None else short_lag & ~messages


def ages(ends: Samples, unread: Longs, now_ms: float) -> tuple[Floats, Floats, Floats]:
    """(P,) how old the first unread message is in seconds, at least, and at most; NaN unknown."""
    first, behind_last = ends.since_reset(), ends.start[1:]
    seconds, at_least, at_most = (np.full(len(unread), np.nan) for _ in range(3))
    known = (first < behind_last) & (unread != UNKNOWN)
    passed = ends.before(first, ends.offset <= np.repeat(unread, np.diff(ends.start)))
    after = first + passed
    for answer in (seconds, at_least, at_most):
        answer[known & (after == behind_last)] = 0.0
    late = np.flatnonzero(known & (after < behind_last))
    at_least[late] = np.maximum(now_ms - ends.at[after[late]], 0) / 1000
    late = late[passed[late] > 0]
    high, low = after[late], after[late] - 1
    # As floats: offsets may be any 64 bits, and their difference need not fit.
    mine, below, above = (values.astype(np.float64) for values in (unread[late], ends.offset[low], ends.offset[high]))
    share = np.minimum((mine + 1 - below) / (above - below), 1.0)
    then = ends.at[low] + share * (ends.at[high] - ends.at[low])
    seconds[late] = np.maximum(now_ms - then, 0) / 1000
    at_most[late] = np.maximum(now_ms - ends.at[low], 0) / 1000
    return seconds, at_least, at_most


def peaks(ends: Samples, commits: Samples, since_ms: float) -> Floats:
    """(P,) when the lag was last at its highest in the window, if a burst is being worked off since; else its begin.

    A burst is one if a tenth of the highest lag is gone again, over two samples and ``DRAIN_MS`` at least: rates of the
    whole window would call a lag endless that has shrunk ever since.
    """
    committed, known = newest_before(commits, ends)
    seen = known & (ends.at >= since_ms)
    lag = np.where(seen, ends.offset.astype(np.float64) - committed, -np.inf)
    answer = np.full(len(ends.start) - 1, since_ms)
    for p in range(len(answer)):
        mine = slice(ends.start[p], ends.start[p + 1])
        if not seen[mine].any():
            continue
        highest = lag[mine].max()
        last = mine.stop - 1 - int(lag[mine][::-1].argmax())
        drained = lag[mine.stop - 1] <= DRAINED * highest and ends.at[mine.stop - 1] - ends.at[last] >= DRAIN_MS
        if drained and mine.stop - last > 2:
            answer[p] = ends.at[last]
    return answer


def newest_before(of: Samples, then: Samples) -> tuple[Longs, Bools]:
    """(N,) the last offset of the same partition up to each of N moments, and whether there is one."""
    which, whose = (np.repeat(np.arange(len(samples.start) - 1), np.diff(samples.start)) for samples in (then, of))
    # Logs are sampled together, so the moments are few: each is found by partition and moment.
    moments = np.unique(of.at)
    keys = whose * (len(moments) + 1) + np.searchsorted(moments, of.at, "right")
    wanted = which * (len(moments) + 1) + np.searchsorted(moments, then.at, "right")
    last = np.searchsorted(keys, wanted, "right") - 1
    sampled: Bools = (last >= of.start[:-1][which]) & ~np.isnan(then.at)
    offset = of.offset[np.where(sampled, last, 0)] if len(of.offset) else np.zeros(len(which), dtype=np.int64)
    return offset, sampled


def rates(samples: Samples, since_ms: float | Floats, until_ms: Floats | None = None) -> Floats:
    """(P,) messages a second between the first and last sample of a window, since offsets last went back; NaN unknown.

    since_ms
        Where the window begins, of all partitions or of each.
    until_ms
        (P,) to when the last sample holds, if that is later than itself; NaN: no longer.

    Where the window holds one sample alone, the one before it counts too.
    """
    reset, behind_last = samples.since_reset(), samples.start[1:]
    begins = np.repeat(since_ms, np.diff(samples.start)) if isinstance(since_ms, np.ndarray) else since_ms
    first = reset + samples.before(reset, samples.at < begins)
    has_samples = first < behind_last
    first = np.where(has_samples & (first == behind_last - 1), np.maximum(first - 1, reset), first)
    pace = np.full(len(first), np.nan)
    rows = np.flatnonzero(has_samples)
    earliest, latest = first[rows], behind_last[rows] - 1
    until = samples.at[latest] if until_ms is None else np.fmax(samples.at[latest], until_ms[rows])
    took = until - samples.at[earliest]
    rows, earliest, latest, took = (
        values[(took > 0) & (latest > earliest)] for values in (rows, earliest, latest, took)
    )
    offset = samples.offset.astype(np.float64)
    pace[rows] = (offset[latest] - offset[earliest]) * 1000 / took
    return pace


def catch_up(lag: Longs, to_read: Longs, written: Floats, read: Floats) -> Floats:
    """(P,) seconds until the rest is read; 0 if nothing is left, infinite if it never will be, NaN unknown."""
    gain = read - written
    seconds = np.full(len(lag), np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        seconds[gain <= 0] = np.inf
        shrinks = gain > 0
    seconds[shrinks] = to_read[shrinks] / gain[shrinks]
    seconds[to_read == 0] = 0.0
    seconds[lag == UNKNOWN] = np.nan
    return seconds


# -- members and groups --------------------------------------------------------------------------------------------


def of_readers(times: LagTimes, reader: Ints, count: int) -> LagTimes:
    """Partitions as those who read them: each reader's pace is shared by all that it has.

    reader
        (P,) who reads each partition, below ``count``; -1 nobody, and the partition is left out.

    The age is that of the oldest. A partition whose lag is unknown does not count; a rate is known where it is for all
    that count.
    """
    mine = (reader != NOBODY) & (times.lag != UNKNOWN)
    of = reader[mine]

    def total(values: Floats | Longs) -> Floats:
        return np.bincount(of, weights=values[mine], minlength=count).astype(np.float64)

    counted = np.bincount(of, minlength=count) > 0
    lag = np.minimum(np.where(counted, total(times.lag), UNKNOWN), LAG_MAX).astype(np.int64)
    to_read = np.minimum(total(times.to_read), LAG_MAX).astype(np.int64)
    written, read = (np.where(counted, total(values), np.nan) for values in (times.written, times.read))
    aged = mine & ~np.isnan(times.at_least)
    oldest = []
    for values in (times.seconds, times.at_least, times.at_most):
        most = np.full(count, -np.inf)
        with np.errstate(invalid="ignore"):  # NaN stays NaN: one may be older than can be told
            np.maximum.at(most, reader[aged], values[aged])
        oldest.append(np.where(np.isinf(most), np.nan, most))
    return LagTimes(oldest[0], oldest[1], oldest[2], lag, to_read, written, read, catch_up(lag, to_read, written, read))


def of_groups(times: LagTimes, owner: Ints, members: Ints, start: Ints) -> LagTimes:
    """Whole groups: each has caught up when its last member has, since members do not help each other.

    owner
        (P,) the member of its group that reads each partition; one that nobody owns is a reader by itself.
    members
        (G,) how many members each group has.
    start
        (G + 1,) where each group's partitions begin.
    """
    groups = len(members)
    group_of = np.repeat(np.arange(groups), np.diff(start))
    alone = owner == NOBODY
    first = np.cumsum(members) - members
    everybody = int(members.sum())
    reader = np.where(alone, everybody + np.cumsum(alone) - 1, first[group_of] + owner)
    each = of_readers(times, reader, everybody + int(alone.sum()))
    of = np.concatenate((np.repeat(np.arange(groups), members), group_of[alone]))[each.lag != UNKNOWN]
    slowest = each.catch_up_s[each.lag != UNKNOWN]
    last = np.full(groups, -np.inf)
    with np.errstate(invalid="ignore"):
        np.maximum.at(last, of, slowest)
    last[np.isneginf(last)] = np.nan
    last[of[np.isinf(slowest)]] = np.inf  # never, whatever else is not known
    whole = of_readers(times, group_of, groups)
    return LagTimes(
        whole.seconds, whole.at_least, whole.at_most, whole.lag, whole.to_read, whole.written, whole.read, last
    )


def of_group(times: LagTimes, owner: Ints, members: int) -> LagTimes:
    """One whole group; see ``of_groups``."""
    return of_groups(times, owner, np.array([members]), np.array([0, len(owner)]))

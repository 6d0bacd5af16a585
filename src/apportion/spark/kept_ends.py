"""The samples of log ends that a build which goes on from another one reads: a few of each log, for the same rows.

What ``gold/lag`` and ``gold/verdicts`` ask of a log's samples is the newest, those of the window in which rates are
taken, and the two on each side of a commit's offset or time. A build writes these beside its tables; the next ones read
them and what was sampled since, until that is twice as much. Each sample has its number in its log: where numbers
follow each other, none was left out between them. So each question tells whether its answer is certain. If not, as
after a commit that went back to an old offset, all samples of its topic are read.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from apportion.arrays import Bools, Ints, Longs
from apportion.history.lag_time import SAMPLES_MAX
from apportion.spark.schemas import ENDS, arrow_schema
from apportion.spark.sorted_rows import in_order, longs, numbered, one, ranked, starts_of, there

NUMBER: Final = "number"
ASKED: Final = ("topic", "partition", "committed", "window_at")
"""Columns of ``standing.places`` that are questions to a log's samples."""
FEW: Final = 4
"""Samples a log: with no more of them all are read."""
FEW_ROWS: Final = 500_000
SILENT_FOR: Final = SAMPLES_MAX // 2
"""Samples after the one that dates an offset; where there are more, none of them is left out.

The newest ``SAMPLES_MAX`` alone count. An offset that was passed before the first of them is dated by this one, which
is another one after each sample.
"""


def columns() -> pa.Schema:
    """Those of ``silver/ends``, and the sample's number in its log."""
    return arrow_schema(ENDS).append(pa.field(NUMBER, pa.int64()))


@dataclass(frozen=True)
class _Moments:
    """Samples with a time, of each log the furthest of a moment (ms), as ``logs.described`` has them.

    at, end
        (N,) milliseconds, and the log's end; by log, ascending times.
    first, last
        (N,) the least and greatest number of the moment's samples.
    row
        (N,) its row in the table.
    start
        (logs + 1,) where each log's moments begin.
    """

    at: Longs
    end: Longs
    first: Longs
    last: Longs
    row: Ints
    start: Ints

    def follows(self, moment: Ints) -> Bools:
        """(Q,) whether no sample was left out between a moment and the one after it, of the same log."""
        behind: Bools = self.first[moment + 1] == self.last[moment] + 1
        return behind


@dataclass(frozen=True, eq=False)
class KeptEnds:
    """Samples of logs' ends, some of which may be left out.

    rows
        ``columns()``, by topic, partition and time.
    log
        (N,) each row's log, as ``numbered`` has it with a place in ``topics``.
    topics
        The names.
    """

    rows: pa.Table
    log: Longs
    topics: pa.Array

    @classmethod
    def of(cls, known: pa.Table, newer: pa.Table) -> KeptEnds:
        """From what was kept, with numbers, and rows of ``silver/ends`` that are all later, of the same log."""
        newer = newer.append_column(NUMBER, pa.nulls(newer.num_rows, pa.int64()))
        (of_known, of_newer), topics = ranked(known["topic"], newer["topic"])
        topic = np.concatenate((of_known, of_newer))
        codes = pa.DictionaryArray.from_arrays(pa.array(topic, pa.int32(), mask=topic < 0), topics)
        fields = [field for field in columns() if field.name != "topic"]
        both = [pa.concat_arrays([one(table[field.name]).cast(field.type) for table in (known, newer)])
                for field in fields]  # fmt: skip
        rows = pa.table({"topic": codes, **dict(zip([field.name for field in fields], both, strict=True))})
        log = numbered(topic, longs(rows["partition"]))
        # Samples without a time stand first, those of one time as they come.
        order = in_order(log, there(rows["at"]).astype(np.int64), longs(rows["at"].cast(pa.int64())))
        rows, log = rows.take(pa.array(order)), log[order]
        return cls(rows.set_column(rows.num_columns - 1, NUMBER, pa.array(_counted(rows, log))), log, topics)

    def with_every(self, topics: Collection[str], ends: pa.Table) -> KeptEnds:
        """With all samples of some topics, as ``silver/ends`` has them."""
        others = self.rows.filter(pc.invert(self._is_of(topics)))
        return KeptEnds.of(others, ends)

    def of_topics(self, topics: Collection[str]) -> pa.Table:
        """The rows of some topics, as ``silver/ends`` has them."""
        rows = self.rows.filter(self._is_of(topics)).select(arrow_schema(ENDS).names)
        return rows.cast(arrow_schema(ENDS)).combine_chunks()

    def _is_of(self, topics: Collection[str]) -> pa.Array:
        wanted = np.append(np.asarray(pc.is_in(self.topics, value_set=pa.array(sorted(topics), pa.string()))), False)
        return pa.array(wanted[self.log >> 32])

    @cached_property
    def _moments(self) -> _Moments:
        row = np.flatnonzero(there(self.rows["at"]))
        log = self.log[row]
        at = longs(self.rows["at"].cast(pa.int64()))[row] // 1000
        run = starts_of(log, at)
        number, furthest = longs(self.rows[NUMBER])[row], run[1:] - 1
        start = np.searchsorted(log[furthest], np.append(self._each, self._each[-1:] + 1))
        end = longs(self.rows["end"])[row]
        end = np.maximum.reduceat(end, run[:-1]) if len(end) else end
        return _Moments(at[furthest], end, number[run[:-1]], number[furthest], row[furthest], start)

    @cached_property
    def _each(self) -> Longs:
        return self.log[starts_of(self.log)[:-1]]

    @cached_property
    def _oldest(self) -> Longs:
        """(logs,) the number of the first sample that counts."""
        moments = self._moments
        last = np.append(moments.last, 0)[moments.start[1:] - 1]
        return np.where((np.diff(moments.start) > 0) & ~self._odd, np.maximum(last - SAMPLES_MAX + 1, 0), 0)

    @cached_property
    def _log_of(self) -> Ints:
        """The log of each moment."""
        return np.repeat(np.arange(len(self._each)), np.diff(self._moments.start))

    @cached_property
    def _counts_from(self) -> Ints:
        """(logs,) the first moment that counts."""
        older = self._moments.last < self._oldest[self._log_of]
        return self._moments.start[:-1] + np.bincount(self._log_of[older], minlength=len(self._each))

    def counted(self) -> pa.Table:
        """The rows that count, as ``logs.described`` takes them."""
        oldest = np.repeat(self._oldest, np.diff(starts_of(self.log)))
        return self.rows.filter(pa.array((longs(self.rows[NUMBER]) >= oldest) | ~there(self.rows["at"])))

    def uncertain(self, asked: pa.Table) -> set[str]:
        """Topics of which samples were left out where a question falls.

        asked
            ``ASKED``, of standing commits.
        """
        of_log, row = self._of_logs(asked)
        moments = self._moments
        certain = self._around(of_log, self._unread(asked, of_log, row))[2]
        low_time, of_time = self._at_times(asked, of_log, row)
        behind, log = low_time + 1, of_log[of_time]
        within = (low_time >= moments.start[log]) & (behind < moments.start[log + 1])
        sure = np.ones(len(low_time), dtype=np.bool_)
        inside = np.flatnonzero(within)
        sure[inside] = moments.follows(low_time[inside]) | (moments.first[behind[inside]] <= self._oldest[log[inside]])
        before = np.flatnonzero(low_time < moments.start[log])
        sure[before] = moments.first[moments.start[log[before]]] <= self._oldest[log[before]]
        doubtful = np.concatenate((row[~certain | self._torn[of_log]], row[of_time[~sure]]))
        return set(asked["topic"].take(pa.array(np.unique(doubtful))).unique().to_pylist())

    def few(self, asked: pa.Table, since_ms: int) -> pa.Table:
        """``columns()``, of the samples that matter for what is asked, all of which is certain.

        since_ms
            Where the window begins in which rates are taken.
        """
        moments, last = self._moments, len(self._moments.at)
        keep = np.zeros(last + 2, dtype=np.bool_)  # one more on each side: -1 and N are no moments
        start, behind = moments.start[:-1], moments.start[1:]
        some = behind > start
        for moment in (behind[some] - 1, np.maximum(behind[some] - 2, start[some]), start[some]):
            keep[moment] = True
        keep[:last] |= moments.at >= since_ms
        before = np.flatnonzero(keep[1:last] & (moments.at[1:] >= since_ms))
        keep[before] = True
        back = np.flatnonzero(moments.end[1:] < moments.end[:-1])
        keep[back] = keep[back + 1] = True
        of_log, row = self._of_logs(asked)
        unread = self._unread(asked, of_log, row)
        low, high, _ = self._around(of_log, unread)
        keep[low] = keep[high] = keep[high - 1] = True
        at_time, _ = self._at_times(asked, of_log, row)
        keep[at_time] = keep[at_time + 1] = True
        self._keep_from(keep, of_log, unread, np.maximum(low, self._counts_from[of_log]))
        chosen = np.ones(self.rows.num_rows, dtype=np.bool_)
        chosen[moments.row] = keep[:last]
        return self.rows.filter(pa.array(chosen | np.repeat(self._odd, np.diff(starts_of(self.log)))))

    def _keep_from(self, keep: Bools, of_log: Ints, unread: Longs, low: Ints) -> None:
        """Keep all samples from one on where the log's start passed the commit, or the oldest that counts comes near.

        Both move with each sample, and with them the samples that they ask for.
        """
        moments = self._moments
        newest = moments.start[of_log + 1] - 1
        begin = longs(self.rows["begin"])[moments.row[newest]]
        behind = moments.end[newest] > unread
        near = behind & (moments.last[newest] - moments.first[low] > SILENT_FOR)
        moves = np.flatnonzero(near | (behind & (unread <= begin)))
        step = np.zeros(len(keep) + 1, dtype=np.int64)
        np.add.at(step, low[moves], 1)
        np.add.at(step, newest[moves] + 1, -1)
        keep |= np.cumsum(step[:-1]) > 0

    @cached_property
    def _odd(self) -> Bools:
        """(logs,) where a value is missing, or two samples are of one moment: then all of them stay."""
        bad = ~(there(self.rows["at"]) & there(self.rows["begin"]) & there(self.rows["end"]))
        at = longs(self.rows["at"].cast(pa.int64())) // 1000
        bad[1:] |= (at[1:] == at[:-1]) & (self.log[1:] == self.log[:-1])
        odd: Bools = np.logical_or.reduceat(bad, starts_of(self.log)[:-1]) if len(bad) else bad
        return odd

    @cached_property
    def _torn(self) -> Bools:
        """(logs,) odd ones of which samples were left out before they were odd."""
        inside = np.flatnonzero(self._log_of[1:] == self._log_of[:-1])
        gaps = self._log_of[inside[~self._moments.follows(inside)]]
        torn: Bools = self._odd & (np.bincount(gaps, minlength=len(self._each)) > 0)
        return torn

    def _of_logs(self, asked: pa.Table) -> tuple[Ints, Ints]:
        """The questions about logs that have a sample with a time: (Q,) the log, and the row of each."""
        topic = pc.index_in(one(asked["topic"]).cast(pa.string()), value_set=self.topics)
        of = numbered(longs(topic), longs(asked["partition"]))
        each = self._each
        log = np.minimum(np.searchsorted(each, of), max(0, len(each) - 1))
        if not len(each):
            return log[:0], log[:0]
        known = there(topic) & (each[log] == of) & (np.diff(self._moments.start)[log] > 0)
        row = np.flatnonzero(known)
        return log[row], row

    def _unread(self, asked: pa.Table, of_log: Ints, row: Ints) -> Longs:
        """(Q,) the first unread offset, as ``facts`` has it: the commit, or the log's start where that is later."""
        moments = self._moments
        newest = moments.row[moments.start[of_log + 1] - 1]
        begin, end = self.rows["begin"], self.rows["end"]
        begun = np.where((there(begin) & there(end))[newest], longs(begin)[newest], -1)
        return np.maximum(longs(asked["committed"])[row], begun)

    def _around(self, of_log: Ints, unread: Longs) -> tuple[Ints, Ints, Bools]:
        """(Q,) the moments before and after a log's end passed an offset since it last went back; if they are certain.

        Where there is none, the one that would be next to the other.
        """
        moments = self._moments
        behind = moments.start[1:]
        log, first = self._log_of, self._counts_from.copy()
        back = np.flatnonzero((moments.end[1:] < moments.end[:-1]) & (log[1:] == log[:-1])) + 1
        back = back[back > first[log[back]]]
        first[log[back]] = back  # ascending: the last of a log stays
        region = np.flatnonzero(np.arange(len(log)) >= first[log])
        values = np.unique(moments.end[region])
        key = log[region] * (len(values) + 1) + np.searchsorted(values, moments.end[region]) + 1
        before = np.searchsorted(key, of_log * (len(values) + 1))
        passed = np.searchsorted(key, of_log * (len(values) + 1) + np.searchsorted(values, unread, "right"), "right")
        low = first[of_log] + passed - before - 1
        high = low + 1
        certain = high >= behind[of_log]  # all was passed, whatever was left out
        inner = np.flatnonzero(~certain & (low >= first[of_log]))
        certain[inner] = moments.follows(low[inner])
        outer = np.flatnonzero(~certain & (low < first[of_log]))
        begun, mine = high[outer], of_log[outer]
        certain[outer] = moments.first[begun] <= self._oldest[mine]
        after = np.flatnonzero(~certain[outer] & (begun > moments.start[mine]))
        certain[outer[after]] = moments.follows(begun[after] - 1)
        return low, np.minimum(high, behind[of_log] - 1), certain

    def _at_times(self, asked: pa.Table, of_log: Ints, row: Ints) -> tuple[Ints, Ints]:
        """Of each commit of the questions' windows: the last moment up to it, and the question it is of.

        One before the log's first moment where it has none so early.
        """
        lists = one(asked["window_at"]).take(pa.array(row))
        question, times = pc.list_parent_indices(lists), lists.flatten()
        known = there(times)
        of_time, at = np.asarray(question)[known].astype(np.int64), longs(times)[known]
        moments = self._moments
        distinct = np.unique(moments.at)
        key = self._log_of * (len(distinct) + 1) + np.searchsorted(distinct, moments.at, "right")
        wanted = of_log[of_time] * (len(distinct) + 1) + np.searchsorted(distinct, at, "right")
        return np.searchsorted(key, wanted, "right") - 1, of_time


def _counted(rows: pa.Table, log: Longs) -> Longs:
    """(N,) the number of each sample in its log: those of one time and end count once; they go on from a known one."""
    known, timed = there(rows[NUMBER]), there(rows["at"])
    if not len(log):
        return np.zeros(0, dtype=np.int64)
    at, end = longs(rows["at"].cast(pa.int64())) // 1000, longs(rows["end"])
    first, other = np.ones(len(log), dtype=np.bool_), np.ones(len(log), dtype=np.bool_)
    first[1:] = (log[1:] != log[:-1]) | (timed[1:] & ~timed[:-1])
    other[1:] = (at[1:] != at[:-1]) | (end[1:] != end[:-1])
    passed = np.cumsum(timed & other & ~first & ~known)
    anchor = np.maximum.accumulate(np.where(known | first, np.arange(len(log)), 0))
    base = longs(rows[NUMBER])[anchor]
    counted: Longs = base + passed - passed[anchor]
    return counted

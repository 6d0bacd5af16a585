"""Samples of a topic's log ends in the last hour: ``history.lag_time`` gets lag in time and rates from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from apportion.arrays import Floats, Ints, Longs
from apportion.history.lag_time import Samples
from apportion.model.group import Group

SAMPLES: Final = 60
"""Newest samples that are all kept."""
REACH_MS: Final = 3_600_000.0
STEP_MS: Final = 60_000.0
"""Of older ones, one in each step is kept, up to so long ago: an age can be told, and alarmed by, that no number of
rounds reaches where they follow each other quickly.
"""


def kept(at: Floats) -> Ints:
    """Which samples at (S,) ascending milliseconds are kept; of those kept before, with more, the same ones.

    >>> at = 1000.0 * np.arange(0, 7300, 10)
    >>> len(kept(at)), float(at[-1] - at[kept(at)][0]) / 1000
    (110, 3570.0)
    """
    old = at[: max(0, len(at) - SAMPLES)]
    step = np.floor(old / STEP_MS)
    first = np.ones(len(old), dtype=np.bool_)
    first[1:] = step[1:] != step[:-1]
    chosen = np.flatnonzero(first & (old >= at[-1] - REACH_MS)) if len(old) else np.zeros(0, dtype=np.int64)
    return np.concatenate((chosen, np.arange(len(old), len(at))))


class EndTimes:
    """Samples of one topic's log ends.

    times
        (S,) milliseconds since 1970, ascending.
    ends
        (S, P) the ends then; -1 unknown.
    """

    def __init__(self, topic_id: str | None, number: Longs) -> None:
        self.topic_id, self.number = topic_id, number
        self.times: Floats = np.empty(0)
        self.ends: Longs = np.empty((0, len(number)), dtype=np.int64)

    def fits(self, topic_id: str | None, number: Longs) -> bool:
        """Whether it is still the same topic with the same partitions."""
        return self.topic_id == topic_id and np.array_equal(self.number, number)

    def add(self, at: float, end: Longs) -> None:
        """One more sample, at so many seconds since 1970."""
        times = np.append(self.times, at * 1000)
        rows = kept(times)
        self.times, self.ends = times[rows], np.vstack((self.ends, end))[rows]

    def rows(self, numbers: Longs) -> Ints | None:
        """The columns of partitions; None if one of them is not there."""
        if len(numbers) == len(self.number) and np.array_equal(numbers, self.number):
            return np.arange(len(numbers))
        rows = np.searchsorted(self.number, numbers)
        if (rows == len(self.number)).any() or (self.number[rows] != numbers).any():
            return None
        return rows


class AllEnds:
    """The log ends of all topics of a round, as columns one after the other."""

    def __init__(self, ends: Mapping[str, EndTimes]) -> None:
        self._ends = ends
        names = sorted(ends)
        widths = np.cumsum([0, *(len(ends[name].number) for name in names)]).tolist()
        self._first = dict(zip(names, widths, strict=False))
        self.samples = Samples.joined([Samples.of_table(ends[name].times, ends[name].ends) for name in names])

    def columns(self, group: Group) -> Ints:
        """(P,) the column of each partition; -1 if its topic is not known as the group has it."""
        columns = np.full(group.P, -1)
        for t, topic in enumerate(group.topics):
            mine, table = group.partitions(t), self._ends.get(topic)
            rows = None if table is None else table.rows(group.number[mine])
            if rows is not None:
                columns[mine] = self._first[topic] + rows
        return columns

    def of(self, group: Group) -> Samples:
        """A group's partitions."""
        return self.samples.of_columns(self.columns(group))


@dataclass(frozen=True, eq=False)
class Commits:
    """A group's commits at the last rounds.

    at
        (S,) milliseconds since 1970.
    offsets
        (S, P); -1 nothing.
    """

    at: Floats
    offsets: Longs

    @staticmethod
    def none(partitions: int) -> Commits:
        """Before the first round."""
        return Commits(np.empty(0), np.empty((0, partitions), dtype=np.int64))

    def then(self, at: float, committed: Longs) -> Commits:
        """With one more round, at so many seconds since 1970."""
        moments = np.append(self.at, at * 1000)
        rows = kept(moments)
        return Commits(moments[rows], np.concatenate((self.offsets, committed[None]))[rows])

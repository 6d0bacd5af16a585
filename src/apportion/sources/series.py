"""Commits and log ends over time, of some groups: from a dump, from tables, or from a live cluster looked at twice."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import compress

import numpy as np

from apportion.arrays import UNKNOWN
from apportion.history.commits import TopicPartition
from apportion.history.lag_time import SAMPLES_MAX, Series, thinned
from apportion.model.group import Group
from apportion.sighting.sighting import Sighting
from apportion.sources.config import Connection
from apportion.sources.load_history import reader_of

AllSeries = Mapping[TopicPartition, Series]
Samples = dict[TopicPartition, dict[int, int]]
"""Partition to offsets by time (ms)."""
_Sample = tuple[TopicPartition, int, int]
"""A partition, a time (ms), an offset."""
_Fewer = Callable[[Mapping[int, int]], list[tuple[int, int]]]


class FolderSeries:
    """Commits and log ends of some groups of a dump or of tables, read in one pass, as far as a window needs them.

    groups
        Each with the topics that count.
    known
        Whether some log's end was sampled more than once: else little can be told of time.
    now_ms
        When any log's end was last sampled; 0 where none was.
    """

    def __init__(self, path: str, groups: Mapping[str, Collection[str]], window_s: float) -> None:
        self._source, self._path, self._groups = reader_of(path), path, frozenset(groups)
        self.now_ms = 0
        ends = _sampled(self._ends_of({topic for topics in groups.values() for topic in topics}), _thinned)
        self._ends = _ordered(ends, _thinned)
        self.known = any(len(samples) > 1 for samples in self._ends.values())
        self._since_ms = round(self.now_ms - window_s * 1000)

    def _ends_of(self, topics: Collection[str]) -> Iterator[_Sample]:
        for where, at, end in self._source.end_samples(self._path):
            self.now_ms = max(self.now_ms, at)
            if where[0] in topics:
                yield where, at, end

    @cached_property
    def _commits(self) -> Mapping[str, Samples]:
        """Those in the window, and of each partition the last before it; read when they are asked for."""
        commits: dict[str, Samples] = {group: {} for group in self._groups}
        before: dict[tuple[str, TopicPartition], tuple[int, int]] = {}
        for group, where, at, offset in self._source.every_commit(self._path):
            if group not in commits:
                continue
            if at < self._since_ms:
                before[group, where] = max(before.get((group, where), (at, offset)), (at, offset))
            else:
                _add(commits[group], where, at, offset, _newest)
        for (group, where), (at, offset) in before.items():
            commits[group].setdefault(where, {})[at] = offset
        return commits

    def of(self, group: Group) -> AllSeries:
        """(topic, partition) to the facts known over time, of those partitions of a group that have any."""
        commits = _ordered(self._commits.get(group.name, {}), _newest)
        places = [group.name_of(p) for p in range(group.P)]
        return {
            where: Series(self._ends.get(where, ()), commits.get(where, ()))
            for where in places
            if where in self._ends or where in commits
        }


def of_cluster(
    connection: Connection, groups: Sequence[str], window_s: float, leave_out: bool = False
) -> dict[str, AllSeries]:
    """Each group's commits and the log ends now and after some seconds; all groups are looked at together.

    leave_out
        A group that ends meanwhile is no error: what was seen of it before stays.
    Raises
        UnknownName: a group is not there, or not any more.
    """
    from apportion.sources import live

    looks = []
    for i in range(2):
        if i:
            time.sleep(window_s)
        at = round(time.time() * 1000)
        looks.append((at, live.groups(connection, groups, leave_out)))
    series_of = of_looks(looks)
    return {name: series_of.get(name, {}) for name in groups}


def of_looks(looks: Iterable[tuple[int, Iterable[Sighting]]]) -> dict[str, AllSeries]:
    """Each group's commits and log ends at some moments (ms); of one moment the furthest offset."""
    sides: dict[str, tuple[Samples, Samples]] = {}
    for at, seen in looks:
        for sighting in seen:
            group, side = sighting.group, sides.setdefault(sighting.name, ({}, {}))
            if group.offsets is None:
                continue
            known = (group.offsets.end, _thinned), (group.offsets.committed, _newest)
            for samples, (offsets, fewer) in zip(side, known, strict=True):
                for p in np.flatnonzero(offsets != UNKNOWN).tolist():
                    _add(samples, group.name_of(p), at, int(offsets[p]), fewer)
    return {name: _joined(*of_group) for name, of_group in sides.items()}


def _joined(ends: Samples, commits: Samples) -> AllSeries:
    ordered = _ordered(ends, _thinned), _ordered(commits, _newest)
    places = ordered[0].keys() | ordered[1].keys()
    return {where: Series(*(side.get(where, ()) for side in ordered)) for where in places}


def _sampled(rows: Iterable[_Sample], fewer: _Fewer) -> Samples:
    side: Samples = {}
    for where, at, offset in rows:
        _add(side, where, at, offset, fewer)
    return side


def _add(side: Samples, where: TopicPartition, at: int, offset: int, fewer: _Fewer) -> None:
    """One more sample of a partition, of which few are kept."""
    samples = side.setdefault(where, {})
    samples[at] = max(samples.get(at, offset), offset)
    if len(samples) > 2 * SAMPLES_MAX:
        side[where] = dict(fewer(samples))


def _ordered(side: Samples, fewer: _Fewer) -> dict[TopicPartition, list[tuple[int, int]]]:
    return {where: fewer(samples) for where, samples in side.items()}


def _newest(samples: Mapping[int, int]) -> list[tuple[int, int]]:
    """Commits by time, the newest alone."""
    return sorted(samples.items())[-SAMPLES_MAX:]


def _thinned(samples: Mapping[int, int]) -> list[tuple[int, int]]:
    """Log ends by time, the older the fewer."""
    ordered = sorted(samples.items())
    at = np.array([at for at, _ in ordered], dtype=np.int64)
    return list(compress(ordered, thinned(np.zeros_like(at), at)))

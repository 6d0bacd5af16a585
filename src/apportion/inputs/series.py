"""Commits and log ends over time, of one group: from a dump, from tables, or from a live cluster looked at twice."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from apportion.history.commits import TopicPartition
from apportion.history.lag_time import SAMPLES_MAX, Series
from apportion.inputs import sniff
from apportion.inputs.config import Connection
from apportion.model.group import Group

AllSeries = Mapping[TopicPartition, Series]


def of_folder(path: str, group: str) -> AllSeries:
    """(topic, partition) to what is known of it over time."""
    source = _source(path)
    commits = ((partition, at, offset) for name, partition, at, offset in source.every_commit(path) if name == group)
    return _joined(commits, source.end_samples(path))


class FolderSeries:
    """Commits and log ends of some groups of a dump or of tables, read in one pass, as far as a window needs them.

    known
        Whether some log's end was sampled more than once: else nothing can be told of time.
    """

    def __init__(self, path: str, groups: Collection[str], window_s: float) -> None:
        source = _source(path)
        self._ends = _ordered(_sampled(source.end_samples(path)))
        self.known = any(len(samples) > 1 for samples in self._ends.values())
        self.now_ms = max((samples[-1][0] for samples in self._ends.values()), default=0)
        self._commits: dict[str, dict[TopicPartition, dict[int, int]]] = {}
        self._before: dict[tuple[str, TopicPartition], tuple[int, int]] = {}
        if self.known:
            self._read(source.every_commit(path), set(groups), round(self.now_ms - window_s * 1000))

    def _read(self, commits: Iterable[tuple[str, TopicPartition, int, int]], groups: set[str], since_ms: int) -> None:
        """Those in the window, and of each partition the last before it."""
        for group, where, at, offset in commits:
            if group not in groups:
                continue
            if at < since_ms:
                self._before[group, where] = max(self._before.get((group, where), (at, offset)), (at, offset))
                continue
            samples = self._commits.setdefault(group, {}).setdefault(where, {})
            samples[at] = max(samples.get(at, offset), offset)
        for (group, where), (at, offset) in self._before.items():
            self._commits.setdefault(group, {}).setdefault(where, {})[at] = offset

    def of(self, group: Group) -> AllSeries:
        """(topic, partition) to what is known over time of a group's partitions."""
        commits = _ordered(self._commits.get(group.name, {}))
        places = [group.name_of(p) for p in range(group.P)]
        return {where: Series(self._ends.get(where, ()), commits.get(where, ())) for where in places}


def _source(path: str) -> Any:
    """The reader of a dump, or of tables."""
    if sniff.folder_kind(path) == "dump":
        from apportion.inputs import dump

        return dump
    from apportion.inputs import tables

    return tables


def of_cluster(connection: Connection, group: str, window_s: float) -> AllSeries:
    """The group's commits and the log ends now and after some seconds."""
    from apportion.inputs import live

    commits: list[tuple[TopicPartition, int, int]] = []
    ends: list[tuple[TopicPartition, int, int]] = []
    for i in range(2):
        if i:
            time.sleep(window_s)
        at = round(time.time() * 1000)
        (observed,) = live.groups(connection, [group])
        for topic, entries in observed.raw["topics"].items():
            for entry in entries if isinstance(entries, list) else ():
                topic_partition = (topic, entry["partition"])
                if entry.get("committed") is not None:
                    commits.append((topic_partition, at, entry["committed"]))
                if entry.get("end") is not None:
                    ends.append((topic_partition, at, entry["end"]))
    return _joined(commits, ends)


def _joined(
    commits: Iterable[tuple[TopicPartition, int, int]], ends: Iterable[tuple[TopicPartition, int, int]]
) -> AllSeries:
    """The newest samples of each, by time; of one moment the furthest offset."""
    by_side = [_ordered(_sampled(rows)) for rows in (ends, commits)]
    places = set(by_side[0]) | set(by_side[1])
    return {where: Series(by_side[0].get(where, ()), by_side[1].get(where, ())) for where in places}


def _sampled(rows: Iterable[tuple[TopicPartition, int, int]]) -> dict[TopicPartition, dict[int, int]]:
    side: dict[TopicPartition, dict[int, int]] = {}
    for where, at, offset in rows:
        samples = side.setdefault(where, {})
        samples[at] = max(samples.get(at, offset), offset)
        if len(samples) > 2 * SAMPLES_MAX:
            side[where] = dict(sorted(samples.items())[-SAMPLES_MAX:])
    return side


def _ordered(side: Mapping[TopicPartition, Mapping[int, int]]) -> dict[TopicPartition, list[tuple[int, int]]]:
    return {where: sorted(samples.items())[-SAMPLES_MAX:] for where, samples in side.items()}

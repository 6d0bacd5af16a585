"""Commits and log ends over time, of one group: from a dump, from tables, or from a live cluster looked at twice."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Final

from apportion.history.lag_time import Series
from apportion.inputs import sniff
from apportion.inputs.config import Connection

Place = tuple[str, int]
SAMPLES_MAX: Final = 2_000
"""Of one partition that are kept, the newest; twice as many while they are read."""
AllSeries = Mapping[Place, Series]


def of_folder(path: str, group: str) -> AllSeries:
    """(topic, partition) to what is known of it over time."""
    if sniff.folder_kind(path) == "dump":
        from apportion.inputs import dump

        return _joined(dump.commits_of(path, group), dump.end_samples(path))
    from apportion.inputs import tables

    return _joined(tables.commits_of(path, group), tables.end_samples(path))


def of_cluster(connection: Connection, group: str, window_s: float) -> AllSeries:
    """The group's commits and the log ends now and after some seconds."""
    from apportion.inputs import live

    commits: list[tuple[Place, int, int]] = []
    ends: list[tuple[Place, int, int]] = []
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


def _joined(commits: Iterable[tuple[Place, int, int]], ends: Iterable[tuple[Place, int, int]]) -> AllSeries:
    """The newest samples of each, by time; of one moment the last that came."""
    sides: tuple[dict[Place, dict[int, int]], dict[Place, dict[int, int]]] = ({}, {})
    for side, rows in zip(sides, (commits, ends), strict=True):
        for topic_partition, at, offset in rows:
            samples = side.setdefault(topic_partition, {})
            samples[at] = offset
            if len(samples) > 2 * SAMPLES_MAX:
                side[topic_partition] = dict(sorted(samples.items())[-SAMPLES_MAX:])
    ordered = [
        {topic_partition: sorted(samples.items())[-SAMPLES_MAX:] for topic_partition, samples in side.items()}
        for side in sides
    ]
    places = set(ordered[0]) | set(ordered[1])
    return {
        topic_partition: Series(ordered[1].get(topic_partition, ()), ordered[0].get(topic_partition, ()))
        for topic_partition in places
    }

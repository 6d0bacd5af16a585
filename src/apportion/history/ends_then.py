"""The log ends that a group's plans are made with: those sampled first after its newest record.

Log ends move all the time, of idle groups too. A what-if by the newest ones would be another one at every sample; by
those of then it stays until the group says something again. A lag is never too small by it: ends are sampled after the
records that they belong to. ``pipeline.end_samples`` has the same rule on columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from apportion.arrays import Bools, Ints, Longs
from apportion.history.lag_time import thinned
from apportion.history.steps import TopicEntries

SILENT: Final = -(2**63)
"""Milliseconds: a group that left nothing with a time."""
Sample = tuple[int, int | None, int | None]
"""(at ms, begin, end)"""


def last_heard(groups: int, *records: tuple[Ints, Longs, Bools]) -> Longs:
    """(groups,) milliseconds when each group left its newest record, ``SILENT`` if none has a time.

    records
        Of each kind: (N,) which group each is of, (N,) its milliseconds, (N,) whether it counts: it stands, and has a
        time. Generations, epochs and commits are records.
    """
    heard = np.full(groups, SILENT, dtype=np.int64)
    for group, ms, counts in records:
        np.maximum.at(heard, group[counts], ms[counts])
    return heard


@dataclass(frozen=True)
class EndSamples:
    """Samples of the log ends, of each (topic, partition) in the order of time; the older the fewer."""

    of: Mapping[tuple[str, int], list[Sample]] = field(default_factory=dict)

    @classmethod
    def ordered(cls, rows: Iterable[tuple[str, int, Sample]]) -> EndSamples:
        """Of samples in any order."""
        of: dict[tuple[str, int], list[Sample]] = {}
        for topic, partition, sample in rows:
            of.setdefault((topic, partition), []).append(sample)
        for samples in of.values():
            samples.sort(key=lambda sample: sample[0])
        moments = np.array([sample[0] for samples in of.values() for sample in samples], dtype=np.int64)
        stays = iter(
            thinned(np.repeat(np.arange(len(of)), [len(samples) for samples in of.values()]), moments).tolist()
        )
        return cls({where: [sample for sample in samples if next(stays)] for where, samples in of.items()})

    def then(self, topics: TopicEntries, heard_ms: int) -> TopicEntries:
        """The topics' entries with the offsets sampled first at this moment or after it, else with the newest."""
        return {topic: [self._entry(topic, entry, heard_ms) for entry in entries] for topic, entries in topics.items()}

    def _entry(self, topic: str, entry: Mapping[str, Any], heard_ms: int) -> Mapping[str, Any]:
        samples = self.of.get((topic, entry["partition"]), ())
        if len(samples) < 2:
            return entry
        _, begin, end = next((sample for sample in samples if sample[0] >= heard_ms), samples[-1])
        return {**entry, "begin": begin, "end": end}

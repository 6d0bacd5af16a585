"""A topology as data: sub-topologies with their source topics become one task a partition number."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from apportion.errors import BadInput

Partitions = Mapping[str, int | Collection[int]]
"""Source topic to how many partitions it has, or to their ids where some are missing."""


@dataclass(frozen=True)
class Subtopology:
    """Topics that are read together, and the state that is kept for them.

    topics
        Source topics; partition p of each belongs to task p.
    changelog
        The topic that the state can be restored from; None for a stateless sub-topology.
    """

    topics: tuple[str, ...]
    changelog: str | None = None

    def __post_init__(self) -> None:
        """Refuse a name in place of names."""
        _names(self.topics)

    @property
    def stateful(self) -> bool:
        """Whether its tasks have state to restore."""
        return self.changelog is not None


class Task(NamedTuple):
    """One unit of work: a sub-topology and a partition number, written ``0_3`` as Kafka Streams does."""

    # A tuple, since plans look tasks up by the hundred thousand and a dataclass hashes and compares in Python.

    subtopology: int
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology}_{self.partition}"

    @classmethod
    def read(cls, text: str) -> Task:
        """The task that ``text`` names; ``BadInput`` if it names none."""
        subtopology, _, partition = text.partition("_")
        if not (subtopology.isascii() and subtopology.isdigit() and partition.isascii() and partition.isdigit()):
            raise BadInput("task", repr(text), "a name like 0_3: sub-topology, partition")
        return cls(int(subtopology), int(partition))


@dataclass(frozen=True)
class Topology:
    """Sub-topologies by number; no topic is a source of two."""

    subtopologies: tuple[Subtopology, ...]

    def __post_init__(self) -> None:
        """Refuse a topic that two sub-topologies read."""
        seen: set[str] = set()
        for subtopology in self.subtopologies:
            for topic in subtopology.topics:
                if topic in seen:
                    raise BadInput("topology", f"topic {topic!r} in two sub-topologies", "each source topic once")
                seen.add(topic)

    @property
    def digest(self) -> str:
        """16 letters that are the same only for the same sub-topologies in the same order: task 0_3 means one thing."""
        parts = [[sorted(sub.topics), sub.changelog] for sub in self.subtopologies]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

    @classmethod
    def of(cls, *subtopologies: Sequence[str] | Subtopology) -> Topology:
        """A topology from sub-topologies, or from lists of source topics of stateless ones."""
        parts = [s if isinstance(s, Subtopology) else Subtopology(_names(s)) for s in subtopologies]
        return cls(tuple(parts))

    def tasks(self, partitions: Partitions) -> list[Task]:
        """Every task, in order: one for each partition id that some source topic has (Kafka, ``PartitionGrouper``)."""
        return [Task(s, p) for s, sub in enumerate(self.subtopologies) for p in _ids(sub, partitions)]

    def counts(self, partitions: Partitions) -> list[int]:
        """Tasks of each sub-topology."""
        return [len(_ids(sub, partitions)) for sub in self.subtopologies]

    def partitions_of(self, task: Task, partitions: Partitions) -> list[tuple[str, int]]:
        """The (topic, partition) pairs that the task reads: each source topic's own p, if it exists."""
        topics = self.subtopologies[task.subtopology].topics
        return [(topic, task.partition) for topic in sorted(topics) if task.partition in _of(topic, partitions)]


def _of(topic: str, partitions: Partitions) -> Collection[int]:
    """The ids of a topic's partitions."""
    ids = partitions.get(topic, 0)
    return range(ids) if isinstance(ids, int) else ids


def _ids(subtopology: Subtopology, partitions: Partitions) -> Collection[int]:
    """The ids, ascending, that some source topic has: a range, of which a foreign count fills no memory, or a list."""
    ids = [_of(topic, partitions) for topic in subtopology.topics]
    if all(isinstance(numbers, range) for numbers in ids):
        return max(ids, key=len, default=range(0))
    return sorted(set[int]().union(*ids))


def _names(topics: Sequence[str]) -> tuple[str, ...]:
    """Names as a tuple; a name alone, whose letters would be taken for topics, is refused."""
    if isinstance(topics, str):
        raise BadInput("topology", f"the topics {topics!r}", f"a tuple of names, ({topics!r},)")
    return tuple(topics)

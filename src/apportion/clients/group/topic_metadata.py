"""The part of a client's metadata about topics that a leader needs: numbers of partitions, and racks of replicas.

A cluster has hundreds of thousands of partitions and few different lists of brokers that hold them, so each distinct
list is looked at once.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

from apportion.model.build import ReplicaRacks

Topic = int | list[dict[str, Any]]
"""A topic as group.json has it: a number of partitions, or an entry for each."""
_NAME: Final = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")


def can_exist(topic: str) -> bool:
    """Whether Kafka lets a topic have this name (``Topic.validate``); at others a client fails before it has asked."""
    return _NAME.fullmatch(topic) is not None


class ClientMetadata:
    """A Python client's tables: topic to partition id to an object that has the ids of its replicas' brokers.

    cluster
        kafka-python's or aiokafka's ``ClusterMetadata``; its private ``_partitions`` is read, for want of another way
        to the replicas.
    replicas
        The name of the attribute that lists them.
    """

    def __init__(self, cluster: Any, replicas: str) -> None:
        self._cluster = cluster
        self._tables: Mapping[str, Mapping[int, Any]] = getattr(cluster, "_partitions", {})
        self._replicas_of: Callable[[Any], Sequence[int]] = attrgetter(replicas)
        self._numbers: defaultdict[tuple[int, ...], int] = defaultdict()
        self._numbers.default_factory = self._numbers.__len__
        self.seen: dict[str, list[int]] = {}

    def partitions(self, topic: str) -> Collection[int] | None:
        """Partition ids, or None before the client has metadata."""
        table = self._tables.get(topic)
        return None if table is None else table.keys()

    def rack_numbers(self, topic: str) -> list[int]:
        """The number of each partition's list of replicas, by ascending id.

        What was looked at once is handed out again: the client makes its tables anew with each answer of a broker.
        """
        if topic in self.seen:
            return self.seen[topic]
        table = self._tables.get(topic, {})
        ids = list(table)
        rows = table.values() if ids == list(range(len(ids))) else [table[p] for p in sorted(ids)]
        self.seen[topic] = [self._numbers[tuple(self._replicas_of(row))] for row in rows]
        return self.seen[topic]

    def rack_lists(self) -> list[tuple[str, ...]]:
        """The racks of each list of replicas so far, ascending and each once; offline ones included, as in Kafka."""
        rack = {
            node: getattr(self._cluster.broker_metadata(node), "rack", None) for node in set().union(*self._numbers)
        }
        return [tuple(sorted({name for node in nodes if (name := rack[node])})) for nodes in self._numbers]

    def tables(self) -> tuple[Any, Any]:
        """The client's own tables of topics and of brokers, to compare by identity."""
        return self._tables, getattr(self._cluster, "_brokers", None)

    def seen_racks(self) -> dict[str, list[tuple[str, ...]]]:
        """Every topic whose racks were asked for, with those of each partition."""
        lists = self.rack_lists()
        return {topic: list(map(lists.__getitem__, numbers)) for topic, numbers in self.seen.items()}


def describe_topics(
    cluster: ClientMetadata, topics: Iterable[str], *, racks: bool
) -> tuple[dict[str, Topic], ReplicaRacks | None]:
    """The topics that are known: how many partitions, or entries; and the racks, if they are asked for."""
    tables: Mapping[str, Collection[int]] = cluster.tables()[0]
    known = {topic: tables[topic] for topic in topics if topic in tables}
    counts, sums = list(map(len, known.values())), list(map(sum, known.values()))
    counted: dict[str, Topic] = dict(zip(known, counts, strict=True))
    # Different ids, none below 0: there is no smaller sum than that of 0 and so on, and no other way to it.
    least = [count * (count - 1) // 2 for count in counts]
    if sums != least:
        for (topic, ids), total, smallest in zip(known.items(), sums, least, strict=True):
            if total != smallest:
                counted[topic] = _entries(ids)
    if not racks:
        return counted, None
    numbers = {topic: cluster.rack_numbers(topic) for topic in counted}
    return counted, ReplicaRacks(cluster.rack_lists(), numbers)


def _entries(ids: Iterable[int]) -> list[dict[str, Any]]:
    return [{"partition": p} for p in sorted(ids)]

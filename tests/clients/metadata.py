"""A client's metadata in a few lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

from apportion.clients.group.topic_metadata import ClientMetadata


class Replica:
    """A partition's metadata."""

    def __init__(self, nodes: list[Any]) -> None:
        self.replicas = nodes


class Cluster:
    """As much of a client's metadata as counts here."""

    def __init__(self, ids: dict[str, list[int]]) -> None:
        self._partitions = {topic: {p: Replica([1]) for p in parts} for topic, parts in ids.items()}

    def broker_metadata(self, node: int) -> None:
        return None


class _Tables(Mapping[str, Any]):
    """A client's table of topics, made of what a test says of each topic when it is asked for."""

    def __init__(self, topics: Any) -> None:
        self._topics = topics

    def __getitem__(self, topic: str) -> dict[int, Replica]:
        if (ids := self._topics.partitions(topic)) is None:
            raise KeyError(topic)
        racks = self._topics.racks(topic)
        return {p: Replica(list(racks.get(p, ()))) for p in ids}

    def __iter__(self) -> Iterator[str]:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError


def as_client(topics: Any) -> ClientMetadata:
    """What a client would hold of topics with ``partitions(topic)`` and ``racks(topic)``: a broker in each rack."""
    cluster = SimpleNamespace(_partitions=_Tables(topics), broker_metadata=lambda rack: SimpleNamespace(rack=rack))
    return ClientMetadata(cluster, "replicas")

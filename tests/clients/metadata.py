"""A client's metadata in a few lines."""

from __future__ import annotations


class Replica:
    """A partition's metadata."""

    def __init__(self, nodes: list[int]) -> None:
        self.replicas = nodes


class Cluster:
    """As much of a client's metadata as counts here."""

    def __init__(self, ids: dict[str, list[int]]) -> None:
        self._partitions = {topic: {p: Replica([1]) for p in parts} for topic, parts in ids.items()}

    def broker_metadata(self, node: int) -> None:
        return None

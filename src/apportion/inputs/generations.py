"""The generation of classic groups of a live cluster, which no request tells: their newest records tell it.

A group's records are all in one partition of ``__consumer_offsets``, by the hash of its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from apportion.errors import UnreadableBytes
from apportion.inputs.cluster import OFFSETS, Cluster, read_committed
from apportion.inputs.config import Connection
from apportion.server_side.java_hash import string_hash
from apportion.wire.coordinator import GroupGeneration, decode

MOST_RECORDS: Final = 500_000
"""Records that are read in all; groups of partitions beyond stay without a generation."""


def partition_of(group: str, partitions: int) -> int:
    """The partition of ``__consumer_offsets`` that has a group's records (Kafka, ``partitionFor``).

    >>> partition_of("ads-join", 50)
    19
    """
    hashed = string_hash(group)
    signed = hashed - 2**32 if hashed >= 2**31 else hashed
    return (0 if signed == -(2**31) else abs(signed)) % partitions  # Kafka, Utils.abs


def newest_generations(cluster: Cluster, connection: Connection, groups: Sequence[str]) -> dict[str, int]:
    """Group to its generation, as far as ``__consumer_offsets`` tells it and is short enough to be read.

    Raises
        Unavailable: no broker answers, or this user may not read ``__consumer_offsets``.
    """
    there = list(cluster.partitions([OFFSETS]))
    wanted = {partition_of(name, len(there)) for name in groups} if there else set()
    ends = cluster.ends([one for one in there if one.partition in wanted])
    names, budget = set(groups), MOST_RECORDS
    generations: dict[str, int] = {}
    for log in sorted(ends, key=lambda log: log.last_stable - log.begin):
        budget -= log.last_stable - log.begin
        if budget < 0:
            break
        for rows in read_committed(
            connection.bootstrap, connection.properties.settings, OFFSETS, log.partition, log.begin, log.last_stable
        ):
            for key, value, _, _, _ in rows:
                try:
                    record = decode(key, value)
                except UnreadableBytes:
                    continue
                if isinstance(record, GroupGeneration) and record.group in names and record.generation is not None:
                    generations[record.group] = record.generation
    return generations

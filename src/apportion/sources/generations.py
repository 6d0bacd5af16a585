"""The facts of a live cluster's groups that only their records show: a classic generation, and rebalances.

A group's records are all in one partition of ``__consumer_offsets``, by the hash of its name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from apportion.history import rebalance_rows
from apportion.history.fold import fold
from apportion.history.records import GroupRecord
from apportion.sources.cluster import OFFSETS, Cluster, partition_of_group, read_committed
from apportion.sources.config import Connection
from apportion.wire.coordinator import EpochRecord, GroupGeneration, readable

MOST_RECORDS: Final = 500_000
"""Records that are read in all; groups of partitions beyond stay without a generation."""


def newest_generations(cluster: Cluster, connection: Connection, groups: Sequence[str]) -> dict[str, int]:
    """Group to its generation, as far as ``__consumer_offsets`` shows it and is short enough to be read.

    Raises
        Unavailable: no broker answers, or this user may not read ``__consumer_offsets``.
    """
    _, records = _records(cluster, connection, groups)
    generations: dict[str, int] = {}
    for raw in records:
        record = raw.record
        if isinstance(record, GroupGeneration) and record.generation is not None:
            generations[record.group] = record.generation
    return generations


def rebalanced_at(cluster: Cluster, connection: Connection, groups: Sequence[str]) -> dict[str, list[int]]:
    """Group to when it rebalanced, in milliseconds, by the records that are left of it; nothing of those not read.

    Raises
        As ``newest_generations``.
    """
    read, records = _records(cluster, connection, groups)
    of_group: dict[str, list[GroupRecord]] = {name: [] for name in read}
    for raw in records:
        of_group[raw.record.group].append(raw)
    return {name: rebalance_rows.rebalanced_at(fold(rows, {}).generations) for name, rows in of_group.items()}


def _records(
    cluster: Cluster, connection: Connection, groups: Sequence[str]
) -> tuple[list[str], Iterator[GroupRecord]]:
    """The groups whose partitions are short enough to be read, and their records."""
    log_partitions = list(cluster.partitions([OFFSETS]))
    home = {name: partition_of_group(name, len(log_partitions)) for name in groups} if log_partitions else {}
    wanted = set(home.values())
    ends = cluster.ends([part for part in log_partitions if part.partition in wanted])
    budget, short = MOST_RECORDS, []
    for log in sorted(ends, key=lambda log: log.last_stable - log.begin):
        budget -= log.last_stable - log.begin
        if budget >= 0:
            short.append(log)
    among = {log.partition for log in short}
    names = [name for name, partition in home.items() if partition in among]

    def rows() -> Iterator[GroupRecord]:
        known = set(names)
        for log in short:
            if log.last_stable == log.begin:
                continue
            for records in read_committed(
                connection.bootstrap, connection.properties.settings, OFFSETS, log.partition, log.begin, log.last_stable
            ):
                for key, value, offset, at, _ in records:
                    record = readable(key, value)
                    if isinstance(record, GroupGeneration | EpochRecord) and record.group in known:
                        yield GroupRecord(offset, at, record)

    return names, rows()

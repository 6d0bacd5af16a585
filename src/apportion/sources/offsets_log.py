"""A live cluster's ``__consumer_offsets`` read once from its beginning, as far as that is whole.

Compaction takes away the records that a later one of the same key replaces, so that of a long-lived group not every
target is left, and what is left cannot be followed. A partition counts as whole if it begins at offset 0 and no offset
is missing up to its end; the others, and those that are very long, are left out and counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from apportion.history.records import GroupRecord
from apportion.sources.cluster import OFFSETS, connect, read_committed
from apportion.sources.config import Connection
from apportion.wire.coordinator import EpochRecord, GroupGeneration, readable

MOST_RECORDS: Final = 500_000
"""Records that are read in all; partitions beyond are left out."""


@dataclass(frozen=True)
class WholeLog:
    """Groups of whole partitions with all their records but commits, ascending by offset.

    names
        Topic id to name, of topics that are there today.
    partitions, left_out
        Of ``__consumer_offsets`` with records, and those of them that are not whole or too long.
    """

    groups: Mapping[str, Sequence[GroupRecord]]
    names: Mapping[str, str]
    partitions: int
    left_out: int


def whole_groups(connection: Connection) -> WholeLog:
    """Read it.

    Raises
        Unavailable: no broker answers, or this user may not read ``__consumer_offsets``.
    """
    with connect(connection.bootstrap, connection.properties) as cluster:
        topics = cluster.partitions()
        ends = cluster.ends([part for part in topics if part.topic == OFFSETS])
    names = {part.topic_id: part.topic for part in topics if part.topic_id}
    groups: dict[str, list[GroupRecord]] = {}
    left_out, budget = 0, MOST_RECORDS
    filled = [log for log in ends if log.last_stable > log.begin]
    for log in sorted(filled, key=lambda log: log.last_stable - log.begin):
        size = log.last_stable - log.begin
        mine = _read(connection, log.partition, size) if log.begin == 0 and size <= budget else None
        budget -= size if mine is not None else 0
        left_out += mine is None
        groups.update(mine or {})
    return WholeLog(groups, names, len(filled), left_out)


def _read(connection: Connection, partition: int, end: int) -> dict[str, list[GroupRecord]] | None:
    """The groups of one partition; None if an offset is missing."""
    groups: dict[str, list[GroupRecord]] = {}
    due = 0
    settings = connection.properties.settings
    for rows in read_committed(connection.bootstrap, settings, OFFSETS, partition, 0, end):
        for key, value, offset, at, _ in rows:
            if offset != due:
                return None
            due += 1
            record = readable(key, value)
            if isinstance(record, GroupGeneration | EpochRecord):
                groups.setdefault(record.group, []).append(GroupRecord(offset, at, record))
    return groups if due == end else None

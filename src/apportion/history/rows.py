"""Rows of the silver tables back into a group's records: the way from stored tables to the same pass."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from apportion.history.records import GroupRecord
from apportion.wire.coordinator import EpochRecord, GroupGeneration, Member
from apportion.wire.partitions import Held

Row = Mapping[str, Any]


def events(group: str, generations: Iterable[Row], epochs: Iterable[Row]) -> list[GroupRecord]:
    """One group's records in order.

    generations, epochs
        Rows of ``silver/generations`` and ``silver/epochs``, times as ``at_ms`` and ``state_ms``, and ``holes``.
    """
    records = [_event(row, _generation(group, row)) for row in generations]
    records += [_event(row, _epoch(group, row)) for row in epochs]
    return sorted(records, key=lambda event: event.offset)


def _event(row: Row, record: GroupGeneration | EpochRecord) -> GroupRecord:
    return GroupRecord(row["source_offset"], row["at_ms"], record, row.get("holes") or 0)


def _generation(group: str, row: Row) -> GroupGeneration:
    if row["tombstone"]:
        return GroupGeneration(group, True)
    return GroupGeneration(
        group,
        False,
        generation=row["generation"],
        protocol_type=row["protocol_type"],
        protocol=row["protocol"],
        leader=row.get("leader"),
        state_time=row["state_ms"],
        members=tuple(map(_member, row["members"] or ())),
    )


def _member(row: Row) -> Member:
    return Member(
        row["member_id"],
        row["instance_id"],
        row["client_id"],
        row["host"],
        row.get("rebalance_timeout_ms"),
        row.get("session_timeout_ms") or 0,
        row["rack"],
        tuple(row["topics"] or ()),
        _held(row["owned"]),
        row["owned_generation"],
        _held(row["assigned"]),
        unreadable=row.get("unreadable"),
    )


def _held(rows: Iterable[Row] | None) -> Held:
    return tuple([(row["topic"], tuple(row["partitions"] or ())) for row in rows]) if rows else ()


def _epoch(group: str, row: Row) -> EpochRecord:
    body = None if row["body"] is None else json.loads(row["body"])
    return EpochRecord(group, row["key_type"], row["tombstone"], row["member_id"], row["epoch"], body)

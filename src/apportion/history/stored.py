"""Members as rows of the gold tables, and rows of ``gold/group_state`` back into group.json."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from apportion.history.fold import Present
from apportion.history.present import group_json
from apportion.history.records import GenerationMember


def member_row(seat: GenerationMember) -> dict[str, Any]:
    """A member as ``gold/group_state`` has it; ``gold/groups`` and ``gold/epochs`` take some of its columns."""
    return {
        "member_id": seat.member_id,
        "instance_id": seat.instance_id,
        "client_id": seat.client_id,
        "host": seat.host,
        "rack": seat.rack,
        "assigned": [{"topic": t, "partitions": sorted(ids)} for t, ids in sorted(seat.assigned.items())],
        "topics": sorted(seat.topics),
        "session_timeout_ms": seat.session_timeout_ms,
        "process_id": seat.process_id,
        "roles": [
            {"role": role, "of": of, "numbers": list(ids)}
            for role, held in seat.roles.items()
            for of, ids in held.items()
        ],
    }


def present_of(row: Mapping[str, Any]) -> Present:
    """A group as it is now."""
    members = tuple(
        GenerationMember(
            member["member_id"],
            tuple(member["topics"] or ()),
            {held["topic"]: tuple(held["partitions"]) for held in member["assigned"]},
            member["instance_id"],
            member["client_id"],
            member["host"],
            member["rack"],
            session_timeout_ms=member["session_timeout_ms"],
            process_id=member["process_id"],
            roles=_roles(member["roles"]),
        )
        for member in row["members"]
    )
    return Present(row["type"], row["state"], row["protocol"], row["generation"], members, row["readable"])


def _roles(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, tuple[int, ...]]]:
    roles: dict[str, dict[str, tuple[int, ...]]] = {}
    for row in rows:
        roles.setdefault(row["role"], {})[row["of"]] = tuple(row["numbers"])
    return roles


def group_json_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """group.json of a row, as ``group_json`` makes it."""
    topics = {topic["topic"]: topic["partitions"] for topic in row["topics"]}
    committed: dict[str, dict[int, int]] = {}
    for commit in row["commits"]:
        committed.setdefault(commit["topic"], {})[commit["partition"]] = commit["committed"]
    return group_json(row["group"], present_of(row), topics, committed)

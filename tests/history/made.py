"""Records of one group, made as Kafka's coordinator writes them: a line a record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from apportion.history.records import GroupRecord
from apportion.wire.coordinator import EpochRecord, GroupGeneration, Member

Held = Mapping[str, Sequence[int]]


def member(
    name: str, held: Held | None = None, *, topics: Sequence[str] | None = None, instance: str | None = None
) -> Member:
    """A member that holds this, and wants those topics (by default the ones it holds)."""
    held = held or {}
    wants = tuple(sorted(held)) if topics is None else tuple(topics)
    assigned = tuple((topic, tuple(ids)) for topic, ids in held.items())
    return Member(name, instance, "client", "/10.0.0.1", 60_000, 6_000, None, wants, (), None, assigned)


def classic(
    offset: int,
    generation: int,
    *members: Member,
    protocol_type: str = "consumer",
    protocol: str = "range",
    started: int | None = None,
    at: int | None = None,
    holes: int = 0,
) -> GroupRecord:
    """A key-2 record, one second after the one before it, 300 ms after the join was complete."""
    at = offset * 1000 if at is None else at
    record = GroupGeneration(
        "g",
        False,
        3,
        generation,
        protocol_type,
        protocol if members else None,
        None,
        at - 300 if started is None else started,
        members,
    )
    return GroupRecord(offset, at, record, holes)


def gone(offset: int) -> GroupRecord:
    """The group's tombstone."""
    return GroupRecord(offset, offset * 1000, GroupGeneration("g", True))


def epoch(offset: int, key_type: int, body: Mapping[str, Any] | None, member_id: str | None = None) -> GroupRecord:
    """A record of a KIP-848 group."""
    numbers = {3: "epoch", 6: "assignmentEpoch", 8: "memberEpoch"}
    number = body[numbers[key_type]] if body is not None and key_type in numbers else None
    return GroupRecord(
        offset,
        offset * 1000,
        EpochRecord("g", key_type, body is None, member_id, number, None if body is None else dict(body)),
    )


def joined(
    topics: Iterable[str] = ("t",), *, regex: str | None = "", instance: str | None = None, **more: Any
) -> dict[str, Any]:
    """The body of key 5."""
    return {
        "instanceId": instance, "rackId": None, "clientId": "client", "clientHost": "/10.0.0.1",
        "subscribedTopicNames": list(topics), "subscribedTopicRegex": regex, "rebalanceTimeoutMs": 300_000,
        "serverAssignor": None, **more,
    }  # fmt: skip


def target(held: Held) -> dict[str, Any]:
    """The body of key 7; the id of a topic is its name here."""
    return {"topicPartitions": [{"topicId": topic, "partitions": list(ids)} for topic, ids in held.items()]}


def current(number: int, held: Held, state: int = 0, revoking: Held | None = None) -> dict[str, Any]:
    """The body of key 8."""
    lists = [[{"topicId": t, "partitions": list(ids)} for t, ids in (h or {}).items()] for h in (held, revoking)]
    return {
        "memberEpoch": number, "previousMemberEpoch": number - 1, "state": state,
        "assignedPartitions": lists[0], "partitionsPendingRevocation": lists[1],
    }  # fmt: skip


NAMES = {"t": "t", "u": "u"}

"""Seeded random records of every kind and version, and hostile changes to them."""

from __future__ import annotations

import random
from base64 import b64encode

from tests.support.records import (
    commit_key,
    commit_value,
    epoch_key,
    epoch_value,
    group_key,
    group_value,
    other,
)

from apportion.wire.assignment import Assignment, write_assignment
from apportion.wire.coordinator import GroupGeneration, Member
from apportion.wire.partitions import Held
from apportion.wire.primitives import uuid_text
from apportion.wire.subscription import Subscription, write_subscription

Pair = tuple[bytes, bytes | None]

NAMES = ("", "a", "clicks", "заказы", "広告", "𝄞-notes", "\uff5e-wide", "x" * 126, "y" * 127, "z" * 128, "w" * 300)


def name(r: random.Random) -> str:
    return r.choice(NAMES)


def maybe(r: random.Random) -> str | None:
    return r.choice((None, name(r)))


def ids(r: random.Random, most: int = 5) -> tuple[int, ...]:
    return tuple(r.choice((0, 1, 7, 130, 2**31 - 1, -1)) for _ in range(r.randrange(most)))


def held(r: random.Random) -> Held:
    return tuple((name(r), ids(r)) for _ in range(r.randrange(4)))


def blob(r: random.Random) -> bytes:
    return r.randbytes(r.choice((0, 1, 2, 4, 10, 127, 128, 200)))


def subscription(r: random.Random) -> bytes:
    said = Subscription(
        tuple(name(r) for _ in range(r.randrange(4))),
        r.choice((None, b"", blob(r))),
        held(r),
        r.choice((None, 0, 5)),
        r.choice((None, "", "a")),
        r.randrange(4),
    )
    return write_subscription(said)


def assignment(r: random.Random) -> bytes:
    return write_assignment(Assignment(held(r), r.choice((None, b"", blob(r))), r.randrange(4)))


def commit(r: random.Random) -> Pair:
    key_type = r.choice((0, 1, 1, 1))
    key = commit_key(name(r), name(r), r.choice((0, 3, -1, 2**31 - 1)), key_type)
    if r.random() < 0.1:
        return key, None
    return key, commit_value(
        r.choice((0, 1, 2**40, -1, 2**63 - 1)),
        version=0 if key_type == 0 else r.choice((0, 1, 2, 3, 4, 4, 4)),
        leader_epoch=r.choice((-1, 0, 9, -5)),
        metadata=name(r),
        commit_time=r.choice((0, 1758335260726, -1)),
        expire_time=r.choice((-1, 1758335260726)),
        topic_id=r.choice((None, r.randbytes(16))),
    )


def generation(r: random.Random) -> Pair:
    key = group_key(name(r))
    if r.random() < 0.1:
        return key, None
    members = tuple(
        Member(
            name(r),
            maybe(r),
            name(r),
            "/10.0.0.1",
            r.choice((None, 300000)),
            45000,
            subscription=r.choice((subscription(r), blob(r))),
            assignment=r.choice((assignment(r), b"", blob(r))),
        )
        for _ in range(r.randrange(4))
    )
    said = GroupGeneration(
        "",
        False,
        generation=r.choice((0, 7)),
        protocol_type=r.choice(("consumer", "consumer", "", "connect")),
        protocol=maybe(r),
        leader=maybe(r),
        state_time=r.choice((None, 1758335260726)),
        members=members,
    )
    return key, group_value(said, r.randrange(5))


def topic_partitions(r: random.Random, epochs: bool) -> list[dict[str, object]]:
    out: list[dict[str, object]] = []
    for _ in range(r.randrange(4)):
        one: dict[str, object] = {"topicId": uuid_text(r.randbytes(16)), "partitions": list(ids(r))}
        if epochs and r.random() < 0.5:
            one["assignmentEpochs"] = r.choice((None, list(ids(r))))
        out.append(one)
    return out


def body(r: random.Random, key_type: int) -> dict[str, object]:
    number = r.choice((0, 1, -2, 2**31 - 1))
    big = r.choice((0, -1, 2**53 + 1, 2**63 - 1))
    if key_type == 3:
        return {"epoch": number, "metadataHash": big} if r.random() < 0.5 else {"epoch": number}
    if key_type == 4:
        racks = [{"partition": number, "racks": [name(r)]} for _ in range(r.randrange(3))]
        one = {"topicId": uuid_text(r.randbytes(16)), "topicName": name(r), "numPartitions": number}
        return {"topics": [{**one, "partitionMetadata": racks}] * r.randrange(3)}
    if key_type == 5:
        protocols = [{"name": name(r), "metadata": b64encode(blob(r)).decode()} for _ in range(r.randrange(3))]
        out: dict[str, object] = {
            "instanceId": maybe(r),
            "rackId": maybe(r),
            "clientId": name(r),
            "clientHost": name(r),
            "subscribedTopicNames": [name(r) for _ in range(r.randrange(4))],
            "subscribedTopicRegex": maybe(r),
            "rebalanceTimeoutMs": number,
            "serverAssignor": maybe(r),
        }
        if r.random() < 0.5:
            out["classicMemberMetadata"] = {"sessionTimeoutMs": number, "supportedProtocols": protocols}
        return out
    if key_type == 6:
        return {"assignmentEpoch": number, "assignmentTimestamp": big}
    if key_type == 7:
        return {"topicPartitions": topic_partitions(r, epochs=False)}
    return {
        "memberEpoch": number,
        "previousMemberEpoch": number,
        "state": r.choice((0, 1, 2, -1)),
        "assignedPartitions": topic_partitions(r, epochs=True),
        "partitionsPendingRevocation": topic_partitions(r, epochs=True),
    }


def epoch(r: random.Random) -> Pair:
    key_type = r.randrange(3, 9)
    key = epoch_key(key_type, name(r), name(r) if key_type in (5, 7, 8) else None)
    return key, None if r.random() < 0.1 else epoch_value(key_type, body(r, key_type))


def record(r: random.Random) -> Pair:
    """Any record, commits and generations most often."""
    kind = r.choice((commit, commit, generation, epoch, epoch, None))
    return other(r.choice((9, 16, 18, *range(24, 30))), r.choice((None, 0, 3)), blob(r)) if kind is None else kind(r)


def mutated(r: random.Random, raw: bytes) -> bytes:
    """One to three changes: a byte, a bit, an extreme length, a cut, an insertion, a tail."""
    out = bytearray(raw)
    for _ in range(r.choice((1, 1, 1, 2, 3))):
        at = r.randrange(len(out) + 1)
        kind = r.randrange(7)
        if kind == 0 and at < len(out):
            out[at] = r.randrange(256)
        elif kind == 1 and at < len(out):
            out[at] ^= 1 << r.randrange(8)
        elif kind == 2:
            size = r.choice((1, 2, 4))
            out[at : at + size] = r.choice((b"\x7f", b"\xff", b"\x80", b"\x00", b"\x01")) + b"\xff" * (size - 1)
        elif kind == 3:
            del out[at:]
        elif kind == 4:
            out[at:at] = r.randbytes(r.randrange(1, 6))
        elif kind == 5:
            del out[at : at + r.randrange(1, 4)]
        else:
            out += r.choice((r.randbytes(3), b"\x80\x80\x80\x80\x10", b"\xff\xff\xff\xff\x0f"))
    return bytes(out)


def mutated_record(r: random.Random) -> Pair:
    """A record with a change in its key, its value, or neither."""
    key, value = record(r)
    if r.random() < 0.2:
        key = mutated(r, key)
    if value is not None and r.random() < 0.85:
        value = mutated(r, value)
    return key, value

"""The records of ``__consumer_offsets``, one at a time: commits, classic generations, epochs, all others.

``decode(key, value)`` is the reference that faster readers are tested against. It reads what Kafka's own deserializer
(``GroupCoordinatorRecordSerde`` of 4.3) reads and refuses what that refuses: bytes after the last field are left
alone, a value of zero bytes is unreadable (a tombstone is a null value), key type 0 goes with value version 0 alone.
Epochs are the records of groups whose broker assigns: consumer groups of KIP-848 (key types 3 to 8), share groups (10
to 15) and streams groups (17, 19 to 23). What is left (9, 16, 18, from 24 on) is not read, only counted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from apportion.errors import UnreadableBytes
from apportion.wire import epochs, share_streams
from apportion.wire.assignment import read_assignment
from apportion.wire.partitions import Held
from apportion.wire.primitives import Reader, uuid_text
from apportion.wire.record_fields import Body
from apportion.wire.subscription import read_subscription

VALUES: Final = {**epochs.VALUES, **share_streams.VALUES}
"""Key type of an epoch's record -> how its value is read."""

EPOCH: Final = {**epochs.EPOCH, **share_streams.EPOCH}
WITH_MEMBER: Final = epochs.WITH_MEMBER | share_streams.WITH_MEMBER

NEWEST_VERSION: Final = {0: 0, 1: 4, 2: 4, **dict.fromkeys(VALUES, 0)}
"""Key type -> the highest value version that is known."""

_NO_ID: Final = bytes(16)


@dataclass(frozen=True, slots=True)
class Commit:
    """One committed offset (key types 0 and 1), or its tombstone, whose value fields are all None.

    committed
        Next offset to read.
    leader_epoch
        None where the version has none or it is -1.
    commit_time, expire_time
        Milliseconds since 1970, UTC; ``expire_time`` in version 1 only, None where it is -1.
    topic_id
        22 characters; None without the tag of version 4 (and for the zero id, which says "none").
    """

    group: str
    topic: str
    partition: int
    key_type: int
    tombstone: bool
    value_version: int | None = None
    committed: int | None = None
    leader_epoch: int | None = None
    metadata: str | None = None
    commit_time: int | None = None
    expire_time: int | None = None
    topic_id: str | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a classic generation.

    topics, owned, owned_generation, rack, user_data
        From its subscription. Under a protocol type other than ``consumer`` nothing is read: all empty, and
        ``user_data`` holds the subscription's bytes as they are; the same where those bytes are unreadable.
    assigned
        From its assignment; empty where it is zero bytes or unreadable.
    unreadable
        Why a subscription or assignment of protocol type ``consumer`` could not be read; else None.
    subscription, assignment
        The bytes as they stand in the record.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    rebalance_timeout_ms: int | None
    session_timeout_ms: int
    rack: str | None = None
    topics: tuple[str, ...] = ()
    owned: Held = ()
    owned_generation: int | None = None
    assigned: Held = ()
    user_data: bytes | None = None
    unreadable: str | None = None
    subscription: bytes = b""
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class GroupGeneration:
    """One generation of a classic group (key type 2), or the group's tombstone with no fields and no members.

    state_time
        When the group entered its state, in milliseconds; None before version 2 and where it is -1.
    """

    group: str
    tombstone: bool
    value_version: int | None = None
    generation: int | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    state_time: int | None = None
    members: tuple[Member, ...] = ()
    key_type: int = 2


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """One record of a group whose broker assigns (KIP-848, share, streams); ``body`` is None in a tombstone.

    epoch
        ``epoch`` of types 3, 11 and 17, ``assignmentEpoch`` of 6, 12 and 20, ``memberEpoch`` of 8, 14 and 22, else
        None.
    """

    group: str
    key_type: int
    tombstone: bool
    member_id: str | None = None
    epoch: int | None = None
    body: Body | None = None
    value_version: int | None = None

    @property
    def body_json(self) -> str | None:
        """The body as Kafka's JSON converters write it."""
        return None if self.body is None else json.dumps(self.body, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Other:
    """A record of a type that is counted, not read."""

    key_type: int
    tombstone: bool
    value_version: int | None = None


Record = Commit | GroupGeneration | EpochRecord | Other


def decode(key: bytes | None, value: bytes | None) -> Record:
    """One record; UnreadableBytes if Kafka's own deserializer gives up, or the version is unknown."""
    if key is None:
        raise UnreadableBytes("a record without a key", 0)
    reader = Reader(key)
    key_type = reader.int16()
    if key_type in (0, 1):
        return _commit(key_type, reader, value)
    if key_type == 2:
        return _generation(reader.string(), value)
    if key_type in VALUES:
        return _epoch(key_type, reader, value)
    if value is None:
        return Other(key_type, True)
    return Other(key_type, False, Reader(value).int16())


def readable(key: bytes | None, value: bytes | None) -> Record | None:
    """One record; None for an unreadable one."""
    try:
        return decode(key, value)
    except UnreadableBytes:
        return None


def _open(key_type: int, value: bytes) -> tuple[Reader, int]:
    """A reader behind the version of a value, which is one that Kafka knows."""
    reader = Reader(value)
    version = reader.int16()
    if not 0 <= version <= NEWEST_VERSION[key_type]:
        raise UnreadableBytes(f"value version {version} of key type {key_type}", 0)
    return reader, version


def _commit(key_type: int, key: Reader, value: bytes | None) -> Commit:
    group, topic, partition = key.string(), key.string(), key.int32()
    if value is None:
        return Commit(group, topic, partition, key_type, True)
    reader, version = _open(key_type, value)
    committed = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else -1
    metadata = reader.compact_string() if version >= 4 else reader.string()
    commit_time = reader.int64()
    expire_time = reader.int64() if version == 1 else -1
    return Commit(
        group,
        topic,
        partition,
        key_type,
        False,
        version,
        committed,
        None if leader_epoch == -1 else leader_epoch,
        metadata,
        commit_time,
        None if expire_time == -1 else expire_time,
        _topic_id(reader) if version >= 4 else None,
    )


def _topic_id(reader: Reader) -> str | None:
    """The id in tag 0 of a commit's value."""
    topic_id = _NO_ID

    def tagged(tag: int) -> bool:
        nonlocal topic_id
        if tag == 0:
            topic_id = reader.take(16)
        return tag == 0

    reader.tags(tagged)
    return None if topic_id == _NO_ID else uuid_text(topic_id)


def _generation(group: str, value: bytes | None) -> GroupGeneration:
    if value is None:
        return GroupGeneration(group, True)
    reader, version = _open(2, value)
    flexible = version >= 4
    protocol_type = reader.compact_string() if flexible else reader.string()
    generation = reader.int32()
    protocol = reader.compact_nullable_string() if flexible else reader.nullable_string()
    leader = reader.compact_nullable_string() if flexible else reader.nullable_string()
    state_time = reader.int64() if version >= 2 else -1
    # The fewest bytes of a member: in v0 three lengths of 2 and three of 4; in v4 six lengths of 1, two int32, tags.
    count = reader.compact_count(15) if flexible else reader.count(18)
    members = tuple([_member(reader, version, protocol_type) for _ in range(count)])
    if flexible:
        reader.tags()
    entered = None if state_time == -1 else state_time
    return GroupGeneration(group, False, version, generation, protocol_type, protocol, leader, entered, members)


def _member(reader: Reader, version: int, protocol_type: str) -> Member:
    flexible = version >= 4
    string = reader.compact_string if flexible else reader.string
    nullable = reader.compact_nullable_string if flexible else reader.nullable_string
    blob = reader.compact_blob if flexible else reader.blob
    member_id = string()
    instance_id = nullable() if version >= 3 else None
    client_id, host = string(), string()
    rebalance_timeout_ms = reader.int32() if version >= 1 else None
    session_timeout_ms = reader.int32()
    subscription, assignment = blob(), blob()
    if flexible:
        reader.tags()
    return Member(
        member_id,
        instance_id,
        client_id,
        host,
        rebalance_timeout_ms,
        session_timeout_ms,
        *_consumer_fields(protocol_type, subscription, assignment),
        subscription,
        assignment,
    )


_ConsumerFields = tuple[str | None, tuple[str, ...], Held, int | None, Held, bytes | None, str | None]


def _consumer_fields(protocol_type: str, subscription: bytes, assignment: bytes) -> _ConsumerFields:
    """The fields of ``Member`` from ``rack`` to ``unreadable``: a consumer's subscription and assignment."""
    if protocol_type != "consumer":
        return None, (), (), None, (), subscription, None
    trouble: list[str] = []
    assigned: Held = ()
    try:
        if assignment:
            assigned = read_assignment(assignment).partitions
    except UnreadableBytes as error:
        trouble.append(f"assignment: {error}")
    try:
        sent = read_subscription(subscription)
    except UnreadableBytes as error:
        trouble.append(f"subscription: {error}")
        return None, (), (), None, assigned, subscription, "; ".join(trouble)
    return (
        sent.rack,
        sent.topics,
        sent.owned,
        sent.generation,
        assigned,
        sent.user_data,
        "; ".join(trouble) or None,
    )


def _epoch(key_type: int, key: Reader, value: bytes | None) -> EpochRecord:
    group = key.string()
    member_id = key.string() if key_type in WITH_MEMBER else None
    if value is None:
        return EpochRecord(group, key_type, True, member_id)
    reader, version = _open(key_type, value)
    body: Body = VALUES[key_type](reader)
    epoch = body[EPOCH[key_type]] if key_type in EPOCH else None
    return EpochRecord(group, key_type, False, member_id, epoch, body, version)

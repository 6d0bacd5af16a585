"""Writers for records of ``__consumer_offsets`` in every version: synthetic logs for tests and benchmarks.

They follow the message files of Kafka's group coordinator and are checked against Kafka's own deserializer; the
product itself never writes such records. A key and a value are ``bytes``; a tombstone's value is None.
"""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64decode
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.support.share_streams_records import VALUES as SHARE_STREAMS

from apportion.wire.coordinator import GroupGeneration, Member
from apportion.wire.writer import Writer

Body = Mapping[str, Any]


def commit_key(group: str, topic: str, partition: int, key_type: int = 1) -> bytes:
    """The key of a committed offset: type 1, or the old type 0."""
    return Writer().int16(key_type).string(group).string(topic).int32(partition).done()


def commit_value(
    committed: int,
    *,
    version: int = 4,
    leader_epoch: int = -1,
    metadata: str = "",
    commit_time: int = 0,
    expire_time: int = -1,
    topic_id: bytes | None = None,
) -> bytes:
    """A commit's value, versions 0 to 4; what a version has no field for is left out."""
    writer = Writer().int16(version).int64(committed)
    if version >= 3:
        writer.int32(leader_epoch)
    (writer.compact_string if version >= 4 else writer.string)(metadata)
    writer.int64(commit_time)
    if version == 1:
        writer.int64(expire_time)
    if version >= 4:
        writer.tags({} if topic_id is None else {0: topic_id})
    return writer.done()


def group_key(group: str) -> bytes:
    """The key of a classic group."""
    return Writer().int16(2).string(group).done()


def group_value(record: GroupGeneration, version: int = 3) -> bytes:
    """A classic generation, versions 0 to 4, from the fields and the members' raw bytes."""
    writer = Writer().int16(version)
    string = writer.compact_string if version >= 4 else writer.string
    string(record.protocol_type or "")
    writer.int32(record.generation or 0)
    string(record.protocol)
    string(record.leader)
    if version >= 2:
        writer.int64(-1 if record.state_time is None else record.state_time)
    array = writer.compact_array if version >= 4 else writer.array
    array(record.members, lambda member: _member(writer, member, version))
    if version >= 4:
        writer.tags()
    return writer.done()


def _member(writer: Writer, member: Member, version: int) -> None:
    string = writer.compact_string if version >= 4 else writer.string
    blob = writer.compact_blob if version >= 4 else writer.blob
    string(member.member_id)
    if version >= 3:
        string(member.instance_id)
    string(member.client_id)
    string(member.host)
    if version >= 1:
        writer.int32(-1 if member.rebalance_timeout_ms is None else member.rebalance_timeout_ms)
    writer.int32(member.session_timeout_ms)
    blob(member.subscription)
    blob(member.assignment)
    if version >= 4:
        writer.tags()


def epoch_key(key_type: int, group: str, member_id: str | None = None) -> bytes:
    """The key of an epoch's record; types 5, 7, 8, 10, 13, 14, 19, 21 and 22 name a member after the group."""
    writer = Writer().int16(key_type).string(group)
    return writer.done() if member_id is None else writer.string(member_id).done()


def epoch_value(key_type: int, body: Body) -> bytes:
    """An epoch record's value (version 0) from its JSON form."""
    writer = Writer().int16(0)
    _EPOCHS[key_type](writer, body)
    return writer.done()


def other(key_type: int, version: int | None = 0, rest: bytes = b"") -> tuple[bytes, bytes | None]:
    """A record of a type that is only counted; version None makes a tombstone."""
    key = Writer().int16(key_type).string("group").done()
    return key, None if version is None else Writer().int16(version).raw(rest).done()


def uuid_bytes(text: str) -> bytes:
    """Kafka's 22 characters as 16 bytes."""
    return urlsafe_b64decode(text + "==")


def _int64_tag(body: Body, name: str) -> dict[int, bytes]:
    return {0: Writer().int64(body[name]).done()} if name in body else {}


def _group_epoch(writer: Writer, body: Body) -> None:
    writer.int32(body["epoch"]).tags(_int64_tag(body, "metadataHash"))


def _target_epoch(writer: Writer, body: Body) -> None:
    writer.int32(body["assignmentEpoch"]).tags(_int64_tag(body, "assignmentTimestamp"))


def _topics(writer: Writer, body: Body) -> None:
    def racks(entry: Body) -> None:
        writer.int32(entry["partition"]).compact_array(entry["racks"], writer.compact_string).tags()

    def topic(entry: Body) -> None:
        writer.raw(uuid_bytes(entry["topicId"])).compact_string(entry["topicName"]).int32(entry["numPartitions"])
        writer.compact_array(entry["partitionMetadata"], racks).tags()

    writer.compact_array(body["topics"], topic).tags()


def _member_metadata(writer: Writer, body: Body) -> None:
    for name in ("instanceId", "rackId", "clientId", "clientHost"):
        writer.compact_string(body[name])
    writer.compact_array(body["subscribedTopicNames"], writer.compact_string)
    writer.compact_string(body["subscribedTopicRegex"]).int32(body["rebalanceTimeoutMs"])
    writer.compact_string(body["serverAssignor"]).tags(_classic_tag(body.get("classicMemberMetadata")))


def _classic_tag(classic: Body | None) -> dict[int, bytes]:
    if classic is None:
        return {}
    inner = Writer().uvarint(1).int32(classic["sessionTimeoutMs"])

    def protocol(entry: Body) -> None:
        inner.compact_string(entry["name"]).compact_blob(b64decode(entry["metadata"])).tags()

    return {0: inner.compact_array(classic["supportedProtocols"], protocol).tags().done()}


def _target(writer: Writer, body: Body) -> None:
    _topic_partitions(writer, body["topicPartitions"])
    writer.tags()


def _current(writer: Writer, body: Body) -> None:
    writer.int32(body["memberEpoch"]).int32(body["previousMemberEpoch"]).int8(body["state"])
    _topic_partitions(writer, body["assignedPartitions"])
    _topic_partitions(writer, body["partitionsPendingRevocation"])
    writer.tags()


def _topic_partitions(writer: Writer, entries: Sequence[Body]) -> None:
    def entry(one: Body) -> None:
        epochs = {}
        if "assignmentEpochs" in one:
            epochs = {0: Writer().compact_int32s(one["assignmentEpochs"]).done()}
        writer.raw(uuid_bytes(one["topicId"])).compact_int32s(one["partitions"]).tags(epochs)

    writer.compact_array(entries, entry)


_EPOCHS: Mapping[int, Callable[[Writer, Body], None]] = {
    3: _group_epoch,
    4: _topics,
    5: _member_metadata,
    6: _target_epoch,
    7: _target,
    8: _current,
    **SHARE_STREAMS,
}

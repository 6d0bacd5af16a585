"""Writers for the values of share groups' and streams groups' records (key types 10 to 15, 17, 19 to 23)."""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from apportion.wire.writer import Writer

Body = Mapping[str, Any]


def _id(text: str) -> bytes:
    return urlsafe_b64decode(text + "==")


def _share_member(writer: Writer, body: Body) -> None:
    for name in ("rackId", "clientId", "clientHost"):
        writer.compact_string(body[name])
    writer.compact_array(body["subscribedTopicNames"], writer.compact_string).tags()


def _share_group(writer: Writer, body: Body) -> None:
    writer.int32(body["epoch"]).int64(body["metadataHash"]).tags()


def _target_epoch(writer: Writer, body: Body) -> None:
    at = body.get("assignmentTimestamp")
    writer.int32(body["assignmentEpoch"]).tags({} if at is None else {0: Writer().int64(at).done()})


def _topic_partitions(writer: Writer, entries: Sequence[Body]) -> None:
    def entry(one: Body) -> None:
        writer.raw(_id(one["topicId"]))
        if "topicName" in one:
            writer.compact_string(one["topicName"])
        if "partitions" in one:
            writer.compact_int32s(one["partitions"])
        writer.tags()

    writer.compact_array(entries, entry)


def _share_target(writer: Writer, body: Body) -> None:
    _topic_partitions(writer, body["topicPartitions"])
    writer.tags()


def _share_current(writer: Writer, body: Body) -> None:
    writer.int32(body["memberEpoch"]).int32(body["previousMemberEpoch"]).int8(body["state"])
    _topic_partitions(writer, body["assignedPartitions"])
    writer.tags()


def _share_state(writer: Writer, body: Body) -> None:
    for name in ("initializingTopics", "initializedTopics", "deletingTopics"):
        _topic_partitions(writer, body[name])
    writer.tags()


def _pairs(writer: Writer, pairs: Sequence[Body] | None) -> None:
    if pairs is None:
        writer.uvarint(0)
        return
    writer.compact_array(pairs, lambda one: writer.compact_string(one["key"]).compact_string(one["value"]).tags())


def _streams_group(writer: Writer, body: Body) -> None:
    tags = {}
    if "validatedTopologyEpoch" in body:
        tags[0] = Writer().int32(body["validatedTopologyEpoch"]).done()
    if "lastAssignmentConfigs" in body:
        inner = Writer()
        _pairs(inner, body["lastAssignmentConfigs"])
        tags[1] = inner.done()
    for tag, name in ((2, "storedDescriptionTopologyEpoch"), (3, "failedDescriptionTopologyEpoch")):  # Kafka 4.4
        if name in body:
            tags[tag] = Writer().int32(body[name]).done()
    writer.int32(body["epoch"]).int64(body["metadataHash"]).tags(tags)


def _streams_member(writer: Writer, body: Body) -> None:
    for name in ("instanceId", "rackId", "clientId", "clientHost"):
        writer.compact_string(body[name])
    writer.int32(body["rebalanceTimeoutMs"]).int32(body["topologyEpoch"]).compact_string(body["processId"])
    endpoint = body["userEndpoint"]
    if endpoint is None:
        writer.int8(-1)
    else:
        writer.int8(1).compact_string(endpoint["host"]).raw(endpoint["port"].to_bytes(2, "big")).tags()
    _pairs(writer, body["clientTags"])
    writer.tags()


def _tasks(writer: Writer, entries: Sequence[Body]) -> None:
    def entry(one: Body) -> None:
        tags = {}
        if "assignmentEpochs" in one:
            tags[0] = Writer().compact_int32s(one["assignmentEpochs"]).done()
        writer.compact_string(one["subtopologyId"]).compact_int32s(one["partitions"]).tags(tags)

    writer.compact_array(entries, entry)


def _streams_target(writer: Writer, body: Body) -> None:
    for name in ("activeTasks", "standbyTasks", "warmupTasks"):
        _tasks(writer, body[name])
    writer.tags()


def _streams_current(writer: Writer, body: Body) -> None:
    writer.int32(body["memberEpoch"]).int32(body["previousMemberEpoch"]).int8(body["state"])
    for pending in ("", "PendingRevocation"):
        for name in ("activeTasks", "standbyTasks", "warmupTasks"):
            _tasks(writer, body[name + pending])
    writer.tags()


def _topology(writer: Writer, body: Body) -> None:
    def internal(one: Body) -> None:
        writer.compact_string(one["name"]).int32(one["partitions"]).int16(one["replicationFactor"])
        _pairs(writer, one["topicConfigs"])
        writer.tags()

    def copartitioned(one: Body) -> None:
        for name in ("sourceTopics", "sourceTopicRegex", "repartitionSourceTopics"):
            writer.compact_array(one[name], writer.int16)
        writer.tags()

    def subtopology(one: Body) -> None:
        writer.compact_string(one["subtopologyId"])
        writer.compact_array(one["sourceTopics"], writer.compact_string)
        writer.compact_array(one["sourceTopicRegex"], writer.compact_string)
        writer.compact_array(one["stateChangelogTopics"], internal)
        writer.compact_array(one["repartitionSinkTopics"], writer.compact_string)
        writer.compact_array(one["repartitionSourceTopics"], internal)
        writer.compact_array(one["copartitionGroups"], copartitioned).tags()

    writer.int32(body["epoch"]).compact_array(body["subtopologies"], subtopology).tags()


VALUES: Mapping[int, Callable[[Writer, Body], None]] = {
    10: _share_member,
    11: _share_group,
    12: _target_epoch,
    13: _share_target,
    14: _share_current,
    15: _share_state,
    17: _streams_group,
    19: _streams_member,
    20: _target_epoch,
    21: _streams_target,
    22: _streams_current,
    23: _topology,
}
"""Key type -> how its value is written after the version."""

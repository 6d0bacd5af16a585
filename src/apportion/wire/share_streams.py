"""The values of share groups' records (key types 10 to 15, KIP-932) and streams groups' (17, 19 to 23, KIP-1071).

All are version 0 and flexible; bodies are in Kafka's own JSON form, see ``record_fields``. Types 9, 16, 18 and 24 are
not among them: 9 and 18 were dropped before a release wrote them for good, 16 is a consumer group's regular
expression, and no broker of 4.3 writes 24.
Source: the classes that the builds of Kafka 4.3 and 4.4 make of the group coordinator's message files; type 17's tags
2 and 3 are 4.4's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from apportion.wire.primitives import Reader
from apportion.wire.record_fields import (
    Read,
    array,
    int32s,
    nullable_array,
    nullable_int32s,
    nullable_string,
    nullable_struct,
    string,
    struct,
)


def _port(reader: Reader) -> int:
    """A port is an unsigned 16-bit number."""
    return reader.int16() & 0xFFFF


_PAIR = struct({"key": string, "value": string})
_PAIRS = array(_PAIR, 3)
_TOPIC_PARTITIONS = array(struct({"topicId": Reader.uuid, "partitions": int32s}), 18)
_NAMED_PARTITIONS = array(struct({"topicId": Reader.uuid, "topicName": string, "partitions": int32s}), 19)
_TASKS = array(struct({"subtopologyId": string, "partitions": int32s}), 3)
_HELD_TASKS = array(
    struct({"subtopologyId": string, "partitions": int32s}, {0: ("assignmentEpochs", nullable_int32s, [])}), 3
)
_ENDPOINT = struct({"host": string, "port": _port})
_INTERNAL_TOPIC = struct(
    {"name": string, "partitions": Reader.int32, "replicationFactor": Reader.int16, "topicConfigs": _PAIRS}
)
_COPARTITIONED = struct(
    {
        "sourceTopics": array(Reader.int16, 2),
        "sourceTopicRegex": array(Reader.int16, 2),
        "repartitionSourceTopics": array(Reader.int16, 2),
    }
)
_SUBTOPOLOGY = struct(
    {
        "subtopologyId": string,
        "sourceTopics": array(string, 1),
        "sourceTopicRegex": array(string, 1),
        "stateChangelogTopics": array(_INTERNAL_TOPIC, 9),
        "repartitionSinkTopics": array(string, 1),
        "repartitionSourceTopics": array(_INTERNAL_TOPIC, 9),
        "copartitionGroups": array(_COPARTITIONED, 4),
    }
)
_TARGET_EPOCH = struct({"assignmentEpoch": Reader.int32}, {0: ("assignmentTimestamp", Reader.int64, 0)})

VALUES: Final[Mapping[int, Read]] = {
    10: struct(
        {"rackId": nullable_string, "clientId": string, "clientHost": string, "subscribedTopicNames": array(string, 1)}
    ),
    11: struct({"epoch": Reader.int32, "metadataHash": Reader.int64}),
    12: _TARGET_EPOCH,
    13: struct({"topicPartitions": _TOPIC_PARTITIONS}),
    14: struct(
        {
            "memberEpoch": Reader.int32,
            "previousMemberEpoch": Reader.int32,
            "state": Reader.int8,
            "assignedPartitions": _TOPIC_PARTITIONS,
        }
    ),
    15: struct(
        {
            "initializingTopics": _NAMED_PARTITIONS,
            "initializedTopics": _NAMED_PARTITIONS,
            "deletingTopics": array(struct({"topicId": Reader.uuid, "topicName": string}), 18),
        }
    ),
    17: struct(
        {"epoch": Reader.int32, "metadataHash": Reader.int64},
        {
            0: ("validatedTopologyEpoch", Reader.int32, -1),
            1: ("lastAssignmentConfigs", nullable_array(_PAIR, 3), []),
            2: ("storedDescriptionTopologyEpoch", Reader.int32, -1),
            3: ("failedDescriptionTopologyEpoch", Reader.int32, -1),
        },
    ),
    19: struct(
        {
            "instanceId": nullable_string,
            "rackId": nullable_string,
            "clientId": string,
            "clientHost": string,
            "rebalanceTimeoutMs": Reader.int32,
            "topologyEpoch": Reader.int32,
            "processId": string,
            "userEndpoint": nullable_struct(_ENDPOINT),
            "clientTags": _PAIRS,
        }
    ),
    20: _TARGET_EPOCH,
    21: struct({"activeTasks": _TASKS, "standbyTasks": _TASKS, "warmupTasks": _TASKS}),
    22: struct(
        {
            "memberEpoch": Reader.int32,
            "previousMemberEpoch": Reader.int32,
            "state": Reader.int8,
            "activeTasks": _HELD_TASKS,
            "standbyTasks": _HELD_TASKS,
            "warmupTasks": _HELD_TASKS,
            "activeTasksPendingRevocation": _HELD_TASKS,
            "standbyTasksPendingRevocation": _HELD_TASKS,
            "warmupTasksPendingRevocation": _HELD_TASKS,
        }
    ),
    23: struct({"epoch": Reader.int32, "subtopologies": array(_SUBTOPOLOGY, 8)}),
}
"""Key type -> how its value's body is read."""

EPOCH: Final[Mapping[int, str]] = {
    11: "epoch",
    12: "assignmentEpoch",
    14: "memberEpoch",
    17: "epoch",
    20: "assignmentEpoch",
    22: "memberEpoch",
}
"""Key type -> the field that tells the epoch; a topology's epoch (type 23) is another count and stays in the body."""

WITH_MEMBER: Final = frozenset({10, 13, 14, 19, 21, 22})
"""Key types whose key names a member after the group."""

SHARE: Final = frozenset(range(10, 16))
"""Key types of share groups."""

STREAMS: Final = frozenset({17, 19, 20, 21, 22, 23})
"""Key types of streams groups."""

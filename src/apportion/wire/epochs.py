"""The values of KIP-848 records (key types 3 to 8) as tables of fields, read into Kafka's own JSON form.

All are version 0 and flexible; bodies are in Kafka's own JSON form, see ``record_fields``.
Source: the message files of Kafka 4.3's group coordinator; the tag of KIP-1282 (creation time) is stepped over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from apportion.wire.primitives import Reader
from apportion.wire.record_fields import (
    Body,
    Read,
    array,
    base64,
    int32s,
    nullable_int32s,
    nullable_string,
    string,
    struct,
)

_PARTITION_RACKS = struct({"partition": Reader.int32, "racks": array(string, 1)})
_TOPIC = struct(
    {
        "topicId": Reader.uuid,
        "topicName": string,
        "numPartitions": Reader.int32,
        "partitionMetadata": array(_PARTITION_RACKS, 6),
    }
)
_PROTOCOL = struct({"name": string, "metadata": base64})
_CLASSIC = struct({"sessionTimeoutMs": Reader.int32, "supportedProtocols": array(_PROTOCOL, 3)})
_TARGET = struct({"topicId": Reader.uuid, "partitions": int32s})
_CURRENT = struct({"topicId": Reader.uuid, "partitions": int32s}, {0: ("assignmentEpochs", nullable_int32s, [])})


def _classic(reader: Reader) -> Body | None:
    """A nullable struct: a varint that is 1 if it is there."""
    return _CLASSIC(reader) if reader.uvarint() > 0 else None


VALUES: Final[Mapping[int, Read]] = {
    3: struct({"epoch": Reader.int32}, {0: ("metadataHash", Reader.int64, 0)}),
    4: struct({"topics": array(_TOPIC, 23)}),
    5: struct(
        {
            "instanceId": nullable_string,
            "rackId": nullable_string,
            "clientId": string,
            "clientHost": string,
            "subscribedTopicNames": array(string, 1),
            "subscribedTopicRegex": nullable_string,
            "rebalanceTimeoutMs": Reader.int32,
            "serverAssignor": nullable_string,
        },
        # Kafka's default is the empty struct, so that a null one is written out.
        {0: ("classicMemberMetadata", _classic, {"sessionTimeoutMs": 0, "supportedProtocols": []})},
    ),
    6: struct({"assignmentEpoch": Reader.int32}, {0: ("assignmentTimestamp", Reader.int64, 0)}),
    7: struct({"topicPartitions": array(_TARGET, 18)}),
    8: struct(
        {
            "memberEpoch": Reader.int32,
            "previousMemberEpoch": Reader.int32,
            "state": Reader.int8,
            "assignedPartitions": array(_CURRENT, 18),
            "partitionsPendingRevocation": array(_CURRENT, 18),
        }
    ),
}
"""Key type -> how its value's body is read."""

EPOCH: Final[Mapping[int, str]] = {3: "epoch", 6: "assignmentEpoch", 8: "memberEpoch"}
"""Key type -> the field that tells the epoch."""

WITH_MEMBER: Final = frozenset({5, 7, 8})
"""Key types whose key names a member after the group."""

"""The values of KIP-848 records (key types 3 to 8) as tables of fields, read into Kafka's own JSON form.

All are version 0 and flexible. A body is a dict with the names and order of Kafka's JSON converters: ids as 22
characters, bytes as base64, a tagged field only where it differs from its default.
Source: the message files of Kafka 4.3's group coordinator; the tag of KIP-1282 (creation time) is stepped over.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final

from apportion.wire.primitives import Reader

Body = dict[str, Any]
"""One record's value, ready for ``json.dumps``."""

Read = Callable[[Reader], Any]


def _struct(fields: Mapping[str, Read], tags: Mapping[int, tuple[str, Read, Any]] | None = None) -> Read:
    """Fields in their order, then tagged ones: tag -> (name, how to read it, default)."""
    known = tags or {}

    def read(reader: Reader) -> Body:
        body: Body = {name: take(reader) for name, take in fields.items()}
        extra: Body = {}

        def tagged(tag: int) -> bool:
            if tag not in known:
                return False
            extra[known[tag][0]] = known[tag][1](reader)
            return True

        reader.tags(tagged)
        for name, _, default in known.values():
            if extra.get(name, default) != default:
                body[name] = extra[name]
        return body

    return read


def _array(element: Read, least: int) -> Read:
    """A compact array; ``least`` is the fewest bytes of one element."""
    return lambda reader: reader.compact_array(lambda: element(reader), least)


def _base64(reader: Reader) -> str:
    return b64encode(reader.compact_blob()).decode("ascii")


def _ids(reader: Reader) -> list[int]:
    return list(reader.compact_int32s())


def _nullable_ids(reader: Reader) -> list[int] | None:
    ids = reader.compact_nullable_int32s()
    return None if ids is None else list(ids)


_string: Read = Reader.compact_string
_nullable: Read = Reader.compact_nullable_string

_PARTITION_RACKS = _struct({"partition": Reader.int32, "racks": _array(_string, 1)})
_TOPIC = _struct(
    {
        "topicId": Reader.uuid,
        "topicName": _string,
        "numPartitions": Reader.int32,
        "partitionMetadata": _array(_PARTITION_RACKS, 6),
    }
)
_PROTOCOL = _struct({"name": _string, "metadata": _base64})
_CLASSIC = _struct({"sessionTimeoutMs": Reader.int32, "supportedProtocols": _array(_PROTOCOL, 3)})
_TARGET = _struct({"topicId": Reader.uuid, "partitions": _ids})
_CURRENT = _struct({"topicId": Reader.uuid, "partitions": _ids}, {0: ("assignmentEpochs", _nullable_ids, [])})


def _classic(reader: Reader) -> Body | None:
    """A nullable struct: a varint that is 1 where it is there."""
    return _CLASSIC(reader) if reader.uvarint() > 0 else None


VALUES: Final[Mapping[int, Read]] = {
    3: _struct({"epoch": Reader.int32}, {0: ("metadataHash", Reader.int64, 0)}),
    4: _struct({"topics": _array(_TOPIC, 23)}),
    5: _struct(
        {
            "instanceId": _nullable,
            "rackId": _nullable,
            "clientId": _string,
            "clientHost": _string,
            "subscribedTopicNames": _array(_string, 1),
            "subscribedTopicRegex": _nullable,
            "rebalanceTimeoutMs": Reader.int32,
            "serverAssignor": _nullable,
        },
        # Kafka's default is the empty struct, so that a null one is written out.
        {0: ("classicMemberMetadata", _classic, {"sessionTimeoutMs": 0, "supportedProtocols": []})},
    ),
    6: _struct({"assignmentEpoch": Reader.int32}, {0: ("assignmentTimestamp", Reader.int64, 0)}),
    7: _struct({"topicPartitions": _array(_TARGET, 18)}),
    8: _struct(
        {
            "memberEpoch": Reader.int32,
            "previousMemberEpoch": Reader.int32,
            "state": Reader.int8,
            "assignedPartitions": _array(_CURRENT, 18),
            "partitionsPendingRevocation": _array(_CURRENT, 18),
        }
    ),
}
"""Key type -> how its value's body is read."""

EPOCH: Final[Mapping[int, str]] = {3: "epoch", 6: "assignmentEpoch", 8: "memberEpoch"}
"""Key type -> the field that tells the epoch."""

WITH_MEMBER: Final = frozenset({5, 7, 8})
"""Key types whose key names a member after the group."""

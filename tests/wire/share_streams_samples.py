"""Seeded random values of share groups' and streams groups' records, in Kafka's JSON form."""

from __future__ import annotations

import random
from typing import Any

from tests.support.records import epoch_key, epoch_value

from apportion.wire.coordinator import WITH_MEMBER
from apportion.wire.primitives import uuid_text
from apportion.wire.share_streams import VALUES

from . import samples

Body = dict[str, Any]
TYPES = sorted(VALUES)


def number(r: random.Random) -> int:
    return r.choice((0, 1, -1, -2, 9, 2**31 - 1, -(2**31)))


def big(r: random.Random) -> int:
    return r.choice((0, -1, 2**53 + 1, 2**63 - 1, -(2**63)))


def topics(r: random.Random, *, named: bool = False, partitions: bool = True) -> list[Body]:
    found = []
    for _ in range(r.randrange(4)):
        one: Body = {"topicId": uuid_text(r.randbytes(16))}
        one |= {"topicName": samples.name(r)} if named else {}
        found.append(one | ({"partitions": list(samples.ids(r))} if partitions else {}))
    return found


def tasks(r: random.Random, *, epochs: bool = False) -> list[Body]:
    found = []
    for _ in range(r.randrange(4)):
        one: Body = {"subtopologyId": samples.name(r), "partitions": list(samples.ids(r))}
        if epochs and r.random() < 0.5:
            one["assignmentEpochs"] = r.choice((None, [], list(samples.ids(r))))
        found.append(one)
    return found


def pairs(r: random.Random) -> list[Body]:
    return [{"key": samples.name(r), "value": samples.name(r)} for _ in range(r.randrange(3))]


def internal_topics(r: random.Random) -> list[Body]:
    return [
        {
            "name": samples.name(r),
            "partitions": number(r),
            "replicationFactor": r.choice((-1, 1, 3, 32767, -32768)),
            "topicConfigs": pairs(r),
        }
        for _ in range(r.randrange(3))
    ]


def names(r: random.Random) -> list[str]:
    return [samples.name(r) for _ in range(r.randrange(4))]


def places(r: random.Random) -> list[int]:
    return [r.choice((0, 1, 32767, -1)) for _ in range(r.randrange(3))]


def subtopology(r: random.Random) -> Body:
    return {
        "subtopologyId": samples.name(r),
        "sourceTopics": names(r),
        "sourceTopicRegex": names(r),
        "stateChangelogTopics": internal_topics(r),
        "repartitionSinkTopics": names(r),
        "repartitionSourceTopics": internal_topics(r),
        "copartitionGroups": [
            {name: places(r) for name in ("sourceTopics", "sourceTopicRegex", "repartitionSourceTopics")}
            for _ in range(r.randrange(3))
        ],
    }


def body(r: random.Random, key_type: int) -> Body:
    """A value of one key type."""
    if key_type == 10:
        named = {name: samples.name(r) for name in ("clientId", "clientHost")}
        return {"rackId": samples.maybe(r), **named, "subscribedTopicNames": names(r)}
    if key_type in (11, 17):
        found: dict[str, Any] = {"epoch": number(r), "metadataHash": big(r)}
        if key_type == 17 and r.random() < 0.6:
            found["validatedTopologyEpoch"] = number(r)
        if key_type == 17 and r.random() < 0.6:
            found["lastAssignmentConfigs"] = r.choice((None, [], pairs(r)))
        return found
    if key_type in (12, 20):
        return {"assignmentEpoch": number(r)} | ({"assignmentTimestamp": big(r)} if r.random() < 0.6 else {})
    if key_type == 13:
        return {"topicPartitions": topics(r)}
    epochs = {"memberEpoch": number(r), "previousMemberEpoch": number(r), "state": r.choice((0, 1, 2, 127, -128))}
    if key_type == 14:
        return {**epochs, "assignedPartitions": topics(r)}
    if key_type == 15:
        whole = {name: topics(r, named=True) for name in ("initializingTopics", "initializedTopics")}
        return {**whole, "deletingTopics": topics(r, named=True, partitions=False)}
    if key_type == 19:
        return streams_member(r)
    kinds = ("activeTasks", "standbyTasks", "warmupTasks")
    if key_type == 21:
        return {name: tasks(r) for name in kinds}
    if key_type == 22:
        names_ = [*kinds, *(name + "PendingRevocation" for name in kinds)]
        return {**epochs, **{name: tasks(r, epochs=True) for name in names_}}
    return {"epoch": number(r), "subtopologies": [subtopology(r) for _ in range(r.randrange(3))]}


def streams_member(r: random.Random) -> Body:
    return {
        "instanceId": samples.maybe(r),
        "rackId": samples.maybe(r),
        "clientId": samples.name(r),
        "clientHost": samples.name(r),
        "rebalanceTimeoutMs": number(r),
        "topologyEpoch": number(r),
        "processId": samples.name(r),
        "userEndpoint": r.choice((None, {"host": samples.name(r), "port": r.choice((0, 9092, 40000, 65535))})),
        "clientTags": pairs(r),
    }


def key(r: random.Random, key_type: int) -> bytes:
    return epoch_key(key_type, samples.name(r), samples.name(r) if key_type in WITH_MEMBER else None)


def record(r: random.Random, key_type: int) -> samples.Pair:
    """A record of one key type, at times a tombstone."""
    return key(r, key_type), None if r.random() < 0.05 else epoch_value(key_type, body(r, key_type))


def mutated_record(r: random.Random, key_type: int) -> samples.Pair:
    """The same with a change in its key, its value or neither."""
    raw_key, value = record(r, key_type)
    if r.random() < 0.1:
        raw_key = samples.mutated(r, raw_key)
    if value is not None and r.random() < 0.75:
        value = samples.mutated(r, value)
    return raw_key, value

"""Kafka's own classes judge every reader and writer, on good bytes and on mistreated ones."""

from __future__ import annotations

import random
from base64 import b64encode
from typing import Any

import pytest
from tests.support.records import commit_key, commit_value, epoch_key, epoch_value, group_key, group_value

from apportion.errors import UnreadableBytes
from apportion.wire.assignment import Assignment, read_assignment, write_assignment
from apportion.wire.coordinator import Commit, EpochRecord, GroupGeneration, Other, decode
from apportion.wire.partitions import Held, merged
from apportion.wire.primitives import text
from apportion.wire.subscription import Subscription, read_subscription, write_subscription
from apportion.wire.user_data import (
    read_cooperative,
    read_sticky,
    write_capacity,
    write_cooperative,
    write_sticky,
)
from apportion.wire.writer import Writer

from . import samples
from .conftest import Judge

SAMPLES = 6000


def hexed(raw: bytes | None) -> str | None:
    return None if raw is None else raw.hex()


def base64(raw: bytes | None) -> str | None:
    return None if raw is None else b64encode(raw).decode()


def absent(value: int | None) -> int:
    return -1 if value is None else value


def pairs(held: Held) -> list[list[Any]]:
    return [[topic, number] for topic, numbers in held for number in numbers]


def entries(held: Held) -> list[dict[str, Any]]:
    return [{"topic": topic, "partitions": list(numbers)} for topic, numbers in held]


def test_the_decoder_accepts_refuses_and_reads_records_as_kafka_does(judge: Judge) -> None:
    r = random.Random(11)
    records = [samples.mutated_record(r) if r.random() < 0.8 else samples.record(r) for _ in range(SAMPLES)]
    answers = judge([{"op": "read record", "key": hexed(key), "value": hexed(value)} for key, value in records])
    read = 0
    for (key, value), answer in zip(records, answers, strict=True):
        try:
            ours = decode(key, value)
        except UnreadableBytes:
            assert "error" in answer, (key, value)
            continue
        if isinstance(ours, Other):
            continue  # Kafka reads those of its own types; we only count them
        assert told(ours) == answer, (key, value)
        read += 1
    assert read > SAMPLES // 4, "too few records were readable for this to mean something"


def oddities() -> list[samples.Pair]:
    """What chance seldom makes: lengths around every limit, varints that overflow, tags that lie."""
    plain = commit_value(1)
    head, tail = plain[:14], plain[15:-1]
    out: list[samples.Pair] = []
    for size in (32766, 32767, 32768, 70000):
        text_of_size = Writer().raw(head).uvarint(size + 1).raw(b"m" * size + tail).tags()
        out.append((commit_key("g", "t", 0), text_of_size.done()))
    for tags in ("00", "ffffffff0f", "8080808010", "010003", "01000f", "0100ffffffff0f", "0107ffffffff0f", "01070361"):
        out.append((commit_key("g", "t", 0), plain[:-1] + bytes.fromhex(tags) + bytes(16)))
    for length in ("00", "8000", "ffffffff0f", "8080808008", "8080808010", "ffffffff07", "ffffffffff0f"):
        member = bytes.fromhex("0000" + length)
        rest = Writer().compact_string(None).compact_string("c").compact_string("h")
        rest.compact_array([], rest.compact_string).compact_string(None).int32(1).compact_string(None).tags()
        out.append((epoch_key(5, "g", "m"), member + rest.done()))
        out.append((epoch_key(7, "g", "m"), member + b"\x00"))
    return out


def test_oddities_are_read_as_kafka_reads_them(judge: Judge) -> None:
    accepted = 0
    questions = [{"op": "read record", "key": hexed(key), "value": hexed(value)} for key, value in oddities()]
    for (key, value), answer in zip(oddities(), judge(questions), strict=True):
        try:
            ours = decode(key, value)
        except UnreadableBytes:
            assert "error" in answer, value
            continue
        assert isinstance(ours, Commit | EpochRecord)
        assert told(ours) == answer, value
        accepted += 1
    assert 0 < accepted < len(questions)


def told(record: Commit | GroupGeneration | EpochRecord) -> dict[str, Any]:
    """A record in the words of the judge."""
    out: dict[str, Any] = {"type": record.key_type, "key": key_of(record)}
    if not record.tombstone:
        out |= {"version": record.value_version, "value": value_of(record)}
    return out


def key_of(record: Commit | GroupGeneration | EpochRecord) -> dict[str, Any]:
    if isinstance(record, Commit):
        return {"group": record.group, "topic": record.topic, "partition": record.partition}
    if isinstance(record, GroupGeneration):
        return {"group": record.group}
    member = {} if record.member_id is None else {"memberId": record.member_id}
    return {"groupId": record.group, **member}


def value_of(record: Commit | GroupGeneration | EpochRecord) -> dict[str, Any]:
    if isinstance(record, EpochRecord):
        return dict(record.body or {})
    version = record.value_version or 0
    if isinstance(record, Commit):
        out: dict[str, Any] = {"offset": record.committed, "metadata": record.metadata}
        out |= {"commitTimestamp": record.commit_time}
        out |= {"leaderEpoch": absent(record.leader_epoch)} if version >= 3 else {}
        out |= {"expireTimestamp": absent(record.expire_time)} if version == 1 else {}
        return out | ({"topicId": record.topic_id} if record.topic_id else {})
    out = {"protocolType": record.protocol_type, "generation": record.generation}
    out |= {"protocol": record.protocol, "leader": record.leader}
    out |= {"currentStateTimestamp": absent(record.state_time)} if version >= 2 else {}
    members = []
    for member in record.members:
        one: dict[str, Any] = {"memberId": member.member_id, "clientId": member.client_id, "clientHost": member.host}
        one |= {"groupInstanceId": member.instance_id} if version >= 3 else {}
        one |= {"rebalanceTimeout": member.rebalance_timeout_ms} if version >= 1 else {}
        one |= {"sessionTimeout": member.session_timeout_ms}
        members.append(one | {"subscription": base64(member.subscription), "assignment": base64(member.assignment)})
    return out | {"members": members}


def test_subscriptions_and_assignments_are_accepted_refused_and_read_as_kafka_does(judge: Judge) -> None:
    r = random.Random(12)
    said, given = [], []
    for _ in range(SAMPLES // 3):
        one, other = samples.subscription(r), samples.assignment(r)
        said.append(one if r.random() < 0.3 else samples.mutated(r, one))
        given.append(other if r.random() < 0.3 else samples.mutated(r, other))
    for raw, answer in zip(said, judge([{"op": "read subscription", "raw": raw.hex()} for raw in said]), strict=True):
        assert answer_of_subscription(raw) == answer.get("value"), raw
    for raw, answer in zip(given, judge([{"op": "read assignment", "raw": raw.hex()} for raw in given]), strict=True):
        assert answer_of_assignment(raw) == answer.get("value"), raw


def answer_of_subscription(raw: bytes) -> dict[str, Any] | None:
    try:
        ours = read_subscription(raw)
    except UnreadableBytes:
        return None
    out: dict[str, Any] = {"topics": list(ours.topics), "userData": base64(ours.user_data)}
    generation, rack = absent(ours.generation), ours.rack
    return Loosely(out | {"ownedPartitions": entries(ours.owned), "generationId": generation, "rackId": rack})


class Loosely(dict[str, Any]):
    """Kafka's consumer takes a negative generation and an empty rack as none; its bare message keeps them."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, dict):
            return False
        plain = {**other, "generationId": max(other["generationId"], -1), "rackId": other["rackId"] or None}
        return dict(self) == plain


def answer_of_assignment(raw: bytes) -> dict[str, Any] | None:
    try:
        ours = read_assignment(raw)
    except UnreadableBytes:
        return None
    return {"assignedPartitions": entries(ours.partitions), "userData": base64(ours.user_data)}


@pytest.mark.parametrize("version", range(4))
def test_our_subscriptions_and_assignments_are_kafkas_byte_for_byte(judge: Judge, version: int) -> None:
    r = random.Random(version)
    said, given = [], []
    for _ in range(200):
        topics = tuple(dict.fromkeys(samples.name(r) for _ in range(3)))
        owned = tuple({samples.name(r): samples.ids(r) for _ in range(3)}.items())
        data, generation = r.choice((None, b"", b"memory")), r.choice((None, 0, 7))
        rack = r.choice((None, "a"))
        said.append(Subscription(topics, data, owned, generation, rack, version))
        given.append(Assignment(owned, data, version))
    questions: list[dict[str, Any]] = [
        {
            "op": "write subscription",
            "topics": one.topics,
            "user_data": hexed(one.user_data),
            "owned": pairs(one.owned),
            "generation": absent(one.generation),
            "rack": one.rack,
            "version": version,
        }
        for one in said
    ] + [
        {
            "op": "write assignment",
            "partitions": pairs(one.partitions),
            "user_data": hexed(one.user_data),
            "version": version,
        }
        for one in given
    ]
    ours = [write_subscription(one) for one in said] + [write_assignment(one) for one in given]
    for one, question, answer in zip(ours, questions, judge(questions), strict=True):
        assert one.hex() == answer["raw"], question


def test_sticky_memory_goes_both_ways(judge: Judge) -> None:
    r = random.Random(13)
    memories = [(tuple({samples.name(r): (0, 1, 5) for _ in range(3)}.items()), r.choice((0, 7))) for _ in range(100)]
    written = judge([{"op": "write sticky", "owned": pairs(owned), "generation": at} for owned, at in memories])
    for (owned, at), answer in zip(memories, written, strict=True):
        ours = read_sticky(bytes.fromhex(answer["raw"]))
        assert (merged(ours.owned), ours.generation, ours.lost) == (merged(owned), at, None)
    sent = [write_sticky(owned, at, version) for owned, at in memories for version in (0, 1)]
    sent += [write_sticky(owned, at) + write_capacity(4) for owned, at in memories]
    sent += [samples.mutated(r, raw) for raw in sent * 10]
    sent = [raw for raw in sent if raw]
    for raw, answer in zip(sent, judge([{"op": "read sticky", "raw": raw.hex()} for raw in sent]), strict=True):
        memory = read_sticky(raw)
        assert (sorted(pairs(memory.owned)), absent(memory.generation)) == (
            sorted(answer["owned"]),
            max(answer["generation"], -1),
        ), raw


def test_cooperative_memory_goes_both_ways(judge: Judge) -> None:
    generations = [0, 1, 7, 2**31 - 1]
    for at, answer in zip(
        generations, judge([{"op": "write cooperative", "generation": at} for at in generations]), strict=True
    ):
        assert write_cooperative(at).hex() == answer["raw"]
    raws = [write_cooperative(at) for at in [None, *generations]] + [b"\x00", b"\x00\x00\x00", b"\x00\x00\x00\x05tail"]
    for raw, answer in zip(raws, judge([{"op": "read cooperative", "raw": raw.hex()} for raw in raws]), strict=True):
        assert absent(read_cooperative(raw).generation) == answer["generation"], raw


def test_records_that_kafka_writes_are_read_and_ours_are_the_same_bytes(judge: Judge) -> None:
    r = random.Random(14)
    bodies = [(key_type, samples.body(r, key_type)) for key_type in range(3, 9) for _ in range(60)]
    member = {5, 7, 8}
    questions = [
        {
            "op": "write record",
            "type": key_type,
            "version": 0,
            "key": {"groupId": "заказы", **({"memberId": "m"} if key_type in member else {})},
            "value": body,
        }
        for key_type, body in bodies
    ]
    for (key_type, body), answer in zip(bodies, judge(questions), strict=True):
        key, value = bytes.fromhex(answer["key"]), bytes.fromhex(answer["value"])
        assert key == epoch_key(key_type, "заказы", "m" if key_type in member else None)
        again = decode(key, value)
        assert isinstance(again, EpochRecord)
        # Our own writer puts a tagged field at its default in the bytes; Kafka's leaves it out; both read the same.
        assert decode(key, epoch_value(key_type, body)) == again


def test_generations_and_commits_written_by_kafka_in_every_version(judge: Judge) -> None:
    r = random.Random(15)
    questions, ours = [], []
    for version in range(5):
        while True:
            key, value = samples.generation(r)
            found = decode(key, value)
            if isinstance(found, GroupGeneration) and found.members and found.value_version == version:
                break
        questions.append({"op": "write record", "type": 2, "version": version, "key": {"group": found.group}})
        questions[-1]["value"] = value_of(found)
        ours.append((group_key(found.group), group_value(found, version)))
        assert ours[-1] == (key, value)
        commit = {"offset": 2**53 + 1, "metadata": "m" * 128, "commitTimestamp": 5}
        commit |= {"leaderEpoch": 3} if version >= 3 else {}
        commit |= {"expireTimestamp": 9} if version == 1 else {}
        commit |= {"topicId": "AAECAwQFBgcICQoLDA0ODw"} if version == 4 else {}
        questions.append({"op": "write record", "type": 1, "version": version, "value": commit})
        questions[-1]["key"] = {"group": "g", "topic": "t", "partition": 0}
        ours.append((commit_key("g", "t", 0), b""))
    for question, answer, (key, value) in zip(questions, judge(questions), ours, strict=True):
        assert bytes.fromhex(answer["key"]) == key
        found = decode(key, bytes.fromhex(answer["value"]))
        assert isinstance(found, Commit | GroupGeneration)
        assert value_of(found) == question["value"]
        assert not value or answer["value"] == value.hex()


def test_text_that_is_not_utf8_reads_as_in_java(judge: Judge) -> None:
    r = random.Random(16)
    edge = bytes([0x41, 0xED, 0xA0, 0x80, 0xBF, 0xE0, 0xF0, 0x90, 0xF4, 0x8F, 0xC0, 0xC2, 0xF5, 0xFF, 0x9F, 0xEF])
    raws = [bytes(r.choice(edge) for _ in range(r.randrange(9))) for _ in range(SAMPLES)]
    for raw, answer in zip(raws, judge([{"op": "read text", "raw": raw.hex()} for raw in raws]), strict=True):
        assert text(raw) == answer["value"], raw

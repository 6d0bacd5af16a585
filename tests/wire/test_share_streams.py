"""Records of share and streams groups: read as Kafka's own classes read them, and harmless however they are mangled."""

from __future__ import annotations

import json
import os
import random
import tracemalloc
from typing import Any

import pytest
from tests.support.records import epoch_key, epoch_value

from apportion.errors import UnreadableBytes
from apportion.wire.coordinator import EPOCH, WITH_MEMBER, EpochRecord, decode

from . import share_streams_samples as samples
from .conftest import Judge
from .samples import Pair

RECORDS = 10_000 if os.environ.get("APPORTION_THOROUGH") else 300
"""Records of each of the twelve key types that Kafka's own classes judge."""


def in_judges_words(record: EpochRecord) -> dict[str, Any]:
    """A record as the judge answers."""
    member = {} if record.member_id is None else {"memberId": record.member_id}
    answer: dict[str, Any] = {"type": record.key_type, "key": {"groupId": record.group, **member}}
    return answer if record.tombstone else answer | {"version": record.value_version, "value": record.body}


def hexed(raw: bytes | None) -> str | None:
    return None if raw is None else raw.hex()


def test_each_type_is_accepted_refused_and_read_as_kafka_does(judge: Judge) -> None:
    r = random.Random(21)
    types = [key_type for key_type in samples.TYPES for _ in range(RECORDS)]
    records: list[Pair] = [samples.mutated_record(r, key_type) for key_type in types]
    answers = judge([{"op": "read record", "key": hexed(key), "value": hexed(value)} for key, value in records])
    read = dict.fromkeys(samples.TYPES, 0)
    for (key, value), answer in zip(records, answers, strict=True):
        try:
            ours = decode(key, value)
        except UnreadableBytes:
            assert "error" in answer, (key, value)
            continue
        if isinstance(ours, EpochRecord):
            assert in_judges_words(ours) == answer, (key, value)
            if ours.key_type in read:
                read[ours.key_type] += not ours.tombstone
    assert min(read.values()) > RECORDS // 4, read


def test_what_kafka_writes_is_read_and_our_writer_says_the_same(judge: Judge) -> None:
    r = random.Random(22)
    written_alike(judge, [(key_type, samples.body(r, key_type)) for key_type in samples.TYPES for _ in range(60)])


def test_what_the_newest_kafka_writes_is_read_its_newer_fields_too(newer_judge: Judge) -> None:
    """Type 17 has two more tagged fields since 4.4; an older release passes them over."""
    r = random.Random(24)
    bodies = [(key_type, samples.body(r, key_type)) for key_type in samples.TYPES for _ in range(60)]
    newer = {"storedDescriptionTopologyEpoch": 7, "failedDescriptionTopologyEpoch": -2}
    bodies += [(17, samples.body(r, 17) | newer), (17, samples.body(r, 17) | {"failedDescriptionTopologyEpoch": 3})]
    written_alike(newer_judge, bodies)
    read = decode(epoch_key(17, "g"), epoch_value(17, {"epoch": 3, "metadataHash": 1} | newer))
    assert isinstance(read, EpochRecord)
    assert read.body == {"epoch": 3, "metadataHash": 1} | newer


def written_alike(judge: Judge, bodies: list[tuple[int, dict[str, Any]]]) -> None:
    """Bytes that Kafka writes for these values are read as the same values that our writer's bytes say."""
    questions = [
        {
            "op": "write record",
            "type": key_type,
            "version": 0,
            "key": {"groupId": "заказы", **({"memberId": "m"} if key_type in WITH_MEMBER else {})},
            "value": body,
        }
        for key_type, body in bodies
    ]
    for (key_type, body), answer in zip(bodies, judge(questions), strict=True):
        assert "error" not in answer, (answer, body)
        key, value = bytes.fromhex(answer["key"]), bytes.fromhex(answer["value"])
        assert key == epoch_key(key_type, "заказы", "m" if key_type in WITH_MEMBER else None)
        again = decode(key, value)
        assert isinstance(again, EpochRecord)
        assert again.epoch == (body[EPOCH[key_type]] if key_type in EPOCH else None)
        # A tagged field at its default is in our writer's bytes and not in Kafka's; both read the same.
        assert decode(key, epoch_value(key_type, body)) == again


def test_64_bits_and_ports_above_32767_are_exact_in_the_json() -> None:
    found = decode(epoch_key(17, "g"), epoch_value(17, {"epoch": 3, "metadataHash": 2**63 - 1}))
    assert isinstance(found, EpochRecord)
    assert found.body_json == '{"epoch":3,"metadataHash":9223372036854775807}'
    body = samples.streams_member(random.Random(1)) | {"userEndpoint": {"host": "h", "port": 65535}}
    found = decode(epoch_key(19, "g", "m"), epoch_value(19, body))
    assert isinstance(found, EpochRecord)
    assert json.loads(found.body_json or "")["userEndpoint"] == {"host": "h", "port": 65535}


@pytest.mark.parametrize("key_type", samples.TYPES)
def test_every_truncation_is_refused_and_a_tombstone_has_no_body(key_type: int) -> None:
    r = random.Random(key_type)
    for _ in range(8):
        key, value = samples.key(r, key_type), epoch_value(key_type, samples.body(r, key_type))
        cuts = range(len(value)) if len(value) < 400 else sorted(r.sample(range(len(value)), 400))
        for cut in cuts:
            with pytest.raises(UnreadableBytes):
                decode(key, value[:cut])
        for cut in range(len(key)):
            with pytest.raises(UnreadableBytes):
                decode(key[:cut], value)
        gone = decode(key, None)
        assert isinstance(gone, EpochRecord)
        assert (gone.tombstone, gone.body, gone.epoch, gone.value_version) == (True, None, None, None)


def test_a_hostile_record_cannot_make_us_allocate_much_more_than_its_size() -> None:
    r = random.Random(23)
    hostile = [samples.mutated_record(r, key_type) for key_type in samples.TYPES for _ in range(150)]
    lying = b"\x00\x00" + b"\xff\xff\xff\xff\x07"  # version 0, then two thousand million elements
    hostile += [(epoch_key(key_type, "g", "m"), lying) for key_type in (13, 15, 21)]
    for key, value in hostile:
        tracemalloc.start()
        try:
            decode(key, value)
        except UnreadableBytes:
            pass
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < 60_000 + 200 * (len(key) + len(value or b"")), (key, value)

"""Records of ``__consumer_offsets``: what each becomes, which are refused, and that none can do harm."""

from __future__ import annotations

import json
import random
import tracemalloc

import pytest
from tests.support.records import (
    commit_key,
    commit_value,
    epoch_key,
    epoch_value,
    group_key,
    group_value,
    other,
    uuid_bytes,
)

from apportion.errors import UnreadableBytes
from apportion.wire.assignment import Assignment, write_assignment
from apportion.wire.coordinator import Commit, EpochRecord, GroupGeneration, Member, Other, decode
from apportion.wire.subscription import Subscription, write_subscription
from apportion.wire.writer import Writer

from . import samples

KEY = commit_key("g", "t", 3)
ID = "AAECAwQFBgcICQoLDA0ODw"


def commit(value: bytes | None, key: bytes = KEY) -> Commit:
    found = decode(key, value)
    assert isinstance(found, Commit)
    return found


def generation(value: bytes | None) -> GroupGeneration:
    found = decode(group_key("g"), value)
    assert isinstance(found, GroupGeneration)
    return found


def group(*members: Member, protocol_type: str = "consumer") -> GroupGeneration:
    return GroupGeneration("g", False, 3, 5, protocol_type, "range", "m", 1758335260726, members)


def test_a_commit_of_a_real_4_1_broker() -> None:
    # From franz-go's issue 1105.
    found = commit(bytes.fromhex("0004000000000021d4a8ffffffff010000019964f2d83600"))
    assert found == Commit("g", "t", 3, 1, False, 4, 2217128, None, "", 1758335260726)


def test_a_commit_of_burrows_tests() -> None:
    # From linkedin/Burrow, core/internal/consumer/kafka_client_test.go (Apache-2.0).
    key = b"\x00\x01\x00\x09testgroup\x00\x09testtopic\x00\x00\x00\x0b"
    value = b"\x00\x00\x00\x00\x00\x00\x00\x00\x20\xb4\x00\x08testdata\x00\x00\x00\x00\x00\x00\x06\x65"
    assert decode(key, value) == Commit("testgroup", "testtopic", 11, 1, False, 0, 8372, None, "testdata", 1637)


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 16383, 16384, 32767])
def test_every_version_carries_metadata_of_any_size(version: int, size: int) -> None:
    value = commit_value(
        9,
        version=version,
        leader_epoch=4,
        metadata="m" * size,
        commit_time=5,
        expire_time=6,
        topic_id=uuid_bytes(ID),
    )
    assert commit(value) == Commit(
        "g",
        "t",
        3,
        1,
        False,
        version,
        9,
        4 if version >= 3 else None,
        "m" * size,
        5,
        6 if version == 1 else None,
        ID if version == 4 else None,
    )


def test_minus_one_is_no_epoch_and_no_expiry_but_other_negatives_stay() -> None:
    assert commit(commit_value(1, version=3, leader_epoch=-1)).leader_epoch is None
    assert commit(commit_value(1, version=3, leader_epoch=-5)).leader_epoch == -5
    assert commit(commit_value(1, version=1, expire_time=-1)).expire_time is None


def test_a_null_value_is_a_tombstone_and_an_empty_one_is_unreadable() -> None:
    assert commit(None) == Commit("g", "t", 3, 1, True)
    for key in (KEY, group_key("g"), epoch_key(3, "g"), other(16)[0]):
        with pytest.raises(UnreadableBytes):
            decode(key, b"")


def test_bytes_after_the_last_field_are_left_alone() -> None:
    for version in range(5):
        value = commit_value(1, version=version)
        assert commit(value + b"tail", KEY + b"tail") == commit(value)


def test_tags_from_the_future_are_stepped_over_and_the_last_id_counts() -> None:
    plain = commit_value(1)[:-1]
    tags = Writer().uvarint(3).uvarint(0).uvarint(16).raw(bytes(16)).uvarint(9).uvarint(3).raw(b"new")
    tags.uvarint(0).uvarint(16).raw(uuid_bytes(ID))
    assert commit(plain + tags.done()).topic_id == ID


@pytest.mark.parametrize(
    ("key_type", "version"),
    [
        (0, 1),
        (1, 5),
        (1, -1),
        (2, 5),
        (3, 1),
        (4, 1),
        (5, 1),
        (6, 1),
        (7, 1),
        (8, 1),
        (10, 1),
        (15, 1),
        (17, 1),
        (23, -1),
    ],
)
def test_an_unknown_version_is_refused_by_name(key_type: int, version: int) -> None:
    key = commit_key("g", "t", 0, key_type) if key_type < 2 else epoch_key(key_type, "g", "m")
    with pytest.raises(UnreadableBytes, match=f"value version {version} of key type {key_type}"):
        decode(key, Writer().int16(version).raw(bytes(50)).done())


@pytest.mark.parametrize("key", [None, b"", b"\x00"])
def test_a_key_under_two_bytes_is_refused(key: bytes | None) -> None:
    with pytest.raises(UnreadableBytes):
        decode(key, None)


def test_types_that_are_not_read_are_counted_whatever_is_in_them() -> None:
    for key_type in (9, 16, 18, 24, 25, 32767, -1):
        assert decode(*other(key_type, 7, b"\xff")) == Other(key_type, False, 7)
        assert decode(*other(key_type, None)) == Other(key_type, True)
    assert decode(b"\x00\x10", b"\x00\x00") == Other(16, False, 0)


def test_a_generation_says_what_its_members_said_and_were_told() -> None:
    said = Subscription(("clicks",), b"memory", (("clicks", (0,)),), 4, "a", 3)
    told = Assignment((("clicks", (0, 1)),))
    raw = write_subscription(said), write_assignment(told)
    member = Member("m", "pod-0", "app", "/10.0.0.1", 300000, 45000, subscription=raw[0], assignment=raw[1])
    for version in range(5):
        found = generation(group_value(group(member), version))
        assert (found.generation, found.protocol_type, found.protocol, found.leader) == (5, "consumer", "range", "m")
        assert found.state_time == (1758335260726 if version >= 2 else None)
        (one,) = found.members
        assert (one.member_id, one.client_id, one.host, one.session_timeout_ms) == ("m", "app", "/10.0.0.1", 45000)
        assert one.instance_id == ("pod-0" if version >= 3 else None)
        assert one.rebalance_timeout_ms == (300000 if version >= 1 else None)
        assert (one.topics, one.owned, one.owned_generation, one.rack) == (said.topics, said.owned, 4, "a")
        assert (one.assigned, one.user_data, one.unreadable) == (told.partitions, b"memory", None)


def test_bytes_of_another_protocol_stay_raw() -> None:
    raw = write_subscription(Subscription(("clicks",)))
    member = Member("m", None, "c", "h", 1, 1, subscription=raw, assignment=write_assignment(Assignment()))
    (one,) = generation(group_value(group(member, protocol_type="connect"))).members
    assert (one.topics, one.owned, one.assigned, one.user_data, one.unreadable) == ((), (), (), raw, None)


def test_a_member_that_talks_nonsense_keeps_its_place_and_its_bytes() -> None:
    told = write_assignment(Assignment((("clicks", (0,)),)))
    member = Member("m", None, "c", "h", 1, 1, subscription=b"\x00\x01no", assignment=told)
    empty = Member("n", None, "c", "h", 1, 1, subscription=write_subscription(Subscription(("t",))), assignment=b"")
    one, two = generation(group_value(group(member, empty))).members
    assert (one.topics, one.user_data, one.assigned) == ((), b"\x00\x01no", (("clicks", (0,)),))
    assert one.unreadable is not None
    assert one.unreadable.startswith("subscription: ")
    assert (two.topics, two.assigned, two.unreadable) == (("t",), (), None)


def test_a_groups_tombstone_and_an_empty_generation() -> None:
    assert generation(None) == GroupGeneration("g", True)
    found = generation(group_value(GroupGeneration("g", False, generation=0, protocol_type="")))
    assert (found.protocol_type, found.protocol, found.leader, found.members) == ("", None, None, ())


def test_epochs_come_as_kafkas_json_with_64_bits_exact() -> None:
    found = decode(epoch_key(3, "g"), epoch_value(3, {"epoch": 7, "metadataHash": 2**63 - 1}))
    assert isinstance(found, EpochRecord)
    assert (found.group, found.key_type, found.member_id, found.epoch) == ("g", 3, None, 7)
    assert found.body_json == '{"epoch":7,"metadataHash":9223372036854775807}'
    current = {"memberEpoch": -2, "previousMemberEpoch": 6, "state": 1, "partitionsPendingRevocation": []}
    current["assignedPartitions"] = [{"topicId": ID, "partitions": [5, 0], "assignmentEpochs": [3, 4]}]
    found = decode(epoch_key(8, "g", "m"), epoch_value(8, current))
    assert isinstance(found, EpochRecord)
    assert (found.member_id, found.epoch, json.loads(found.body_json or "")) == ("m", -2, current)
    assert decode(epoch_key(8, "g", "m"), None) == EpochRecord("g", 8, True, "m")


def test_every_truncation_of_a_good_record_is_refused() -> None:
    r = random.Random(1)
    done = set()
    for _ in range(300):
        key, value = samples.record(r)
        found = decode(key, value)
        if isinstance(found, Other) or value is None or len(value) > 700:
            continue
        done.add((found.key_type, found.value_version))
        for cut in range(len(key)):
            with pytest.raises(UnreadableBytes):
                decode(key[:cut], value)
        for cut in range(len(value)):
            with pytest.raises(UnreadableBytes):
                decode(key, value[:cut])
    assert len(done) >= 14, done


@pytest.mark.slow
def test_a_hundred_thousand_mutated_records_are_read_or_refused_and_nothing_else() -> None:
    r = random.Random(2)
    read = refused = 0
    pool = [samples.record(r) for _ in range(2000)]
    for n in range(100_000):
        key, value = pool[n % len(pool)]
        key = samples.mutated(r, key) if n % 5 == 0 else key
        value = samples.mutated(r, value) if value is not None else r.choice((None, b""))
        try:
            decode(key, value)
            read += 1
        except UnreadableBytes:
            refused += 1
    assert read + refused == 100_000
    assert min(read, refused) > 10_000


def test_a_hostile_record_cannot_make_us_allocate_much_more_than_its_size() -> None:
    r = random.Random(3)
    hostile = [samples.mutated_record(r) for _ in range(3000)]
    hostile += [(group_key("g"), Writer().int16(3).string("consumer").int32(1).string(None).string(None).done())] * 2
    hostile[-1] = (hostile[-1][0], (hostile[-1][1] or b"") + bytes(8) + b"\x7f\xff\xff\xff")
    hostile.append((epoch_key(7, "g", "m"), b"\x00\x00\xff\xff\xff\xff\x07"))
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

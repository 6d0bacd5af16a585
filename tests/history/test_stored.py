"""Rows of stored tables become the records and the group that they were made of, field by field."""

from __future__ import annotations

import json
from typing import Any

from apportion.history.fold import Present, fold
from apportion.history.group_history import GroupHistory, TopicMetadata
from apportion.history.records import GenerationMember, GroupRecord
from apportion.history.replay_totals import totals_of
from apportion.history.rows import events
from apportion.history.share_groups import ShareRecords
from apportion.history.steps import steps
from apportion.history.stored import group_json_of, present_of
from apportion.wire.coordinator import EpochRecord, GroupGeneration, Member

from .made import classic, epoch, joined, member

MEMBER: dict[str, Any] = {
    "member_id": "m-1", "instance_id": "i", "client_id": "c", "host": "/h", "rebalance_timeout_ms": 7,
    "session_timeout_ms": 8, "rack": "r", "topics": ["t", "u"],
    "owned": [{"topic": "t", "partitions": [1, 2]}, {"topic": "u", "partitions": None}], "owned_generation": 4,
    "assigned": [{"topic": "t", "partitions": [0]}], "unreadable": "its subscription",
}  # fmt: skip
GENERATION: dict[str, Any] = {
    "source_offset": 9, "at_ms": 90, "holes": 2, "tombstone": False, "generation": 5, "protocol_type": "consumer",
    "protocol": "range", "leader": "m-1", "state_ms": 88, "members": [MEMBER],
}  # fmt: skip


def test_rows_become_records_in_the_order_of_their_offsets() -> None:
    bare = {**MEMBER, "topics": None, "owned": None, "assigned": None}
    for name in ("rebalance_timeout_ms", "session_timeout_ms", "unreadable"):
        del bare[name]
    gone = {**GENERATION, "source_offset": 12, "tombstone": True, "holes": None}
    plain = {**GENERATION, "source_offset": 10, "members": [bare], "holes": 0}
    del plain["leader"]
    epoch = {
        "source_offset": 3, "at_ms": 30, "key_type": 5, "tombstone": False, "member_id": "x", "epoch": 6,
        "body": json.dumps({"rackId": None}),
    }  # fmt: skip
    last = {**epoch, "source_offset": 11, "tombstone": True, "body": None, "member_id": None, "epoch": None}
    whole = Member(
        "m-1", "i", "c", "/h", 7, 8, "r", ("t", "u"), (("t", (1, 2)), ("u", ())), 4, (("t", (0,)),),
        unreadable="its subscription",
    )  # fmt: skip
    least = Member("m-1", "i", "c", "/h", None, 0, "r", (), (), 4, ())

    def generation(*members: Member, leader: str | None) -> GroupGeneration:
        return GroupGeneration(
            "g", False, generation=5, protocol_type="consumer", protocol="range", leader=leader, state_time=88,
            members=members,
        )  # fmt: skip

    assert events(
        "g", [gone, GENERATION, plain, {**GENERATION, "source_offset": 13, "members": None}], [last, epoch]
    ) == [
        GroupRecord(3, 30, EpochRecord("g", 5, False, "x", 6, {"rackId": None}), 0),
        GroupRecord(9, 90, generation(whole, leader="m-1"), 2),
        GroupRecord(10, 90, generation(least, leader=None), 0),
        GroupRecord(11, 30, EpochRecord("g", 5, True, None, None, None), 0),
        GroupRecord(12, 90, GroupGeneration("g", True), 0),
        GroupRecord(13, 90, generation(leader="m-1"), 2),
    ]


STATE: dict[str, Any] = {
    "group": "g", "type": "streams", "state": "Stable", "protocol": "streams", "generation": 5, "readable": True,
    "members": [
        {
            "member_id": "m-1", "instance_id": "i", "client_id": "c", "host": "/h", "rack": "r", "topics": ["t"],
            "assigned": [{"topic": "t", "partitions": [0, 3]}], "session_timeout_ms": 8, "process_id": "p",
            "roles": [{"role": "active", "of": "0", "numbers": [1]}, {"role": "active", "of": "1", "numbers": [2, 3]}],
        },
        {
            "member_id": "m-2", "instance_id": None, "client_id": None, "host": None, "rack": None, "topics": None,
            "assigned": [], "session_timeout_ms": None, "process_id": None, "roles": [],
        },
    ],
    "topics": [{"topic": "t", "partitions": [{"partition": p, "racks": None, "begin": 0, "end": 9} for p in range(3)]}],
    "commits": [{"topic": "t", "partition": 1, "committed": 4}],
}  # fmt: skip


def test_a_stored_group_is_the_group_that_stood() -> None:
    assert present_of(STATE) == Present(
        "streams", "Stable", "streams", 5,
        (
            GenerationMember(
                "m-1", ("t",), {"t": (0, 3)}, "i", "c", "/h", "r", session_timeout_ms=8, process_id="p",
                roles={"active": {"0": (1,), "1": (2, 3)}},
            ),
            GenerationMember("m-2"),
        ),
        True,
    )  # fmt: skip


def test_a_task_beyond_a_topics_end_owns_nothing_there_while_a_claim_of_a_consumer_stays() -> None:
    claimed = group_json_of({**STATE, "type": "classic"})["members"]["m-1"]
    assert claimed["owned"] == {"t": [0, 3]}
    group = group_json_of(STATE)
    assert group["members"] == {
        "m-1": {
            "instance_id": "i", "client_id": "c", "host": "/h", "rack": "r", "topics": ["t"], "owned": {"t": [0]},
            "generation": 5,
        },
        "m-2": {"topics": []},
    }  # fmt: skip
    assert group["topics"] == {
        "t": [
            {"partition": 0, "begin": 0, "end": 9},
            {"partition": 1, "begin": 0, "end": 9, "committed": 4},
            {"partition": 2, "begin": 0, "end": 9},
        ]
    }


def test_members_of_a_share_group_share_by_the_topics_names_where_they_are_known() -> None:
    records = ShareRecords(names={"id-1": "t"})
    records.members["m"] = {
        "subscribedTopicNames": ["u", "t", "t"], "clientId": "c", "clientHost": "/h", "rackId": "r",
    }  # fmt: skip
    records.members["n"] = {"clientId": None, "clientHost": None, "rackId": ""}
    records.current["m"] = {
        "assignedPartitions": [
            {"topicId": "id-1", "partitions": [2, 0]}, {"topicId": "id-2", "partitions": [1]},
            {"topicId": "id-3", "partitions": []},
        ]
    }  # fmt: skip
    records.targets["m"] = {"topicPartitions": [{"topicId": "id-1", "partitions": [0]}]}
    shared: dict[str, dict[str, tuple[int, ...]]] = {"shared": {"id-2": (1,), "t": (0, 2)}, "target": {"t": (0,)}}
    assert records.present_members() == (
        GenerationMember("m", ("t", "u"), {}, None, "c", "/h", "r", roles=shared),
        GenerationMember("n", (), {}, None, None, None, None, roles={"shared": {}, "target": {}}),
    )


def test_totals_of_a_replay_are_kept_by_the_offset_of_each_record() -> None:
    walked = {
        "total": {"moves": 3, "moves_then": 5},
        "generations": [
            {"source_offset": 7, "moves": 1, "moves_then": 2},
            {"source_offset": 9, "moves": 2, "moves_then": 3},
        ],
    }
    assert totals_of(walked) == {"moves": 3, "moves_then": 5, "by_offset": {7: 1, 9: 2}, "then": {7: 2, 9: 3}}


def test_where_members_are_is_kept_in_each_kind_of_group() -> None:
    seen = fold([
        epoch(1, 3, {"epoch": 1}), epoch(2, 5, joined(rackId="r"), "m"), epoch(3, 5, joined(rackId=""), "n"),
    ]).present  # fmt: skip
    assert [(seat.member_id, seat.rack, seat.host, seat.client_id) for seat in seen.members] == [
        ("m", "r", "/10.0.0.1", "client"), ("n", None, "/10.0.0.1", "client"),
    ]  # fmt: skip
    generations = fold([classic(1, 1, member("a", {"t": [0]}))]).generations
    assert fold([classic(1, 1, member("a", {"t": [0]}))]).present.state == "Stable"
    assert fold([classic(1, 1, member("a", {"t": [0]})), classic(2, 2)]).present.state == "Empty"
    (first,) = steps("g", generations, None)
    assert (first.group.hosts, first.group.client_ids) == (("/10.0.0.1",), ("client",))


def test_a_replay_tells_of_which_group_and_which_strategy() -> None:
    events = [
        classic(1, 1, member("a", {"t": [0, 1]})),
        classic(2, 2, member("a", {"t": [0]}), member("b", {"t": [1]})),
    ]
    history = GroupHistory("g", events, {}, [], TopicMetadata())
    for name in ("sticky", "range"):
        walked = history.replay(name)
        assert (walked["group"], walked["assignor"]) == ("g", name)
        assert [row["generation"] for row in walked["generations"]] == [1, 2]

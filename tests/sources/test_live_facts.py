"""What a coordinator's answers tell of a group, put together: no broker is needed for it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.sighted import log, raw

from apportion.arrays import NOBODY
from apportion.sighting.judged import Judged
from apportion.sighting.sighting import Sighting
from apportion.sources import group_descriptions, live
from apportion.sources.cluster_round import DescribedGroup
from apportion.wire.assignment import Assignment, write_assignment


def test_while_a_group_rebalances_a_member_wants_what_it_holds() -> None:
    """The broker tells its assignment then, and no subscription: its claims contradict nothing."""
    from kafka.protocol.admin.groups import DescribeGroupsResponse

    described = DescribeGroupsResponse.DescribedGroup
    holds = write_assignment(Assignment((("t", (0, 1)),)))
    members = [
        described.DescribedGroupMember(
            member_id=name, client_id="c", client_host="/h", member_metadata=b"", member_assignment=assigned
        )
        for name, assigned in (("old", holds), ("new", b""))
    ]
    facts = group_descriptions.classic_facts(
        described(group_id="g", group_state="PreparingRebalance", protocol_data="range", members=members)
    )
    group = live.sighted(DescribedGroup("g", "", facts, {("t", 0): 4}), {"t": log(range(3), 0, 9)}, {}).group
    assert group.owner.tolist() == [0, 0, NOBODY] or group.owner.tolist() == [1, 1, NOBODY]
    odd = Judged(Sighting(group, state=facts["state"])).odd
    assert odd[0].startswith("It is rebalancing (PreparingRebalance)")
    assert not [text for text in odd if "contradict" in text or "wanted by nobody" in text]


def test_members_that_subscribe_by_one_expression_want_the_same() -> None:
    """As from the records: an idle member wants what another one with its expression was given, and no more."""

    def held(topics: str) -> dict[str, Any]:
        return {
            "topic_partitions": [{"topic_id": None, "topic_name": topic, "partitions": [0]} for topic in topics.split()]
        }

    def member(name: str, expression: str | None, now: str = "", due: str = "") -> dict[str, Any]:
        known = dict.fromkeys(("instance_id", "client_id", "client_host", "rack_id"))
        wants = {"subscribed_topic_names": ["named"], "subscribed_topic_regex": expression}
        return {**known, **wants, "member_id": name, "assignment": held(now), "target_assignment": held(due)}

    group = {
        "group_id": "g", "group_state": "Stable", "assignor_name": "uniform", "group_epoch": 3, "assignment_epoch": 3,
        "members": [member("a", "t.*", "t1", "t1"), member("b", "t.*", "", "t2"), member("idle", "t.*"),
                    member("other", "u.*"), member("plain", None, "named")],
    }  # fmt: skip
    assert {name: fields["topics"] for name, fields in group_descriptions.consumer_facts(group)["members"].items()} == {
        **{name: ["named", "t1", "t2"] for name in ("a", "b", "idle")}, "other": ["named"], "plain": ["named"],
    }  # fmt: skip


def test_tasks_beyond_the_end_of_a_narrower_topic_are_nobodys_partitions_and_other_kinds_keep_all() -> None:
    logs = {"t": log(range(3), end=9), "u": log([0], end=9)}
    wants = ["t", "u", "gone"]
    members = {
        "a": {"topics": wants, "owned": {"t": [0, 2], "u": [0, 2], "gone": [0]}, "rack": ""},
        "b": {"topics": wants, "owned": {"u": [1]}, "client_id": "c"},
        "c": {"topics": [], "owned": {}},
    }
    members = {m: dict.fromkeys(("instance_id", "client_id", "host", "rack")) | fields for m, fields in members.items()}
    facts = {"wanted": {"t", "u", "gone"}, "members": members, "state": "Stable"}
    owned = {}
    for kind in ("streams", "consumer", "classic"):
        seen = live.sighted(DescribedGroup("g", "", {**facts, "protocol": kind, "generation": 3}, {}), logs, {})
        assert [seen.protocol, sorted(raw(seen)["topics"])] == [kind, ["t", "u"]]
        owned[kind] = raw(seen)["members"]
    whole = {"topics": sorted(wants), "generation": 0}
    assert owned["streams"] == {
        "a": {**whole, "owned": {"t": [0, 2], "u": [0]}},
        "b": {**whole, "client_id": "c"},
        "c": {"topics": []},
    }
    assert (
        owned["consumer"]
        == owned["classic"]
        == {
            "a": {**whole, "owned": members["a"]["owned"]},
            "b": {**whole, "owned": {"u": [1]}, "client_id": "c"},
            "c": {"topics": []},
        }
    )


@pytest.mark.parametrize("bytes_", [b"\xff" * 9, b"\x00\x01\x7f\xff\xff\xff", b"\x00", b"{}"])
def test_a_member_whose_bytes_are_no_consumers_breaks_nothing(bytes_: bytes) -> None:
    from kafka.protocol.admin.groups import DescribeGroupsResponse

    described = DescribeGroupsResponse.DescribedGroup
    member = described.DescribedGroupMember(
        member_id="m", client_id="c", client_host="/h", member_metadata=bytes_, member_assignment=bytes_
    )
    told = group_descriptions.classic_facts(
        described(group_id="g", group_state="Stable", protocol_data="range", members=[member])
    )
    assert told["members"]["m"]["topics"] == []
    assert told["members"]["m"]["owned"] == {}
    assert told["notes"][0].startswith("What m says is no consumer's: ")

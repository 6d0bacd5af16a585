"""A group made of all members' bytes at once is the group that is made of each member's words read alone."""

from __future__ import annotations

import logging
import random
import struct
from typing import Any

import pytest

from apportion.arrays import CAPACITY_MAX
from apportion.assignors.failover import Priority
from apportion.assignors.sticky_stream_join import StreamJoin
from apportion.clients.group.bridge import Bridge
from apportion.clients.group.joined_group import JoinedGroup
from apportion.clients.group.options import Options
from apportion.clients.group.topic_metadata import ClientMetadata, describe_topics
from apportion.errors import UnreadableBytes
from apportion.model.build import build, build_columns
from apportion.model.facts import MEMBER_FIELDS, UNSET, Fact
from apportion.model.group import Group
from apportion.strategy.codec import Claim, Holding, InSubscription, InUserData, Stateless, UserDataCodec
from apportion.wire.assignment import Assignment, write_assignment
from apportion.wire.partitions import Held
from apportion.wire.subscription import Subscription, read_subscription, write_subscription
from apportion.wire.user_data import (
    CAPACITY_MARK,
    write_capacity,
    write_cooperative,
    write_facts,
    write_sticky,
)

from .metadata import Cluster as Listed
from .metadata import Replica

TOPICS = {"clicks": 6, "views": 3, "заказы": 4, "\U00010000": 2, "\uffee": 2}


class Broker:
    """A broker's."""

    def __init__(self, rack: str | None) -> None:
        self.rack = rack


class Cluster:
    """As much of a client's metadata as counts here: brokers 1 to 4, the last one without a rack."""

    def __init__(self, r: random.Random) -> None:
        self._partitions = {
            topic: {
                p: Replica(r.sample(range(1, 5), r.randrange(1, 3)))
                for p in r.sample(range(size), size)
                if topic != "views" or p != 1
            }
            for topic, size in TOPICS.items()
        }

    def broker_metadata(self, node: int) -> Broker:
        return Broker({1: "a", 2: "b", 3: "c"}.get(node))


def owned(r: random.Random) -> Held:
    return tuple(
        (topic, tuple(r.sample(range(-1, 9), r.randrange(4))))
        for topic in r.sample([*TOPICS, "gone", ""], r.randrange(5))
    )


def user_data(r: random.Random) -> bytes | None:
    generation = r.choice((None, 0, 3, 7, -5))
    kinds = [
        None,
        b"",
        r.randbytes(r.randrange(12)),
        write_sticky(owned(r), generation, r.randrange(2)),
        b"\x00\x01" + write_sticky(owned(r), generation),
        write_cooperative(generation),
        write_cooperative(generation) + write_sticky(owned(r), generation),
        write_cooperative(generation) + b"\x00\x01" + write_sticky(owned(r), generation),
        write_cooperative(generation) + r.randbytes(r.randrange(20)),
        Priority().user_data(Holding(owned(r), generation, facts=r.choice(({}, {"priority": 5})))),
        StreamJoin().user_data(Holding((("t", tuple(r.sample(range(6), 2))),), epoch=generation)),
    ]
    return r.choice(kinds)


def sent(r: random.Random) -> bytes:
    said = Subscription(
        tuple(r.sample([*TOPICS, "unknown"], r.randrange(4))),
        user_data(r),
        owned(r) if r.random() < 0.6 else (),
        r.choice((None, 2, 3, 7)),
        r.choice((None, None, "a", "b", "z")),
        r.choice((3, 3, 3, 0, 1, 2)),
    )
    raw = write_subscription(said)
    return raw[: r.randrange(len(raw))] if r.random() < 0.05 else raw


def one_by_one(
    codec: UserDataCodec, ids: list[str], instances: list[str | None], raws: list[bytes], cluster: Cluster
) -> tuple[Group, list[Claim]]:
    """The group by way of group.json, each member read alone."""
    members: dict[str, dict[str, Any]] = {}
    claims, wanted, racks = [], set[str](), False
    for member, instance, raw in zip(ids, instances, raws, strict=True):
        try:
            said = read_subscription(raw)
        except UnreadableBytes:
            said = Subscription(())
        claim = codec.read(said)
        claims.append(claim)
        wanted |= set(said.topics)
        racks |= bool(said.rack)
        members[member] = {
            "instance_id": instance,
            "rack": said.rack,
            "topics": list(said.topics),
            "owned": {topic: list(held) for topic, held in claim.owned.items()},
            "generation": claim.generation,
            "priority": claim.facts.get("priority"),
        }
    topics: dict[str, Any] = {}
    for topic in wanted & TOPICS.keys():
        rows = cluster._partitions[topic]
        topics[topic] = [
            {"partition": p}
            | (
                {"racks": [rack for n in rows[p].replicas if (rack := cluster.broker_metadata(n).rack)]}
                if racks
                else {}
            )
            for p in rows
        ]
    return build({"group": "g", "topics": topics, "members": members}), claims


def fields(group: Group) -> dict[str, Any]:
    """Everything that a strategy can see, claims in one order."""
    claims = sorted(zip(group.claims.member.tolist(), group.claims.partition.tolist(), strict=True))
    racks = group.racks
    return {
        "topics": group.topics,
        "start": group.start.tolist(),
        "number": group.number.tolist(),
        "described": group.described.tolist(),
        "members": group.members,
        "instances": group.instance_ids,
        "wants": [group.subscriptions[k].tolist() for k in group.subscription_of.tolist()],
        "distinct": sorted(topics.tolist() for topics in group.subscriptions),
        "generation": group.generation.tolist(),
        "priority": group.priority.tolist(),
        "claims": claims,
        "nonexistent": list(group.claims.nonexistent),
        "racks": racks and (racks.names, racks.of_member.tolist(), racks.set_of.tolist(), racks.sets),
    }


class Own(InUserData):
    """A codec of somebody's own, who changed how a member is read."""

    def read(self, subscription: Subscription) -> Claim:
        return Claim({"clicks": [len(subscription.topics)]}, 1, held=True, lost="it is so" * (not subscription.topics))


CODECS = [Stateless(), InUserData(), InSubscription(), StreamJoin(), Priority(), Own()]


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: type(codec).__name__)
def test_both_ways_give_one_group_and_name_the_same_members(
    codec: UserDataCodec, caplog: pytest.LogCaptureFixture
) -> None:
    r = random.Random(17)
    for _ in range(120):
        size = r.choice((1, 3, 12, 80))
        ids = r.sample([*(f"m{n}" for n in range(90)), "\U00010000", "\uffee"], size)
        static = dict(zip(r.sample(ids, size // 3), "zyxwvutsrqponmlkjihgfedcba", strict=False))
        instances = [static.get(member) for member in ids]
        raws, cluster = [sent(r) for _ in range(size)], Cluster(r)
        expected, claims = one_by_one(codec, ids, instances, raws, cluster)
        caplog.clear()
        joined = JoinedGroup(ids, instances, raws)
        memories = joined.memories(codec)
        racks = any(joined.subscriptions.rack)
        topics = [topic for topic in joined.topics if topic in TOPICS]
        described, replicas = describe_topics(ClientMetadata(cluster, "replicas"), topics, racks=racks)
        group, place = build_columns("g", joined.columns(memories), described, replicas)
        assert fields(group) == fields(expected)
        assert [ids[m] for m in place.tolist()] == list(group.members)
        assert memories.held.tolist() == [claim.held for claim in claims]
        assert dict(memories.lost) == {m: claim.lost for m, claim in enumerate(claims) if claim.lost}
        told = [record.getMessage() for record in caplog.records if "remembers nothing" in record.getMessage()]
        assert len(told) == len(memories.lost)
        for line, (m, reason) in zip(told, memories.lost.items(), strict=True):
            assert line.startswith(f"member {ids[m]!r}")
            assert line.endswith(f": {reason}")
        refused = [record for record in caplog.records if "sent no subscription" in record.getMessage()]
        assert len(refused) == len(joined.subscriptions.refused)


def test_a_leader_plans_around_bytes_that_are_no_subscription(caplog: pytest.LogCaptureFixture) -> None:
    """Its topics are nobody's wish, although they could be read."""
    good = write_subscription(Subscription(("clicks",)))
    broken = write_subscription(Subscription(("views",), None, (("views", (0,)),)))[:-8]
    bridge = Bridge("cooperative-sticky", Options())
    with caplog.at_level(logging.INFO, "apportion.clients"):
        joined = JoinedGroup(["a", "b"], [None, None], [good, broken])
        answers = bridge.lead(joined, ClientMetadata(Cluster(random.Random(1)), "replicas"), "g", 4)
    assert joined.topics == ["clicks"]
    assert len(answers["a"]) > len(answers["b"]) == len(b"\0\3" + b"\0\0\0\0" + b"\xff\xff\xff\xff")
    assert "member 'b' sent no subscription that anyone can read" in caplog.text
    assert "partitions=6" in caplog.text


def test_hundreds_of_lists_of_replicas_are_told_apart() -> None:
    """Every partition has the racks of its replicas."""
    cluster = Cluster(random.Random(4))
    many = {p: Replica([p % 7 + 1, p + 10]) for p in range(300)}
    cluster._partitions = {"few": {p: Replica([p + 1]) for p in range(5)}, "many": many, "none": {}}
    topics = list(cluster._partitions)
    joined = JoinedGroup(["m"], [None], [write_subscription(Subscription(tuple(topics), rack="a"))])
    described, replicas = describe_topics(ClientMetadata(cluster, "replicas"), topics, racks=True)
    assert replicas is not None
    group, _ = build_columns("g", joined.columns(joined.memories(Stateless())), described, replicas)
    assert group.racks is not None
    racks = [{group.racks.names[r] for r in group.racks.sets[s]} if s >= 0 else set() for s in group.racks.set_of]
    nodes = [row.replicas for topic in group.topics for row in cluster._partitions[topic].values()]
    assert racks == [{rack for n in one if (rack := cluster.broker_metadata(n).rack)} for one in nodes]


def test_equal_bytes_that_nobody_can_read_are_refused_for_all(caplog: pytest.LogCaptureFixture) -> None:
    cut = write_subscription(Subscription(("t",)))[:-3]
    with pytest.raises(UnreadableBytes):
        read_subscription(cut)
    joined = JoinedGroup(["a", "b"], [None, None], [cut, cut])
    assert joined.topics == []
    assert caplog.text.count("sent no subscription that anyone can read") == 2


def test_a_topic_with_malformed_bytes_is_answered_with_the_letter_that_stands_for_them() -> None:
    """Two spellings are one topic, and a member that keeps all it claims gets the spelling that everybody knows."""
    good = write_subscription(Subscription(("ab",), write_cooperative(3), (("ab", (0, 1)),), 3))
    view = ClientMetadata(Listed({"a\ufffd": [0, 1], "ab": [0, 1]}), "replicas")
    for sent, topic in ((good, "ab"), (good.replace(b"ab", b"a\xff"), "a\ufffd")):
        answer = Bridge("cooperative-sticky", Options()).lead(JoinedGroup(["a"], [None], [sent]), view)["a"]
        assert answer == write_assignment(Assignment(((topic, (0, 1)),)))


class Broken(UserDataCodec):
    """A codec that raises, claims what cannot be, or tells, as its member's user data say."""

    carries = frozenset({"warmth", "load"})

    def read(self, subscription: Subscription) -> Claim:
        """By the first letter."""
        match subscription.user_data:
            case b"raise":
                raise ValueError("no such form")
            case b"large":
                return Claim({"t": [2**31]}, 4)
            case b"fact":
                return Claim({}, 4, facts={"load": 2**63})
            case b"text":
                return Claim({"\ud800": [1]}, 4)
            case b"generation":
                return Claim({}, 2**31)
        return Claim({"t": [0, 3]}, 4, held=True, facts={"load": 5})


def test_a_codec_that_fails_loses_its_members_memory_and_says_why(caplog: pytest.LogCaptureFixture) -> None:
    told = [b"good", b"raise", b"large", b"fact", b"text", b"generation"]
    joined = JoinedGroup(
        [f"m{i}" for i in range(6)],
        [None] * 5 + ["i5"],
        [write_subscription(Subscription(("t",), one)) for one in told],
    )
    memories = joined.memories(Broken())
    assert memories.owned == [{"t": [0, 3]}, {}, {}, {}, {}, {}]
    assert memories.generation.tolist() == [4, -1, -1, -1, -1, -1]
    assert memories.held.tolist() == [True, False, False, False, False, False]
    assert {name: column.tolist() for name, column in memories.facts.items()} == {
        "load": [5, *[UNSET] * 5],
        "warmth": [UNSET] * 6,
    }
    assert memories.lost[1] == "ValueError: no such form"
    assert [reason.split(":")[0] for reason in memories.lost.values()] == [
        "ValueError", "OverflowError", "OverflowError", "UnicodeEncodeError", "OverflowError"
    ]  # fmt: skip
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0] == "member 'm1' remembers nothing, since its words are unreadable: ValueError: no such form"
    assert lines[4].startswith(
        "member 'm5' (instance 'i5') remembers nothing, since its words are unreadable: Overflow"
    )


def test_facts_behind_a_memory_are_each_members_own_and_within_their_bounds() -> None:
    """In the strategy's own bytes, or behind them; out of bounds, or unsaid, the default counts."""
    asked = {**MEMBER_FIELDS, "warmth": Fact(3, 1, 9), "load": Fact(7, 5, 8)}
    memory = write_sticky((("t", (1,)),), 4)
    sizes = [None, 1, 2, CAPACITY_MAX, 0, CAPACITY_MAX + 1, -1]
    sent = [memory + (b"" if size is None else CAPACITY_MARK + struct.pack(">i", size)) for size in sizes]
    sent += [memory + write_facts({"warmth": warmth}) + write_capacity(2) for warmth in (1, 9, 0, 10)]
    joined = JoinedGroup(
        [f"m{i:02}" for i in range(len(sent))], [None] * len(sent),
        [write_subscription(Subscription(("t",), one)) for one in sent],
    )  # fmt: skip
    columns = joined.columns(joined.memories(InUserData()), asked)
    assert columns.facts["capacity"].tolist() == [1, 1, 2, CAPACITY_MAX, 1, 1, 1, 2, 2, 2, 2]
    assert columns.facts["warmth"].tolist() == [3] * 7 + [1, 9, 3, 3]
    assert columns.facts["load"].tolist() == [7] * 11
    assert columns.facts["priority"].tolist() == [UNSET] * 11
    carried = joined.columns(joined.memories(Broken()), asked)
    assert carried.facts["load"].tolist() == [5] * 11
    assert carried.facts["warmth"].tolist() == [3] * 11, "it carries warmth itself, and told none"
    short = JoinedGroup(["a"], [None], [write_subscription(Subscription(("t",), b"1234567"))])
    assert short.columns(short.memories(Stateless())).facts["capacity"].tolist() == [1]

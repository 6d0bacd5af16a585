"""Members that all say the same are dealt by the short cut just what the general way gives them, in the log too."""

from __future__ import annotations

import logging
import random
import re
from typing import Any

import pytest

from apportion.assignors.sticky import Sticky
from apportion.clients.alike_members import ALIKE_MIN
from apportion.clients.bridge import Bridge
from apportion.clients.joined_group import JoinedGroup
from apportion.clients.options import Options
from apportion.clients.topic_metadata import ClientMetadata
from apportion.errors import UnreadableBytes
from apportion.wire.assignment import Assignment, read_assignment, write_assignment
from apportion.wire.assignments import write_neighbours
from apportion.wire.subscription import Subscription, read_subscription, write_subscription
from apportion.wire.userdata import write_cooperative, write_sticky

from .test_joined_group import Replica

MS = re.compile(r"ms=\S+")


class Cluster:
    """As much of a client's metadata as counts here."""

    def __init__(self, ids: dict[str, list[int]]) -> None:
        self._partitions = {topic: {p: Replica([1]) for p in parts} for topic, parts in ids.items()}

    def broker_metadata(self, node: int) -> None:
        return None


def lead(
    bridge: Bridge, ids: list[str], instances: list[str | None], sent: bytes, cluster: Cluster
) -> dict[str, bytes]:
    joined = JoinedGroup(ids, instances, [bytes(bytearray(sent)) for _ in ids])
    return bridge.lead(joined, ClientMetadata(cluster, "replicas"), "g", 4)


def is_dealt(bridge: Bridge, ids: list[str], sent: bytes, cluster: Cluster) -> bool:
    """Whether the short cut applies."""
    joined = JoinedGroup(ids, [None] * len(ids), [sent] * len(ids))
    return bridge._dealer.deal(joined, ClientMetadata(cluster, "replicas")) is not None


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[str, dict[str, Any]]]:
    """The lines and values of all rebalances so far, without their time."""
    records = [record for record in caplog.records if record.getMessage().startswith("rebalance ")]
    caplog.clear()
    values: list[dict[str, Any]] = [{**record.apportion, "ms": 0} for record in records]  # type: ignore[attr-defined]
    return [(MS.sub("", record.getMessage()), one) for record, one in zip(records, values, strict=True)]


@pytest.mark.parametrize("strategy", ["sticky", "cooperative-sticky"])
@pytest.mark.parametrize("order", [("balance", "racks", "moves"), ("racks", "balance"), ("balance", "spread")])
def test_the_short_cut_answers_and_logs_what_the_general_way_does(
    strategy: str, order: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "apportion.clients")
    r, dealt = random.Random(23), 0
    short, general = (Bridge(strategy, Options(), {"order": order}) for _ in range(2))
    general._dealer.proof = None
    for _ in range(60):
        members = r.choice((2, 13, 40, 120))
        topics = r.sample(
            ["a", "b", "topic", "x" * 200, "\U00010000", "\uffee", "\u0437", "z1", "z2"], r.randrange(1, 6)
        )
        step = r.choice((1, 1, members))
        cluster = Cluster({topic: list(range(step * r.randrange(8))) for topic in topics})
        ids = r.sample([*(f"m{n}" for n in range(200)), "\U00010000", "\uffee"], members)
        static = dict(zip(r.sample(ids, members // 3), r.sample(range(1000), members // 3), strict=True))
        instances = [f"i{static[one]}" if one in static else None for one in ids]
        data = r.choice((None, b"", write_cooperative(3)))
        version = r.randrange(4)
        sent = write_subscription(Subscription(tuple(topics), data, (), 3, None, version))
        dealt += is_dealt(short, ids, sent, cluster)
        answers = [lead(bridge, ids, instances, sent, cluster) for bridge in (short, general)]
        assert answers[0] == answers[1]
        assert list(answers[0]) == list(answers[1])
        by_short, by_general = logged(caplog)
        assert by_short == by_general
        assert list(by_short[1]) == list(by_general[1])
    assert dealt > 20


def test_it_applies_only_where_members_are_alike_and_claim_nothing() -> None:
    ids = [f"m{n}" for n in range(40)]
    cluster = Cluster({"t": list(range(80)), "gap": [0, *range(2, 80)]})
    plain = Subscription(("t",))
    good = write_subscription(plain)
    assert is_dealt(Bridge("cooperative-sticky", Options()), ids, good, cluster)
    assert is_dealt(Bridge("sticky", Options()), ids, good, cluster)
    others = [
        Subscription(("t",), rack="a"),
        Subscription(("t",), owned=(("t", (1,)),)),
        Subscription(("t",), write_cooperative(3) + write_sticky((("t", (1,)),), 3)),
        Subscription(("t",), b"\0"),
        Subscription(("gap",)),
        Subscription(("t", "unknown")),
        Subscription(()),
    ]
    for other in others:
        assert not is_dealt(Bridge("cooperative-sticky", Options()), ids, write_subscription(other), cluster), other
    assert not is_dealt(Bridge("cooperative-sticky", Options()), ids, good[:-1], cluster)
    assert not is_dealt(Bridge("cooperative-sticky", Options()), ids[: ALIKE_MIN - 1], good, cluster)
    assert not is_dealt(Bridge("sticky", Options(), {"order": ("moves", "balance")}), ids, good, cluster)
    assert not is_dealt(Bridge("range", Options()), ids, good, cluster)
    mixed = JoinedGroup(ids, [None] * 40, [good] * 20 + [write_subscription(Subscription(("u",)))] + [good] * 19)
    assert mixed.alike is None


def test_a_strategy_that_inherits_is_asked_itself() -> None:
    class Mine(Sticky):
        """Somebody's own."""

    cluster = Cluster({"t": list(range(80))})
    assert not is_dealt(
        Bridge(Mine(), Options()), [f"m{n}" for n in range(40)], write_subscription(Subscription(("t",))), cluster
    )


def test_a_hook_gets_a_record_with_a_plan() -> None:
    seen: list[Any] = []
    bridge = Bridge("sticky", Options(on_plan=seen.append))
    ids = [f"m{n}" for n in range(40)]
    lead(bridge, ids, [None] * 40, write_subscription(Subscription(("t",))), Cluster({"t": list(range(80))}))
    assert len(seen[0].assignment["m0"]["t"]) == 2


def test_neighbours_are_written_as_by_the_writer_of_one() -> None:
    r = random.Random(4)
    for _ in range(50):
        parts = [
            (topic, [r.choice((0, 250, 65_000, 2**31 - 400)) + r.randrange(200) for _ in range(r.randrange(1, 5))])
            for topic in r.sample(["a", "topic", "\u0437\u0430", "x" * 249], r.randrange(1, 4))
        ]
        expected = [
            write_assignment(Assignment(tuple((t, tuple(p + n for p in ids)) for t, ids in parts))) for n in range(150)
        ]
        assert write_neighbours(parts, 150) == expected
    with pytest.raises(ValueError, match="40000 bytes"):
        write_neighbours([("x" * 40_000, [1])], 2)


def test_equal_bytes_that_nobody_can_read_are_refused_for_all(caplog: pytest.LogCaptureFixture) -> None:
    cut = write_subscription(Subscription(("t",)))[:-3]
    with pytest.raises(UnreadableBytes):
        read_subscription(cut)
    joined = JoinedGroup(["a", "b"], [None, None], [cut, cut])
    assert joined.topics == []
    assert caplog.text.count("sent no subscription that anyone can read") == 2


@pytest.mark.parametrize("strategy", ["sticky", "cooperative-sticky", "range", "roundrobin", "failover"])
@pytest.mark.parametrize("topics", [["t"], ["t", "u"]], ids=["alike", "different"])
def test_a_member_that_is_listed_twice_in_one_answer_takes_nothing_away(
    strategy: str, topics: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Every partition has an owner, and the log says so; what members sent was written by kafka-python."""
    from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

    def sent(wanted: list[str]) -> bytes:
        encoded = ConsumerProtocolSubscription(version=1, topics=wanted, user_data=b"", owned_partitions=[]).encode()
        return bytes(encoded)

    joined = JoinedGroup(["a", "b", "a"], [None] * 3, [sent(["t"]), sent(topics), sent(["t"])])
    view = ClientMetadata(Cluster({"t": list(range(6)), "u": [0, 1]}), "replicas")
    answers = Bridge(strategy, Options()).lead(joined, view, "g", 3)
    assert "1 members of 3 are listed twice" in caplog.text
    given = [
        (topic, p) for answer in answers.values() for topic, ids in read_assignment(answer).partitions for p in ids
    ]
    assert sorted(given) == sorted((topic, p) for topic in topics for p in range(6 if topic == "t" else 2))

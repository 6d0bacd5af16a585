"""What a bridge and an adapter do with all that they are given: each default, bound and word."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.clients.joining import JoiningMember, assign

from apportion.clients.group.bridge import Bridge
from apportion.clients.group.joined_group import JoinedGroup
from apportion.clients.group.options import Options
from apportion.clients.group.topic_metadata import ClientMetadata
from apportion.clients.group.warm_up import WarmUp
from apportion.clients.lag_feed import LagFeed
from apportion.clients.rebalance import PlannedRebalance
from apportion.wire.assignment import Assignment, read_assignment
from apportion.wire.subscription import Subscription, write_subscription
from apportion.wire.user_data import write_sticky

from .metadata import Cluster, Replica


class Topics:
    """Topics of four partitions, of which one has lost its second."""

    def partitions(self, topic: str) -> Any:
        return [0, 2, 3] if topic == "gap" else range(4)

    def racks(self, topic: str) -> dict[int, list[str]]:
        return {}


def joining(who: str, *ids: int, topics: tuple[str, ...] = ("t",), generation: int | None = 1) -> JoiningMember:
    owned = ((topics[0], ids),) if ids else ()
    return JoiningMember(who, None, Subscription(topics, None, owned, generation if ids else None))


def feed(table: Any) -> LagFeed:
    """A feed that has asked once."""
    one = LagFeed("g", lambda *_: table, topics=["t"])
    one.refresh()
    return one


# -- the bridge --------------------------------------------------------------------------------------------------------


def test_the_clients_own_metadata_bring_racks_into_the_plan() -> None:
    """Each member reads what has a replica in its rack; where none tells its own, racks are not looked at."""
    metadata_of: Any = Cluster({"t": []})
    metadata_of._partitions = {"t": {p: Replica([p % 2]) for p in range(6)}}
    metadata_of.broker_metadata = lambda node: SimpleNamespace(rack="ab"[node])
    for own, told in ((("b", "a"), True), ((None, None), False)):
        view = ClientMetadata(metadata_of, "replicas")
        said = [write_subscription(Subscription(("t",), rack=rack)) for rack in own]
        news: list[PlannedRebalance] = []
        bridge = Bridge("range", Options(on_plan=news.append))
        given = bridge.lead(JoinedGroup(["m", "n"], [None, None], said), view, "g", 1)
        held = {who: dict(read_assignment(raw).partitions)["t"] for who, raw in given.items()}
        assert held == ({"m": (1, 3, 5), "n": (0, 2, 4)} if told else {"m": (0, 1, 2), "n": (3, 4, 5)})
        assert bool(view.seen) is told


@pytest.mark.parametrize("name", ["cooperative-sticky", "sticky"])
def test_what_a_member_says_follows_what_it_was_given(name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "apportion.clients")
    bridge = Bridge(name, Options(rack="r"))
    given = Assignment((("t", (0, 1)), ("u", (5,))))
    bridge.on_assignment(given, 6, "g")
    keeps = name == "cooperative-sticky"
    assert (bridge.last.owned, bridge.last.generation, bridge.last.keeps) == (given.partitions, 6, keeps)
    said = bridge.subscription(["u", "t", "\ue000", "\U0001f600"], keeps=keeps)
    assert said.topics == ("t", "u", "\U0001f600", "\ue000"), "as Java sorts them"
    assert (said.owned, said.generation, said.rack) == (given.partitions if keeps else (), 6, "r")
    assert bridge.subscription(["t"], keeps=keeps).owned == (given.partitions[:1] if keeps else ())
    holds = (("u", (5,)), ("gone", (1,)))
    assert bridge.subscription(["u"], keeps=keeps, holds=holds).owned == (holds[:1] if keeps else ())
    read = bridge.memory.read(bridge.subscription(["u", "t"], keeps=keeps))
    assert dict(read.owned) == {"t": [0, 1], "u": [5]}
    bridge.on_assignment(Assignment((("t", (1, 2, 3)),)), None)
    line = 'assigned group={} generation={} assignor="{}" partitions=3 gained={} lost={}'
    assert caplog.messages == [line.format('"g"', 6, name, 3, 0), line.format("null", "null", name, 2, 2)]


def test_offsets_stand_beside_the_partitions_that_there_are() -> None:
    """Of a topic that has lost a partition too; what is not known of one leaves it as it is."""
    news: list[PlannedRebalance] = []
    table = {"gap": {0: {"lag": 5}, 2: {"lag": 70}, 3: {"lag": 6}}, "t": {3: {"begin": 2, "end": 90}}}
    for reset, lag in (("earliest", 88), ("latest", 0)):
        options = Options(lag=feed(table), on_plan=news.append, auto_offset_reset=reset)
        assign(Bridge("lag-aware", options), [joining("a", topics=("gap", "t"))], Topics())
        plan = news[-1].plan
        assert plan is not None
        known = {plan.group.name_of(p): int(plan.group.lag[p]) for p in np.flatnonzero(plan.group.lag_known).tolist()}
        assert known == {("gap", 0): 5, ("gap", 2): 70, ("gap", 3): 6, ("t", 3): lag}
        assert plan.group.P == 7


def test_the_second_round_of_a_hand_over_by_lag_gives_what_the_first_promised() -> None:
    news: list[PlannedRebalance] = []
    now: dict[str, Any] = {"t": {p: {"lag": lag} for p, lag in enumerate((900, 800, 0, 0))}}
    one = LagFeed("g", lambda *_: now, topics=["t"])
    one.refresh()
    bridge = Bridge("cooperative-lag-aware", Options(lag=one, on_plan=news.append), {"max_skew": 3})
    first = assign(bridge, [joining("a", 0, 1), joining("b", 2, 3)], Topics(), "g", 1)
    plan = news[0].plan
    assert plan is not None
    assert (news[0].withheld, plan.settings, plan.cooperative) == (1, {"max_skew": 3}, True)
    now["t"] = {p: {"lag": lag} for p, lag in enumerate((0, 3000, 3000, 0))}
    one.refresh()
    held = {who: [p for _, ids in answer.partitions for p in ids] for who, answer in first.items()}
    again = assign(bridge, [joining(who, *ids) for who, ids in held.items()], Topics(), "g", 2)
    second = news[1].plan
    assert second is not None
    assert {who: dict(answer.partitions) for who, answer in again.items()} == {
        who: {topic: tuple(ids) for topic, ids in topics.items()} for who, topics in plan.target.items()
    }
    assert (second.settings, second.assignor, second.cooperative) == ({"max_skew": 3}, plan.assignor, True)
    assert (news[1].why, news[1].cause) == ("hand-over of what was withheld", "group")
    third = assign(bridge, [joining(who, *dict(one.partitions)["t"]) for who, one in again.items()], Topics(), "g", 3)
    assert third != again, "the promise holds for one round"
    plain = Bridge("cooperative-lag-aware", Options(on_plan=news.append))
    assign(plain, [joining("a", 0, 1, 2, 3), joining("b")], Topics(), "g", 1)
    assert plain._hand_over is None


def test_readiness_travels_only_where_a_member_warms_up() -> None:
    cold, warm = Bridge("cooperative-sticky", Options()), Bridge("cooperative-sticky", Options())
    warm.warm_up = WarmUp(lambda places: None, 1.0)
    plain, more = (one.subscription(["t"], keeps=True).user_data or b"" for one in (cold, warm))
    assert more.startswith(plain)
    assert len(more) > len(plain)
    able = {name: Bridge(name, Options()).can_warm_up for name in ("cooperative-sticky", "sticky", "range", "failover")}
    assert able == {"cooperative-sticky": True, "sticky": False, "range": False, "failover": False}


# -- the broker takes over ---------------------------------------------------------------------------------------------


# -- adapters ----------------------------------------------------------------------------------------------------------


def test_warm_ups_wait_as_long_as_they_may_and_say_what_is_cold(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from apportion.clients.group import warm_up

    now = SimpleNamespace(s=100.0)
    monkeypatch.setattr(warm_up, "time", SimpleNamespace(monotonic=lambda: now.s))
    told = [write_sticky((("t", ids),), None) for ids in ((1, 2, 3, 4, 5), (9,))]
    made: list[Any] = []

    class Thread:
        """The thread that never gets anywhere."""

        def __init__(self, **told: Any) -> None:
            made.append(told)

        def start(self) -> None:
            made.append("started")

        def is_alive(self) -> bool:
            return True

    monkeypatch.setattr(warm_up, "threading", SimpleNamespace(Thread=Thread))
    up = WarmUp(lambda places: None, 2.5)
    assert up._assigned == (b"", frozenset())
    up.assigned(Assignment((("t", (0,)),), told[0]))
    coming = frozenset(("t", p) for p in (1, 2, 3, 4, 5))
    assert [up.look(), up.look()] == [(False, set())] * 2
    assert made == [{"target": up._do, "args": (coming,), "name": "warm-up", "daemon": True}, "started"]
    now.s = 102.4
    up.assigned(Assignment((("t", (0,)),), told[0]))
    assert up.look() == (False, set())
    now.s = 102.5
    assert up.look() == (True, set()), "the time counts from when it was told first"
    assert caplog.messages == ["taking 5 partitions that are not warm after 2.5 s: t-1, t-2, t-3"]
    assert (up.fact(), up.look()) == (2**32, (False, set()))
    up.assigned(Assignment((), told[1]))
    assert (up.fact(), up.look()) == (2**32, (False, set())), "who waited long enough takes whatever comes"
    up.assigned(Assignment((), None))
    assert (up.fact(), up.look()) == (0, (False, set()))
    up.assigned(Assignment((), told[1]))
    assert up.look() == (False, set())
    now.s = 105.0
    assert up.look() == (True, set())
    monkeypatch.undo()
    broken = WarmUp(lambda places: 1 / 0, 1.0)
    broken._do(frozenset({("t", 1)}))
    assert caplog.messages[-1] == "the warm-up failed; the hand-over goes on without it"
    seen: list[Any] = []
    WarmUp(seen.append, 1.0)._do(frozenset({("t", 2), ("a", 3), ("t", 1)}))
    assert seen == [[("a", 3), ("t", 1), ("t", 2)]]
    assert warm_up.checksum(b"") == 1

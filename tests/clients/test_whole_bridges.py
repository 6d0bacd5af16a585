"""What a bridge and an adapter do with all that they are given: each default, bound and word."""

from __future__ import annotations

import gc
import logging
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.clients.joining import JoiningMember, assign

import apportion
from apportion.acting.rule import Acting
from apportion.clients.adapter import Adapter, Forked, assignor_for
from apportion.clients.bridge import Bridge, bridge_for
from apportion.clients.broker_takeover import TakeoverWatch
from apportion.clients.joined_group import JoinedGroup
from apportion.clients.lag_feed import LagFeed
from apportion.clients.options import Options
from apportion.clients.rebalance import PlannedRebalance
from apportion.clients.topic_metadata import ClientMetadata
from apportion.clients.warm_up import WarmUp
from apportion.strategy.codec import Holding
from apportion.wire import plan_text
from apportion.wire.assignment import Assignment, read_assignment
from apportion.wire.plan_text import TOPICS_WHOLE, GovernedPlan, MemberKey
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


def test_all_that_a_user_gives_reaches_the_bridge() -> None:
    lag, acting = feed({}), Acting(rest_s=5)
    given: dict[str, Any] = {
        "rack": "r", "priority": 3, "auto_offset_reset": "earliest", "on_plan": print, "lag": lag,
        "on_foreign": "continue", "capacity": "learned", "facts": {}, "acting": acting,
    }  # fmt: skip
    bridge = bridge_for("cooperative-lag-aware", **given, max_skew="4")
    assert vars(bridge.options) == given
    assert bridge.options == Options("r", 3, "earliest", print, lag, "continue", "learned", {}, acting)
    assert bridge.strategy == apportion.CooperativeLagAware(max_skew=4)
    assert (bridge.on_foreign, bridge.cooperative, bridge.kept_whole) == ("continue", True, "")
    assert bridge.watch is not None
    assert (bridge.watch.acting, bridge.watch.feed, bridge.watch.strategy) == (acting, lag, bridge.strategy)
    assert bridge.watch._loop.learned is True
    assert bridge_for(lag=lag, acting=acting).watch._loop.learned is True  # type: ignore[union-attr]
    assert bridge_for(lag=lag, acting=acting, capacity=1).watch._loop.learned is False  # type: ignore[union-attr]
    plain = bridge_for()
    assert plain.options == Options()
    assert vars(plain.options) == {
        "rack": None, "priority": None, "auto_offset_reset": "latest", "on_plan": None, "lag": None,
        "on_foreign": None, "capacity": None, "facts": {}, "acting": None,
    }  # fmt: skip
    assert (plain.name, plain.watch, plain.warm_up, plain.last) == ("cooperative-sticky", None, None, Holding())
    own = apportion.Failover()
    assert bridge_for(own).strategy is own
    assert [Bridge(name, Options()).kept_whole for name in ("failover", "sticky-stream-join")] == [
        "topics", "numbers"
    ]  # fmt: skip
    assert bridge_for("failover", priority=7).subscription(["t"], keeps=False).user_data is not None


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


def test_a_leader_tells_the_time_from_where_its_call_began(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([10.0, 10.25, 20.5, 30.0, 30.123456789])
    monkeypatch.setattr("apportion.clients.bridge.time.perf_counter", lambda: next(now))
    news: list[PlannedRebalance] = []
    bridge = Bridge("sticky", Options(on_plan=news.append))
    assign(bridge, [joining("a")], Topics())
    raw = write_subscription(Subscription(("t",)))
    assert list(bridge.lead(JoinedGroup(["a"], [None], [raw]), Topics(), "g", None, 20.0)) == ["a"]
    bridge.lead(JoinedGroup(["a"], [None], [raw]), Topics())
    assert [one.ms for one in news] == [250.0, 500.0, pytest.approx(123.456789)]
    assert [one.to_dict()["ms"] for one in news] == [250.0, 500.0, 123.457]
    assert [(one.group, one.generation) for one in news] == [("", None), ("g", None), ("", None)]
    assert [one.why for one in news] == ["this member leads now"] + ["rejoin without a change"] * 2


def test_a_record_without_a_hook_is_made_only_where_somebody_reads_the_log(caplog: pytest.LogCaptureFixture) -> None:
    bridge = Bridge("cooperative-sticky", Options())
    caplog.set_level(logging.WARNING, "apportion.clients")
    assert {who: one.partitions for who, one in assign(bridge,
        [joining("a", 0, 1, 2, 3), joining("b")], Topics(), "g", 1
    ).items()} == {"a": (("t", (0, 1)),), "b": ()}  # fmt: skip
    assert caplog.records == []
    caplog.set_level(logging.INFO, "apportion.clients")
    assign(bridge, [joining("a", 0, 1), joining("b")], Topics(), "g", 2)
    [record] = caplog.records
    assert 'moved=0 kept=2 given=2 withheld=0 ignored=0 why="hand-over of what was withheld"' in record.getMessage()
    values = record.apportion  # type: ignore[attr-defined]
    assert {**values, "ms": 0} == {
        "group": "g", "generation": 2, "assignor": "cooperative-sticky", "members": 2, "partitions": 4, "moved": 0,
        "kept": 2, "given": 2, "withheld": 0, "ignored": 0, "why": "hand-over of what was withheld",
        "proof": {"balance": "optimal", "moves": "optimal"}, "ms": 0, "foreign": False, "cause": "group",
    }  # fmt: skip
    caplog.clear()
    failing = Bridge("range", Options(on_plan=lambda news: 1 / 0))
    caplog.set_level(logging.ERROR, "apportion.clients")
    assign(failing, [joining("a")], Topics())
    assert caplog.messages == ["the on_plan hook failed; the rebalance goes on"]
    assert caplog.records[0].exc_info is not None


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


def test_each_hook_hears_once_of_a_take_over_and_the_watch_begins_as_a_classic_one() -> None:
    heard: list[Any] = []

    def one(news: Any) -> None:
        heard.append(("one", news))

    def other(news: Any) -> None:
        heard.append(("other", news))

    hooks = (one, None, other, one)
    watch = TakeoverWatch([Bridge("range", Options(on_plan=hook)) for hook in hooks])
    assert (watch.foreign, watch.stopped, watch.plan_keeps, watch.policy) == (False, "", False, "log")
    assert watch.joined(None, "g", 9) is False
    assert [name for name, _ in heard] == ["one", "other"]
    assert heard[0][1].to_dict() == {
        "group": "g", "generation": 9, "assignor": "range", "members": 0, "partitions": 0, "moved": 0, "kept": 0,
        "given": 0, "withheld": 0, "ignored": 0, "proof": {}, "ms": 0.0, "foreign": True, "cause": "group",
        "why": "the broker assigns by the new protocol (group.protocol=consumer)",
    }  # fmt: skip
    assert heard[0][1].line() == (
        'rebalance group="g" generation=9 assignor="range" members=0 partitions=0 moved=0 kept=0 given=0 withheld=0 '
        'ignored=0 why="the broker assigns by the new protocol (group.protocol=consumer)" proof="" ms=0.0 foreign=true '
        'cause="group"'
    )
    assert watch.joined("leader", "g", 10) is False
    assert watch.foreign is False
    assert len(heard) == 2, "that it is over says the log alone"
    assert watch.joined("", "g", 11) is False
    assert len(heard) == 4
    [text] = plan_text.texts(GovernedPlan(7, TOPICS_WHOLE, (MemberKey("a"),), (0,), {}), "c")
    kept = {"assignor_name": plan_text.ASSIGNOR, "members": [{"rack_id": text}]}
    strict = TakeoverWatch([Bridge("failover", Options()), Bridge("range", Options())])
    strict.look(kept)
    assert strict.plan_keeps is False, "range promises nothing that a plan could keep"
    alone = TakeoverWatch([Bridge("failover", Options())])
    alone.look(kept)
    alone.look({**kept, "assignor_name": "uniform"})
    assert alone.plan_keeps is False
    strict.joined("", "g", 1)
    assert strict.stopped.count("'failover', 'range' is no longer asked") == 1


# -- adapters ----------------------------------------------------------------------------------------------------------


class Coordinator:
    """As much of a client's as counts here."""

    def __init__(self, assignors: Any, *, over: bool = False) -> None:
        """What the client says of it."""
        self._assignors, self.over, self.rejoins = assignors, over, 0

    def request_rejoin(self) -> None:
        self.rejoins += 1


class Ours(Adapter):
    """A strategy in the interface of a client that has none."""

    @staticmethod
    def close_refused(coordinator: Any) -> None:
        coordinator.over = True

    @staticmethod
    def closed(coordinator: Any) -> bool:
        return bool(coordinator.over)


def test_an_adapter_knows_its_consumer_and_lets_it_go() -> None:
    watched = Bridge("lag-aware", Options(lag=feed({}), acting=Acting()))
    ours = Ours(watched)
    assert (ours.name, ours.bridge, ours.coordinator, ours.ended) == ("lag-aware", watched, None, True)
    assert watched.watch is not None
    assert watched.watch._consumer() is ours
    ours.ask_rejoin()
    consumer = Coordinator([])
    ours.bind(consumer)
    assert (ours.coordinator, ours.ended) == (consumer, False)
    ours.ask_rejoin()
    assert consumer.rejoins == 1
    assert ours.for_consumer() is not ours
    consumer.over = True
    assert ours.ended
    consumer.over = False
    del consumer
    gc.collect()
    assert (ours.coordinator, ours.ended) == (None, True)
    assert ours.for_consumer() is ours
    assert str(Forked("KafkaConsumer")) == (
        "this KafkaConsumer was made before this process was forked, and its threads stayed behind; make a consumer of "
        "its own in each process, after the fork."
    )


def test_a_clients_assignor_takes_what_a_bridge_takes_with_a_default_of_its_own() -> None:
    assignor = assignor_for(Ours, bridge_for, "sticky")
    assert (assignor.__name__, assignor.__qualname__, assignor.__module__) == ("assignor", "assignor", Ours.__module__)  # type: ignore[attr-defined]
    assert assignor.__doc__ == bridge_for.__doc__
    made = [assignor(), assignor(rack="r"), assignor("range"), assignor(strategy="failover", priority=3)]
    assert [one.name for one in made] == ["sticky", "sticky", "range", "failover"]
    assert [type(one) for one in made] == [Ours] * 4
    assert (made[1].bridge.options.rack, made[3].bridge.options.priority) == ("r", 3)


def test_warm_ups_wait_as_long_as_they_may_and_say_what_is_cold(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from apportion.clients import warm_up

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

"""What a leader plans by the offsets that it has, and the hand-over that it promised in the round before."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.clients.joining import JoiningMember, assign

from apportion.clients.group.bridge import Bridge
from apportion.clients.group.options import Options
from apportion.clients.lag_feed import LagFeed
from apportion.clients.rebalance import PlannedRebalance
from apportion.wire.subscription import Subscription


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

"""The settings of acting have their bounds and words, and a pinned plan is given to its own group alone."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import apportion
from apportion.acting.rule import Acting
from apportion.clients.group import acting as acting_module
from apportion.clients.group.acting import PinnedPlan
from apportion.clients.group.bridge import bridge_for
from apportion.clients.lag_feed import LagFeed
from apportion.errors import BadInput
from apportion.model.group import Group
from apportion.model.group_json import read_group
from apportion.model.plan import Answer


def group_of(sizes: dict[str, int] | None = None, name: str = "g", **owned: dict[str, list[int]]) -> Group:
    """Members of one topic of four partitions, or of others."""
    sizes = sizes or {"t": 4}
    return read_group({
        "group": name, "topics": sizes,
        "members": {m: {"topics": list(sizes), "owned": held, "generation": 3} for m, held in owned.items()},
    })  # fmt: skip


GROUP = group_of(a={"t": [0, 1]}, b={"t": [2, 3]})


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A clock that stands, and threads that are only written down."""
    told = SimpleNamespace(s=100.0, threads=list[dict[str, Any]](), alive=True, slept=list[float](), then=list[Any]())

    class Thread:
        def __init__(self, **told_of: Any) -> None:
            told.threads.append(told_of)

        def start(self) -> None:
            told.threads[-1]["started"] = True

        def is_alive(self) -> bool:
            return bool(told.alive)

    def sleep(seconds: float) -> None:
        told.slept.append(seconds)
        told.then.pop(0)()

    monkeypatch.setattr(acting_module, "threading", SimpleNamespace(Thread=Thread, Lock=threading.Lock))
    monkeypatch.setattr(acting_module, "time", SimpleNamespace(monotonic=lambda: told.s, sleep=sleep))
    return told


def test_a_pinned_plan_fits_its_own_group_alone() -> None:
    target = np.array([0, 1, 1, 1])
    plan = PinnedPlan(GROUP, Answer(target, {}))
    assert plan.why == ""

    def fits(**changes: Any) -> bool:
        return plan.fits(replace(GROUP, **changes))

    assert plan.fits(GROUP)
    assert plan.fits(GROUP.holding(target))
    assert plan.fits(GROUP.holding(np.array([0, -1, -1, 1])))
    assert not plan.fits(GROUP.holding(np.array([1, 1, 1, 1])))
    assert not plan.fits(GROUP.holding(np.array([0, 0, 0, 1])))
    assert not fits(members=("a", "c"))
    assert not fits(topics=("u",))
    assert not fits(number=GROUP.number + 1)
    assert not fits(subscription_of=GROUP.subscription_of + 1)
    two = group_of({"t": 3, "u": 1}, a={"t": [0, 1]}, b={"t": [2], "u": [0]})
    both = PinnedPlan(two, Answer(two.owner, {}))
    assert both.fits(two)
    assert not both.fits(replace(two, start=np.array([0, 2, 4])))


# -- the rule's bounds and words ---------------------------------------------------------------------------------------

SHARE = "a share of the time to catch up, above 0 and below 1"
MOVES = "a whole number of partitions from 1 on, a share of the work below 1, or None"
HOLD, REST = (f"seconds, from {least} to 2,592,000" for least in (0, 1))


@pytest.mark.parametrize(
    ("name", "wrong", "right", "needed"),
    [
        ("gain", (0, 0.0, 1, -0.1, 1.5, float("nan"), "0.2", True), (1e-9, 0.999), SHARE),
        ("hold_s", (-0.001, 2_592_000.5, float("inf"), None, False), (0, 0.0, 2_592_000), HOLD),
        ("horizon_s", (0.999, 2_592_001, float("nan"), True, "9"), (1, 1.0, 2_592_000.0), REST),
        ("rest_s", (0.999, 2_592_001, float("nan"), True, "9"), (1, 1.0, 2_592_000.0), REST),
        ("moves", (0, -1, 1.0, 1.5, 0.0, -0.5, True, "3", float("nan")), (1, 2, 10**9, 0.001, 0.999, None), MOVES),
    ],
)
def test_each_number_of_the_rule_has_its_bounds(name: str, wrong: Any, right: Any, needed: str) -> None:
    for value in wrong:
        with pytest.raises(BadInput) as refused:
            Acting(**{name: value})
        assert str(refused.value) == f"acting.{name}: found {value!r}; needed {needed}."
    for value in right:
        assert getattr(Acting(**{name: value}), name) == value
    assert Acting() == Acting(0.2, 10.0, 60.0, None, 60.0)


def test_acting_frees_counts_unless_max_skew_is_given_and_learns_speeds_unless_a_capacity_is() -> None:
    """By the defaults alone, with no other setting, the loop is the one that helps."""
    feed = LagFeed("g", lambda group, topics, timeout_s: {}, topics=["t"])

    def loop_of(strategy: Any = "cooperative-lag-aware", **options: Any) -> Any:
        watch = bridge_for(strategy, lag=feed, acting=Acting(), **options).watch
        assert watch is not None
        return watch._loop

    plain = loop_of()
    assert (plain.learned, plain.strategy.max_skew > 2_000_000) == (True, True)
    assert loop_of(apportion.CooperativeLagAware()).strategy.max_skew > 2_000_000
    for strategy, options in (
        ("cooperative-lag-aware", {"max_skew": 0}),
        ("lag-aware", {"max_skew": 3, "capacity": 2}),
        (apportion.CooperativeLagAware(max_skew=3), {"capacity": 1}),
    ):
        loop = loop_of(strategy, **options)
        assert loop.strategy.max_skew == options.get("max_skew", 3)
        assert loop.learned == ("capacity" not in options)
    assert loop_of("cooperative-sticky").strategy == apportion.find("cooperative-sticky")


def test_a_strategy_that_acts_stays_as_cooperative_as_it_is_and_a_copy_as_even() -> None:
    """Counts are freed, and nothing else; for another consumer, too, ``max_skew`` counts once it was given."""
    feed = LagFeed("g", lambda group, topics, timeout_s: {}, topics=["t"])

    def loops(bridge: Any) -> list[Any]:
        return [bridge.watch._loop.strategy, bridge.copy().watch._loop.strategy]

    named = bridge_for("lag-aware", lag=feed, acting=Acting(), cooperative=True)
    for strategy in loops(named) + loops(bridge_for(apportion.LagAware(cooperative=True), lag=feed, acting=Acting())):
        assert (strategy.name, strategy.max_skew > 2_000_000) == ("cooperative-lag-aware", True)
    for strategy in loops(bridge_for("lag-aware", lag=feed, acting=Acting(), max_skew=0)):
        assert strategy.max_skew == 0

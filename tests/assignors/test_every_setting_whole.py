"""Plans, proofs and sentences of failover, lag-aware and sticky under every setting, against what was written down."""

from __future__ import annotations

from itertools import permutations, product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.support.written_down import as_written

import apportion
from apportion.assignors.sticky import Sticky
from apportion.testing.groups import Kinds, random_group

WRITTEN = Path(__file__).parent / "every_setting_whole.json"
GOALS = ("balance", "spread", "racks", "moves")
FAILOVER = [
    {"preempt": preempt, "active": active} for preempt in (True, False) for active in ("member", "equals", "host")
]
LAG = [
    {"max_skew": skew, "tolerance": tolerance, "by": by}
    for skew, tolerance, by in product((0, 2), (0.0, 0.25), ("lag", "weight"))
]
ORDERS = [order for size in (1, 2, 4) for order in permutations(GOALS, size)]


def in_short(raw: dict[str, Any], name: str, settings: dict[str, Any]) -> Any:
    """Owners, what waits, the proof of each goal, measures and sentences."""
    plan = apportion.plan(raw, name, settings)
    withheld = np.flatnonzero(plan.withheld).tolist()
    return [plan.owner.tolist(), withheld, dict(plan.answer.proof), plan.to_dict()["measures"], plan.explain()]


def with_hosts(seed: int) -> dict[str, Any]:
    """Members of few priorities, each on a host that is told by name, by number, or not."""
    draw = Random(seed)
    raw = random_group(draw, Kinds(members=6, priorities=False))
    how = draw.choice(("name", "number", "both"))
    for fields in raw["members"].values():
        if draw.random() < 0.8:
            fields["priority"] = draw.choice((-1, 0, 0, 3))
        if how != "number" and draw.random() < 0.8:
            fields["host"] = draw.choice(("/a", "/b", "/c"))
        if how != "name" and draw.random() < 0.8:
            fields["facts"] = {"host": draw.choice((0, 1, 2))}
    return raw


def with_work(seed: int) -> dict[str, Any]:
    """Topics whose partitions have lags and weights, known, unknown, or very large; members of many capacities."""
    draw = Random(seed)
    raw = random_group(draw, Kinds(members=5, partitions=8, lag=False, priorities=False, capacities=True))
    amounts = draw.choice(((0, 1, 5), (3, 40, 1000), (2**40, 2**61, 7)))
    for topic, entries in raw["topics"].items():
        told: list[dict[str, Any]] = [{"partition": p} for p in range(entries)] if isinstance(entries, int) else entries
        raw["topics"][topic] = told
        known = draw.choice((0, 0.5, 1, 1))
        for entry in told:
            if draw.random() < known:
                entry["lag"] = draw.choice(amounts)
            if draw.random() < known:
                entry["weight"] = draw.choice((0, 1, 2.5, 0.1, 30))
    return raw


@pytest.mark.parametrize("settings", FAILOVER, ids=str)
@pytest.mark.parametrize("name", ["failover", "cooperative-failover"])
def test_topics_go_to_winners_equals_and_hosts_as_was_written_down(name: str, settings: dict[str, Any]) -> None:
    as_written(WRITTEN, f"{name} {settings}", [in_short(with_hosts(seed), name, settings) for seed in range(18)])


@pytest.mark.parametrize("settings", LAG, ids=str)
@pytest.mark.parametrize("name", ["lag-aware", "lag-aware topic", "cooperative-lag-aware"])
def test_lag_and_weights_are_shared_as_was_written_down(name: str, settings: dict[str, Any]) -> None:
    strategy, _, scope = name.partition(" ")
    wish = {**settings, **({"scope": scope} if scope else {})}
    as_written(WRITTEN, f"{name} {settings}", [in_short(with_work(seed), strategy, wish) for seed in range(16)])


@pytest.mark.parametrize("order", ORDERS, ids="+".join)
def test_goals_in_every_order_give_what_was_written_down(order: tuple[str, ...]) -> None:
    assert Sticky(order).goals == order
    groups = (random_group(Random(seed), Kinds(capacities=True)) for seed in range(6))
    as_written(
        WRITTEN, "sticky " + "+".join(order), [in_short(raw, "sticky", {"order": list(order)}) for raw in groups]
    )

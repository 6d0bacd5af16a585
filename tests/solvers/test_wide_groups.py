"""What only large groups meet, in small: plans topic by topic, narrow bounds of lag, and what is said of spread."""

from __future__ import annotations

import itertools
from random import Random

import numpy as np
import pytest

import apportion
from apportion.model.group_json import read_group
from apportion.model.measures import loads, measure
from apportion.solvers import greedy_by_topic, solve
from apportion.solvers.goals import ALL, named
from apportion.solvers.problem import units
from apportion.testing.groups import many_groups

ORDER = ("balance", "racks", "moves")


def test_a_plan_topic_by_topic_is_legal_and_promises_only_what_it_keeps() -> None:
    shown = 0
    for raw in many_groups(80, seed=6):
        group = read_group(raw)
        if not group.P or not len(group.members):
            continue
        unit = units(group.capacity)
        owner, proof = greedy_by_topic.plan_by_topic(group, unit, named(ORDER))
        assert ((owner >= 0) == group.wanted).all()
        held = np.flatnonzero(owner >= 0)
        assert group.may_own(owner[held], held).all()
        found = measure(group, owner)
        promised = [goal for goal in ORDER if proof[ALL[goal]] == "optimal"]
        assert promised == list(ORDER[: len(promised)]), "goals are shown in their order"
        if "balance" in promised:
            assert (group.capacity == group.capacity[0]).all()
            assert found["load_max"] - found["load_min"] <= 1
        assert "racks" not in promised or not found["rack_misses"]
        assert "moves" not in promised or not found["moves"]
        shown += len(promised)
        load = loads(owner, group.M)
        for p in held.tolist():
            if len(group.subscriptions) == 1 and (group.capacity == 1).all():
                assert load[owner[p]] - load.min() <= 1
    assert shown > 50, "some promises are made"


def test_a_group_of_too_many_wishes_is_planned_topic_by_topic_by_the_members_capacities(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(solve, "CELLS", 0)
    members = {"a": {"topics": ["t", "u"], "capacity": 3}, "b": {"topics": ["t"]}, "c": {"topics": ["u"]}}
    plan = apportion.plan({"topics": {"t": 8, "u": 8}, "members": members}, "sticky")
    held = {name: sum(map(len, ids.values())) for name, ids in plan.assignment.items()}
    assert held == {"a": 10, "b": 3, "c": 3}


def test_spread_and_capacities_are_explained_with_their_own_bounds() -> None:
    members = {"a": {"topics": ["t", "u"], "capacity": 3}, "b": {"topics": ["t"]}, "c": {"topics": ["t", "u"]}}
    plan = apportion.plan({"topics": {"t": 3, "u": 4}, "members": members}, "sticky", {"order": "balance,spread"})
    told = "\n".join(plan.explain())
    assert "spread: optimal. Partitions of a topic held by a member, squared and summed: " in told
    assert f"over capacity {plan.measures['spread_cost']}" in told
    assert "2 held - 1 to 2 held + 1 over capacity of the topic, times the weight of spread" in told
    same = apportion.plan(
        {"topics": {"t": 3, "u": 4}, "members": {m: {"topics": fields["topics"]} for m, fields in members.items()}},
        "sticky",
        {"order": "balance,spread"},
    )
    told = "\n".join(same.explain())
    assert "over capacity" not in told
    assert "held to held + 1 of the topic, times the weight of spread" in told


def test_the_bound_of_lag_counts_those_who_want_little() -> None:
    """Four members share topics of their own, whose mean is above that of all eight."""
    topics = {
        "t": [{"partition": p, "lag": 10} for p in range(8)],
        "u": [{"partition": p, "lag": 1} for p in range(4)],
    }
    members = {f"m{m}": {"topics": ["t"] if m < 4 else ["u"]} for m in range(8)}
    plan = apportion.plan({"topics": topics, "members": members}, "lag-aware")
    assert plan.measures["lag_max"] == 20
    assert plan.proof["lag"] == "optimal"
    turned = {"t": topics["u"], "u": topics["t"]}
    plan = apportion.plan({"topics": turned, "members": members | {"m0": {"topics": ["u"]}}}, "lag-aware")
    assert plan.measures["lag_bound"] == 16, "80 messages that five members may read"


@pytest.mark.parametrize("skew", [0, 1, 2])
def test_a_tiny_group_has_the_least_lag_of_all_counts_that_its_skew_allows(skew: int) -> None:
    r = Random(skew)
    for _ in range(25):
        lags = [r.choice((1, 2, 3, 50, 90)) for _ in range(r.randint(2, 6))]
        size = r.randint(2, 3)
        topic = [{"partition": p, "lag": lag} for p, lag in enumerate(lags)]
        group = {"topics": {"t": topic}, "members": {f"m{m}": {"topics": ["t"]} for m in range(size)}}
        best = min(
            max(sum(lag for lag, m in zip(lags, owners, strict=True) if m == n) for n in range(size))
            for owners in itertools.product(range(size), repeat=len(lags))
            if max(map(owners.count, range(size))) - min(map(owners.count, range(size))) <= 1 + skew
        )
        assert apportion.plan(group, "lag-aware", {"scope": "group", "max_skew": skew}).measures["lag_max"] == best, (
            lags
        )

"""Cooperative strategies: the second round gives the target of the first, and holds nothing back."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from tests.support.examples import examples

import apportion
from apportion.strategy.traits import traits_of
from apportion.testing import groups
from apportion.testing.groups import Kinds, many_groups

COOPERATIVE = [name for name, strategy in apportion.known().items() if traits_of(strategy).cooperative]
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "cooperative-lag-aware": [
        {},
        {"max_skew": 2},
        {"tolerance": 0.0},
        {"by": "weight"},
        {"max_skew": 1, "tolerance": 0.0},
    ],
    "cooperative-failover": [{}, {"preempt": False}],
}
WAYS = [(name, given_settings) for name in COOPERATIVE for given_settings in SETTINGS.get(name, [{}])]


def next_round(group: dict[str, Any], plan: Any) -> dict[str, Any]:
    """The group as it joins again, with what the first round gave."""
    fields = plan.to_dict()
    members = {
        member: {**said, "owned": fields["assignment"][member], "generation": 99}
        for member, said in group["members"].items()
    }
    return {**group, "members": members}


def check(group: dict[str, Any], name: str, given_settings: dict[str, Any]) -> int:
    """Walk both rounds; how many partitions were held back."""
    first = apportion.plan(group, name, given_settings)
    if not first.withheld.any():
        return 0
    second = apportion.plan(next_round(group, first), name, given_settings)
    assert second.assignment == first.target, (group, given_settings)
    assert not second.withheld.any()
    return int(first.withheld.sum())


def test_stream_join_failover_and_lag_aware_have_a_cooperative_form() -> None:
    assert {"cooperative-lag-aware", "cooperative-sticky-stream-join", "cooperative-failover"} <= set(COOPERATIVE)


@pytest.mark.parametrize(("name", "given_settings"), WAYS, ids=str)
def test_the_second_round_gives_the_target_of_the_first(name: str, given_settings: dict[str, Any]) -> None:
    """Random groups of all kinds: members that join or left, false and stale claims, capacities, lags."""
    held_back = 0
    for seed, kinds in enumerate((Kinds(), Kinds(6, 4, 9), Kinds(8, 3, 12, capacities=True))):
        held_back += sum(check(group, name, given_settings) for group in many_groups(120, seed, kinds))
    assert held_back > 20


@pytest.mark.parametrize("name", COOPERATIVE)
@examples(60)
@given(group=groups())
def test_so_it_is_for_any_group(name: str, group: dict[str, Any]) -> None:
    check(group, name, {})


def test_the_cooperative_stream_join_keeps_as_much_as_the_eager_one() -> None:
    """Members that missed a rebalance bring old claims to some of a number's partitions: its owner keeps the number."""
    for seed, kinds in enumerate((Kinds(), Kinds(6, 4, 9), Kinds(8, 3, 12))):
        for group in many_groups(150, seed, kinds):
            eager, cooperative = (apportion.plan(group, f"{form}sticky-stream-join") for form in ("", "cooperative-"))
            assert cooperative.measures["kept"] >= eager.measures["kept"], group


@pytest.mark.parametrize("max_skew", [0, 1, 2])
def test_cooperative_lag_aware_keeps_counts_within_max_skew(max_skew: int) -> None:
    """Also where so few partitions have no owner that the rest cannot stay as it is."""
    rng = random.Random(max_skew)
    for _ in range(300):
        members = [f"m{m}" for m in range(rng.randint(2, 5))]
        partitions = range(rng.randint(1, 9))
        # Some members hold most, so that counts are far apart before.
        owner = {p: rng.choice(members[: rng.randint(1, len(members))]) for p in partitions if rng.random() < 0.8}
        held = {m: [p for p in partitions if owner.get(p) == m] for m in members}
        group = {
            "topics": {"t": [{"partition": p, "lag": rng.choice((0, 1, 9, 50))} for p in partitions]},
            "members": {m: {"topics": ["t"], "owned": {"t": held[m]}, "generation": 3} for m in members},
        }
        plan = apportion.plan(group, "cooperative-lag-aware", {"max_skew": max_skew})
        assert plan.measures["load_max"] - plan.measures["load_min"] <= 1 + max_skew, group

"""Cooperative strategies: the second round gives the target of the first, and holds nothing back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

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
@settings(max_examples=60, deadline=None)
@given(group=groups())
def test_so_it_is_for_any_group(name: str, group: dict[str, Any]) -> None:
    check(group, name, {})

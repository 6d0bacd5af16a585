"""Every limit of ``gate`` reads its own fact, is kept at its number, and breached just beyond it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

import apportion
from apportion.errors import BadInput
from apportion.model.group_json import read_group
from apportion.model.plan_json import read_plan
from apportion.policies import Limits, breaches, facts_of_owners, facts_of_plan, facts_of_saved

# a has partitions 0 and 1 with a lag of 7, b has 2 with one of 1, nobody has 3; b's racks are never b's own.
GROUP: dict[str, Any] = {
    "topics": {
        "t": [
            {"partition": 0, "racks": ["r1"], "lag": 3},
            {"partition": 1, "racks": ["r1"], "lag": 4},
            {"partition": 2, "racks": ["r1"], "lag": 1},
            {"partition": 3, "racks": ["r1"], "lag": 0},
        ]
    },
    "members": {
        "a": {"topics": ["t"], "rack": "r1", "owned": {"t": [0, 1]}, "generation": 1},
        "b": {"topics": ["t"], "rack": "r2", "owned": {"t": [2]}, "generation": 1},
    },
}
OWNERS = {"max-moves": 0, "max-skew": 1, "max-lag": 7, "max-lag-share": 7 / 8, "max-unowned": 1, "max-cross-rack": 1}


@pytest.mark.parametrize(("policy", "found"), OWNERS.items())
def test_the_present_is_judged_at_each_limit(policy: str, found: float) -> None:
    facts = facts_of_owners(read_group(GROUP))
    assert facts[policy] == found
    assert breaches({policy: found}, facts) == []
    assert breaches({policy: found - 0.5}, facts) == [
        {"policy": policy, "limit": found - 0.5, "found": round(found, 4)}
    ]


def test_a_plan_is_judged_by_its_own_figures() -> None:
    plan = apportion.plan(GROUP, "roundrobin")  # a: 0, 2; b: 1, 3
    facts = facts_of_plan(plan)
    told = {"max-moves": 2, "max-skew": 0, "max-lag": 4, "max-lag-share": 0.5, "max-unowned": 0, "max-cross-rack": 2}
    assert {policy: facts[policy] for policy in told} == told
    limits: Limits = {"max-moves": 1, "max-skew": 0, "max-cross-rack": 0}
    assert [one["policy"] for one in breaches(limits, facts)] == ["max-moves", "max-cross-rack"]


@pytest.mark.parametrize(
    ("proof", "found"),
    [
        ({"balance": "optimal"}, None),
        ({"balance": "optimal", "moves": "heuristic", "lag": "bounded"}, "moves heuristic, lag bounded"),
        ({}, "nothing"),
    ],
)
def test_a_promise_is_asked_for_goal_by_goal(proof: dict[str, str], found: str | None) -> None:
    plan = apportion.plan(GROUP, "sticky")
    plan = replace(plan, answer=replace(plan.answer, proof=proof))
    expected = [] if found is None else [{"policy": "require-proof", "limit": "optimal", "found": found}]
    assert breaches({"require-proof": True}, {**facts_of_plan(plan)}) == expected


def test_what_nobody_can_tell_is_an_error_and_not_a_pass() -> None:
    bare = read_group({"topics": {"t": 4}, "members": {"a": {"topics": ["t"]}}})
    facts = facts_of_owners(bare)
    for policy in ("max-lag", "max-lag-share", "max-cross-rack"):
        with pytest.raises(BadInput, match=f"--{policy}: found an input without it.*committed offsets or lag, racks"):
            breaches({policy: 1}, facts)


def test_without_any_lag_left_nobody_carries_a_share_of_it() -> None:
    read = [{"partition": p, "lag": 0} for p in range(2)]
    group = read_group({"topics": {"t": read}, "members": {"a": {"topics": ["t"], "owned": {"t": [0]}}}})
    assert facts_of_owners(group)["max-lag-share"] == 0.0
    one = read_group(
        {"topics": {"t": [{"partition": 0, "lag": 1}]}, "members": {"a": {"topics": ["t"], "owned": {"t": [0]}}}}
    )
    assert facts_of_owners(one)["max-lag-share"] == 1.0


def test_a_share_is_told_to_four_places() -> None:
    lags = [{"partition": p, "lag": 1} for p in range(3)]
    members = {name: {"topics": ["t"], "owned": {"t": [p]}} for p, name in enumerate("abc")}
    facts = facts_of_owners(read_group({"topics": {"t": lags}, "members": members}))
    assert breaches({"max-lag-share": 0.1}, facts) == [{"policy": "max-lag-share", "limit": 0.1, "found": 0.3333}]


@pytest.mark.parametrize("racks", [{}, {"rack": "r1"}])
def test_a_saved_plan_is_judged_by_what_it_tells(racks: dict[str, str]) -> None:
    members = {name: {"topics": ["t"], **racks} for name in ("a", "b")}
    topic = [{"partition": p, **({"racks": ["r1"]} if racks else {})} for p in range(3)]
    saved = read_plan(json.loads(apportion.plan({"topics": {"t": topic}, "members": members}, "sticky").to_json()))
    facts = facts_of_saved(saved)
    assert facts["max-cross-rack"] == (0 if racks else None), "no misses where no rack is known clear nobody"
    assert facts["require-proof"] == []
    crossed = replace(saved, measures={**saved.measures, "rack_misses": 1}, proof={"balance": "heuristic"})
    assert facts_of_saved(crossed)["max-cross-rack"] == 1
    assert facts_of_saved(crossed)["require-proof"] == ["balance heuristic"]


def test_where_members_have_capacities_loads_are_held_against_them() -> None:
    """A member of four times the capacity may have four times as much; a saved plan does not tell the capacities."""
    raw: dict[str, Any] = {
        "topics": {"t": 10},
        "members": {"a": {"topics": ["t"], "capacity": 4}, "b": {"topics": ["t"]}},
    }
    even = apportion.plan(raw, "sticky")
    assert (even.measures["load_min"], even.measures["load_max"]) == (2, 8)
    assert facts_of_plan(even)["max-skew"] == 0
    raw["members"]["b"]["capacity"] = 4
    raw["members"]["a"]["capacity"] = 1
    held = {
        name: {**member, "owned": even.assignment[name], "generation": 1} for name, member in raw["members"].items()
    }
    facts = facts_of_owners(read_group({**raw, "members": held}))
    assert facts["max-skew"] == 7.5
    assert breaches({"max-skew": 7}, facts) == [{"policy": "max-skew", "limit": 7, "found": 7.5}]
    with pytest.raises(BadInput, match="capacities"):
        breaches({"max-skew": 1}, facts_of_saved(read_plan(even.to_dict())))


def test_loads_that_differ_by_just_the_limit_for_their_capacities_are_within_it() -> None:
    """22 / 10 - 12 / 10 is 1, and as floats a little more."""
    members = {
        "a": {"topics": ["t"], "capacity": 10, "owned": {"t": list(range(22))}},
        "b": {"topics": ["t"], "capacity": 10, "owned": {"t": list(range(22, 34))}},
        "c": {"topics": ["t"], "capacity": 1, "owned": {"t": [34, 35]}},
    }
    facts = facts_of_owners(read_group({"topics": {"t": 36}, "members": members}))
    assert breaches({"max-skew": 1}, facts) == []
    assert breaches({"max-skew": 0}, facts) == [{"policy": "max-skew", "limit": 0, "found": 1.0}]


def test_lag_that_nobody_wants_to_read_is_no_part_of_the_whole() -> None:
    topics = {"t": [{"partition": p, "lag": lag} for p, lag in enumerate((9, 1))], "old": [{"partition": 0, "lag": 90}]}
    members = {name: {"topics": ["t"], "owned": {"t": [p]}} for p, name in enumerate("ab")}
    assert facts_of_owners(read_group({"topics": topics, "members": members}))["max-lag-share"] == 0.9
    unknown = read_group({"topics": {**topics, "t": 2}, "members": members})
    with pytest.raises(BadInput, match="found an input without it"):
        breaches({"max-lag-share": 1}, facts_of_owners(unknown))


def test_a_breach_by_less_than_four_places_is_not_told_as_the_limit() -> None:
    lags = [{"partition": 0, "lag": 900_001}, {"partition": 1, "lag": 99_999}]
    members = {name: {"topics": ["t"], "owned": {"t": [p]}} for p, name in enumerate("ab")}
    facts = facts_of_owners(read_group({"topics": {"t": lags}, "members": members}))
    assert breaches({"max-lag-share": 0.9}, facts) == [{"policy": "max-lag-share", "limit": 0.9, "found": 0.900001}]

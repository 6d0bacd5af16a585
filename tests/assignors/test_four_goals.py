"""Balance, spread, racks and moves in every order, with and without capacities, against an independent solver.

By default 400 random groups; with APPORTION_THOROUGH=1 20,000.
"""

from __future__ import annotations

import copy
import itertools
import os
import random
from functools import partial
from typing import Any

import pytest

import apportion
from apportion.model.plan import Plan
from apportion.solvers import solve
from apportion.solvers.assignment_network import complete_on_network, fixed_on_network
from apportion.solvers.goals import named
from apportion.solvers.lexicographic import complete
from apportion.solvers.partition_classes import problem_of, topics_apart

from . import sticky_judge as judge
from .sticky_groups import random_group
from .test_sticky import next_round, shuffled

pytest.importorskip("ortools", reason="OR-tools is not installed: it is the independent solver")

from .four_goals_oracle import best_values, homes, values

GROUPS = 20_000 if os.environ.get("APPORTION_THOROUGH") else 400
SHARDS = 8
GOALS = ("balance", "spread", "racks", "moves")
ORDERS = [order for n in range(1, 5) for order in itertools.permutations(GOALS, n)]
CAPACITIES = ((1,), (1, 2, 4), (1, 2, 3, 5), (4,), (7, 13, 1000), (999_983, 1_000_000, 1))


def some(seed: int) -> tuple[dict[str, Any], tuple[str, ...]]:
    """A random group, often with capacities, often with members of several generations, and an order of goals."""
    rng = random.Random(seed)
    raw = random_group(rng, 4, 5, 6)
    kinds = rng.choice(CAPACITIES[:4] if seed % 8 else CAPACITIES)
    for member in raw["members"].values():
        if kinds != (1,):
            member["capacity"] = rng.choice(kinds)
    if rng.random() < 0.4:
        _add_stale_claims(rng, raw)
    return raw, rng.choice(ORDERS)


def _add_stale_claims(rng: random.Random, raw: dict[str, Any]) -> None:
    """Members of older generations claim what others may hold by now."""
    parts = judge.facts(raw)[0]
    for member in raw["members"].values():
        member["generation"] = rng.choice((3, 4, 6, 7))
        for topic, p in rng.sample(parts, min(len(parts), rng.choice((0, 2, 5)))):
            owned = member.setdefault("owned", {}).setdefault(topic, [])
            if p not in owned:
                owned.append(p)


def plan(raw: dict[str, Any], order: tuple[str, ...], name: str = "sticky") -> Plan:
    return apportion.plan(copy.deepcopy(raw), name, {"order": ",".join(order)})


@pytest.mark.parametrize("shard", range(SHARDS))
def test_every_goal_is_best_in_every_order_and_most_partitions_come_home(shard: int) -> None:
    for seed in range(shard, GROUPS, SHARDS):
        raw, order = some(seed)
        made = plan(raw, order)
        owner = judge.owners(raw, made.assignment)
        value, full = values(raw, owner), (*order, "returned")
        try:
            best = best_values(raw, full)
        except OverflowError:  # capacities near a million in four goals pass the 62 bits of the independent solver
            best = None
        assert best is None or tuple(value[goal] for goal in full) == best, (seed, order)
        racked = made.group.racks is not None and made.group.racks.known
        assert made.proof == {goal: "optimal" for goal in order if goal != "racks" or racked}, seed
        assert made.answer.certificate.prices is not None, seed
        assert made.measures.get("returned", 0) == -value["returned"], seed
        assert bool((made.group.home >= 0).any()) == (max(homes(raw), default=-1) >= 0), seed


@pytest.mark.parametrize("shard", range(SHARDS))
def test_the_cooperative_plan_is_as_good_and_its_second_round_gives_the_target(shard: int) -> None:
    for seed in range(shard, GROUPS, SHARDS):
        raw, order = some(seed)
        first, eager = plan(raw, order, "cooperative-sticky"), plan(raw, order)
        owners = [judge.owners(raw, made.target) for made in (first, eager)]
        one, other = (values(raw, owner) for owner in owners)
        assert [one[goal] for goal in order] == [other[goal] for goal in order], (seed, order)
        second = plan(next_round(raw, first), order, "cooperative-sticky")
        assert second.target == second.assignment == first.target, (seed, order)
        assert not second.withheld.any(), (seed, order)


def test_where_all_claims_fell_the_second_round_with_spread_gives_the_target() -> None:
    """Found by 20,000 random groups: seed 14577. The second round knows no claim at all, and deals in one go."""
    claims = {"t0": [0, 1, 2, 3]}
    raw = {"topics": {"t0": 4}, "members": {m: {"topics": ["t0"], "owned": claims, "generation": 3} for m in "ab"}}
    order = ("balance", "spread", "moves")
    first = plan(raw, order, "cooperative-sticky")
    assert plan(next_round(raw, first), order, "cooperative-sticky").target == first.target


def test_the_same_group_in_another_order_gives_the_same_bytes() -> None:
    for seed in range(0, GROUPS, 4):
        raw, order = some(seed)
        assert plan(raw, order).to_json() == plan(shuffled(raw, random.Random(seed)), order).to_json(), seed


def test_the_short_cuts_are_as_good_as_the_network() -> None:
    """The classes without spread, and the quick plan with it, against the general way on the same groups."""
    for seed in range(0, GROUPS, 4):
        raw, order = some(seed)
        group = apportion.read_group(raw)
        known = tuple(goal for goal in order if goal != "racks" or (group.racks is not None and group.racks.known))
        short, classes = solve.best(group, known).owner, problem_of(group, named(known))
        by_topic = topics_apart(classes)
        fixed = fixed_on_network(by_topic, named(known), short)
        general = complete_on_network(by_topic, named(known), fixed, partial(complete, classes))
        names = list(raw["members"])
        values_of = []
        for owner in (short, general):
            by_part = {group.name_of(p): names.index(group.members[m]) for p, m in enumerate(owner.tolist()) if m >= 0}
            values_of.append(values(raw, [by_part.get(part, -1) for part in judge.facts(raw)[0]]))
        assert [values_of[0][goal] for goal in known] == [values_of[1][goal] for goal in known], (seed, order)


def test_the_quick_plan_with_spread_is_taken_and_found_again() -> None:
    taken = 0
    for seed in range(60):
        rng = random.Random(seed)
        names = [f"t{i}" for i in range(rng.randint(2, 6))]
        raw: dict[str, Any] = {
            "topics": {name: rng.randint(1, 9) for name in names},
            "members": {f"m{i}": {"topics": names} for i in range(rng.randint(2, 6))},
        }
        order = rng.choice([o for o in ORDERS if "spread" in o and "moves" in o])
        held = plan(raw, order)
        raw = next_round(raw, held)
        raw["members"]["new"] = {"topics": names}
        first = plan(raw, order, "cooperative-sticky")
        known = tuple(goal for goal in order if goal != "racks")
        problem = problem_of(apportion.read_group(raw), named(known))
        taken += solve._is_best_spread(problem, *solve._quick(problem, named(known)))
        assert plan(next_round(raw, first), order, "cooperative-sticky").assignment == first.target, (seed, order)
    assert taken > 20

"""The sticky strategies on random groups: valid, best, proved, the same whatever the order, two rounds at most.

By default 2,000 random groups; with APPORTION_THOROUGH=1 all 20,000.
"""

from __future__ import annotations

import copy
import json
import os
import random
from typing import Any

import pytest

import apportion
from apportion.assignors.sticky import Sticky
from apportion.errors import BadInput
from apportion.model.build import build
from apportion.model.plan import Plan
from apportion.solvers import min_cost_flow, network, partition_classes
from apportion.solvers import solve as solve_module
from apportion.solvers.goals import named
from apportion.solvers.lexicographic import solve

from . import sticky_judge as judge
from .sticky_groups import random_group

GROUPS = 20_000 if os.environ.get("APPORTION_THOROUGH") else 2_000
SHARDS = 10
USUAL = ("balance", "racks", "moves")
ORDERS = [
    *[USUAL] * 4,
    ("balance",),
    ("moves",),
    ("racks", "moves"),
    ("balance", "racks"),
    ("balance", "moves"),
    ("racks", "balance"),
    ("moves", "balance"),
    ("balance", "moves", "racks"),
    ("racks", "balance", "moves"),
    ("racks", "moves", "balance"),
    ("moves", "racks", "balance"),
    ("moves", "balance", "racks"),
]


def test_an_order_that_is_none_is_named_with_what_would_be_one() -> None:
    for order in ("balance,foo", "balance,balance", ""):
        with pytest.raises(BadInput, match="needed some of balance, spread, racks, moves, each once") as caught:
            apportion.find("sticky", {"order": order})
        assert (caught.value.where, caught.value.found) == ("setting order of sticky", repr(order))
    with pytest.raises(BadInput, match="setting order of sticky"):
        Sticky(order=(["balance"],))  # type: ignore[arg-type]


def some(seed: int) -> tuple[dict[str, Any], tuple[str, ...]]:
    """A random group, mostly small, and an order of goals."""
    rng = random.Random(seed)
    size = (8, 10, 14) if seed % 10 == 0 else (4, 5, 6)
    return random_group(rng, *size), rng.choice(ORDERS)


def seeds(shard: int) -> range:
    """The shard's part of the groups."""
    return range(shard, GROUPS, SHARDS)


def plan(raw: dict[str, Any], order: tuple[str, ...] = USUAL, name: str = "cooperative-sticky") -> Plan:
    return apportion.plan(copy.deepcopy(raw), name, {"order": ",".join(order)})


def next_round(raw: dict[str, Any], first: Plan) -> dict[str, Any]:
    """The same group with the past that the first round's assignment leaves."""
    again = copy.deepcopy(raw)
    for name, owned in first.assignment.items():
        again["members"][name].update(owned=owned, generation=9)
    return again


def shuffled(raw: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """The same group with keys and lists in another order."""

    def mix(thing: Any) -> Any:
        if isinstance(thing, dict):
            keys = list(thing)
            rng.shuffle(keys)
            return {key: mix(thing[key]) for key in keys}
        if isinstance(thing, list):
            return rng.sample([mix(item) for item in thing], len(thing))
        return thing

    return dict(mix(raw))


@pytest.mark.parametrize("shard", range(SHARDS))
def test_on_random_groups_every_goal_is_best_and_its_prices_show_it(shard: int) -> None:
    for seed in seeds(shard):
        raw, order = some(seed)
        made = plan(raw, order)
        owner = judge.owners(raw, made.target)
        racked = made.group.racks is not None and made.group.racks.known
        assert made.proof == {goal: "optimal" for goal in order if goal != "racks" or racked}, seed
        assert not judge.better_exchange(raw, owner, order), (seed, order)
        prices = made.answer.certificate.prices
        assert prices is not None, seed
        by_name = dict(zip(made.group.members, prices.price.tolist(), strict=True))
        assert judge.flaw(raw, owner, tuple(made.proof), prices.weight, by_name) is None, (seed, order)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_second_round_gives_the_target_and_withholds_nothing(shard: int) -> None:
    for seed in seeds(shard):
        raw, order = some(seed)
        first = plan(raw, order)
        second = plan(next_round(raw, first), order)
        assert second.target == second.assignment == first.target, (seed, order)
        assert not second.withheld.any(), (seed, order)


@pytest.mark.slow
def test_the_same_group_in_another_order_gives_the_same_bytes() -> None:
    for seed in range(0, GROUPS, 4):
        raw, order = some(seed)
        assert plan(raw, order).to_json() == plan(shuffled(raw, random.Random(seed)), order).to_json(), seed


def test_sticky_and_cooperative_sticky_have_the_same_target_where_nothing_comes_home() -> None:
    for seed in range(0, GROUPS, 10):
        raw, order = some(seed)
        eager, cooperative = plan(raw, order, "sticky"), plan(raw, order)
        if (eager.group.home < 0).all():
            assert eager.assignment == cooperative.target, seed
        both = [judge.score(raw, judge.owners(raw, made.target), order) for made in (eager, cooperative)]
        assert both[0] == both[1], seed


def test_on_tiny_groups_no_plan_at_all_is_better() -> None:
    tried = 0
    for seed in range(GROUPS // 5):
        rng = random.Random(-seed)
        raw, order = random_group(rng, 3, 3, 3), rng.choice(ORDERS)
        if sum(what if isinstance(what, int) else len(what) for what in raw["topics"].values()) > 6:
            continue
        tried += 1
        owner = judge.owners(raw, plan(raw, order).target)
        assert judge.score(raw, owner, order) == judge.best_by_trying(raw, order), (seed, order)
    assert tried > GROUPS // 20


def test_the_two_judges_agree_on_bad_plans_too() -> None:
    """A judge that praised everything would prove nothing."""
    found = 0
    for seed in range(300):
        rng = random.Random(seed)
        raw, order = random_group(rng, 3, 2, 3), rng.choice(ORDERS)
        _, _, may, _, _ = judge.facts(raw)
        owner = [rng.choice(who) if who else -1 for who in may]
        worse = judge.score(raw, owner, order) > judge.best_by_trying(raw, order)
        assert judge.better_exchange(raw, owner, order) == worse, seed
        found += worse
    assert found > 50


def test_a_false_price_is_found_out() -> None:
    raw = {"topics": {"t": 3}, "members": {"a": {"topics": ["t"]}, "b": {"topics": ["t"]}}}
    made = plan(raw)
    prices = made.answer.certificate.prices
    assert prices is not None
    owner, price = judge.owners(raw, made.target), dict(zip("ab", prices.price.tolist(), strict=True))
    assert judge.flaw(raw, owner, ("balance", "moves"), prices.weight, price) is None
    assert judge.flaw(raw, owner, ("balance", "moves"), prices.weight, {**price, "a": price["a"] + 9}) is not None
    assert judge.flaw(raw, owner, ("balance", "moves"), {"balance": 1, "moves": 1}, price) is not None


@pytest.mark.parametrize("solver", ["none", "for every network"])
def test_without_ortools_and_with_it_for_every_network_plans_are_best(
    solver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if solver == "none":
        monkeypatch.setattr(min_cost_flow, "solver", lambda: None)
    else:
        pytest.importorskip("ortools", reason="OR-tools is not installed")
        monkeypatch.setattr(network, "OWN_ARCS_MAX", -1)
        monkeypatch.setattr(network, "OWN_SEARCHES", 1)
    for seed in range(solver == "none", GROUPS, 4):
        raw, order = some(seed)
        made = plan(raw, order)
        assert "heuristic" not in made.proof.values()
        assert not judge.better_exchange(raw, judge.owners(raw, made.target), order), (seed, order)


def test_where_racks_make_too_large_a_table_they_are_left_out_and_the_proof_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left_out = 0
    for seed in range(2, GROUPS, 8):
        raw, order = some(seed)
        kinds = plan(raw, order).group.subscriptions
        monkeypatch.setattr(partition_classes, "CELLS", len(kinds) * len(raw["topics"]))
        made = plan(raw, order)
        shown = tuple(goal for goal, how in made.proof.items() if how == "optimal")
        assert not judge.better_exchange(raw, judge.owners(raw, made.target), shown), (seed, order)
        second = plan(next_round(raw, made), order)
        assert second.target == made.target, (seed, order)
        left_out += made.proof.get("racks") == "heuristic"
        monkeypatch.setattr(partition_classes, "CELLS", 10_000_000)
    assert left_out > 0


def test_where_racks_are_left_out_nobody_comes_home() -> None:
    """Partition 3 could go back to b, who had it last; where no goal is shown to be best, that counts for nothing."""
    racks = {7: "ab", 3: "bc", 4: "abc", 2: "", 5: "ab"}
    entries = [{"partition": p} | ({"racks": list(near)} if near else {}) for p, near in racks.items()]
    members: dict[str, Any] = {
        "a": {"topics": ["t"], "owned": {"t": [7, 3, 2, 5]}, "generation": 5},
        "b": {"topics": ["t"], "rack": "b", "owned": {"t": [3]}},
    }
    group, order = {"topics": {"t": entries}, "members": members}, ("racks", "balance", "moves")
    whole = plan(group, order)
    assert (whole.measures["returned"], set(whole.proof.values())) == (1, {"optimal"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition_classes, "CELLS", 1)
        left_out = plan(group, order)
    assert (left_out.measures["returned"], set(left_out.proof.values())) == (0, {"heuristic"})


def test_the_explanation_names_every_goal_and_no_goal_is_left_in_doubt() -> None:
    for seed in range(0, 400, 4):
        raw, order = some(seed)
        made = plan(raw, order)
        lines = made.explain()
        assert [line.split(":")[0] for line in lines[: len(made.proof)]] == list(made.proof)
        assert not any("report" in line for line in lines), seed


@pytest.mark.parametrize("order", ["", "speed", "moves,moves", "balance,racks,moves,balance"])
def test_an_order_that_cannot_be_is_bad_input(order: str) -> None:
    with pytest.raises(BadInput, match="order"):
        apportion.plan({"topics": {}, "members": {"a": {"topics": []}}}, "sticky", {"order": order})


def test_a_group_without_partitions_or_wishes_is_planned() -> None:
    raws: tuple[dict[str, Any], ...] = (
        {"topics": {}, "members": {"a": {"topics": []}}},
        {"topics": {"t": 0}, "members": {"a": {"topics": ["t"]}, "b": {"topics": []}}},
        {"topics": {"t": 3}, "members": {"a": {"topics": []}, "b": {"topics": ["gone"]}}},
    )
    for raw in raws:
        assert json.loads(plan(raw).to_json())["assignment"] == {name: {} for name in raw["members"]}


def test_a_fresh_group_of_one_mind_has_every_topic_spread_evenly() -> None:
    """KAFKA-16277: a member with many partitions of one topic and none of another."""
    rng = random.Random(16277)
    for _ in range(100):
        names = [f"t{i}" for i in range(rng.randint(1, 9))]
        topics = {name: rng.randint(1, 40) for name in names}
        made = plan({"topics": topics, "members": {f"m{i}": {"topics": names} for i in range(rng.randint(1, 12))}})
        for name in names:
            counts = [len(owned.get(name, [])) for owned in made.target.values()]
            assert max(counts) - min(counts) <= 1


def test_one_deal_is_what_the_general_way_gives() -> None:
    for members, sizes in ((7, (30, 41, 5)), (50, (20, 90)), (3, (100,)), (101, (64, 36))):
        topics = {f"t{i}": size for i, size in enumerate(sizes)}
        raw = {"topics": {**topics, "alone": 3}, "members": {f"m{i}": {"topics": list(topics)} for i in range(members)}}
        group = build(raw)
        order = ("balance", "moves")
        owner = solve(partition_classes.problem_of(group, named(order)), named(order))
        made = solve_module.best(group)
        assert made.owner.tolist() == owner.tolist()
        assert made.proof == dict.fromkeys(order, "optimal")


def test_the_explanation_of_a_chain_of_moves_gives_prices() -> None:
    raw = {
        "topics": {"x": 3, "y": 3},
        "members": {
            "A": {"topics": ["x"], "owned": {"x": [0, 1, 2]}},
            "B": {"topics": ["x", "y"], "owned": {"y": [0, 1]}},
            "C": {"topics": ["y"], "owned": {"y": [2]}},
        },
    }
    lines = plan(raw).explain()
    assert lines[0].startswith("balance: optimal. Members hold 2 partitions each, squares 12: ")
    assert lines[1].startswith("moves: optimal. 2 of 6 standing claims move: the prices below")
    assert lines[-3:] == ["  10: C", "  11: B", "  12: A"], (
        "a move costs 1: handing on from A by B to C saves nothing more"
    )

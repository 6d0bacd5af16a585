"""The groups that strategies are tried on, and what a strategy that breaks its promises is told: written down."""

from __future__ import annotations

import json
from random import Random
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import Phase, given, settings

import apportion
from apportion.model.facts import PRIORITY, Fact
from apportion.testing.contract import ContractBroken, check_assignor, hard_groups, shrink
from apportion.testing.groups import Kinds, groups, many_groups, random_group, shuffled

KINDS = {
    "plain": Kinds(), "capacities": Kinds(capacities=True), "large": Kinds(12, 12, 12, capacities=True),
    "facts": Kinds(facts={"warmth": Fact(3, 1, 9), "priority": PRIORITY}),
    "several facts": Kinds(facts={"warmth": Fact(3, 1, 9), "age": Fact(-4, -5, -3), "one": Fact(2, 2, 2)}),
    "no claims": Kinds(claims="none"), "clean claims": Kinds(claims="clean"), "nothing odd": Kinds(odd=False),
    "no racks": Kinds(racks=False), "no lag": Kinds(lag=False), "no gaps": Kinds(gaps=False),
    "nobody static": Kinds(static=False), "no priorities": Kinds(priorities=False),
    "plain names": Kinds(foreign_names=False), "one topic": Kinds(1, 1, 1), "many topics": Kinds(12, 2, 2, odd=False),
    "few wishes": Kinds(subscriptions=("nested", "disjoint")), "alike": Kinds(subscriptions=("equal",)),
    "bare": Kinds(racks=False, lag=False, gaps=False, static=False, priorities=False, claims="none", odd=False),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "never"),
    [
        ("no claims", {"owned", "generation"}), ("no racks", {"rack", "racks"}), ("no gaps", set()),
        ("no lag", {"lag", "begin", "end", "committed"}), ("nobody static", {"instance_id"}),
        ("no priorities", {"priority"}), ("plain", {"capacity", "facts"}),
        ("bare", {"rack", "racks", "owned", "generation", "lag", "end", "instance_id", "priority", "capacity"}),
    ],
)  # fmt: skip
def test_what_is_not_wished_for_never_occurs_and_all_else_does(name: str, never: set[str]) -> None:
    """In either way to draw: from a seed, and as hypothesis does."""
    every = {
        "rack", "racks", "owned", "generation", "lag", "begin", "end", "committed", "instance_id", "priority",
        "capacity", "facts",
    }  # fmt: skip
    by_hypothesis: list[dict[str, Any]] = []

    @settings(max_examples=25, database=None, derandomize=True, deadline=None, phases=[Phase.generate])
    @given(groups(KINDS[name]))
    def draw(raw: dict[str, Any]) -> None:
        by_hypothesis.append(raw)

    draw()
    drawn = list(many_groups(200, seed=11, kinds=KINDS[name]))
    assert not named(by_hypothesis) & never
    if name != "bare":
        assert named(drawn) & every == every - never - {"capacity", "facts"}


def named(value: Any) -> set[str]:
    """Every key in a value, however deep."""
    if isinstance(value, dict):
        return set(value) | named(list(value.values()))
    return set().union(*map(named, value)) if isinstance(value, list) else set()


def test_groups_of_no_kind_are_those_of_the_kind_by_default() -> None:
    assert list(many_groups(30, 7)) == list(many_groups(30, 7, Kinds())) == list(many_groups(30, seed=7, kinds=None))
    assert next(many_groups(1, 3)) == random_group(Random(3)) == random_group(Random(3), Kinds())
    mixed = [shuffled(Random(2), raw) for raw in many_groups(12, 5)]
    assert [in_order(raw) for raw in mixed] == [in_order(raw) for raw in many_groups(12, 5)]
    assert [json.dumps(raw) for raw in mixed] != [json.dumps(raw) for raw in many_groups(12, 5)], "in another order"


def in_order(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: in_order(value[key]) for key in sorted(value)}
    return sorted(map(in_order, value), key=repr) if isinstance(value, list) else value


class Watching:
    """It keeps what it is asked about, and gives all of a topic to its first subscriber."""

    name: ClassVar[str] = "watching"
    goals: ClassVar[tuple[str, ...]] = ("balance",)

    def __init__(self, facts: Any) -> None:
        self.facts = facts
        self.asked: list[list[Any]] = []

    def assign(self, group: apportion.Group) -> Any:
        """Whole topics."""
        facts = {name: values.tolist() for name, values in group.facts.items()}
        self.asked.append([group.T, group.P, list(group.members), group.lag.tolist(), facts])
        owner = np.full(group.P, -1, dtype=np.int64)
        for t in range(group.T):
            members = group.subscribers(t)
            if len(members):
                owner[group.partitions(t)] = members[0]
        return owner


@pytest.mark.parametrize("facts", [{}, {"warmth": Fact(3, 1, 9)}], ids=["no facts", "warmth"])
@pytest.mark.parametrize("how", [{"groups": 4}, {"groups": 3, "seed": 5}, {"groups": 0}])
def test_a_strategy_is_tried_on_the_hard_groups_and_those_of_the_seed(facts: Any, how: dict[str, int]) -> None:
    """Hard ones, so many small ones, twenty large ones with capacities; its own facts are drawn."""
    watching = Watching(facts)
    check_assignor(watching, **how)
    # Each group is asked about four times: once, twice again, and once in another order.
    assert len(watching.asked) == 4 * (len(list(hard_groups())) + how["groups"] + 20)


@pytest.mark.slow
def test_a_strategy_is_tried_on_300_groups_of_seed_0_by_default() -> None:
    plain, said = Watching({}), Watching({})
    check_assignor(plain)
    check_assignor(said, groups=300, seed=0)
    assert plain.asked == said.asked


class Lazy:
    """It gives all to the first subscriber, and forgets the second partition of each topic."""

    name, goals = "lazy", ("balance",)

    def assign(self, group: apportion.Group) -> Any:
        """A number for each partition."""
        owner = np.full(group.P, -1, dtype=np.int64)
        for t in range(group.T):
            members = group.subscribers(t)
            if len(members):
                owner[group.partitions(t)] = members[0]
                owner[group.partitions(t)][1:2] = -1
        return owner


class Wild(Lazy):
    """It answers otherwise each time, writes into the group, and gives what nobody wants."""

    name, calls = "wild", 0

    def assign(self, group: apportion.Group) -> Any:
        """Turns by turns."""
        Wild.calls += 1
        if group.P:
            group.lag[:1] = 5
        return np.full(group.P, Wild.calls % max(group.M, 1), dtype=np.int64)


@pytest.mark.parametrize("kind", [Lazy, Wild])
def test_a_broken_promise_is_told_with_the_smallest_group_that_shows_it(kind: Any) -> None:
    Wild.calls = 0
    with pytest.raises(ContractBroken) as broken:
        check_assignor(kind(), groups=30)
    assert broken.value.promises
    assert len(str(broken.value)) < 2_000, "a small group"


def test_a_group_shrinks_to_what_still_shows_it() -> None:
    raw = {"topics": {"t": 9, "u": [{"partition": 0, "lag": 4}, {"partition": 1}]}, "members": {"a": {"topics": ["t"]}}}
    assert shrink(raw, lambda group: "t" in group.get("topics", {}) and group["topics"]["t"] >= 3)["topics"] == {"t": 3}
    small = shrink(raw, lambda group: any("lag" in one for one in group.get("topics", {}).get("u", ())))
    assert small == {"topics": {"u": [{"lag": 4}]}}

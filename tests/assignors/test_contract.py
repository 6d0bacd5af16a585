"""Every known strategy keeps every promise, and the kit that says so notices each broken one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from tests.support.examples import examples, few

import apportion
from apportion.assignors.roundrobin import RoundRobin
from apportion.model.group import Group
from apportion.model.plan import Answer
from apportion.testing import ContractBroken, check_assignor, groups
from apportion.testing.groups import many_groups, shuffled


@pytest.mark.parametrize("name", apportion.known())
def test_every_known_strategy_keeps_its_promises(name: str) -> None:
    check_assignor(apportion.find(name), groups=few(150))


SETTINGS: dict[str, list[dict[str, Any]]] = {
    "lag-aware": [
        {"scope": "topic"},
        {"max_skew": 2},
        {"tolerance": 0.5},
        {"scope": "topic", "max_skew": 1},
        {"scope": "topic", "tolerance": 0.2},
    ],
    "failover": [{"preempt": False}],
    "sticky": [{"order": "moves,balance"}, {"order": "balance"}],
}


@pytest.mark.parametrize(("name", "given_settings"), [(name, s) for name, all_ in SETTINGS.items() for s in all_])
def test_other_settings_keep_the_promises_too(name: str, given_settings: dict[str, Any]) -> None:
    check_assignor(apportion.find(name, given_settings), groups=few(150))


@pytest.mark.parametrize("name", apportion.known())
@examples(40)
@given(group=groups())
def test_any_group_is_planned_and_the_measures_add_up(name: str, group: dict[str, Any]) -> None:
    """Every wanted partition is owned or listed as unassigned, kept and moved claims are among those that stand."""
    plan = apportion.plan(group, name).to_dict()
    held = [sum(map(len, topics.values())) for topics in plan.get("target", plan["assignment"]).values()]
    left = sum(map(len, plan["unassigned"].values()))
    described = sum(what if isinstance(what, int) else len(what) for what in group["topics"].values())
    assert sum(held) + left == described
    assert plan["measures"]["load_squares"] == sum(n * n for n in held)
    assert set(plan["assignment"]) == set(group["members"])


class Bad:
    """A strategy that breaks what it is told to break."""

    name: ClassVar[str] = "bad"
    goals: ClassVar[tuple[str, ...]] = ("balance",)

    def __init__(self, how: Callable[[Group], Any]) -> None:
        self.how = how

    def assign(self, group: Group) -> Any:
        return self.how(group)


def first_wanting(group: Group) -> Any:
    owner = np.full(group.P, -1, dtype=np.int64)
    for topic in range(group.T):
        if len(subscribers := group.subscribers(topic)):
            owner[group.partitions(topic)] = subscribers[0]
    return owner


def leaves_the_last(group: Group) -> Any:
    owner = first_wanting(group)
    owner[-1:] = -1
    return owner


def invents_a_member(group: Group) -> Any:
    return np.where(first_wanting(group) < 0, -1, group.M)


def ignores_wishes(group: Group) -> Any:
    return np.zeros(group.P, dtype=np.int64)


def gives_twice(group: Group) -> Any:
    return np.concatenate([first_wanting(group)] * 2)


def fails_on_nothing(group: Group) -> Any:
    return first_wanting(group) + 0 * group.number.max()


def lies_about_goals(group: Group) -> Any:
    return Answer(first_wanting(group), {"luck": "certain"})


def writes_into_the_group(group: Group) -> Any:
    owner = first_wanting(group)
    group.generation[:] = 7
    return owner


class Moody:
    """It changes its mind from call to call."""

    def __init__(self) -> None:
        self.turn = 0

    def __call__(self, group: Group) -> Any:
        self.turn += 1
        owner = first_wanting(group)
        for topic in range(group.T):
            if len(subscribers := group.subscribers(topic)):
                owner[group.partitions(topic)] = subscribers[self.turn % len(subscribers)]
        return owner


@pytest.mark.parametrize(
    ("how", "promise", "words"),
    [
        (leaves_the_last, "left over", "to nobody, though some member wants"),
        (invents_a_member, "valid", "named member"),
        (ignores_wishes, "valid", "who does not want"),
        (gives_twice, "valid", "needed an integer array of shape"),
        (fails_on_nothing, "crash", "It raised ValueError"),
        (lies_about_goals, "proof", "which is none of its goals|needed optimal, bounded, heuristic"),
        (writes_into_the_group, "input", "changes its input: group.generation"),
        (Moody(), "again", "changes from call to call"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_broken_promise_is_named_in_a_sentence_with_a_small_group(how: Any, promise: str, words: str) -> None:
    with pytest.raises(ContractBroken, match=words) as caught:
        check_assignor(Bad(how))
    assert promise in caught.value.promises
    assert len(str(caught.value)) < 1500


def test_a_strategy_that_keeps_the_promises_passes() -> None:
    check_assignor(Bad(first_wanting))


def test_an_author_learns_of_missing_names_and_loose_settings() -> None:
    @dataclass
    class Nameless:
        goals: list[str] = field(default_factory=list)

        def assign(self, group: Group) -> Any:
            return first_wanting(group)

    with pytest.raises(ContractBroken) as caught:
        check_assignor(Nameless())  # type: ignore[arg-type]
    assert {"name", "goals", "frozen"} <= set(caught.value.promises)


@pytest.mark.parametrize(
    ("attributes", "promises"),
    [
        ({"__doc__": None}, {"docstring"}), ({"__doc__": "  "}, {"docstring"}), ({"__doc__": "It works."}, set()),
        ({"name": ""}, {"name"}), ({"name": 7}, {"name"}), ({"name": None}, {"name"}),
        ({"goals": ["balance"]}, {"goals"}), ({"goals": ("balance", 1)}, {"goals"}), ({"goals": "balance"}, {"goals"}),
        ({"goals": ()}, set()), ({"facts": 3}, {"facts"}), ({"facts": {"warmth": 3}}, {"facts"}),
        ({"leaves": True}, set()), ({"name": "", "goals": None, "facts": 3}, {"name", "goals", "facts"}),
    ],
    ids=lambda given: str(sorted(given) if isinstance(given, set) else given),
)  # fmt: skip
def test_what_can_be_said_of_a_strategy_without_a_group(attributes: dict[str, Any], promises: set[str]) -> None:
    kind = type("Kind", (Bad,), {"__doc__": "It works.", **attributes})
    if not promises:
        check_assignor(kind(first_wanting), groups=2)
        return
    with pytest.raises(ContractBroken) as caught:
        check_assignor(kind(first_wanting), groups=2)
    assert set(caught.value.promises) == promises


def test_partitions_may_be_left_by_a_strategy_that_says_so_and_no_other() -> None:
    leaving = type("Leaving", (Bad,), {"__doc__": "It leaves the last.", "leaves": True})
    check_assignor(leaving(leaves_the_last), groups=20)
    with pytest.raises(ContractBroken) as caught:
        check_assignor(type("Not", (leaving,), {"__doc__": "It says no.", "leaves": False})(leaves_the_last), groups=20)
    assert caught.value.promises == ("left over",)


@pytest.mark.parametrize("field", ["start", "number", "generation", "subscription_of", "lag", "owner"])
def test_each_array_that_a_strategy_writes_into_is_named(field: str) -> None:
    def writes(group: Group) -> Any:
        owner = first_wanting(group)
        array = getattr(group, field)
        array.flags.writeable = True
        array[-1:] += 1
        return owner

    with pytest.raises(ContractBroken) as caught:
        check_assignor(Bad(writes), groups=20)
    assert f"It changes its input: group.{field} is not what it was." in str(caught.value)


def test_a_strategy_that_inherits_a_known_one_is_checked_like_any_other() -> None:
    """The one that it inherits from is a dataclass, the class itself is none."""

    class Mine(RoundRobin):
        """Dealt like cards, under a name of our own."""

        name = "mine"

    check_assignor(Mine(), groups=20)


def test_a_proof_of_goals_that_are_none_is_a_broken_promise_too() -> None:
    class Aimless(Bad):
        """It has no goals."""

        goals = None  # type: ignore[assignment]

    with pytest.raises(ContractBroken) as caught:
        check_assignor(Aimless(lies_about_goals), groups=5)  # type: ignore[arg-type]
    assert {"goals", "proof"} <= set(caught.value.promises)


def test_a_class_in_place_of_a_strategy_is_named() -> None:
    with pytest.raises(ContractBroken, match="needed a strategy made of it"):
        check_assignor(RoundRobin, groups=1)  # type: ignore[arg-type]


def test_random_groups_are_the_same_for_the_same_seed_and_of_every_kind() -> None:
    made = list(many_groups(400, seed=3))
    assert made == list(many_groups(400, seed=3))
    members = [fields for group in made for fields in group["members"].values()]
    entries = [e for group in made for what in group["topics"].values() if isinstance(what, list) for e in what]
    assert {"instance_id", "rack", "priority", "owned", "generation"} <= set().union(*members)
    assert {"racks", "lag", "begin", "end", "committed"} <= set().union(*entries)
    ignored = {why["why"].split(":")[0].split(" in ")[0] for group in made for why in apportion.plan(group).ignored}
    assert ignored == {"no such partition", "stale", "claimed twice", "not subscribed"}


@examples(60)
@given(group=groups())
def test_the_order_of_keys_and_lists_never_matters(group: dict[str, Any]) -> None:
    import random

    plan = apportion.plan(group, "cooperative-sticky").to_json()
    assert apportion.plan(shuffled(random.Random(0), group), "cooperative-sticky").to_json() == plan

"""Plans in names: what a plain loop would write, and no list in two places."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np

import apportion
from apportion.arrays import NOBODY, Ints
from apportion.model.build import build
from apportion.model.group import Group
from apportion.model.to_names import Assignment, owners_to_names, partitions_to_names
from apportion.testing.groups import many_groups


def plainly(group: Group, owner: Ints) -> Assignment:
    """The same, partition by partition."""
    told: Assignment = {member: {} for member in group.members}
    for p, m in enumerate(owner.tolist()):
        if m != NOBODY:
            topic, number = group.name_of(p)
            told[group.members[m]].setdefault(topic, []).append(number)
    return told


def in_order(told: Assignment) -> list[Any]:
    """The assignment with the order of its members and topics."""
    return [(member, list(held.items())) for member, held in told.items()]


def lists(told: Assignment) -> Iterator[list[int]]:
    """All lists of an assignment."""
    return (ids for held in told.values() for ids in held.values())


def test_any_owners_are_named_as_a_plain_loop_names_them() -> None:
    rng = Random(3)  # tests need the same groups again, not secrets
    for raw in many_groups(300, seed=3):
        check_names(raw, rng)


def check_names(raw: dict[str, Any], rng: Random) -> None:
    """The past owners, those with some changes, and nobody: named as a plain loop does it, no list in two places."""
    group = build(raw)
    changed = group.owner.copy()
    for p in range(group.P):
        if rng.random() < 0.3:
            changed[p] = rng.randrange(-1, group.M)
    for owner in (group.owner, changed, np.full(group.P, NOBODY)):
        told = owners_to_names(group, owner)
        assert in_order(told) == in_order(plainly(group, owner))
        everything = list(lists(told))
        assert len(set(map(id, everything))) == len(everything), "a list in two places"


def test_ids_with_gaps_are_named_as_the_broker_gave_them() -> None:
    raw = {"topics": {"t": [{"partition": p} for p in (7, 1_000_000, 3)]}, "members": {"a": {"topics": ["t"]}}}
    group = build(raw)
    assert owners_to_names(group, np.array([0, 0, 0])) == {"a": {"t": [3, 7, 1_000_000]}}
    assert partitions_to_names(group, np.array([True, False, True])) == {"t": [3, 1_000_000]}


def test_a_callers_list_may_be_changed_without_changing_another() -> None:
    plan = apportion.plan({"topics": {"t": 2, "u": 2}, "members": {"a": {"topics": ["t", "u"]}}}, "range")
    plan.assignment["a"]["t"].append(9)
    assert plan.assignment["a"]["u"] == [0, 1]

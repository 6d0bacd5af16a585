"""Plans in names: what a plain loop would write, and no list in two places."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest

import apportion
from apportion.arrays import NOBODY, Ints
from apportion.model.build import build
from apportion.model.group import Group
from apportion.model.to_names import Assignment, by_owner, owners_to_names, partitions_to_names
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


@pytest.mark.parametrize(("partitions", "members"), [(1, 1), (7, 1), (4, 2), (5, 2), (10, 4), (7, 4), (9, 9), (3, 7)])
def test_partitions_by_owner_are_those_of_a_stable_sort(partitions: int, members: int) -> None:
    dealt = np.arange(partitions) % members
    for owner in (dealt, dealt[::-1].copy(), np.where(np.arange(partitions) == partitions - 1, NOBODY, dealt)):
        order, held = by_owner(owner, members)
        owned = np.flatnonzero(owner != NOBODY)
        assert order.tolist() == owned[np.argsort(owner[owned], kind="stable")].tolist()
        assert held.tolist() == [int((owner == m).sum()) for m in range(members)]


def test_claims_on_what_does_not_exist_stand_apart() -> None:
    raw = {
        "topics": {"t": 4, "u": 2},
        "members": {
            "a": {"topics": ["t", "u"], "owned": {"t": [0, 2], "u": [1], "gone": [5]}},
            "b": {"topics": ["t", "u"], "owned": {"t": [3, 9]}},
        },
    }
    claims = build(raw).claims
    assert list(zip(claims.member.tolist(), claims.partition.tolist(), strict=True)) == [(0, 0), (0, 2), (0, 5), (1, 3)]
    assert list(claims.nonexistent) == [(0, "gone", 5), (1, "t", 9)]

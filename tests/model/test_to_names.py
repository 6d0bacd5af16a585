"""Plans in names: what a plain loop would write, with lists that did not change handed on and no list in two places."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest

import apportion
from apportion.arrays import NOBODY, Ints
from apportion.model import build as build_module
from apportion.model import to_names
from apportion.model.build import build
from apportion.model.group import Group
from apportion.model.to_names import Assignment, by_owner, owners_to_names, owners_to_shares, partitions_to_names
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


def said(raw: dict[str, Any], member: str) -> dict[str, list[int]]:
    """What the member said it held."""
    return raw["members"][member].get("owned") or {}


def lists(told: Assignment) -> Iterator[list[int]]:
    """All lists of an assignment."""
    return (ids for held in told.values() for ids in held.values())


@pytest.fixture(autouse=True, params=[2, to_names.BLOCK], ids=["small blocks", "blocks"], scope="module")
def block(request: pytest.FixtureRequest) -> Iterator[None]:
    """Members are named few at a time, then as always."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(to_names, "BLOCK", request.param)
        yield


@pytest.mark.parametrize("reuse_lists", [False, True])
def test_any_owners_are_named_as_a_plain_loop_names_them(reuse_lists: bool) -> None:
    rng = Random(3)  # tests need the same groups again, not secrets
    for raw in many_groups(300, seed=3):
        check_names(raw, rng, reuse_lists)


def check_names(raw: dict[str, Any], rng: Random, reuse_lists: bool) -> None:
    """The past owners, those with some changes, and nobody: named as a plain loop does it, no list in two places."""
    group = build(raw, reuse_lists=reuse_lists)
    changed = group.owner.copy()
    for p in range(group.P):
        if rng.random() < 0.3:
            changed[p] = rng.randrange(-1, group.M)
    for owner in (group.owner, changed, np.full(group.P, NOBODY)):
        told = owners_to_names(group, owner)
        assert in_order(told) == in_order(plainly(group, owner))
        everything = list(lists(told))
        assert len(set(map(id, everything))) == len(everything), "a list in two places"
        shares = owners_to_shares(group, owner)
        assert {m: {t: list(ids) for t, ids in held.items()} for m, held in shares.items()} == told
        assert [list(held) for held in shares.values()] == [list(held) for held in told.values()]
        new = [ids for m, held in shares.items() for t, ids in held.items() if ids is not said(raw, m).get(t)]
        assert all(isinstance(ids, tuple) for ids in new), "what is shared cannot be changed"


def test_lists_that_did_not_change_are_handed_on_and_others_are_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        to_names, "BLOCK", 2
    )  # single lists of members with a change are looked for in large groups only
    owned = {"a": {"t": [0, 1], "u": [0]}, "b": {"t": [3, 2], "u": [1]}}
    raw = {
        "topics": {"t": 4, "u": 3},
        "members": {m: {"topics": ["t", "u"], "owned": held} for m, held in owned.items()},
    }
    told = owners_to_names(build(raw, reuse_lists=True), np.array([0, 0, 1, 1, 0, 1, 1]))
    assert told == {"a": {"t": [0, 1], "u": [0]}, "b": {"t": [2, 3], "u": [1, 2]}}
    assert told["a"]["t"] is owned["a"]["t"]
    assert told["a"] is not owned["a"]
    assert owned["b"] == {"t": [3, 2], "u": [1]}
    told = owners_to_names(build(raw, reuse_lists=True), np.array([0, 0, 0, 1, 0, 1, 1]))
    assert told == {"a": {"t": [0, 1, 2], "u": [0]}, "b": {"t": [3], "u": [1, 2]}}
    assert told["a"]["u"] is owned["a"]["u"]
    assert owned["a"] == {"t": [0, 1], "u": [0]}
    copied = owners_to_names(build(raw), np.array([0, 0, 1, 1, 0, 1, 1]))
    assert copied["a"]["t"] is not owned["a"]["t"], "nobody said that lists may be handed on"


def test_ids_with_gaps_are_named_as_the_broker_gave_them() -> None:
    raw = {"topics": {"t": [{"partition": p} for p in (7, 1_000_000, 3)]}, "members": {"a": {"topics": ["t"]}}}
    group = build(raw)
    assert owners_to_names(group, np.array([0, 0, 0])) == {"a": {"t": [3, 7, 1_000_000]}}
    assert partitions_to_names(group, np.array([True, False, True])) == {"t": [3, 1_000_000]}


def test_lists_that_stay_beside_ids_with_gaps_are_handed_on_even_where_none_is_new(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Java's members say their topics in the order of a hash map: nothing moved, and yet it is said anew."""
    monkeypatch.setattr(to_names, "BLOCK", 2)
    owned = {"z": [3, 1_000_000], "b": [0]}
    topics = {"b": 1, "z": [{"partition": 3}, {"partition": 1_000_000}]}
    group = build({"topics": topics, "members": {"a": {"topics": ["b", "z"], "owned": owned}}}, reuse_lists=True)
    told = owners_to_shares(group, np.zeros(3, dtype=np.int64))
    assert told == {"a": owned}
    assert list(told["a"]) == ["b", "z"]


def test_a_callers_list_may_be_changed_without_changing_another() -> None:
    plan = apportion.plan({"topics": {"t": 2, "u": 2}, "members": {"a": {"topics": ["t", "u"]}}}, "range")
    plan.assignment["a"]["t"].append(9)
    assert plan.assignment["a"]["u"] == [0, 1]


@pytest.mark.parametrize(("partitions", "members"), [(1, 1), (7, 1), (4, 2), (5, 2), (10, 4), (7, 4), (9, 9), (3, 7)])
def test_partitions_by_owner_are_those_of_a_stable_sort_dealt_or_not(partitions: int, members: int) -> None:
    dealt = np.arange(partitions) % members
    for owner in (dealt, dealt[::-1].copy(), np.where(np.arange(partitions) == partitions - 1, NOBODY, dealt)):
        order, held = by_owner(owner, members)
        owned = np.flatnonzero(owner != NOBODY)
        assert order.tolist() == owned[np.argsort(owner[owned], kind="stable")].tolist()
        assert held.tolist() == [int((owner == m).sum()) for m in range(members)]


@pytest.mark.parametrize("kept", [1, 3, 4, 8])
def test_single_ids_are_right_on_both_sides_of_those_whose_tuples_are_kept(
    monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    monkeypatch.setattr(to_names, "KEPT_ALONE", kept)
    to_names._kept_alone.cache_clear()
    group = build({"topics": {"t": 4}, "members": {name: {"topics": ["t"]} for name in "abcd"}})
    try:
        assert owners_to_shares(group, np.array([3, 2, 1, 0])) == {
            "a": {"t": (3,)}, "b": {"t": (2,)}, "c": {"t": (1,)}, "d": {"t": (0,)},
        }  # fmt: skip
    finally:
        to_names._kept_alone.cache_clear()


def test_many_claims_are_read_as_few_are(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = {
        "topics": {"t": 4, "u": 2},
        "members": {
            "a": {"topics": ["t", "u"], "owned": {"t": [0, 2], "u": [1], "gone": [5]}},
            "b": {"topics": ["t", "u"], "owned": {"t": [3, 9]}},
        },
    }
    few = build(raw)
    monkeypatch.setattr(build_module, "PACKED_MAX", 0)
    many = build(raw)
    for name in ("member", "partition"):
        assert getattr(many.claims, name).tolist() == getattr(few.claims, name).tolist()
    assert list(many.claims.nonexistent) == list(few.claims.nonexistent) == [(0, "gone", 5), (1, "t", 9)]

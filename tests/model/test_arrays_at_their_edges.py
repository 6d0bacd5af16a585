"""What the model does at the edges of its arrays: repeated claims, many members, long words, the ends of 32 bits."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

import apportion
from apportion.arrays import NOBODY, UNKNOWN
from apportion.errors import BadInput
from apportion.model import group_json
from apportion.model.build import build, find_partitions
from apportion.model.edits import with_changed_members
from apportion.model.facts import Fact
from apportion.model.group import NONE_NONEXISTENT, NonexistentClaims
from apportion.model.group_json import read_group
from apportion.model.lag import RESETS, lag_of
from apportion.model.measures import cost_of_loads, measure
from apportion.model.plan import hand_over
from apportion.model.to_names import by_owner


def test_claims_on_what_does_not_exist_are_each_told_once_in_order() -> None:
    rng = random.Random(4)
    topics = ["u", "t"]
    claims = [(rng.randrange(3), rng.randrange(2), rng.randrange(3)) for _ in range(60)]
    member, topic, number = (np.array(column) for column in zip(*claims, strict=True))
    told = list(NonexistentClaims(member, topic, number, topics))
    assert told == sorted({(m, topics[t], n) for m, t, n in claims})
    firsts = NonexistentClaims(member, topic, number, topics).first_of_members()
    assert firsts == [min(claim for claim in told if claim[0] == m) for m in range(3)]
    assert NONE_NONEXISTENT.first_of_members() == []


def test_partitions_are_found_by_their_ids_whether_or_not_ids_have_gaps() -> None:
    start, numbers = np.array([0, 3, 5, 5]), np.array([0, 1, 2, 0, 4])
    topic, sought = np.array([0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2]), np.array([0, 1, 2, 3, -1, 0, 1, 4, -1, 0, 4])
    assert find_partitions(topic, sought, start, numbers).tolist() == [0, 1, 2, -1, -1, 3, -1, 4, -1, -1, -1]
    assert find_partitions(topic[:3], sought[:3], start, numbers).tolist() == [0, 1, 2]
    nothing = np.array([], dtype=np.int64)
    assert find_partitions(np.array([0]), np.array([0]), np.array([0, 0]), nothing).tolist() == [-1]


def test_owners_beyond_sixteen_bits_are_sorted_like_any() -> None:
    owner = np.random.default_rng(1).integers(-1, 100_000, 150_000)
    order, held = by_owner(owner, 100_000)
    owned = np.flatnonzero(owner >= 0)
    assert (order == owned[np.lexsort((owned, owner[owned]))]).all()
    assert (held == np.bincount(owner[owned], minlength=100_000)).all()


def test_loads_of_members_of_one_capacity_are_summed() -> None:
    assert cost_of_loads(np.array([3, 1, 2]), np.array([2, 2, 1])) == Fraction(9 + 1, 2) + 4


@pytest.mark.parametrize(
    ("where", "group"),
    [
        ("group", {"topics": {}, "members": {}, 5: 1}),
        ("members.a", {"topics": {}, "members": {"a": {"topics": [], 5: 1}}}),
    ],
)
def test_a_field_whose_name_is_no_text_is_refused_at_its_object(where: str, group: Any) -> None:
    with pytest.raises(BadInput, match="an unknown field 5") as refused:
        read_group(group)
    assert refused.value.where == where


@pytest.mark.parametrize(
    ("number", "fits"),
    [
        (2**31 - 1, True),
        (2**31, False),
        (-(2**31), True),
        (-(2**31) - 1, False),
        (2**70, False),
    ],
)
def test_an_id_that_a_member_claims_is_one_of_32_bits(number: int, fits: bool) -> None:
    group = {"topics": {"t": 1}, "members": {"a": {"topics": ["t"], "owned": {"t": [0, number]}}}}
    if fits:
        assert read_group(group).owner.tolist() == [0]
    else:
        with pytest.raises(BadInput, match=r"members\.a\.owned\.t"):
            read_group(group)


def test_members_that_share_one_list_of_topics_are_built_as_those_with_lists_of_their_own() -> None:
    """Lists of topics are told apart by what they say, whether they are one object, equal ones or neither."""
    topics = ["b", "a", "b"]
    described = {"a": 3, "b": 2}
    shared = build({"topics": described, "members": {f"m{m}": {"topics": topics} for m in range(5)}})
    copied = build({"topics": described, "members": {f"m{m}": {"topics": [*topics]} for m in range(5)}})
    mixed = build(
        {"topics": described, "members": {f"m{m}": {"topics": ["a"] if m == 2 else topics} for m in range(5)}}
    )
    for group in (shared, copied):
        assert [one.tolist() for one in group.subscriptions] == [[0, 1]]
        assert group.subscription_of.tolist() == [0] * 5
    assert [one.tolist() for one in mixed.subscriptions] == [[0, 1], [0]]
    assert mixed.subscription_of.tolist() == [0, 0, 1, 0, 0]


@pytest.mark.parametrize("last", [6, 7, 9, -1, 1 << 40])
def test_an_id_at_the_end_of_its_topic_exists_and_one_behind_it_does_not(last: int) -> None:
    """Topics of unlike sizes: the largest id of one may be beyond the other."""
    members = {"a": {"topics": ["s", "t"], "owned": {"s": [0, 6], "t": [last]}, "generation": 1}}
    group = build({"topics": {"s": 7, "t": 10}, "members": members})
    strays = [] if 0 <= last < 10 else [(0, "t", last)]
    assert list(group.claims.nonexistent) == strays
    assert group.claims.partition.tolist() == [0, 6] + ([7 + last] if not strays else [])


@pytest.mark.parametrize("reset", RESETS)
def test_a_lag_is_what_stands_between_the_commit_and_the_end(reset: str) -> None:
    """For each begin, end and commit that there may be, known or not."""
    offsets = [UNKNOWN, 0, 1, 5, 9]
    rows = list(product(offsets, repeat=3))

    def told(begin: int, end: int, committed: int) -> int:
        if end < 0:
            return 0
        log = max(end - max(begin, 0), 0)
        if committed < 0:
            return 0 if reset == "latest" else log
        return min(max(end - committed, 0), log)

    begin, end, committed = np.array(rows).T
    assert lag_of(begin, end, committed, reset).tolist() == [told(*row) for row in rows]


WITH_A_GAP = [{"partition": 0}, {"partition": 2}]
HELD: dict[str, Any] = {
    "topics": {"t": 3, "u": WITH_A_GAP},
    "members": {
        "a": {"topics": ["t", "u"], "owned": {"t": [0, 1], "u": [0]}, "generation": 4},
        "b": {"topics": ["t", "u"], "owned": {"t": [1, 2], "u": [2]}, "generation": 4},
        "c": {"topics": ["t"], "owned": {"u": [0], "t": [2]}, "generation": 3},
    },
}
"""0 of t is a's, 1 is nobody's (two claim it), 2 is b's, whom c contradicts; of u 0 is a's and 2 is b's."""


def test_a_partition_waits_that_somebody_else_claims_than_its_new_owner() -> None:
    group = read_group(HELD)
    claims = list(zip(group.claims.member.tolist(), group.claims.partition.tolist(), strict=True))
    assert group.owner.tolist() == [0, NOBODY, 1, 0, 1]
    assert group.verdict.code.dtype == np.int8, "a byte for each claim"
    for owner in product(range(-1, 3), repeat=5):
        waits = [
            new != NOBODY
            and any(p == at and m != new for m, p in claims)
            and not (group.owner[at] == new and (new, at) in claims)
            for at, new in enumerate(owner)
        ]
        assert hand_over(group, np.array(owner)).tolist() == waits, owner
    target = np.array([1, 1, 1, 1, 0])
    keeps = np.array([False, True, True])
    assert hand_over(group, target, keeps).tolist() == [False, False, False, True, True]
    together = np.array([0, 1, 2, 0, 1])
    assert hand_over(group, np.array([0, NOBODY, 1, 1, 0]), together=together).tolist() == [
        True, False, False, True, True
    ]  # fmt: skip


def test_groups_have_the_same_partitions_where_topics_and_ids_are_the_same() -> None:
    group = read_group(HELD)
    alike = read_group({"topics": {"u": WITH_A_GAP, "t": 3}, "members": {"x": {"topics": ["t"]}}})
    assert group.same_partitions(group)
    assert group.same_partitions(alike)
    for topics in ({"t": 3, "v": WITH_A_GAP}, {"t": 3, "u": 2}, {"t": 3, "u": 3}, {"t": 2, "u": 3}, {"t": 5}):
        other = read_group({"topics": topics, "members": {"x": {"topics": ["t"]}}})
        assert not group.same_partitions(other), topics
        assert not other.same_partitions(group), topics


@pytest.mark.parametrize(
    ("owner", "found", "needed"),
    [
        ([0, 1, 2, 3, 0], "numbers from 0 to 3", "-1 (nobody) to 2"),
        ([0, 1, 2, -2, 0], "numbers from -2 to 2", "-1 (nobody) to 2"),
        ([0] * 4, "int64 of shape (4,)", "a whole number for each of 5 partitions"),
        ([[0] * 5], "int64 of shape (1, 5)", "a whole number for each of 5 partitions"),
        ([0.0] * 5, "float64 of shape (5,)", "a whole number for each of 5 partitions"),
        ([True] * 5, "bool of shape (5,)", "a whole number for each of 5 partitions"),
        ([], "float64 of shape (0,)", "a whole number for each of 5 partitions"),
    ],
)
def test_owners_that_can_be_nobodys_are_refused_in_a_whole_sentence(owner: Any, found: str, needed: str) -> None:
    group = read_group(HELD)
    with pytest.raises(BadInput) as refused:
        measure(group, np.array(owner))
    assert str(refused.value) == f"owner: found {found}; needed {needed}."
    for kind in (np.int8, np.int64, np.uint16):
        assert measure(group, np.array([0, 1, 2, 0, 1], dtype=kind)) == measure(group, np.array([0, 1, 2, 0, 1]))
    nothing = read_group({"topics": {}, "members": {"a": {"topics": []}}})
    assert measure(nothing, np.array([]))["partitions"] == 0


def test_more_racks_in_more_sets_than_memory_has_room_for_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    topics = {"t": [{"partition": p, "racks": [f"r{p}", f"r{p + 1}"]} for p in range(3)]}
    raw = {"topics": topics, "members": {"a": {"topics": ["t"]}}}
    monkeypatch.setattr(group_json, "MOST_RACK_CELLS", 12)
    assert read_group(raw).racks is not None
    monkeypatch.setattr(group_json, "MOST_RACK_CELLS", 11)
    with pytest.raises(BadInput) as refused:
        read_group(raw)
    assert str(refused.value) == "topics: found 4 racks in 3 different sets; needed racks x sets at most 11."


@pytest.mark.parametrize(
    ("bounds", "where"),
    [
        ((5, 2**63, 9), "Fact.low"), ((5, -(2**63), 9), "Fact.low"), ((5, 0, 2**63), "Fact.high"),
        ((10, 0, 9), "Fact.default"), ((-1, 0, 9), "Fact.default"),
    ],
)  # fmt: skip
def test_a_facts_bounds_are_refused_by_their_names(bounds: tuple[int, int, int], where: str) -> None:
    with pytest.raises(BadInput) as refused:
        Fact(*bounds)
    assert refused.value.where == where


@pytest.mark.parametrize(("weight", "fits"), [(0, True), (0.5, True), (2**53, True), (2**53 + 1, False), (-1, False)])
def test_a_partitions_weight_is_none_below_nothing_and_none_that_floats_cannot_hold(weight: float, fits: bool) -> None:
    entries = [{"partition": 0, "weight": weight}, {"partition": 1}]
    raw = {"topics": {"t": entries}, "members": {"a": {"topics": ["t"]}}}
    if fits:
        group = read_group(raw)
        assert group.weight is not None
        assert group.weight.tolist()[0] == weight
        assert np.isnan(group.weight[1])
    else:
        with pytest.raises(BadInput, match=r"topics\.t\[0\]\.weight"):
            read_group(raw)


def test_weights_of_which_none_is_known_are_none_in_a_group_that_changes() -> None:
    group = read_group({"topics": {"t": 2}, "members": {"a": {"topics": ["t"]}}})
    for weight in (None, np.array([np.nan, np.nan]), np.array([np.nan, 3.0])):
        joined = with_changed_members(replace(group, weight=weight), (), {"b": {"topics": ["t"]}})
        assert joined is not None
        if weight is None or np.isnan(weight).all():
            assert joined.weight is None
        else:
            assert joined.weight is weight


@pytest.mark.parametrize(
    ("topics", "refused_at"),
    [
        ({"a": 5}, None), ({"a": 6}, "a"), ({"a": 3, "b": WITH_A_GAP}, None), ({"b": WITH_A_GAP, "a": 4, "c": 0}, "a"),
        ({"a": 4, "b": WITH_A_GAP}, "b"), ({f"t{t}": 1 for t in range(5)}, None),
        ({f"t{t}": 1 for t in range(6)}, "t5"),
    ],
)  # fmt: skip
def test_a_group_has_as_many_partitions_as_it_may_and_not_one_more(
    topics: dict[str, Any], refused_at: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_json, "MOST_PARTITIONS", 5)
    raw = {"topics": topics, "members": {"m": {"topics": [*topics]}}}
    if refused_at is None:
        assert read_group(raw).P == 5
    else:
        with pytest.raises(BadInput) as refused:
            read_group(raw)
        assert str(refused.value) == f"topics.{refused_at}: found more than 5 partitions in all; needed at most 5."


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ([1], ": found [1]; needed an object of numbers."),
        ({"load": "x"}, '.load: found "x"; needed an integer.'),
        ({"load": -(2**63)}, ".load: found -9223372036854775808; needed an integer from -9223372036854775807"),
        ({"load": 2**63}, ".load: found 9223372036854775808; needed an integer from "),
        ({"capacity": 1}, ".capacity: found the fact 'capacity'; needed it as a field of the member, beside "),
    ],
)  # fmt: skip
def test_facts_that_are_none_are_refused_at_their_place(facts: Any, says: str) -> None:
    raw = {"topics": {"t": 1}, "members": {"m": {"topics": ["t"], "facts": facts}}}
    with pytest.raises(BadInput) as refused:
        read_group(raw)
    assert str(refused.value).startswith(f"members.m.facts{says}")


def test_a_plan_and_a_group_tell_what_they_are_in_a_line() -> None:
    group = read_group({**HELD, "group": "shop"})
    plan = apportion.plan(group, "range")
    moves = plan.measures["moves"]
    assert moves
    assert repr(plan) == f"Plan('shop', range, moves={moves}, proof={plan.proof})"
    assert repr(group) == "Group('shop', topics=2, partitions=5, members=3)"

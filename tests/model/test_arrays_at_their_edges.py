"""What the model does at the edges of its arrays: repeated claims, many members, long words, the ends of 32 bits."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from apportion.errors import BadInput
from apportion.model.build import build, find_partitions
from apportion.model.group import NonexistentClaims
from apportion.model.group_json import read_group
from apportion.model.json_checks import one_line
from apportion.model.measures import cost_of_loads
from apportion.model.to_names import by_owner
from apportion.model.well_formed import owned_lists


def test_claims_on_what_does_not_exist_are_each_told_once_in_order() -> None:
    rng = random.Random(4)
    topics = ["u", "t"]
    claims = [(rng.randrange(3), rng.randrange(2), rng.randrange(3)) for _ in range(60)]
    member, topic, number = (np.array(column) for column in zip(*claims, strict=True))
    told = list(NonexistentClaims(member, topic, number, topics))
    assert told == sorted({(m, topics[t], n) for m, t, n in claims})


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


def test_what_was_found_is_shown_in_sixty_characters() -> None:
    assert one_line("x" * 58) == '"' + "x" * 58 + '"'
    assert one_line("x" * 59) == '"' + "x" * 56 + "..."


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
    assert (owned_lists([{"t": [0, number]}, None]) is not None) is fits
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

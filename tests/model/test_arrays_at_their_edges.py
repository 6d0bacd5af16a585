"""What the model does at the edges of its arrays: repeated claims, many members, long words, the ends of 32 bits."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from apportion.arrays import NOBODY, UNKNOWN
from apportion.errors import BadInput
from apportion.model import group_json
from apportion.model.build import build
from apportion.model.group_json import read_group
from apportion.model.lag import RESETS, lag_of
from apportion.model.measures import measure
from apportion.model.plan import hand_over
from apportion.model.to_names import by_owner


def test_owners_beyond_sixteen_bits_are_sorted_like_any() -> None:
    owner = np.random.default_rng(1).integers(-1, 100_000, 150_000)
    order, held = by_owner(owner, 100_000)
    owned = np.flatnonzero(owner >= 0)
    assert (order == owned[np.lexsort((owned, owner[owned]))]).all()
    assert (held == np.bincount(owner[owned], minlength=100_000)).all()


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
        ({"capacity": 1}, ".capacity: found the fact 'capacity'; needed it as a field of the member, next to "),
    ],
)  # fmt: skip
def test_facts_that_are_none_are_refused_at_their_place(facts: Any, says: str) -> None:
    raw = {"topics": {"t": 1}, "members": {"m": {"topics": ["t"], "facts": facts}}}
    with pytest.raises(BadInput) as refused:
        read_group(raw)
    assert str(refused.value).startswith(f"members.m.facts{says}")

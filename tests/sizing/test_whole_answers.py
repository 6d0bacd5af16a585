"""Whole answers, plans and sentences, for groups of every kind: what changes in them is looked at by somebody."""

from __future__ import annotations

from typing import Any

import pytest

import apportion
from apportion.errors import BadInput

GROUP = {"topics": {"t": [{"partition": 0, "weight": 5, "lag": 7}]}, "members": {"a": {"topics": ["t"]}}}
ABOVE = "needed a number above 0, at most 2^53"
WHOLE = "for processes of 4 members each; needed a number of whole processes among them, as 4"
PACE = "a time in which the lag is no more than 1e+100 a second"
FAR = "needed numbers that are less far from each other"
LIMITS = "needed A..B with 1 <= A <= B, as in 2..10"


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"capacity": 0}, f"capacity: found 0; {ABOVE}"),
        ({"capacity": True}, f"capacity: found True; {ABOVE}"),
        ({"capacity": "9"}, f"capacity: found '9'; {ABOVE}"),
        ({"capacity": 2**53 + 2}, f"capacity: found 9007199254740994; {ABOVE}"),
        ({"catch_up": 0}, f"catch_up: found 0; {ABOVE}"),
        ({"threads": 0}, "threads: found 0; needed members of one process, from 1 to 100000"),
        ({"threads": 100_001}, "threads: found 100001; needed members of one process, from 1 to 100000"),
        ({"prefer": "speed"}, "prefer: found 'speed'; needed members or moves"),
        ({"members": (3, 2)}, f"members: found 3..2; {LIMITS}"),
        ({"members": (0, 2)}, f"members: found 0..2; {LIMITS}"),
        ({"members": (100_001, 100_002)}, "members: found 100001..100002; needed at most 100,000"),
        (
            {"members": (5, 7), "threads": 4},
            f"members: found 5 to 7 {WHOLE}",
        ),
        (
            {"members": (1, 3), "threads": 4},
            f"members: found 1 to 3 {WHOLE}",
        ),
        ({"by": "bytes"}, "by: found 'bytes'; needed one of weight, lag, partitions"),
        (
            {"by": "partitions", "catch_up": 9},
            "catch_up: found a time by partitions; needed --by weight or --by lag: partitions have no pace",
        ),
        (
            {"catch_up": 1e-300},
            f"catch_up: found 1e-300 s for a lag of 7 messages; needed {PACE}",
        ),
        (
            {"capacity": 5e-324},
            f"capacity: found work and capacities from 4.94066e-324 to 5; {FAR}",
        ),
    ],
)
def test_a_bad_question_is_refused_in_these_words(asked: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadInput) as refused:
        apportion.size(GROUP, **{"capacity": 10, **asked})
    assert str(refused.value) == f"{sentence}."


def test_the_ends_of_what_may_be_asked_are_answered() -> None:
    ends: tuple[dict[str, Any], ...] = (
        {"capacity": 2**53}, {"threads": 100_000}, {"members": (1, 1)}, {"members": (1, 100_000)}, {"catch_up": 2**53}
    )  # fmt: skip
    for asked in ends:
        assert apportion.size(GROUP, **{"capacity": 10, **asked}).advised is not None
    nothing: dict[str, Any] = {"topics": {"t": 2}, "members": {"a": {"topics": ["t"]}}}
    with pytest.raises(
        BadInput, match=r"^by: found nothing, and no partition's weight is known; needed weight, lag or "
    ):
        apportion.size(nothing, capacity=1)
    with pytest.raises(
        BadInput, match=r"^weight: found no partition with a weight; needed topics.T\[i\].weight in the "
    ):
        apportion.size(nothing, capacity=1, by="weight")


def test_where_more_members_may_help_it_is_said_how_many_there_must_be() -> None:
    """At the bound itself a plan may be missed by the search: then more, or larger ones, may do."""
    raw = {"topics": {"t": [{"partition": p, "weight": 51} for p in range(4)]}, "members": {"a": {"topics": ["t"]}}}
    for high, needed in ((3, "at least 4 members"), (1, "at least 4 members")):
        with pytest.raises(BadInput) as refused:
            apportion.size(raw, capacity=100, members=(1, high))
        found = f"members: found 1 to {high}, which no plan that was found fits; needed {needed}"
        assert str(refused.value) == f"{found}: the work is 204, and a member takes 100."
    few = apportion.size({"topics": {"t": [{"partition": 0, "weight": 5}]}, "members": raw["members"]}, 100, threads=2)
    assert few.sentences[-1] == "That is 1 process of 2 members each; 1 partition keeps no more than 1 process busy."

"""Whole answers, plans and sentences, for groups of every kind: what changes in them is looked at by somebody."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

import apportion
from apportion.errors import BadInput
from apportion.sizing import bounds
from apportion.sizing.advice import Facts, choose, idle, sentences

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


def test_where_there_are_too_many_sums_a_light_set_is_good_and_said_to_be_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounds, "SUMS_MAX", 30)
    draw, exact = Random(8), 0
    for _ in range(60):
        weights = [draw.choice((0, *range(3, 60))) for _ in range(draw.randint(8, 14))]
        need = draw.randint(1, sum(weights))
        total, places, lightest = bounds.lightest_set(weights, need)
        assert len({*places}) == len(places)
        assert total == sum(weights[i] for i in places) >= need
        assert all(weights[i] for i in places)
        assert total - min(weights[i] for i in places) < need, "nothing in it is needless"
        sums = {0}
        for weight in weights:
            sums |= {each + weight for each in sums}
        least = min(each for each in sums if each >= need)
        assert least <= total <= least + max(weights)
        assert not lightest or total == least
        exact += lightest
    assert 3 < exact < 30
    assert bounds.lightest_set([3, 2], 0) == bounds.lightest_set([3, 2], -1) == (0, [], True)


FACTS = Facts(4, 1, 9, "weight", 100.0, 500.0, [], 100.0, [], 0, 1, ())


def test_a_member_is_worth_a_move_of_what_one_member_takes() -> None:
    """At equal prices less moves; the reason says which side of the choice there is."""
    raw = {
        "topics": {"t": [{"partition": p, "weight": weight} for p, weight in enumerate((60, 40, 30, 20))]},
        "members": {f"m{m}": {"topics": ["t"], "owned": {"t": [m]}, "generation": 1} for m in range(4)},
    }
    points = apportion.size(raw, capacity=100).frontier
    assert [(point.members, point.moved) for point in points] == [(4, 0), (3, 20), (2, 50)]
    more, fewer = (
        "more members would save less moved work than they take",
        "fewer would move more than the work of the ",
    )
    assert choose(points, None, 100) == (2, more)
    assert choose(points, None, 25) == (1, f"{more}, {fewer}members saved")
    assert choose(points, None, 20) == (0, "a member less would move more than one member's work")
    assert choose(points[1:], None, 20) == (0, f"{fewer}members saved")
    assert choose(points[:1], None, 20) == (0, "no other number moves less or needs fewer")
    assert choose(points, "members", 20) == (2, "the fewest members were preferred")
    assert choose(points, "moves", 100) == (0, "the least moved work was preferred")
    assert sentences(FACTS, points, 1, "why", 2) == [
        "3 members, 1 fewer than now; 1 partition (4.0% of the work) changes hands; the fullest is at 80%: why.",
        "2 would do and no plan needs fewer; that moves 50.",
    ]
    assert sentences(FACTS, points, 2, "why", 1)[1] == "No plan needs fewer than 1; the fewest found are 2."
    assert sentences(replace(FACTS, least_asked=2), points, 2, "why", 1)[1] == (
        "No plan needs fewer than 1; 2 were asked for at least."
    )
    cannot = "falls behind all the same; more members cannot help, more partitions or a faster member can"
    named = "t-0 (150), t-1 (150.5), t-2 (151), t-3 (151.5), t-4 (152)"
    huge = [("t", p, 150.0 + p / 2) for p in range(7)]
    assert sentences(replace(FACTS, oversize=huge, members_now=3, partitions=2), points, 1, "why", 3)[1:] == [
        "No plan needs fewer than 3.",
        f"{named} and 2 more are more than any member takes (100): each has one to itself and {cannot}.",
        "There are only 2 partitions: members beyond that number stay idle.",
    ]
    assert idle(replace(FACTS, by="weight", unknown=[("t", 1)], unknown_count=1)) == [
        "No traffic was measured, so no number of members is advised. Size again while messages come in.",
        "The weight of 1 partition is unknown and counts 0: t-1.",
    ]
    assert idle(replace(FACTS, by="lag")) == [
        "Nothing is left to read, so no number of members is advised. Size by weight: what comes in a second.",
        "Only messages left to read are counted; what comes in meanwhile is not.",
    ]


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

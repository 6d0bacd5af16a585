"""Sizing: plans that fit, a frontier without a beaten plan, bounds and small plans that exhaustive search confirms."""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import pairwise, product
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.examples import examples

import apportion
from apportion.errors import BadInput
from apportion.sizing.bounds import least_members, lightest_set
from apportion.sizing.problem import SizingProblem, in_units
from apportion.sizing.size import Sizing


def group(weights: list[Any], owners: list[int], members: int, **fields: Any) -> dict[str, Any]:
    """A group of one topic; owners name members m0, m1, ... by number, -1 nobody."""
    held = {m: [p for p, owner in enumerate(owners) if owner == m] for m in range(members)}
    return {
        "topics": {"t": [{"partition": p, "weight": w} for p, w in enumerate(weights)]},
        "members": {
            f"m{m}": {"topics": ["t"], "owned": {"t": held[m]}, "generation": 1, **fields.get(f"m{m}", {})}
            for m in range(members)
        },
    }


@st.composite
def small_groups(draw: st.DrawFn) -> dict[str, Any]:
    members = draw(st.integers(1, 3))
    weights = draw(st.lists(st.integers(0, 12), min_size=1, max_size=5))
    owners = [draw(st.integers(-1, members - 1)) for _ in weights]
    extra = {f"m{m}": {"capacity": draw(st.integers(1, 2))} for m in range(members)}
    return group(weights, owners, members, **extra)


def exhaustive(raw: dict[str, Any], capacity: int) -> dict[int, int]:
    """Number of members to the least weight that any plan of so many members moves, over all plans there are."""
    weights = [entry["weight"] for entry in raw["topics"]["t"]]
    names = list(raw["members"])
    owner = {p: m for m, name in enumerate(names) for p in raw["members"][name]["owned"]["t"]}
    takes = [capacity * raw["members"][name].get("capacity", 1) for name in names] + [capacity] * len(weights)
    least: dict[int, int] = {}
    for plan in product(range(len(takes)), repeat=len(weights)):
        load = [0] * len(takes)
        for p, m in enumerate(plan):
            load[m] += weights[p]
        alone = [len([p for p in plan if p == m]) == 1 for m in range(len(takes))]
        heavier = [
            max((weights[p] for p, owner in enumerate(plan) if owner == m), default=0) for m in range(len(takes))
        ]
        if all(
            has <= may or (only and heavy > max(takes))
            for has, may, only, heavy in zip(load, takes, alone, heavier, strict=True)
        ):
            moved = sum(weights[p] for p, m in enumerate(plan) if owner.get(p, m) != m)
            n = len(set(plan))
            least[n] = min(least.get(n, moved), moved)
    return least


def check(result: Sizing, raw: dict[str, Any], capacity: float) -> None:
    """What holds of every answer: plans fit, measures are what the plan says, none is beaten."""
    weight = {(t, e["partition"]): e.get("weight") or 0 for t, entries in raw["topics"].items() for e in entries}
    before = {
        (t, p): m for m, fields in raw["members"].items() for t, ids in fields.get("owned", {}).items() for p in ids
    }
    heaviest = capacity * max([1, *(fields.get("capacity", 1) for fields in raw["members"].values())])
    for sized in result.frontier:
        after = {(t, p): m for m, held in sized.plan.assignment.items() for t, ids in held.items() for p in ids}
        assert after.keys() == weight.keys()
        assert sized.members == len(sized.plan.assignment) == len(raw["members"]) - len(sized.leave) + len(sized.join)
        assert sized.members >= result.bound
        changed = [key for key, m in after.items() if before.get(key, m) != m]
        assert (sized.moves, sized.moved) == (len(changed), pytest.approx(sum(weight[key] for key in changed)))
        shares = []
        for m in sized.plan.assignment:
            takes = capacity * raw["members"].get(m, {}).get("capacity", 1)
            mine = [weight[key] for key, owner in after.items() if owner == m]
            shares.append(sum(mine) / takes)
            assert sum(mine) <= takes or (len(mine) == 1 and mine[0] > heaviest)
        assert sized.busiest == pytest.approx(max(shares))
        assert sized.moved_bound <= sized.moved
    pairs = [(sized.members, sized.moved) for sized in result.frontier]
    assert pairs == sorted(pairs, reverse=True, key=lambda pair: pair[0])
    assert all(n < n2 and moved > moved2 for (n2, moved2), (n, moved) in pairwise(pairs))


def test_a_member_that_has_nothing_goes_before_one_that_must_give_something_up() -> None:
    """Found by the exhaustive search: the idle member is the largest, so repair kept it and closed another."""
    one = {"topics": ["t"], "generation": 1}
    raw = {
        "topics": {"t": [{"partition": 0, "weight": 1}, {"partition": 1, "weight": 1}]},
        "members": {"a": {**one, "owned": {"t": [0]}}, "b": {**one, "owned": {"t": [1]}}, "c": {**one, "capacity": 2}},
    }
    result = apportion.size(raw, capacity=12)
    assert [(sized.members, sized.moved) for sized in result.frontier] == [(2, 0), (1, 1)]


@examples(60)
@given(small_groups())
def test_small_groups_get_the_frontier_that_exhaustive_search_finds(raw: dict[str, Any]) -> None:
    result = apportion.size(raw, capacity=12)
    check(result, raw, 12)
    least = exhaustive(raw, 12)
    best = {n: min(moved for k, moved in least.items() if k <= n) for n in least}
    frontier = [(n, moved) for n, moved in sorted(best.items()) if n == min(best) or moved < best[n - 1]]
    assert [(sized.members, sized.moved) for sized in result.frontier] == frontier[::-1]
    assert result.bound == min(least)
    assert all(sized.proven for sized in result.frontier)


@examples(100)
@given(small_groups(), st.integers(1, 5), st.integers(0, 3))
def test_between_two_numbers_of_members_too_the_frontier_is_the_exhaustive_one_and_its_proofs_hold(
    raw: dict[str, Any], low: int, more: int
) -> None:
    """Members beyond the work may stay without any; that does not make a plan for fewer of them the best for all."""
    least = exhaustive(raw, 12)
    high = low + more
    if min(least) > high:
        with pytest.raises(BadInput, match=r"at least [0-9]+ members"):
            apportion.size(raw, capacity=12, members=(low, high))
        return
    result = apportion.size(raw, capacity=12, members=(low, high))
    check(result, raw, 12)
    first = max(low, min(least))
    best = {n: min(moved for k, moved in least.items() if k <= n) for n in range(first, high + 1)}
    frontier = [(n, moved) for n, moved in best.items() if n == first or moved < best[n - 1]]
    assert [(sized.members, sized.moved) for sized in result.frontier] == frontier[::-1]
    assert all(sized.proven for sized in result.frontier)


@examples(40)
@given(st.lists(st.integers(0, 100), min_size=1, max_size=60), st.integers(1, 12), st.integers(100, 300))
def test_every_plan_fits_and_none_is_beaten(weights: list[int], members: int, capacity: int) -> None:
    raw = group(weights, [p % members for p in range(len(weights))], members)
    check(apportion.size(raw, capacity=capacity), raw, capacity)


def test_a_partition_that_no_member_takes_has_a_member_to_itself_and_is_named() -> None:
    """The largest where nobody has it; its owner where that moves less, since it falls behind anywhere."""
    raw = group([500, 60, 40], [-1, 0, 0], 2, m1={"capacity": 2})
    result = apportion.size(raw, capacity=100)
    check(result, raw, 100)
    for sized in result.frontier:
        assert sized.plan.assignment["m1"] == {"t": [0]}
    assert "t-0 (500) is more than any member takes (200)" in result.advice
    assert result.bound == 2
    raw = group([500, 60, 40], [0, 0, 1], 2, m1={"capacity": 2})
    (sized,) = apportion.size(raw, capacity=100).frontier
    assert (sized.plan.assignment["m0"], sized.moved, sized.proven) == ({"t": [0]}, 60, True)


HEAVIER: Mapping[str, tuple[dict[str, Any], str, int, dict[int, int]]] = {
    "a large member beside": (
        {"topics": {"t0": [22, 4, 3], "t1": [104, 17, 22], "t2": [17]},
         "owned": [{"t0": [0], "t1": [1], "t2": [0]}, {"t0": [1, 2], "t1": [0, 2]}, {}, {}], "capacity": [1, 3, 4, 1]},
        "weight", 25, {3: 63, 2: 85},
    ),
    "two of them": (
        {"topics": {"t0": [17], "t1": [6, 1, 15, 2, 3, 5, 1]},
         "owned": [{"t0": [0], "t1": [1, 2, 5]}, {"t1": [3, 4, 6]}, {}, {}, {}], "capacity": [1] * 5},
        "lag", 10, {5: 21, 4: 22},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", HEAVIER)
def test_the_least_moved_work_is_reached_where_a_partition_is_heavier_than_any_member(case: str) -> None:
    fields, by, capacity, expected = HEAVIER[case]
    topics = {t: [{"partition": p, by: n} for p, n in enumerate(work)] for t, work in fields["topics"].items()}
    members = {
        f"m{i}": {"topics": list(topics), "owned": owned, "generation": 5, "capacity": takes}
        for i, (owned, takes) in enumerate(zip(fields["owned"], fields["capacity"], strict=True))
    }
    result = apportion.size({"topics": topics, "members": members}, capacity, by=by)
    assert {sized.members: sized.moved for sized in result.frontier} == expected
    assert all(sized.proven for sized in result.frontier)


def test_a_heavier_partition_that_nobody_owns_may_have_a_newcomer_so_that_nothing_moves() -> None:
    raw = group([25, 1, 1], [-1, 0, 1], 2)
    assert [(sized.members, sized.moved) for sized in apportion.size(raw, capacity=12).frontier] == [(3, 0), (2, 1)]


def test_what_nobody_owns_may_have_newcomers_beside_the_one_for_what_is_heavier_than_any_member() -> None:
    raw = group([25, 12, 1, 1], [-1, -1, 0, 1], 2)
    assert [(sized.members, sized.moved) for sized in apportion.size(raw, capacity=12).frontier] == [(4, 0), (3, 1)]


@examples(60)
@given(small_groups(), st.integers(25, 40))
def test_small_groups_with_a_heavier_partition_get_the_exhaustive_frontier_too(raw: dict[str, Any], heavy: int) -> None:
    raw["topics"]["t"][0]["weight"] = heavy
    result = apportion.size(raw, capacity=12)
    check(result, raw, 12)
    least = exhaustive(raw, 12)
    best = {n: min(moved for k, moved in least.items() if k <= n) for n in least}
    frontier = [(n, moved) for n, moved in sorted(best.items()) if n == min(best) or moved < best[n - 1]]
    assert [(sized.members, sized.moved) for sized in result.frontier] == frontier[::-1]
    assert result.bound <= min(least)


def test_unknown_weights_count_nothing_and_are_named() -> None:
    raw = group([50, None, 30], [0, 0, 0], 1)
    result = apportion.size(raw, capacity=100)
    assert result.total == 80
    assert "The weight of 1 partition is unknown and counts 0: t-1." in result.advice


@pytest.mark.parametrize(("by", "words"), [("weight", "No traffic was measured"), ("lag", "Nothing is left to read")])
def test_of_an_idle_group_nothing_is_advised(by: str, words: str) -> None:
    raw = group([0, 0, 0], [0, 0, 1], 2)
    for entry in raw["topics"]["t"]:
        entry["lag"] = 0
    result = apportion.size(raw, capacity=10, by=by)
    assert result.advised is None
    assert result.to_dict()["chosen"] is None
    assert result.advice.startswith(words)


def test_by_lag_what_comes_in_meanwhile_is_said_not_to_count() -> None:
    raw = group([0, 0], [0, 1], 2)
    for entry in raw["topics"]["t"]:
        entry["lag"] = 50
    assert "what comes in meanwhile is not" in apportion.size(raw, capacity=100, by="lag").advice
    assert "meanwhile" not in apportion.size(group([50, 50], [0, 1], 2), capacity=100).advice


def test_decimals_are_summed_as_written() -> None:
    assert in_units([0.1, 0.1, 0.1], [0.3])[:2] == ([1, 1, 1], [3])
    raw = group([0.1, 0.1, 0.1], [0, 0, 0], 1)
    assert [sized.members for sized in apportion.size(raw, capacity=0.3).frontier] == [1]


def test_the_limits_on_members_are_kept_and_a_group_that_cannot_is_told_the_bound() -> None:
    raw = group([60] * 6, [0, 0, 1, 1, 2, 2], 3)
    with pytest.raises(BadInput, match="at least 6 members"):
        apportion.size(raw, capacity=100, members=(1, 5))
    grown = apportion.size(raw, capacity=100, members=(8, 9))
    assert [sized.members for sized in grown.frontier] == [8]
    assert "only 6 partitions" in grown.advice


def test_no_more_members_than_partitions_are_ever_advised() -> None:
    raw = group([90, 90], [0, 1], 2)
    assert [sized.members for sized in apportion.size(raw, capacity=10).frontier] == [2]


def test_members_of_one_process_come_and_go_together() -> None:
    raw = group([50] * 8, [0, 0, 1, 1, 2, 2, 3, 3], 4, **{f"m{m}": {"host": f"/10.0.0.{m // 2}"} for m in range(4)})
    result = apportion.size(raw, capacity=200, threads=2)
    assert [(sized.members, set(sized.leave)) for sized in result.frontier][-1][0] == 2
    assert set(result.frontier[-1].leave) in ({"m0", "m1"}, {"m2", "m3"})
    more = apportion.size(raw, capacity=60, threads=2, prefer="members")
    assert more.advised.members == 8
    assert len(more.advised.join) == 4


def test_newcomers_want_what_the_named_member_wants() -> None:
    raw = group([60, 60, 60], [0, 0, 0], 1)
    raw["topics"]["u"] = [{"partition": 0, "weight": 60}]
    raw["members"]["other"] = {"topics": ["u"]}
    result = apportion.size(raw, capacity=70, like="m0")
    assert {tuple(held) for name, held in result.advised.plan.assignment.items() if name.startswith("new")} == {("t",)}
    assert result.advised.plan.assignment["other"] == {"u": [0]}


def test_a_taken_name_is_passed_over() -> None:
    raw = group([60, 60, 60], [0, 0, 0], 1)
    raw["members"]["new-1"] = {"topics": ["t"]}
    assert apportion.size(raw, capacity=70).advised.join == ("new-2",)


def test_catching_up_adds_the_lag_over_the_time() -> None:
    raw = group([10, 10], [0, 0], 1)
    for entry in raw["topics"]["t"]:
        entry["lag"] = 6000
    assert apportion.size(raw, capacity=25).advised.members == 1
    assert apportion.size(raw, capacity=25, catch_up=600).total == 40
    assert apportion.size(raw, capacity=25, catch_up=600).advised.members == 2


def test_what_the_choice_prefers_is_an_end_of_the_frontier() -> None:
    raw = group([70, 40, 40, 20], [0, 1, 2, 3], 4)
    fewest = apportion.size(raw, capacity=100, prefer="members")
    stay = apportion.size(raw, capacity=100, prefer="moves")
    assert (fewest.advised.members, stay.advised.members) == (2, 4)
    assert (stay.advised.moved, fewest.advised.moved) == (0, 60)
    assert "fewest members were preferred" in fewest.advice


@examples(60)
@given(st.lists(st.integers(0, 60), max_size=12), st.integers(1, 200))
def test_the_lightest_set_is_the_lightest_of_all_sets(weights: list[int], need: int) -> None:
    total, places, exact = lightest_set(weights, min(need, sum(weights)))
    assert exact
    assert sum(weights[i] for i in places) == total
    sums = {0}
    for w in weights:
        sums |= {s + w for s in sums}
    assert total == min(s for s in sums if s >= min(need, sum(weights)))


def test_partitions_that_do_not_fit_beside_each_other_count_one_by_one() -> None:
    assert least_members(SizingProblem([51] * 4 + [10] * 4, [100], 100, [0] * 8)) == 4
    assert least_members(SizingProblem([34] * 6, [100], 100, [0] * 6)) == 3


def test_without_weights_it_must_be_said_what_is_counted() -> None:
    raw = {"topics": {"t": 3}, "members": {"a": {"topics": ["t"]}}}
    with pytest.raises(BadInput, match="no partition's weight is known"):
        apportion.size(raw, capacity=1)
    assert apportion.size(raw, capacity=1, by="partitions").advised.members == 3


@pytest.mark.parametrize(
    ("capacity", "entry", "more", "said"),
    [
        (100, {"weight": 5e-324}, {}, "capacity: found work and capacities from 4.94066e-324 to 100; needed"),
        (1e-300, {"weight": 2.0**53}, {}, "found work and capacities from 1e-300 to 9.0072e"),
        (100, {"weight": 1, "lag": 5}, {"catch_up": 1e-300}, "catch_up: found 1e-300 s for a lag of 5 messages"),
        (100, {"lag": 2**63 - 1}, {"by": "lag", "catch_up": 5e-324}, "a time in which the lag is no more than 1e.100"),
    ],
)
def test_numbers_farther_apart_than_floats_can_tell_are_an_error_in_words(
    capacity: float, entry: dict[str, float], more: dict[str, Any], said: str
) -> None:
    raw = {"topics": {"t": [{"partition": 0, **entry}]}, "members": {"a": {"topics": ["t"]}}}
    with pytest.raises(BadInput, match=said):
        apportion.size(raw, capacity=capacity, **more)
    assert apportion.size(raw, capacity=100, by="partitions").advised.members == 1


def test_a_member_that_can_do_nothing_takes_no_place_from_one_that_comes() -> None:
    """a wants a topic without partitions; b has what nobody can take, so that the other partition needs a newcomer."""
    topics = {"t": [{"partition": 0, "weight": 0}, {"partition": 1, "weight": 3}], "u": 0}
    raw = {"topics": topics, "members": {"a": {"topics": ["u"]}, "b": {"topics": ["t"]}}}
    (plan,) = apportion.size(raw, capacity=2).frontier
    assert (plan.join, plan.leave) == (("new-1",), ("a",))
    assert plan.plan.assignment == {"b": {"t": [1]}, "new-1": {"t": [0]}}


@pytest.mark.parametrize("small", [{}, {"c": {"topics": ["t"]}}])
def test_what_nobody_can_take_leaves_the_largest_member_to_what_needs_it(small: dict[str, Any]) -> None:
    """Partition 0 is more than anybody takes, and 1 is more than all but a do: so 0 falls behind elsewhere."""
    topics = {"t": [{"partition": p, "weight": weight} for p, weight in enumerate((10, 4))]}
    raw = {"topics": topics, "members": {"a": {"topics": ["t"], "capacity": 2, "owned": {"t": [0]}}, **small}}
    plan = apportion.size(raw, capacity=2).advised
    other = "c" if small else "new-1"
    assert plan.plan.assignment == {"a": {"t": [1]}, other: {"t": [0]}}
    assert "t-0 (10) is more than any member takes" in apportion.size(raw, capacity=2).advice


def processes_at_random(rng: Random) -> tuple[dict[str, Any], list[int], list[int | None]]:
    """A group of two members a process, the partitions' weights, and the places of the members that have them."""
    count = rng.choice((2, 4))
    weights = [rng.choice((0, 1, 2, 3, 5)) for _ in range(rng.randint(1, 3))]
    owner = [rng.choice((None, *range(count), *range(count))) for _ in weights]
    members = {
        f"m{m}": {
            "topics": ["t"], "capacity": rng.choice((1, 1, 2)),
            "owned": {"t": [p for p, had in enumerate(owner) if had == m]}, "generation": 1,
        }
        for m in range(count)
    }  # fmt: skip
    topics = {"t": [{"partition": p, "weight": weight} for p, weight in enumerate(weights)]}
    return {"topics": topics, "members": members}, weights, owner


def test_processes_come_and_go_whole_and_no_plan_moves_less_than_all_of_them_can() -> None:
    """Against every sharing among the members of present processes and of three that come, two members each."""
    rng, compared = Random(5), 0
    for _ in range(150):
        raw, weights, owner = processes_at_random(rng)
        present = len(raw["members"])
        takes = [5 * fields["capacity"] for fields in raw["members"].values()] + [5] * 6
        least: dict[int, int] = {}
        for plan in product(range(len(takes)), repeat=len(weights)):
            loads = [sum(w for w, m in zip(weights, plan, strict=True) if m == n) for n in set(plan)]
            if all(load <= takes[m] for load, m in zip(loads, set(plan), strict=True)):
                moved = sum(w for w, m, had in zip(weights, plan, owner, strict=True) if had not in (None, m))
                members = 2 * len({m // 2 for m in plan})
                least[members] = min(moved, least.get(members, moved))
        sizing = apportion.size(raw, capacity=5, threads=2)
        assert sizing.bound <= min(least)
        for sized in sizing.frontier:
            stay = [m // 2 for m in range(present) if f"m{m}" not in sized.leave]
            assert all(stay.count(process) == 2 for process in stay), "a process is torn"
            assert len(sized.join) % 2 == 0
            best = min(moved for members, moved in least.items() if members <= sized.members)
            assert sized.moved_bound <= best <= sized.moved
            compared += 1
    assert compared > 150


def test_a_plan_made_anew_does_not_seat_one_process_on_members_of_two() -> None:
    """m3 alone can take partition 0; partition 1 was with m1, of the other process, which is to be closed."""
    topics = {"t": [{"partition": p, "weight": weight} for p, weight in enumerate((5, 3))]}
    members: dict[str, Any] = {f"m{m}": {"topics": ["t"]} for m in range(4)}
    members["m3"]["capacity"] = 2
    members["m1"]["owned"] = {"t": [1]}
    small = apportion.size({"topics": topics, "members": members}, capacity=3, threads=2, members=(2, 2)).advised
    assert (small.leave, small.moved) == (("m0", "m1"), 3)


def test_a_group_with_more_threads_than_partitions_may_stay_as_it_is() -> None:
    """Two processes of two members with a partition each: to close one moves a partition, to keep both moves none."""
    topics = {"t": [{"partition": p, "weight": 3} for p in range(2)]}
    members = {f"m{m}": {"topics": ["t"], "owned": {"t": [m // 2] if m % 2 == 0 else []}} for m in range(4)}
    sizing = apportion.size({"topics": topics, "members": members}, capacity=10, threads=2)
    assert [(plan.members, plan.moved, plan.leave) for plan in sizing.frontier] == [(4, 0, ()), (2, 3, ("m2", "m3"))]


@pytest.mark.parametrize(("members", "near"), [((5, 7), 4), ((1, 3), 4), ((9, 11), 8)])
def test_limits_that_no_number_of_whole_processes_keeps_are_said_to_be_such(
    members: tuple[int, int], near: int
) -> None:
    topics = {"t": [{"partition": p, "weight": 30} for p in range(12)]}
    raw = {"topics": topics, "members": {f"m{m}": {"topics": ["t"]} for m in range(4)}}
    with pytest.raises(BadInput, match=f"for processes of 4 members each; needed .* whole processes .* as {near}"):
        apportion.size(raw, capacity=1000, members=members, threads=4)
    assert apportion.size(raw, capacity=1000, members=(near, near), threads=4).advised.members == near
    with pytest.raises(BadInput, match=r"members: found 100001..100002; needed at most 100,000"):
        apportion.size(raw, capacity=1000, members=(100_001, 100_002))


def test_partitions_without_work_stay_where_they_are() -> None:
    """m0 and m2 have room; to close m1 or to call newcomers is no reason to move what brings no work."""
    rng, stayed = Random(3), 0
    for _ in range(60):
        weights = [rng.choice((0, 0, 3, 9, 20, 41)) for _ in range(rng.randint(3, 24))]
        raw = group(weights, [rng.randrange(3) for _ in weights], 3)
        for plan in apportion.size(raw, capacity=60).frontier:
            assignment = plan.plan.assignment
            idle = {
                name: [p for p in fields["owned"]["t"] if not weights[p]] for name, fields in raw["members"].items()
            }
            for name in {*idle} & {*assignment}:
                gone = {*idle[name]} - {*assignment[name].get("t", ())}
                alone = [held for held in assignment.values() if held.get("t") and {*held["t"]} <= gone]
                assert len(gone) <= len(alone) or not assignment[name], (weights, raw["members"], assignment)
                stayed += len(idle[name])
    assert stayed > 100


def test_work_that_those_who_join_do_not_want_is_named_where_no_number_of_them_helps() -> None:
    topics = {t: [{"partition": p, "weight": 30} for p in range(6)] for t in ("t", "u")}
    raw = {"topics": topics, "members": {"a": {"topics": ["t"]}, "b": {"topics": ["t", "u"]}}}
    words = "at most 12, which no plan that was found fits; needed larger members: the work is 360, and a "
    with pytest.raises(BadInput, match=f"{words}member takes 100; those that join do not want u"):
        apportion.size(raw, capacity=100, like="a")
    assert apportion.size(raw, capacity=200, like="a").advised is not None


@pytest.mark.slow
@pytest.mark.parametrize(("topics", "each", "capacity"), [(50, 2, 700), (2, 1, 600)])
def test_members_that_want_different_topics_are_sized_in_seconds(topics: int, each: int, capacity: int) -> None:
    """250 members and 2,500 partitions: the search for places that few may have once did not end in two minutes."""
    rng = Random(1)
    names = [f"t{t}" for t in range(topics)]
    described = {t: [{"partition": p, "weight": rng.randint(1, 100)} for p in range(2_500 // topics)] for t in names}
    members: dict[str, Any] = {
        f"m{m}": {"topics": sorted(rng.sample(names, each)), "owned": {}, "generation": 1} for m in range(250)
    }
    for t in names:
        wants = [m for m in members if t in members[m]["topics"]]
        for p in range(2_500 // topics):
            members[rng.choice(wants)]["owned"].setdefault(t, []).append(p)
    began = time.process_time()
    assert apportion.size({"topics": described, "members": members}, capacity).frontier
    assert time.process_time() - began < 25

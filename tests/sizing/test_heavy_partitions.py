"""Partitions that only the larger of the present members can take: what is in their way goes to newcomers."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from apportion.sizing.size import size


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_what_only_a_large_member_can_take_finds_its_place(threads: int) -> None:
    """Two others are in its way, one of which fills a newcomer: it was thrown to and fro, and no plan found."""
    weights = (8, 3, 13)
    owned = {"m0": {"topics": ["t"], "capacity": 2, "owned": {"t": [0, 1]}, "generation": 1}}
    entries = [{"partition": p, "weight": weight} for p, weight in enumerate(weights)]
    plan = size({"topics": {"t": entries}, "members": owned}, 8, threads=threads).frontier[-1]
    assert plan.members == 2 * threads
    assert 2 in plan.plan.assignment["m0"]["t"]
    assert plan.moved == 8


@pytest.mark.slow
def test_small_partitions_that_make_way_move_once() -> None:
    """To newcomers, where room is; not from one large member to the next, each of which they overfill."""
    moved, held = 0.0, 0
    for seed in range(40):
        draw = random.Random(seed)
        large = draw.randint(2, 5)
        small = [draw.randint(1, 60) for _ in range(draw.randint(20, 60))]
        weights = [*small, *(draw.randint(101, 190) for _ in range(draw.randint(1, large)))]
        members = {f"m{i}": {"topics": ["t"], "capacity": 2, "owned": {"t": []}, "generation": 1} for i in range(large)}
        for p in range(len(small)):
            members[draw.choice(list(members))]["owned"]["t"].append(p)  # type: ignore[index]
        entries = [{"partition": p, "weight": weight} for p, weight in enumerate(weights)]
        frontier = size({"topics": {"t": entries}, "members": members}, 100).frontier
        moved, held = moved + frontier[0].moved, held + sum(small)
        for plan in frontier:
            for member, of_topic in plan.plan.assignment.items():
                load = sum(weights[p] for p in of_topic.get("t", ()))
                assert load <= (200 if member in members else 100), (seed, member)
    assert moved / held < 0.75, "it was 0.82 where they were thrown on"


@pytest.mark.parametrize(
    ("case", "capacity", "by", "frontier"),
    [("size-441053", 25, "weight", [(3, 63), (2, 85)]), ("size-383286", 10, "lag", [(5, 21), (4, 22)])],
)
def test_the_least_that_moves_is_found_where_one_partition_is_more_than_any_member_takes(
    case: str, capacity: int, by: str, frontier: list[tuple[int, int]]
) -> None:
    """It stays where it is, and what is beside it goes: 138 for 63 and 27 for 21 where it was moved to the largest."""
    group = json.loads((Path(__file__).parents[1] / "cli" / "cases" / f"{case}.json").read_text())
    assert [(plan.members, plan.moved) for plan in size(group, capacity, by=by).frontier] == frontier


@pytest.mark.parametrize("owner", [(0, 1, 1, 2), (0, 0, 1, 2), (0, 1, 1, 1), (0, 0, 0, 0)])
def test_a_group_that_falls_behind_is_not_advised_to_shrink(owner: tuple[int, ...]) -> None:
    """One partition is more than any member takes: to take another member away helps nobody."""
    entries = [{"partition": p, "weight": weight} for p, weight in enumerate((173, 20, 20, 20))]
    members = {
        f"m{m}": {"topics": ["t"], "owned": {"t": [p for p in range(4) if owner[p] == m]}, "generation": 1}
        for m in range(3)
    }
    advised = size({"topics": {"t": entries}, "members": members}, 100)
    assert advised.advised is None or advised.advised.members >= 3
    assert "3 members, as now" in advised.advice
    assert "fewer than now" not in advised.advice
    assert size({"topics": {"t": entries}, "members": members}, 100, prefer="members").frontier[-1].members == 2

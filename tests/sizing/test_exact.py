"""The exact search against every plan there is: small packings with heavy partitions, unlike members and wishes."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from apportion.sizing.exact import least_moved_plan
from apportion.sizing.problem import SizingProblem


def drawn(draw: Random) -> SizingProblem:
    """A few partitions of one or two topics, some of which no member can take."""
    members, partitions, topics = draw.randint(1, 3), draw.randint(1, 5), draw.randint(1, 2)
    weights = draw.choice(((0, 1, 2, 3, 5, 9), (9, 9, 12), (0, 0, 9), (1, 1, 2)))
    wishes = [[draw.random() < 0.8 for _ in range(topics)] for _ in range(members)] + [[True] * topics]
    return SizingProblem(
        weight=[draw.choice(weights) for _ in range(partitions)],
        capacity=[draw.choice((4, 6, 6, 8)) for _ in range(members)],
        new_capacity=6,
        previous_owner=[draw.randint(-1, members - 1) for _ in range(partitions)],
        kind=[draw.randrange(topics) for _ in range(partitions)],
        eligible=wishes if topics > 1 else None,
    )


def by_trying(problem: SizingProblem, most: int) -> int | None:
    """The least weight that any plan on at most so many members moves; None where there is no plan."""
    partitions, least = range(len(problem.weight)), None
    for owner in product(range(problem.M + most), repeat=len(problem.weight)):
        if len(set(owner)) > most or not all(problem.may_own(p, m) for p, m in enumerate(owner)):
            continue
        held = {m: [p for p in partitions if owner[p] == m] for m in owner}
        heavy = {m for m in held if problem.oversize & set(held[m])}
        if any(len(held[m]) > 1 for m in heavy):
            continue  # what no member can take stands alone
        if any(sum(problem.weight[p] for p in held[m]) > problem.takes(m) for m in held.keys() - heavy):
            continue
        moved = sum(problem.weight[p] for p in partitions if problem.previous_owner[p] not in (-1, owner[p]))
        least = moved if least is None else min(least, moved)
    return least


@pytest.mark.parametrize("seed", range(60))
def test_the_search_moves_the_least_that_any_plan_does_and_finds_none_where_there_is_none(seed: int) -> None:
    problem = drawn(Random(seed))
    for most in (1, 2, 3):
        found, least = least_moved_plan(problem, most, None), by_trying(problem, most)
        assert found.finished
        assert (None if found.owner is None else found.moved) == least, (problem, most)
        if found.owner is not None and least is not None:
            known = (least, found.owner)
            assert least_moved_plan(problem, most, known).owner == found.owner, "nothing beats the best"

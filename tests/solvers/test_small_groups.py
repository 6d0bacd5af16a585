"""Groups whose members want the same come out the same on lists and on classes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from apportion.model.build import build
from apportion.solvers.goals import BALANCE, MOVES
from apportion.solvers.lexicographic import solve
from apportion.solvers.partition_classes import problem_of
from apportion.solvers.small_groups import plan_on_lists


def uniform_group(rng: random.Random, largest: int = 6, kinds: int = 1) -> dict[str, Any]:
    """Members that want the same; each claims some, of several generations, also what others claim or nobody wants.

    kinds
        What some members want no others do, up to so many times.
    """
    topics = {f"t{t}": rng.randint(0, largest) for t in range(4 * kinds)}
    raw: dict[str, Any] = {"topics": topics, "members": {}}
    wanted = rng.sample(sorted(topics), rng.randint(1, len(topics)))
    members = rng.randint(1, 7 * kinds)
    for m in range(members):
        topics_of = wanted[rng.randrange(kinds) :: kinds]
        raw["members"][f"m{m}"] = {"topics": topics_of, "owned": {}, "generation": rng.choice((3, 3, 3, 4))}
    for topic, size in topics.items():
        for p in range(size):
            for _ in range(rng.choice((0, 1, 1, 1, 1, 2))):
                owned = raw["members"][f"m{rng.randint(0, rng.randint(0, members - 1))}"]["owned"]
                if p not in owned.setdefault(topic, []):
                    owned[topic].append(p)
    return raw


def test_lists_and_classes_give_the_same_plan() -> None:
    rng, kept, given_up, order = random.Random(5), 0, 0, (BALANCE, MOVES)
    for turn in range(1500):
        group = build(uniform_group(rng, largest=40 if turn % 5 == 0 else 6))
        owner = plan_on_lists(group, None)
        assert np.array_equal(owner, solve(problem_of(group, order), order))
        kept += int((owner == group.owner)[group.owner >= 0].sum())
        given_up += int((owner != group.owner)[group.owner >= 0].sum())
    assert kept > 50
    assert given_up > 25

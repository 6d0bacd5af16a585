"""Sticky at sizes where a careless step would take minutes or gigabytes; how long it takes, ``make bench`` measures."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import apportion
from apportion.assignors import find
from apportion.model.build import build
from apportion.model.plan import Answer
from apportion.solvers import solve as solve_module

from . import sticky_judge as judge
from .sticky_groups import random_group
from .test_sticky import next_round, plan


def dealt(raw: dict[str, Any]) -> tuple[Answer, np.ndarray]:
    """The answer and the loads of one call from arrays."""
    group = build(raw)
    answer = find("sticky").assign(group)
    assert isinstance(answer, Answer)
    return answer, np.bincount(answer.owner, minlength=group.M)


def test_two_thousand_members_with_random_halves_of_five_hundred_topics() -> None:
    rng = random.Random(1)
    names = [f"t{i}" for i in range(500)]
    members = {f"m{i}": {"topics": rng.sample(names, 250)} for i in range(2000)}
    answer, loads = dealt({"topics": dict.fromkeys(names, 200), "members": members})
    assert set(loads.tolist()) == {50}
    assert dict(answer.proof) == {"balance": "optimal", "moves": "optimal"}


def test_a_million_partitions() -> None:
    names = [f"t{i}" for i in range(2000)]
    members = {f"m{i}": {"topics": names} for i in range(2000)}
    answer, loads = dealt({"topics": dict.fromkeys(names, 500), "members": members})
    assert set(loads.tolist()) == {500}
    assert answer.proof["moves"] == "optimal"


def test_a_hundred_members_with_three_of_twenty_topics_each_are_all_level() -> None:
    """Java leaves such groups at 9 to 11."""
    rng = random.Random(4)
    names = [f"t{i}" for i in range(20)]
    members = {f"m{i:02}": {"topics": rng.sample(names, 3)} for i in range(100)}
    _, loads = dealt({"topics": dict.fromkeys(names, 50), "members": members})
    assert set(loads.tolist()) == {10}


@pytest.mark.slow
def test_a_group_too_wide_for_one_table_gets_a_valid_even_plan() -> None:
    rng = random.Random(2)
    names = [f"t{i}" for i in range(6000)]
    members = {f"m{i}": {"topics": rng.sample(names, 60)} for i in range(3000)}
    raw = {"topics": dict.fromkeys(names, 3), "members": members}
    group = build(raw)
    assert len(group.subscriptions) * group.T > 10_000_000
    made = apportion.plan(group, "cooperative-sticky")
    assert made.measures["load_max"] - made.measures["load_min"] <= 2
    assert made.proof == {"balance": "heuristic", "moves": "heuristic"}
    assert made.explain()
    assert apportion.plan(next_round(raw, made)).target == made.target


@pytest.mark.slow
def test_what_the_wide_way_shows_is_true_on_small_groups_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solve_module, "CELLS", 0)
    again = 0
    for seed in range(600):
        raw = random_group(random.Random(seed), 4, 5, 6)
        made = plan(raw)
        owner = judge.owners(raw, made.target)
        shown = tuple(goal for goal, how in made.proof.items() if how == "optimal")
        assert not judge.better_exchange(raw, owner, shown), seed
        second = plan(next_round(raw, made))
        again += second.target != made.target
    assert again == 0

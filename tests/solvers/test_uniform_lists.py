"""Small groups of one mind come out the same without arrays as with them."""

from __future__ import annotations

import random

import numpy as np

from apportion.solvers.lexicographic import solve
from apportion.solvers.problem import Problem
from apportion.solvers.uniform_lists import uniform_plan


def test_lists_and_arrays_give_the_same_plan() -> None:
    rng = random.Random(5)
    for _ in range(1500):
        members, partitions = rng.randint(1, 7), rng.randint(0, 20)
        topic = np.sort(np.array([rng.randint(0, 3) for _ in range(partitions)], dtype=np.int64))
        number = np.arange(partitions) - np.searchsorted(topic, topic)
        row = np.where(topic == rng.randint(0, 9), -1, 0)
        skewed = [rng.randint(0, rng.randint(0, members - 1)) for _ in range(partitions)]
        claim = np.array([m if rng.random() < 0.7 else -1 for m in skewed], dtype=np.int64)
        claim[row < 0] = -1
        contested = (claim >= 0) | (np.array([rng.random() < 0.2 for _ in range(partitions)], dtype=np.bool_))
        column = np.zeros(members, dtype=np.int64)
        question = Problem(row, column, np.ones((1, 1), np.bool_), None, claim, contested, topic, number, column + 1)
        wanted, claimed = np.flatnonzero(row >= 0).tolist(), set(np.flatnonzero(contested).tolist())
        for order, claims in ((("balance", "moves"), claim.tolist()), (("balance",), None)):
            owner, proof = solve(question, order)
            lists = uniform_plan(members, wanted, claims, claimed, number.tolist())
            assert owner.tolist() == lists
            assert set(proof.values()) == {"optimal"}

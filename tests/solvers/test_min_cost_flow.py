"""The flow of OR-tools and our own table keep the same number of claims; prices settle for best plans alone."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from apportion.solvers import min_cost_flow
from apportion.solvers.cycle_canceling import min_cost
from apportion.solvers.dual_prices import prices, weights
from apportion.solvers.fair_loads import fair_loads
from apportion.solvers.max_flow import feasible_flow
from apportion.solvers.min_cost_flow import Claimed, fewest_misses, retained
from apportion.solvers.problem import Problem

needs_ortools = pytest.mark.skipif(min_cost_flow.solver() is None, reason="OR-tools is not installed")


def some(rng: random.Random) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A random table: supply (I,), eligible (I, J), column (M,), miss (I, J)."""
    rows, columns, members = rng.randint(1, 5), rng.randint(1, 4), rng.randint(4, 9)
    eligible = np.array([[rng.random() < 0.6 for _ in range(columns)] for _ in range(rows)], dtype=np.bool_)
    eligible[:, 0] = True
    column = np.array([*range(columns), *(rng.randrange(columns) for _ in range(members - columns))])
    miss = np.array([[rng.random() < 0.4 for _ in range(columns)] for _ in range(rows)], dtype=np.bool_)
    return np.array([rng.randint(0, 6) for _ in range(rows)]), eligible, column, miss


@needs_ortools
@pytest.mark.parametrize("racks", [False, True])
def test_both_ways_keep_as_many_claims(racks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(6)
    for _ in range(120):
        supply, eligible, column, miss = some(rng)
        size = np.bincount(column, minlength=eligible.shape[1])
        fair = fair_loads(supply, eligible, size, np.zeros_like(size))
        rows, members, counts = [], [], []
        for i, left in enumerate(supply.tolist()):
            for m in range(len(column)):
                take = rng.randint(0, left) if fair.eligible[i, column[m]] else 0
                left -= take
                if take:
                    rows, members, counts = [*rows, i], [*members, m], [*counts, take]
        claimed = Claimed(*(np.array(part, dtype=np.int64) for part in (rows, members, counts)))
        asked = (supply, claimed, fair.eligible, miss if racks else None, column, fair.low[column], fair.high[column])
        kept = []
        for tiny in (-1, 10**9):
            monkeypatch.setattr(min_cost_flow, "SMALL_TABLE_CELLS", tiny)
            found = retained(*asked)
            assert found is not None
            assert (found <= claimed.count).all()
            kept.append(int(found.sum()))
        assert kept[0] == kept[1]


@needs_ortools
def test_the_flow_finds_as_few_misses_as_exchanges_do() -> None:
    rng = random.Random(7)
    for _ in range(120):
        supply, eligible, column, miss = some(rng)
        size = np.bincount(column, minlength=eligible.shape[1])
        fair = fair_loads(supply, eligible, size, np.zeros_like(size))
        low, high = size * fair.low, size * fair.high
        start = feasible_flow(supply, low, high, fair.eligible)
        by_flow = fewest_misses(supply, low, high, fair.eligible, miss)
        assert start is not None
        assert by_flow is not None
        by_hand, _ = min_cost(start, miss, fair.eligible, low, high)
        assert (by_flow * miss).sum() == (by_hand * miss).sum()


def test_without_ortools_there_is_no_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(min_cost_flow, "solver", lambda: None)
    one = np.ones(1, dtype=np.int64)
    assert fewest_misses(one, one, one, np.ones((1, 1), np.bool_), np.zeros((1, 1), np.bool_)) is None


def test_a_plan_that_is_not_best_has_no_prices() -> None:
    row, column, number = np.zeros(4, dtype=np.int64), np.zeros(2, dtype=np.int64), np.arange(4)
    nobody, eligible, ones = np.full(4, -1), np.ones((1, 1), dtype=np.bool_), np.ones(2, dtype=np.int64)
    order = ("balance", "moves")
    problem = Problem(row, column, eligible, None, nobody, None, row, number, ones)
    assert prices(problem, np.array([0, 0, 0, 1]), order) is None
    assert prices(problem, np.array([0, 1, 0, 1]), order) is not None
    swapped = replace(problem, claim=np.array([1, 0, 1, 0]))
    assert prices(swapped, np.array([0, 1, 0, 1]), order) is None


def test_no_number_of_later_goals_outweighs_an_earlier_one() -> None:
    weight = weights(("balance", "racks", "moves"), 100, 7)
    assert weight["racks"] > 7 * weight["moves"]
    assert weight["balance"] > 7 * weight["racks"] + 7 * weight["moves"]

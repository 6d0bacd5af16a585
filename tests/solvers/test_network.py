"""Networks end at the least cost, by our own cycles and by OR-tools; prices settle for best plans alone."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest

from apportion.solvers import min_cost_flow, network
from apportion.solvers.dual_prices import prices
from apportion.solvers.goals import BALANCE, MOVES
from apportion.solvers.lexicographic import _fewest
from apportion.solvers.max_flow import feasible_flow
from apportion.solvers.problem import Problem


@pytest.mark.parametrize("own_arcs_max", [-1, 10**9])
def test_a_table_ends_with_the_fewest_misses_and_prices_show_it(
    own_arcs_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if own_arcs_max < 0 and min_cost_flow.solver() is None:
        pytest.skip("OR-tools is not installed")
    monkeypatch.setattr(network, "OWN_ARCS_MAX", own_arcs_max)
    monkeypatch.setattr(network, "OWN_SEARCHES", 1)
    rng = random.Random(8)
    tried = 0
    for _ in range(120):
        rows, columns = rng.randint(1, 3), rng.randint(1, 3)
        supply = np.array([rng.randint(0, 3) for _ in range(rows)])
        eligible = np.array([[rng.random() < 0.8 for _ in range(columns)] for _ in range(rows)], dtype=np.bool_)
        miss = np.array([[rng.random() < 0.5 for _ in range(columns)] for _ in range(rows)], dtype=np.bool_)
        low = np.array([rng.randint(0, 1) for _ in range(columns)])
        high = low + [rng.randint(0, 4) for _ in range(columns)]
        if feasible_flow(supply, low, high, eligible) is None:
            continue
        tried += 1
        flow, price = _fewest(supply, low, high, eligible, miss)
        assert (flow.sum(axis=1) == supply).all()
        held = flow.sum(axis=0)
        assert ((low <= held) & (held <= high)).all()
        assert int((flow * miss).sum()) == _by_trying(supply, miss, eligible, low, high)
        value = np.where(eligible, miss + price, 99)
        assert (value[flow > 0] == np.broadcast_to(value.min(axis=1)[:, None], value.shape)[flow > 0]).all()
        assert (price[held < high] <= 0).all()
        assert (price[held > low] >= 0).all()
    assert tried > 50


def test_no_more_goes_round_a_cycle_than_its_arcs_have_room_for() -> None:
    """Two arcs side by side: three units on the dear one, one on the cheap, which bears two."""
    two = np.array([0, 0])
    both = network.Network(2, two, two + 1, two, np.array([3, 2]), np.array([3, 1]))
    both.minimize(network.Cost(np.array([5, 0]), two))
    assert both.flow.tolist() == [2, 2]


@pytest.mark.parametrize("price", [2**55, 2**70])
def test_prices_that_differ_by_one_are_told_apart_however_large(price: int) -> None:
    """Beyond what a float tells apart, and beyond 64 bits: first units, and the slopes of further ones."""
    nothing, wide = np.zeros(2, dtype=np.int64), np.array([price + 1, price], dtype=object)
    wide = wide.astype(np.int64) if price < 2**62 else wide
    for cost, before, after, bounds in (
        (network.Cost(wide, nothing), [1, 0], [0, 1], ([0, 0], [0, 2])),
        (network.Cost(nothing, wide), [2, 1], [1, 2], ([1, 1], [1, 2])),
    ):
        both = network.Network(2, nothing, nothing + 1, nothing, np.array([2, 2]), np.array(before))
        potential = both.minimize(cost)
        assert both.flow.tolist() == after
        assert int(potential[1] - potential[0]) == price
        both.narrow(cost, potential)
        assert (both.low.tolist(), both.high.tolist()) == bounds


def _by_trying(supply: np.ndarray, miss: np.ndarray, eligible: np.ndarray, low: np.ndarray, high: np.ndarray) -> int:
    units = [i for i, count in enumerate(supply.tolist()) for _ in range(count)]
    best = 10**9
    for plan in itertools.product(*[np.flatnonzero(eligible[i]).tolist() for i in units]):
        held = np.bincount(np.array(plan, dtype=np.int64), minlength=len(low))
        if ((low <= held) & (held <= high)).all():
            best = min(best, sum(int(miss[i, j]) for i, j in zip(units, plan, strict=True)))
    return best


def test_a_plan_that_is_not_best_has_no_prices() -> None:
    row, column, number = np.zeros(4, dtype=np.int64), np.zeros(2, dtype=np.int64), np.arange(4)
    nobody, eligible, ones = np.full(4, -1), np.ones((1, 1), dtype=np.bool_), np.ones(2, dtype=np.int64)
    order = (BALANCE, MOVES)
    problem = Problem(row, column, eligible, None, nobody, None, nobody, row, number, ones)
    assert prices(problem, np.array([0, 0, 0, 1]), order) is None
    assert prices(problem, np.array([0, 1, 0, 1]), order) is not None
    swapped = replace(problem, claim=np.array([1, 0, 1, 0]))
    assert prices(swapped, np.array([0, 1, 0, 1]), order) is None

"""Fewest misses, prices that show it, and laps that feasible_flow what is left."""

from __future__ import annotations

import itertools
import random

import numpy as np

from apportion.solvers.cycle_canceling import local_only, min_cost, misses
from apportion.solvers.dealing import deal, interleave, laps
from apportion.solvers.max_flow import feasible_flow
from apportion.solvers.retention import capped, first_ones


def test_only_known_racks_can_be_missed() -> None:
    near = np.array([[True], [False]])
    found = misses(near, np.array([0, 1, -1]), np.array([0, -1]))
    assert found.tolist() == [[False, True, False], [False, False, False]]


def test_a_row_that_nobody_is_near_stays_open_to_all() -> None:
    eligible, miss = np.ones((2, 2), np.bool_), np.array([[True, False], [True, True]])
    assert local_only(eligible, miss).tolist() == [[False, True], [True, True]]


def test_exchanges_end_at_the_least_cost_and_prices_show_it() -> None:
    rng = random.Random(8)
    for _ in range(120):
        rows, columns = rng.randint(1, 3), rng.randint(1, 3)
        supply = np.array([rng.randint(0, 3) for _ in range(rows)])
        eligible = np.array([[rng.random() < 0.8 for _ in range(columns)] for _ in range(rows)], dtype=np.bool_)
        cost = np.array([[rng.randint(0, 3) for _ in range(columns)] for _ in range(rows)])
        low = np.array([rng.randint(0, 1) for _ in range(columns)])
        high = low + [rng.randint(0, 4) for _ in range(columns)]
        start = feasible_flow(supply, low, high, eligible)
        if start is None:
            continue
        flow, price = min_cost(start, cost, eligible, low, high)
        assert (flow.sum(axis=1) == supply).all()
        held = flow.sum(axis=0)
        assert ((low <= held) & (held <= high)).all()
        assert int((flow * cost).sum()) == _by_trying(supply, cost, eligible, low, high)
        value = np.where(eligible, cost + price, 99)
        assert (value[flow > 0] == np.broadcast_to(value.min(axis=1)[:, None], value.shape)[flow > 0]).all()
        assert (price[held < high] <= 0).all()
        assert (price[held > low] >= 0).all()


def _by_trying(supply: np.ndarray, cost: np.ndarray, eligible: np.ndarray, low: np.ndarray, high: np.ndarray) -> int:
    units = [i for i, count in enumerate(supply.tolist()) for _ in range(count)]
    best = 10**9
    for plan in itertools.product(*[np.flatnonzero(eligible[i]).tolist() for i in units]):
        held = np.bincount(np.array(plan, dtype=np.int64), minlength=len(low))
        if ((low <= held) & (held <= high)).all():
            best = min(best, sum(int(cost[i, j]) for i, j in zip(units, plan, strict=True)))
    return best


def test_who_holds_least_is_served_first() -> None:
    need, load, column = np.array([2, 1, 0]), np.array([3, 2, 0]), np.zeros(3, dtype=np.int64)
    assert laps(need, column, load).tolist() == [1, 0, 0]


def test_a_row_that_goes_to_two_columns_is_dealt_to_both_in_turn() -> None:
    assert interleave(np.array([3, 3])).tolist() == [0, 1, 0, 1, 0, 1]
    row, none = np.zeros(4, dtype=np.int64), np.zeros(3, dtype=np.int64)
    owner = deal(row, np.array([[2, 2]]), np.array([1, 1, 2]), np.array([0, 0, 1]), none)
    assert owner.tolist() == [0, 2, 1, 2]


def test_a_member_keeps_its_share_and_the_first_of_those_with_more_one_more() -> None:
    own, low, high = np.array([1, 5, 5, 5]), np.full(4, 2), np.full(4, 3)
    cap = capped(own, low, high, np.zeros(4, dtype=np.int64), np.array([2]), np.array([0, 9, 0, 0]))
    assert cap.tolist() == [1, 2, 3, 3], "member 1 holds what others could use, so it keeps no more than its share"


def test_the_first_in_order_stay() -> None:
    kind, number = np.array([0, 0, 0, 1]), np.array([2, 0, 1, 5])
    assert first_ones(kind, np.array([2, 1]), (number,)).tolist() == [False, True, True, True]

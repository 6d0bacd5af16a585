"""How many partitions each member should get, by fair_loads; and the tables behind them."""

from __future__ import annotations

import heapq
import itertools
import math
import random

import numpy as np
import pytest

from apportion.solvers.fair_loads import cheapest_units, fair_loads, water_level
from apportion.solvers.max_flow import Transport, feasible_flow


def table(rows: list[str]) -> np.ndarray:
    """Cells from drawings: ``"x."`` is a row that the first column may take."""
    return np.array([[cell == "x" for cell in row] for row in rows], dtype=np.bool_)


def least_squares(supply: list[int], eligible: np.ndarray, size: list[int], base: list[int]) -> int:
    """The least sum of squares over members, by trying every plan."""
    who = [
        [m for m, j in enumerate(np.repeat(np.arange(len(size)), size)) if eligible[i, j]] for i in range(len(supply))
    ]
    units = [i for i, count in enumerate(supply) for _ in range(count)]
    start = np.repeat(base, size)
    return min(
        int(((start + np.bincount(plan, minlength=len(start))) ** 2).sum())
        for plan in itertools.product(*[who[i] for i in units])
    )


def test_nested_subscriptions_fall_into_levels() -> None:
    """Nine partitions only the first column wants, one that both want: 9 and 1, not 5 and 5."""
    found = fair_loads(np.array([9, 1]), table(["x.", "xx"]), np.array([1, 1]), np.array([0, 0]))
    assert found.low.tolist() == found.high.tolist() == [9, 1]
    assert found.eligible.tolist() == [[True, False], [False, True]]


def test_where_all_can_be_level_nothing_is_cut_off() -> None:
    found = fair_loads(np.array([4, 5]), table(["x.", "xx"]), np.array([2, 3]), np.array([0, 0]))
    assert (found.low.tolist(), found.high.tolist()) == ([1, 1], [2, 2])
    assert found.eligible.tolist() == [[True, False], [True, True]]


def test_pieces_that_share_nothing_are_shared_apart() -> None:
    found = fair_loads(np.array([4, 6]), table(["x.", ".x"]), np.array([2, 4]), np.array([0, 0]))
    assert (found.low.tolist(), found.high.tolist()) == ([2, 1], [2, 2])
    assert found.part[0] != found.part[1]


def test_a_column_that_wants_nothing_gets_nothing() -> None:
    found = fair_loads(np.array([3]), table(["x."]), np.array([2, 5]), np.array([0, 0]))
    assert found.high.tolist() == [2, 0]


def test_the_levels_are_those_of_a_fairest_plan() -> None:
    rng = random.Random(3)
    for _ in range(150):
        rows, columns = rng.randint(1, 3), rng.randint(1, 3)
        eligible = np.array([[rng.random() < 0.6 for _ in range(columns)] for _ in range(rows)], dtype=np.bool_)
        eligible[:, rng.randrange(columns)] = True
        supply = [rng.randint(0, 2) for _ in range(rows)]
        size, base = [rng.randint(1, 2) for _ in range(columns)], [rng.randint(0, 2) for _ in range(columns)]
        found = fair_loads(np.array(supply), eligible, np.array(size), np.array(base))
        flow = feasible_flow(np.array(supply), found.low * size, found.high * size, found.eligible)
        assert flow is not None
        squares = 0
        for j, got in enumerate(flow.sum(axis=0).tolist()):
            more = got - int(found.low[j]) * size[j]
            squares += more * (base[j] + int(found.low[j]) + 1) ** 2
            squares += (size[j] - more) * (base[j] + int(found.low[j])) ** 2
        assert squares == least_squares(supply, eligible, size, base)


@pytest.mark.parametrize(
    ("total", "base", "level"), [(0, [3, 1], 1), (2, [3, 1], 3), (3, [3, 1], 3), (4, [3, 1], 4), (7, [0, 0], 3)]
)
def test_water_finds_its_level(total: int, base: list[int], level: int) -> None:
    assert water_level(total, np.ones(2, dtype=np.int64), np.array(base)) == level


def test_a_full_column_passes_on_what_fits_elsewhere() -> None:
    filling = Transport(np.array([2, 2]), table(["xx", "x."]))
    assert filling.fill(np.array([2, 2]))
    assert np.array_equal(filling.flow, [[0, 2], [2, 0]])


def test_where_nothing_fits_the_cut_names_the_full_columns() -> None:
    filling = Transport(np.array([3, 1]), table(["x.", "xx"]))
    assert not filling.fill(np.array([2, 2]))
    assert filling.columns.tolist() == [True, False]
    assert filling.rows.tolist() == [True, False]


def test_bounds_that_cannot_be_met_are_told() -> None:
    assert feasible_flow(np.array([2]), np.array([0, 1]), np.array([2, 2]), table(["x."])) is None
    assert feasible_flow(np.array([5]), np.array([0]), np.array([4]), table(["x"])) is None


def test_units_are_given_up_only_where_a_path_needs_their_place() -> None:
    before, loads = np.array([[1, 0], [1, 0]]), np.array([2, 1])
    placed = feasible_flow(np.array([1, 2]), loads, loads, table(["xx", "x."]), placed=before)
    assert placed is not None
    assert np.minimum(before, placed).tolist() == [[0, 0], [1, 0]]
    assert placed.tolist() == [[0, 1], [2, 0]]


@pytest.mark.parametrize("seed", range(300))
def test_units_are_dealt_cheapest_first_whatever_the_capacities(seed: int) -> None:
    """Against a queue of next prices: who has the dearest unit that was dealt may as well not have it."""
    rng = random.Random(seed)
    columns = rng.choice([1, 2, 5, 40])
    size = np.array([rng.choice([1, 1, 3]) for _ in range(columns)])
    base = np.array([rng.choice([0, 0, 1, 9]) for _ in range(columns)])
    capacity = [rng.choice([1, 2, 3, 7, rng.randint(1, 1_000_000)]) for _ in range(columns)]
    together = math.lcm(*capacity)
    unit = np.array([together // one for one in capacity], dtype=np.int64 if together < 2**40 else object)
    total = rng.choice([0, 1, 5, 200])
    queue = [(int(unit[j]) * (2 * int(base[j]) + 1), j) for j in range(columns) for _ in range(size[j])]
    heapq.heapify(queue)
    price = -1
    levels = set()
    for _ in range(total):
        price, j = heapq.heappop(queue)
        levels.add((price, j))
        heapq.heappush(queue, (price + 2 * int(unit[j]), j))
    most = np.array([sum(1 for (_, at) in levels if at == j) for j in range(columns)])
    dearest = np.array([int((price, j) in levels) for j in range(columns)])
    least, at_most = cheapest_units(total, size, base, unit)
    assert least.tolist() == (most - dearest).tolist()
    tied = [int(int(unit[j]) * (2 * int(base[j] + least[j]) + 1) == price) for j in range(columns)]
    assert (at_most - least).tolist() == (tied if total else [0] * columns)

"""The cheapest flow on a table of rows and columns: exchanges that save something, until none does.

The problem: with row sums given and column sums between bounds, make a linear cost (misses of the rack) least. A
flow is cheapest exactly if no cycle of exchanges saves anything (Klein 1967); Bellman and Ford find such a cycle or
distances, and those are the columns' prices that show that there is none. It is ``network`` on a dense table, for
few rows and columns. Here too: which cells miss a rack.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from apportion.arrays import UNKNOWN, Bools, Ints

INFINITE_COST: Final = np.int64(1) << 40
"""Farther than any path."""


def misses(near: Bools, rack: Ints, racks: Ints) -> Bools:
    """(I, J) whether a member in ``rack`` (J,) has no replica of partitions with set ``racks`` (I,) beside it.

    near
        (R, S) whether rack r is in set s. Where either is unknown (-1), nothing is missed.
    """
    far: Bools = ~near[rack, racks[:, None]] & (rack != UNKNOWN) & (racks != UNKNOWN)[:, None]
    return far


def local_only(eligible: Bools, miss: Bools) -> Bools:
    """(I, J) eligible cells without a miss; rows that have none keep all of theirs."""
    local: Bools = eligible & ~miss
    some: Bools = np.any(local, axis=1, keepdims=True)
    return np.where(some, local, eligible)


def min_cost(flow: Ints, cost: Bools | Ints, eligible: Bools, low: Ints, high: Ints) -> tuple[Ints, Ints]:
    """A flow of least cost (misses, say) with the same row sums, and the columns' prices, (I, J) and (J,).

    low, high
        (J,) bounds of the columns' sums, which ``flow`` keeps.

    While some exchange saves something (a negative cycle, found by Bellman and Ford) it is made. When none does, the
    distances are prices: every unit stands in a column where cost + price is least, and a column that could have more
    has no price above 0, one that could have less none below 0.
    """
    flow = flow.copy()
    price = cost.astype(np.int64)
    while True:
        cycle, prices = _negative_cycle(flow, price, eligible, low, high)
        if not cycle:
            return flow, prices
        _push_along(flow, cycle, low, high)


def _negative_cycle(
    flow: Ints, cost: Ints, eligible: Bools, low: Ints, high: Ints
) -> tuple[list[tuple[int, int, int]], Ints]:
    """An exchange that saves misses, as steps (column, row, next column), or none and the prices.

    A step with row -1 lets the first column have one more and the next one less.
    """
    held = flow.sum(axis=0)
    more, less = held < high, held > low
    distance = np.zeros(len(held), dtype=np.int64)
    hub = 0
    rows = np.full(len(flow), INFINITE_COST)
    row_from = np.zeros(len(flow), dtype=np.int64)
    column_from = np.full(len(held), -2)
    hub_from = -1
    giving = flow > 0
    while True:
        from_rows = np.where(giving, distance - cost, INFINITE_COST)
        best_row = from_rows.min(axis=1)
        # A step is remembered only where it is shorter than before: then steps in a circle always save something.
        row_from = np.where(best_row < rows, from_rows.argmin(axis=1), row_from)
        rows = best_row
        into = np.where(eligible & (rows < INFINITE_COST)[:, None], rows[:, None] + cost, INFINITE_COST)
        best = into.min(axis=0)
        spare = np.where(more, distance, INFINITE_COST)
        if len(spare) and spare.min() < hub:
            hub, hub_from = int(spare.min()), int(spare.argmin())
        through_hub = less & (hub < best)
        best = np.where(through_hub, hub, best)
        nearer = best < distance
        if not nearer.any():
            return [], hub - distance
        distance = np.where(nearer, best, distance)
        column_from = np.where(nearer, np.where(through_hub, -1, into.argmin(axis=0)), column_from)
        cycle = _extract_cycle(int(distance.argmin()), column_from.tolist(), row_from.tolist(), hub_from)
        if cycle:
            return cycle, distance


def _extract_cycle(end: int, column_from: list[int], row_from: list[int], hub_from: int) -> list[tuple[int, int, int]]:
    """The cycle among the steps that lead to column ``end``; none if they begin somewhere."""
    steps: list[tuple[int, int, int]] = []
    at: dict[int, int] = {}
    j = end
    while j not in at:
        at[j] = len(steps)
        i = column_from[j]
        before = hub_from if i == -1 else row_from[i] if i >= 0 else -1
        if before < 0:
            return []
        steps.append((before, i, j))
        j = before
    return steps[at[j] :][::-1]


def _push_along(flow: Ints, cycle: list[tuple[int, int, int]], low: Ints, high: Ints) -> None:
    """Make the exchange as often as it goes."""
    held = flow.sum(axis=0)
    amounts = [int(flow[i, j]) if i >= 0 else int(min(high[j] - held[j], held[h] - low[h])) for j, i, h in cycle]
    amount = max(min(amounts), 1)
    for j, i, h in cycle:
        if i >= 0:
            flow[i, j] -= amount
            flow[i, h] += amount

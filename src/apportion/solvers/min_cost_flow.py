"""Min-cost flows by OR-tools, for large tables, for claims that the simple bound cannot settle, and for tasks.

The problem: a cheapest flow on a network with bounds, one linear cost. OR-tools' cost scaling (Goldberg and Tarjan)
takes over where tables of our own would be slow; where it is not installed small ones are solved by cycle cancelling
and large ones are left, and nothing is claimed to be shown. A weight keeps moves before misses or the other way: one
exchange passes a row once, so it changes the later goal by 2 a row at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from apportion.arrays import Bools, Ints, distinct
from apportion.solvers.cycle_canceling import min_cost
from apportion.solvers.max_flow import feasible_flow

SMALL_TABLE_CELLS = 2_000
"""Up to so many cells (kinds of claims x members) a table of our own is faster than a call of OR-tools."""
TABLE_CELLS_MAX = 300_000
"""Up to so many cells our own table does without OR-tools in a second or two."""


DENSE_CELLS_MAX = 50_000
"""From so many cells (rows x columns) on the fewest misses are left to OR-tools."""


@cache
def solver() -> Any:
    """OR-tools' class for min-cost flows; None where it is not installed. Imported when first needed: it is slow."""
    try:
        from ortools.graph.python.min_cost_flow import SimpleMinCostFlow
    except ImportError:
        return None
    return SimpleMinCostFlow


def solve_flow(tail: Ints, head: Ints, capacity: Ints, cost: Ints, supply: Ints) -> tuple[str, Ints]:
    """What OR-tools says of the cheapest flow (``OPTIMAL``, ``INFEASIBLE``, ...), and each arc's flow (A,), if optimal.

    supply
        (nodes,) what leaves each node, negative where it arrives; together nothing. OR-tools must be there.
    """
    flow = solver()()
    arcs = flow.add_arcs_with_capacity_and_unit_cost(tail, head, capacity, cost)
    flow.set_nodes_supplies(np.arange(len(supply)), supply)
    status = flow.solve()
    if status != flow.OPTIMAL:
        return str(status.name), np.zeros(0, dtype=np.int64)
    return "OPTIMAL", np.asarray(flow.flows(arcs))


def _sure_flow(tail: Ints, head: Ints, capacity: Ints, cost: Ints, supply: Ints) -> Ints:
    """The cheapest flow (A,) where there must be one."""
    status, flows = solve_flow(tail, head, capacity, cost, supply)
    if status != "OPTIMAL":
        raise ArithmeticError(f"the flow of {len(tail)} arcs ended with status {status}; please report this group")
    return flows


def fewest_misses(supply: Ints, low: Ints, high: Ints, eligible: Bools, miss: Bools) -> Ints | None:
    """Amounts (I, J) with column sums from ``low`` to ``high`` (J,) and fewest misses; None without OR-tools."""
    if solver() is None:
        return None
    rows, columns = eligible.shape
    i, j = np.nonzero(eligible & (supply > 0)[:, None])
    node = rows + np.arange(columns)
    needs = np.concatenate([supply, -low, [int(low.sum()) - int(supply.sum())]])
    flows = _sure_flow(
        np.concatenate([i, node]),
        np.concatenate([rows + j, np.full(columns, rows + columns)]),
        np.concatenate([supply[i], high - low]),
        np.concatenate([miss[i, j], np.zeros(columns)]).astype(np.int64),
        needs,
    )
    table = np.zeros(eligible.shape, dtype=np.int64)
    table[i, j] = flows[: len(i)]
    return table


@dataclass(frozen=True, eq=False)
class Claimed:
    """Like claims counted: of row ``row`` member ``member`` claims ``count`` partitions, all (X,)."""

    row: Ints
    member: Ints
    count: Ints


def retained(
    supply: Ints, claimed: Claimed, eligible: Bools, miss: Bools | None, column: Ints, low: Ints, high: Ints
) -> Ints | None:
    """(X,) how many of each kind of claim stay in a plan that keeps most; None for a large group without OR-tools.

    supply, eligible, miss
        (I,) partitions of each row; (I, J) cells allowed; (I, J) misses, which count after claims, if given.
    column, low, high
        (M,) of each member its column and the bounds of its load.

    Rows send units straight to a member that claims them, for nothing, or through the member's column, for the price
    of a move. Members who claim nothing are taken together in their column.
    """
    cells = (len(claimed.row) + len(supply)) * len(column)
    if cells <= SMALL_TABLE_CELLS:
        return _kept_by_table(supply, claimed, eligible, miss, column, low, high)
    if solver() is None:
        return _kept_by_table(supply, claimed, eligible, miss, column, low, high) if cells <= TABLE_CELLS_MAX else None
    network = _Network(supply, claimed, eligible, miss, column, low, high)
    flows = _sure_flow(network.tail, network.head, network.capacity, network.cost, network.supply)
    return flows[: len(claimed.row)]


def _kept_by_table(
    supply: Ints, claimed: Claimed, eligible: Bools, miss: Bools | None, column: Ints, low: Ints, high: Ints
) -> Ints:
    """The same by exchanges in a table: kinds of claims, then the unclaimed of each row, by members."""
    kinds = np.arange(len(claimed.row))
    row = np.concatenate([claimed.row, np.arange(len(supply))])
    free = supply - np.bincount(claimed.row, claimed.count, len(supply)).astype(np.int64)
    allowed = eligible[:, column][row]
    home = np.zeros(allowed.shape, dtype=np.bool_)
    home[kinds, claimed.member] = True
    cost = np.ones(allowed.shape, dtype=np.int64) if miss is None else miss[:, column][row] + (2 * len(row) + 1)
    cost[home] -= 1 if miss is None else 2 * len(row) + 1
    cost[len(kinds) :] -= 1 if miss is None else 2 * len(row) + 1
    flow = feasible_flow(np.concatenate([claimed.count, free]), low, high, allowed, home)
    if flow is None:
        raise ArithmeticError("no plan fits the bounds that were shown to hold; please report this group")
    flow, _ = min_cost(flow, cost, allowed, low, high)
    return flow[kinds, claimed.member]


class _Network:
    """The arcs of the flow: claims first, then eligible cells, columns to members, members to the sink."""

    def __init__(
        self, supply: Ints, claimed: Claimed, eligible: Bools, miss: Bools | None, column: Ints, low: Ints, high: Ints
    ) -> None:
        rows, columns = eligible.shape
        people = distinct(claimed.member)
        sink = rows + columns + len(people)
        node = rows + columns + np.searchsorted(people, claimed.member)
        i, j = np.nonzero(eligible & (supply > 0)[:, None])
        # One exchange passes a row at most once, and so changes the misses by 2 a row at most.
        move = 1 if miss is None else 2 * rows + 1
        near = np.zeros(eligible.shape, dtype=np.int64) if miss is None else miss.astype(np.int64)
        alone = np.ones(len(column), dtype=np.bool_)
        alone[people] = False
        column_low = np.bincount(column[alone], low[alone], columns).astype(np.int64)
        column_spare = np.bincount(column[alone], (high - low)[alone], columns).astype(np.int64)
        spare = (high - low)[people]
        members = rows + columns + np.arange(len(people))
        total = int(supply.sum())
        self.tail = np.concatenate([claimed.row, i, rows + column[people], members, rows + np.arange(columns)])
        self.head = np.concatenate([node, rows + j, members, np.full(len(people) + columns, sink)])
        self.capacity = np.concatenate([claimed.count, np.full(len(i), total), high[people], spare, column_spare])
        free = np.zeros(2 * len(people) + columns, dtype=np.int64)
        self.cost = np.concatenate([near[claimed.row, column[claimed.member]], move + near[i, j], free])
        taken = np.array([int(low.sum()) - total])
        self.supply = np.concatenate([supply, -column_low, -low[people], taken])

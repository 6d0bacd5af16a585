"""OR-tools' min-cost flow with plain prices: for large networks, and for tasks.

The problem: send what some nodes supply to others through arcs with a capacity and a price a unit, as cheaply as can
be. OR-tools' cost scaling (Goldberg and Tarjan, "Finding minimum-cost circulations by successive approximation", 1990)
takes over where ``network`` would be slow; it is not required. It gives a flow and no potentials: whoever wants it
shown finds those from the flow, by one search.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from apportion.arrays import Ints


@cache
def solver() -> Any:
    """OR-tools' class for min-cost flows; None if it is not installed. Imported when first needed: it is slow."""
    try:
        from ortools.graph.python.min_cost_flow import SimpleMinCostFlow
    except ImportError:
        return None
    return SimpleMinCostFlow


def solve_flow(tail: Ints, head: Ints, capacity: Ints, cost: Ints, supply: Ints) -> tuple[str, Ints]:
    """OR-tools' status of the cheapest flow (``OPTIMAL``, ``INFEASIBLE``, ...), and each arc's flow (A,), if optimal.

    supply
        (nodes,) what leaves each node, negative where it arrives; together nothing. OR-tools must be there.

    >>> tail, head, cost = np.array([0, 0]), np.array([1, 1]), np.array([5, 2])
    >>> status, flow = solve_flow(tail, head, np.array([3, 3]), cost, np.array([4, -4]))
    >>> status, flow.tolist()
    ('OPTIMAL', [1, 3])
    """
    flow = solver()()
    arcs = flow.add_arcs_with_capacity_and_unit_cost(tail, head, capacity, cost)
    flow.set_nodes_supplies(np.arange(len(supply)), supply)
    status = flow.solve()
    if status != flow.OPTIMAL:
        return str(status.name), np.zeros(0, dtype=np.int64)
    return "OPTIMAL", np.asarray(flow.flows(arcs))

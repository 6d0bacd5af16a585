"""Partitions without an owner handed out, and nothing else moved: the second half of a cooperative hand-over.

A cooperative plan of lag needs two rounds, and the second must give what the first meant, though it sees no more than
what stays. So the target of the first is made from what stays, by the function below: whatever else was planned, the
partitions that change hands go heaviest first to the member that ends with the least lag per capacity, as far as counts
allow. The second round then calls it with the same input. Longest processing time first is at most a third above the
best (Graham 1969); the price is that a plan of the first round may get worse by being completed so.
"""

from __future__ import annotations

import numpy as np

from apportion.arrays import NOBODY, Floats, Ints, Longs
from apportion.solvers.fair_loads import fair_loads
from apportion.solvers.goals import BALANCE, MOVES
from apportion.solvers.lexicographic import solve
from apportion.solvers.makespan import Sharing
from apportion.solvers.max_flow import feasible_flow
from apportion.solvers.number_partitioning import heaviest_first
from apportion.solvers.problem import Problem, units


def complete(sharing: Sharing, capacity: Ints) -> Ints | None:
    """(P,) all members keep theirs, and partitions without an owner are dealt; None if counts do not allow it.

    capacity
        (M,) of the members; counts follow it. ``max_skew`` counts where every member may own everything.

    >>> from apportion.solvers.makespan import Sharing
    >>> every = np.ones((1, 2), dtype=np.bool_)
    >>> sharing = Sharing(np.array([9, 5, 4, 1]), np.array([0, -1, -1, -1]), np.zeros(4, dtype=np.int64), every)
    >>> complete(sharing, np.array([1, 1]))
    array([0, 1, 1, 0])
    """
    past, kind = sharing.past, sharing.kind
    retained = past != NOBODY
    had = np.zeros(sharing.may.shape, dtype=np.int64)
    np.add.at(had, (kind[retained], past[retained]), 1)
    window = _window(sharing, had[0], capacity) if sharing.equal and sharing.max_skew else None
    low, high = (_table(sharing, capacity),) * 2 if window is None else window
    free = int(np.count_nonzero(~retained))
    if (had > high).any() or int(np.maximum(low - had, 0).sum()) > free:
        return None
    return _deal(sharing, low - had, high - had, capacity)


def fair_window(sharing: Sharing, capacity: Ints) -> tuple[Ints, Ints]:
    """(M,) the least and most that each member may hold: ``max_skew`` from the fair count for its capacity.

    >>> from apportion.solvers.makespan import Sharing
    >>> every = np.ones((1, 2), dtype=np.bool_)
    >>> sharing = Sharing(np.array([9, 5, 4, 1]), np.array([0, -1, -1, -1]), np.zeros(4, dtype=np.int64), every)
    >>> fair_window(sharing, np.array([1, 3]))
    (array([1, 3]), array([1, 3]))
    """
    supply, each = np.array([len(sharing.lag)]), np.ones(sharing.members, dtype=np.int64)
    fair = fair_loads(supply, sharing.may, each, each - 1, units(capacity))
    table = feasible_flow(supply, fair.low, fair.high, fair.eligible)
    if table is None:
        raise ArithmeticError("no plan fits the loads that were shown to be fair; please report this group")
    return np.maximum(table[0] - sharing.max_skew, 0), table[0] + sharing.max_skew


def _window(sharing: Sharing, had: Ints, capacity: Ints) -> tuple[Ints, Ints]:
    """(1, M) both: as ``fair_window``, or for equal members counts at most ``1 + max_skew`` apart."""
    if (capacity != capacity[0]).any():
        low, high = fair_window(sharing, capacity)
        return low[None, :], high[None, :]
    even = len(sharing.lag) // sharing.members
    most = max(even + 1, min(int(had.max()), even + 1 + sharing.max_skew))
    every = np.ones((1, sharing.members), dtype=np.int64)
    return every * max(most - 1 - sharing.max_skew, 0), every * most


def _table(sharing: Sharing, capacity: Ints) -> Ints:
    """(C, M) how many partitions of each kind each member holds in a fair plan that moves fewest."""
    kind, may = sharing.kind, sharing.may
    column, nobody = np.arange(sharing.members), np.full_like(kind, NOBODY)
    problem = Problem(kind, column, may, None, sharing.past, None, nobody, kind, np.arange(len(kind)), capacity)
    owner = solve(problem, (BALANCE, MOVES))
    return np.bincount(kind * may.shape[1] + owner, minlength=may.size).reshape(may.shape)


def _deal(sharing: Sharing, must: Ints, room: Ints, capacity: Ints) -> Ints:
    """(P,) heaviest first to who ends with the least lag per capacity; at last to those that must have more.

    must, room
        (C, M) how many more of each kind each member must and may get.
    """
    owner, room, must = sharing.past.copy(), room.copy(), np.maximum(must, 0)
    held = _held(sharing.lag, owner, sharing.members)
    free = np.flatnonzero(owner == NOBODY)
    short = must.sum(axis=1)
    undealt = np.bincount(sharing.kind[free], minlength=len(room))
    for p in free[heaviest_first(sharing.lag[free])].tolist():
        k, lag = int(sharing.kind[p]), float(sharing.lag[p])
        takers = np.flatnonzero(must[k] > 0 if undealt[k] <= short[k] else room[k] > 0)
        m = int(takers[np.argmin((held[takers] + lag) / capacity[takers])])
        owner[p] = m
        held[m] += lag
        room[k, m] -= 1
        undealt[k] -= 1
        if must[k, m] > 0:
            must[k, m] -= 1
            short[k] -= 1
    return owner


def _held(lag: Longs, owner: Ints, members: int) -> Floats:
    """(M,) messages of each member, as floats: sums in the same order give the same on every machine."""
    held = np.zeros(members, dtype=np.float64)
    owned = owner != NOBODY
    np.add.at(held, owner[owned], lag[owned].astype(np.float64))
    return held

"""A feasible flow from rows to columns with room: straight in, then along augmenting paths; or the cut that forbids it.

The problem: place the units of I rows in J columns, each row in the columns that are eligible to it, with column sums
between bounds. Ford and Fulkerson's argument: a shortest path from a row with units left to a column with room,
through rows that can give way, adds units and never lowers a column's sum; where no path is left, what the search
reached is a minimum cut, and those rows fit nowhere but in those full columns. ``fair_loads`` parts the problem
there. The price: a path is one pass over the table, and there are about as many as columns that fill up.
"""

from __future__ import annotations

import numpy as np

from apportion.arrays import Bools, Ints


class Transport:
    """A table being filled: rows of like partitions go into columns of like members.

    eligible
        (I, J) whether a unit of row i may stand in column j.
    flow
        (I, J) units that stand there; ``unplaced`` (I,) those that stand nowhere yet; ``held`` (J,) the columns' sums.
    rows, columns
        After a search that found no room: what it reached. Reached columns are full of units that fit nowhere else.
    """

    rows: Bools
    columns: Bools

    def __init__(self, supply: Ints, eligible: Bools, placed: Ints | None = None) -> None:
        self.eligible = eligible
        self.flow: Ints = np.zeros(eligible.shape, dtype=np.int64) if placed is None else placed.copy()
        self.unplaced = supply - self.flow.sum(axis=1)
        self.held: Ints = self.flow.sum(axis=0)

    def pour(self, cap: Ints, eligible: Bools) -> None:
        """Put units straight into eligible columns up to ``cap`` (J,), narrow rows first, displacing none."""
        for i in np.argsort(eligible.sum(axis=1), kind="stable").tolist():
            if not self.unplaced[i]:
                continue
            columns = np.flatnonzero(eligible[i] & (self.held < cap))
            room = cap[columns] - self.held[columns]
            before = np.cumsum(room) - room
            take = np.minimum(room, np.maximum(self.unplaced[i] - before, 0))
            self.flow[i, columns] += take
            self.held[columns] += take
            self.unplaced[i] -= int(take.sum())

    def fits(self, low: Ints, high: Ints, better: Bools | None = None) -> bool:
        """Put all units in, ``better`` cells first; whether that can be with column sums from ``low`` to ``high`` (J,).

        Where it cannot, the cut is set.
        """
        for cap in (low, high):
            if better is not None:
                self.pour(cap, better)
            all_placed = self.fill(cap)
            if (self.held < low).any():
                return False
        return all_placed

    def fill(self, cap: Ints) -> bool:
        """Put in all that fits up to ``cap`` (J,), along augmenting paths; whether nothing is left over.

        No column's sum ever falls, so what was full stays full.
        """
        self.pour(cap, self.eligible)
        while self.unplaced.any():
            ends = self._search(cap)
            if not len(ends):
                return False
            for end in ends.tolist():
                self._push(end, int(cap[end] - self.held[end]))
        return True

    def _search(self, cap: Ints) -> Ints:
        """Columns with room that the leftover rows reach on shortest paths; none, and the cut is set."""
        rows, columns = self.unplaced > 0, np.zeros(len(self.held), dtype=np.bool_)
        self._row_from = np.full(len(rows), -1)
        self._column_from = np.full(len(columns), -1)
        fresh = np.flatnonzero(rows)
        while len(fresh):
            steps = self.eligible[fresh] & ~columns
            reached = np.flatnonzero(steps.any(axis=0))
            if not len(reached):
                break
            self._column_from[reached] = fresh[steps[:, reached].argmax(axis=0)]
            columns[reached] = True
            ends = reached[self.held[reached] < cap[reached]]
            if len(ends):
                return ends
            back = (self.flow[:, reached] > 0) & ~rows[:, None]
            fresh = np.flatnonzero(back.any(axis=1))
            self._row_from[fresh] = reached[back[fresh].argmax(axis=1)]
            rows[fresh] = True
        self.rows, self.columns = rows, columns
        return fresh[:0]

    def _push(self, end: int, room: int) -> None:
        """Send as much as goes along the path that the last search found to ``end``, which has this room."""
        amount, columns, rows = room, [end], [int(self._column_from[end])]
        while self._row_from[rows[-1]] >= 0:
            columns.append(int(self._row_from[rows[-1]]))
            amount = min(amount, int(self.flow[rows[-1], columns[-1]]))
            rows.append(int(self._column_from[columns[-1]]))
        amount = min(amount, int(self.unplaced[rows[-1]]))
        self.flow[rows, columns] += amount
        self.flow[rows[:-1], columns[1:]] -= amount
        self.unplaced[rows[-1]] -= amount
        self.held[end] += amount


def feasible_flow(
    supply: Ints, low: Ints, high: Ints, eligible: Bools, better: Bools | None = None, placed: Ints | None = None
) -> Ints | None:
    """Amounts (I, J) that place all units with column sums from ``low`` to ``high``; None if there are none.

    better
        (I, J) cells to fill first, if given; a start only, not a promise.
    placed
        (I, J) units to begin with, no column above ``low``: one is displaced only where a path needs its place.

    >>> feasible_flow(np.array([3]), np.array([0, 1]), np.array([2, 2]), np.array([[True, True]]))
    array([[2, 1]])
    >>> feasible_flow(np.array([3]), np.array([0, 0]), np.array([1, 1]), np.array([[True, True]])) is None
    True
    """
    if int(eligible.sum(axis=1).max(initial=0)) < 2:  # there is one way, or none
        table: Ints = eligible * supply[:, None]
        sums = table.sum(axis=0)
        fits = (low <= sums).all() and (sums <= high).all() and int(sums.sum()) == int(supply.sum())
        return table if fits else None
    filling = Transport(supply, eligible, placed)
    return filling.flow if filling.fits(low, high, better) else None

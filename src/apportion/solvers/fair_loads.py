"""How many partitions each member should get: the fairest loads there are, by levels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from apportion.arrays import Bools, Ints, distinct
from apportion.solvers.max_flow import Transport


@dataclass(frozen=True, eq=False)
class FairLoads:
    """What every fairest plan has in common.

    low, high
        (J,) the fewest and most partitions that a member of column j gets; they differ by one at most.
    open
        (I, J) where partitions of row i stand in some fairest plan: only in columns of their own level.
    part
        (J,) the level's piece that the column belongs to; pieces share nothing.
    """

    low: Ints
    high: Ints
    open: Bools
    part: Ints


def fair_loads(supply: Ints, open: Bools, size: Ints, base: Ints) -> FairLoads:
    """The levels of fairest loads: least sum of squares over members, base included.

    supply
        (I,) partitions of each row. open (I, J) which columns may take them.
    size, base
        (J,) members of each column, and how many partitions each of them holds beforehand.

    Where all members cannot be within one of each other, a minimum cut shows some partitions that fit nowhere but in
    columns that are full. No fairest plan gives those columns anything else, so the two sides are shared apart (the
    decomposition of Fujishige; integer loads: Frank and Murota, decreasing minimization).
    """
    low, high = np.zeros(len(size), dtype=np.int64), np.zeros(len(size), dtype=np.int64)
    part = np.arange(len(size)) + len(size)
    row_part = np.full(len(supply), -1)
    todo = [(np.flatnonzero(supply > 0), np.arange(len(size)))]
    pieces = 0
    while todo:
        rows, columns = todo.pop()
        for r, c in components(rows, columns, open):
            quota, over, cut = _share(supply[r], open[np.ix_(r, c)], size[c], base[c])
            if cut is not None:
                inside, full = cut
                todo += [(r[inside], c[full]), (r[~inside], c[~full])]
                continue
            low[c] = np.maximum(quota - base[c], 0)
            high[c] = np.maximum(quota + over - base[c], 0)
            part[c] = row_part[r] = pieces
            pieces += 1
    return FairLoads(low, high, open & (row_part[:, None] == part[None, :]), part)


def _share(supply: Ints, open: Bools, size: Ints, base: Ints) -> tuple[int, int, tuple[Bools, Bools] | None]:
    """The level of one piece (quota, 1 where some get one more), or the cut (rows, columns) that parts it."""
    total = int(supply.sum())
    quota = water_level(total, size, base)
    sure = size * np.maximum(quota - base, 0)
    over = int(total > int(sure.sum()))
    if open.all():
        return quota, over, None
    filling = Transport(supply, open)
    filling.fill(sure)
    if (filling.held < sure).any():
        return 0, 0, (filling.rows, filling.columns)
    if not filling.fill(size * np.maximum(quota + 1 - base, 0)):
        return 0, 0, (filling.rows, filling.columns)
    return quota, over, None


def water_level(total: int, size: Ints, base: Ints) -> int:
    """The highest level up to which ``total`` units fill members that start at ``base``.

    >>> water_level(7, np.array([1, 2]), np.array([4, 1]))
    4
    """
    if not base.any():
        return total // int(size.sum())
    order = np.argsort(base, kind="stable")
    base, width = base[order], np.cumsum(size[order])
    needed = np.concatenate([[0], np.cumsum(np.diff(base) * width[:-1])])
    last = int(np.searchsorted(needed, total, side="right")) - 1
    return int(base[last] + (total - needed[last]) // width[last])


def components(rows: Ints, columns: Ints, open: Bools) -> Iterator[tuple[Ints, Ints]]:
    """The pieces of the table that share no cell, as (rows, columns); columns without rows are in none."""
    if not len(rows):
        return
    if len(columns) == 1:
        yield rows, columns
        return
    table = open[np.ix_(rows, columns)]
    if table[0].all():
        yield rows, columns[table.any(axis=0)]
        return
    label = np.arange(len(columns))
    while True:
        row_label = np.where(table, label, len(columns)).min(axis=1)
        fresh = np.minimum(label, np.where(table, row_label[:, None], len(columns)).min(axis=0))
        if (fresh == label).all():
            break
        label = fresh
    for piece in distinct(row_label).tolist():
        yield rows[row_label == piece], columns[label == piece]

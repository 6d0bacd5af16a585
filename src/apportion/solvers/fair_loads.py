"""How many partitions each member should get: the fairest loads there are, by pieces.

The problem: least sum of load^2 / capacity over members, where not everybody may take everything. Were there no such
limits, units would be dealt one by one to whom the next costs least (Webster's apportionment; with equal capacities:
everybody gets n / m or one more). Where that cannot be placed, a minimum cut shows some partitions that fit nowhere
but in columns that are too full for them; no fairest plan gives those columns anything else, so both sides are
shared apart, and each again as if there were no limits (Fujishige's decomposition for separable convex costs;
integers: Groenevelt 1991; Frank and Murota, decreasing minimization). All fairest plans have the pieces, the low and
the high loads in common, and every plan that keeps them is fairest. The price: a max flow for each piece.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from apportion.arrays import Bools, Ints, Numbers, distinct
from apportion.solvers.max_flow import Transport
from apportion.solvers.problem import OptimalFace


def fair_loads(supply: Ints, eligible: Bools, size: Ints, base: Ints, unit: Numbers | None = None) -> OptimalFace:
    """The levels of fairest loads: least sum of squares over members, base included, each square times ``unit``.

    supply
        (I,) partitions of each row. eligible (I, J) which columns may take them.
    size, base
        (J,) members of each column, and how many partitions each of them holds beforehand.
    unit
        (J,) 1 / capacity of a column's members in whole numbers; None where all are equal.
    Returns
        What every fairest plan has in common, one member standing for all of its column: ``low`` and ``high`` (J,)
        differ by one at most, and partitions of a row stand only in columns of their own level.

    >>> both = np.ones((1, 2), dtype=np.bool_)
    >>> face = fair_loads(np.array([7]), both, np.array([1, 1]), np.array([0, 2]))
    >>> face.low, face.high
    (array([4, 2]), array([5, 3]))
    """
    if unit is None and not base.any() and int(eligible.sum(axis=1).max(initial=0)) < 2:
        # Each row has one column: nobody competes, and every column is a piece of its own.
        wanted = supply @ eligible
        least = wanted // np.maximum(size, 1)
        each = np.arange(len(size))
        return OptimalFace(each, least, least + (wanted > least * size), eligible, None, each, wanted)
    low, high = np.zeros(len(size), dtype=np.int64), np.zeros(len(size), dtype=np.int64)
    part = np.arange(len(size)) + len(size)
    row_part = np.full(len(supply), -1)
    todo = [((supply > 0).nonzero()[0], np.arange(len(size)))]
    totals: list[int] = []
    while todo:
        rows, columns = todo.pop()
        for r, c in components(rows, columns, eligible):
            total = int(supply[r].sum())
            least, most = cheapest_units(total, size[c], base[c], None if unit is None else unit[c])
            piece = Transport(supply[r], eligible[np.ix_(r, c)])
            if not piece.eligible.all() and not piece.fits(size[c] * least, size[c] * most):
                todo += [(r[piece.rows], c[piece.columns]), (r[~piece.rows], c[~piece.columns])]
                continue
            low[c], high[c] = least, most
            part[c] = row_part[r] = len(totals)
            totals.append(total)
    shared = eligible & (row_part[:, None] == part[None, :])
    return OptimalFace(np.arange(len(size)), low, high, shared, None, part, np.array(totals, dtype=np.int64))


def cheapest_units(total: int, size: Ints, base: Ints, unit: Numbers | None = None) -> tuple[Ints, Ints]:
    """(J,) units that a member of each column gets, at least and at most, when ``total`` are dealt cheapest first.

    The k-th unit of a member costs ``unit`` (2k - 1); the last one that is dealt sets the price, the least at which
    enough units are to be had. Bisection leaves about one unit a column, and the price is one of theirs: with many
    capacities prices have thousands of digits, and to bisect down to the last of them would take as many steps.
    Whoever takes a unit at that price may as well not, so ``most`` is ``least`` or one more.

    >>> cheapest_units(7, np.array([1, 2]), np.array([4, 1]))
    (array([0, 3]), array([1, 4]))
    """
    if unit is None:
        quota = water_level(total, size, base)
        least = np.maximum(quota - base, 0)
        over = int(total > int((size * least).sum()))
        return least, np.maximum(quota + over - base, 0)

    def units_at(price: int) -> Ints:
        """(J,) units that cost a member no more than the price."""
        units: Ints = np.maximum((price + unit) // (2 * unit) - base, 0).astype(np.int64)
        return units

    low, high = 0, 2 * int(unit.max()) * (total + int(base.max(initial=0)))
    least, most = np.zeros_like(size), units_at(high)
    while int((most - least).sum()) > len(size):
        price = (low + high) // 2
        units = units_at(price)
        low, high, least, most = (
            (low, price, least, units) if int((size * units).sum()) >= total else (price + 1, high, units, most)
        )
    rest = total - int((size * least).sum())
    if rest <= 0:
        return least, least
    count = most - least
    column = np.repeat(np.arange(len(size)), count)
    held = (base + least + count - count.cumsum())[column] + np.arange(len(column))  # before the unit
    prices = unit[column] * (2 * held + 1)
    order = np.argsort(prices, kind="stable")
    price = int(prices[order[np.searchsorted(np.cumsum(size[column[order]]), rest)]])
    return units_at(price - 1), units_at(price)


def pour(total: int, base: Ints, unit: Numbers | None = None) -> Ints:
    """(M,) each member's part when ``total`` units are dealt cheapest first; of equal ones the first get them.

    base, unit
        (M,) what each member holds beforehand; as in ``cheapest_units``.

    >>> pour(3, np.array([4, 1, 1]))
    array([0, 2, 1])
    """
    given, most = cheapest_units(total, np.ones_like(base), base, unit)
    given[np.flatnonzero(most > given)[: total - int(given.sum())]] += 1
    return given


def water_level(total: int, size: Ints, base: Ints) -> int:
    """The highest level up to which ``total`` units fill members that start at ``base``.

    >>> water_level(7, np.array([1, 2]), np.array([4, 1]))
    4
    """
    if not base.any():
        return total // int(size.sum())
    order = np.argsort(base, kind="stable")
    base, width = base[order], size[order].cumsum()
    needed = np.concatenate([[0], np.cumsum(np.diff(base) * width[:-1])])
    last = int(np.searchsorted(needed, total, side="right")) - 1
    return int(base[last] + (total - needed[last]) // width[last])


def components(rows: Ints, columns: Ints, eligible: Bools) -> Iterator[tuple[Ints, Ints]]:
    """The pieces of the table that share no cell, as (rows, columns); columns without rows are in none.

    >>> eligible = np.array([[True, False], [False, True]])
    >>> [(rows.tolist(), columns.tolist()) for rows, columns in components(np.arange(2), np.arange(2), eligible)]
    [([0], [0]), ([1], [1])]
    """
    if not len(rows):
        return
    table = eligible[np.ix_(rows, columns)]
    label = np.arange(len(columns))
    while True:
        row_label = np.where(table, label, len(columns)).min(axis=1)
        fresh = np.minimum(label, np.where(table, row_label[:, None], len(columns)).min(axis=0))
        if (fresh == label).all():
            break
        label = fresh
    for piece in distinct(row_label).tolist():
        yield rows[row_label == piece], columns[label == piece]

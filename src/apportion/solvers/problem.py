"""The exact solver's question, and the bounds between which the answer must stay.

The problem: goals in an order of importance, each a sum of convex costs on a table of rows by columns
(``partition_classes``) and on the members' loads. There are two ways to keep the order, and both are described here.

Goal after goal: the best plans of one goal form a face of all plans, and complementary slackness writes it as cells
that stay empty and loads that stay between two bounds (Ahuja, Magnanti and Orlin, "Network Flows", chapter 9). So an
``OptimalFace`` is as small as the problem itself, and the next goal is sought within it (``lexicographic``).

All goals at once: a unit of each goal weighs more than all later goals together can gain by one exchange; then a plan
is best in the order exactly if it is best in the weighted sum (Sherali, "Equivalent weights for lexicographic
multi-objective programs", 1982). ``weights`` gives these weights. They grow by multiplication and can pass 64 bits;
certificates write a plan's prices in them (``dual_prices``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import lcm
from typing import Final

import numpy as np

from apportion.arrays import Bools, Ints, Numbers
from apportion.solvers.goals import SPREAD, Goal, Order

"""64-bit integers, or Python's own where they are too few."""
UNIT_MAX: Final = 1 << 34
"""Units below this can be multiplied by loads of 2^27 within 64 bits."""


@dataclass(frozen=True, eq=False)
class Problem:
    """The question: like partitions as rows (I of them), like members as columns (J of them).

    row, column
        (P,) each partition's row, -1 where nobody wants it; (M,) each member's column.
    eligible, miss
        (I, J) whether the column's members want the row; whether they have no replica near (None: nothing misses).
    claim
        (P,) whose claim stands, -1 nobody's: a member's that is eligible, on a partition that somebody wants.
    contested
        (P,) whether anybody claims the partition, rightly or not; None where that does not count.
    home
        (P,) to whom it would come home, -1 nobody: the member with the newest claim that fell as stale.
    topic, number
        (P,) which claims of a member are given up first: those with the highest number.
    capacity
        (M,) what each member can take beside the others; the members of a column have the same.
    racks_told
        Whether rows and columns are told apart by racks, as was asked.
    spread
        Whether topics shall be spread where that is free: tried, not promised.
    """

    row: Ints
    column: Ints
    eligible: Bools
    miss: Bools | None
    claim: Ints
    contested: Bools | None
    home: Ints
    topic: Ints
    number: Ints
    capacity: Ints
    racks_told: bool = True
    spread: bool = False

    @cached_property
    def supply(self) -> Ints:
        """(I,) partitions of each row."""
        return np.bincount(self.row + 1, minlength=len(self.eligible) + 1)[1:]

    @cached_property
    def equal(self) -> bool:
        """Whether all members have the same capacity."""
        return bool((self.capacity == self.capacity[:1]).all())

    @cached_property
    def unit(self) -> Numbers:
        """(M,) the cost of the square of a load at each member; see ``units``."""
        return units(self.capacity)


def units(capacity: Ints) -> Numbers:
    """(M,) 1 / capacity in whole numbers of one unit for all: their least common multiple over each.

    Python's own integers where 64 bits would be too few. A load's cost, load^2 / capacity, is unit x load^2.

    >>> units(np.array([1, 2, 6]))
    array([6, 3, 1])
    """
    whole = lcm(*set(capacity.tolist()))
    if whole < UNIT_MAX:
        return whole // capacity
    return np.array([whole // c for c in capacity.tolist()], dtype=object)


def weights(order: Order, partitions: int, members: int, unit: int = 0) -> Mapping[Goal, int]:
    """The weight of one unit of each goal.

    unit
        The largest unit of a load's cost where capacities differ; 0 where all are equal and half squares are counted.

    A weight must be more than all later goals together can change in one exchange. Where spread is no goal an exchange
    passes each member once: it changes misses and moves by ``members`` at most, and (half of) the squares by the
    difference of two loads. With spread it may pass many topics of a member, but no partition twice.

    >>> from apportion.solvers.goals import BALANCE, MOVES
    >>> list(weights((BALANCE, MOVES), partitions=10, members=3).values())
    [1, 5]
    """
    passed, square = 2 * partitions if SPREAD in order else members, (2 * unit or 1) * (partitions + 1)
    weight: dict[Goal, int] = {}
    below = 0
    for goal in reversed(order):
        weight[goal] = below + 1
        below += weight[goal] * (goal.squares * square if goal.squares else passed + 1)
    return weight


@dataclass(frozen=True, eq=False)
class OptimalFace:
    """The common part of all plans that are best so far.

    column, low, high
        (M,) each member's column; the fewest and most partitions that it gets.
    eligible
        (I, J) cells where partitions stand in some of these plans.
    cost
        (I, J) cells that miss a rack, where misses are still to be minimised.
    part
        (J,) the piece that a column belongs to; no fairest plan moves anything between pieces.
    total
        (pieces,) partitions of each.
    """

    column: Ints
    low: Ints
    high: Ints
    eligible: Bools
    cost: Bools | None
    part: Ints
    total: Ints

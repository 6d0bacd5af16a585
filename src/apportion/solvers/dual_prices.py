"""Prices of members that show a plan to be best: the dual of the plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from apportion.arrays import NOBODY, Bools, Ints

INFINITE_COST: Final = np.int64(1) << 60
"""More than any price."""


@dataclass(frozen=True, eq=False)
class Prices:
    """Why no plan is better, for anyone to check.

    weight
        What a unit of each goal weighs: so much that no exchange makes up for it by the goals after it.
    price
        (M,) what it costs to hold one more partition at a member.

    Each partition stands where price + weight of a miss + weight of a move is least among all who want it, and each
    price lies between weight of balance x load and weight of balance x (load + 1). Then the plan is best, by the
    duality of linear programming: whoever takes partitions elsewhere pays at least as much.
    """

    weight: dict[str, int]
    price: Ints


def weights(order: tuple[str, ...], partitions: int, members: int) -> dict[str, int]:
    """What one unit of each goal weighs.

    A simple exchange passes each member once: it changes misses and moves by ``members`` at most, and (half of) the
    squares by the difference of two loads at most.
    """
    weight: dict[str, int] = {}
    below = 0
    for goal in reversed(order):
        weight[goal] = below + 1
        below += weight[goal] * ((partitions if goal == "balance" else members) + 1)
    return weight


def prices(
    owner: Ints, row: Ints, column: Ints, open: Bools, miss: Bools | None, claim: Ints, order: tuple[str, ...]
) -> Prices | None:
    """The members' prices for a plan (P,), or None where the plan is not the best (or too many steps are needed).

    row, column, open, miss, claim
        As in ``Problem``: (P,), (M,), (I, J), (I, J) or None, (P,).

    Distances in the graph of single hand-overs, found by Bellman and Ford: they settle exactly where no chain of
    hand-overs improves the plan.
    """
    weight = weights(order, len(owner), len(column))
    graph = _Graph(owner, row, column, open, miss, claim, weight)
    distance = np.zeros(len(column), dtype=np.int64)
    for _ in range(2 * (len(column) + len(open)) + 4):
        hub, nearer = graph.step(distance)
        if (nearer == distance).all():
            return Prices(weight, hub - distance)
        distance = nearer
    return None


class _Graph:
    """Hand-overs of like partitions: from a holder to its row, to a column, to a member; home to who claims them."""

    def __init__(
        self, owner: Ints, row: Ints, column: Ints, open: Bools, miss: Bools | None, claim: Ints, weight: dict[str, int]
    ) -> None:
        given = np.flatnonzero(owner != NOBODY)
        members, self.column = len(column), column
        claim = claim[given] if "moves" in weight else np.full(len(given), NOBODY, dtype=np.int64)
        key = row[given] * (members + 1) + claim + 1
        kinds, kind = np.unique(key, return_inverse=True)
        self.kind_row, self.kind_claim = kinds // (members + 1), kinds % (members + 1) - 1
        pairs = np.unique(kind * members + owner[given])
        self.held_kind, self.holder = pairs // members, pairs % members
        self.first_holder = np.searchsorted(self.held_kind, np.arange(len(kinds)))
        self.rows, self.first_kind = np.unique(self.kind_row, return_index=True)
        far = np.zeros(open.shape, dtype=np.int64) if miss is None else miss * np.int64(weight.get("racks", 0))
        self.cost = np.where(open, far, INFINITE_COST)[self.rows]
        self.move = np.where(self.kind_claim != NOBODY, weight.get("moves", 0), 0)
        there = far[self.kind_row[self.held_kind], column[self.holder]]
        self.paid = there + np.where(self.holder != self.kind_claim[self.held_kind], self.move[self.held_kind], 0)
        self.claimed = np.flatnonzero(self.kind_claim != NOBODY)
        self.home = self.kind_claim[self.claimed]
        self.home_cost = far[self.kind_row[self.claimed], column[self.home]]
        self.load = np.bincount(owner[given], minlength=members)
        self.unit = weight.get("balance", 0)

    def step(self, distance: Ints) -> tuple[int, Ints]:
        """The hub's distance, and the members' one round of hand-overs later."""
        hub = int((distance + self.unit * (self.load + 1)).min())
        nearer = np.where(self.load > 0, np.minimum(distance, hub - self.unit * self.load), distance)
        if not len(self.kind_row):
            return hub, nearer
        kind = np.minimum.reduceat(distance[self.holder] - self.paid, self.first_holder)
        row = np.minimum.reduceat(kind + self.move, self.first_kind)
        nearer = np.minimum(nearer, (row[:, None] + self.cost).min(axis=0)[self.column])
        np.minimum.at(nearer, self.home, kind[self.claimed] + self.home_cost)
        return hub, nearer

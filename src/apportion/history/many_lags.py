"""``lag-aware`` by the KIP's rule, for one group under many lags: dealing, bound and measures a few calls for all.

The rule is ``assignors.lag_aware``'s with ``scope=topic``, and so is each value; this file only asks it of a table
of lags instead of a row. What the table cannot show (capacities, topics with different subscribers) is asked alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from apportion.arrays import NOBODY, UNKNOWN, Bools, Ints, Longs
from apportion.history.scenarios import Outcome
from apportion.model.group import Group

TOPIC_BALANCE, BOTH = "topic-balance", "topic-balance,lag"
_BOUNDS = 64
"""How many of its bounds on the heaviest member ``solvers.makespan.lower_bound`` looks at."""


class ManyLags:
    """One row of ``lag-aware``.

    row
        Its plan under some lags.
    topics
        How many topics are dealt.
    """

    def __init__(self, row: Outcome) -> None:
        """Take the row's plan."""
        assert row.group is not None  # noqa: S101 - rows without one have no lags
        self.row, self.group = row, row.group
        self._topics = [(self.group.partitions(t), self.group.subscribers(t)) for t in self.group.assignable_topics]
        self.topics = len(self._topics)

    @staticmethod
    def fits(group: Group) -> bool:
        """Whether all members are of one capacity, and all topics that have partitions are wanted by the same."""
        wanted_by = {group.subscribers(t).tobytes() for t in group.assignable_topics}
        return len(wanted_by) == 1 and group.equal_capacities

    def lags(self, lag: Longs) -> list[tuple[Longs, int]]:
        """The part of (G, P) lags that is dealt: (G, partitions) of each wanted topic, and to how many."""
        return [(lag[:, span], len(subscribers)) for span, subscribers in self._topics]

    def values(self, lag: Longs, shares: list[Ints]) -> tuple[dict[str, Any], Bools]:
        """Columns of the row for each of (G, P) lags; whether the heaviest member is shown to be as light as can be."""
        group = self.group
        owner = np.full(lag.shape, NOBODY, dtype=np.int64)
        for (span, subscribers), turns in zip(self._topics, shares, strict=True):
            owner[:, span] = subscribers[turns]
        wanted = np.concatenate([np.arange(span.start, span.stop) for span, _ in self._topics])
        load, held = _per_member(owner[:, wanted], lag[:, wanted], group.M)
        past = group.owner
        moves = np.count_nonzero((past != NOBODY) & (owner != NOBODY) & (owner != past), axis=1)
        heaviest = held.max(axis=1)
        values = {
            "moves": moves,
            "load_min": load.min(axis=1),
            "load_max": load.max(axis=1),
            "rack_misses": _misses(group, owner),
            "lag_max": heaviest,
        }
        best = heaviest == self._bound(lag[:, wanted])
        return values, best

    def _bound(self, lag: Longs) -> Longs:
        """(G,) ``lower_bound`` of ``solvers.makespan`` with the demands of balance within each topic."""
        members = len(self._topics[0][1])
        least = sum((span.stop - span.start) // members for span, _ in self._topics)
        ascending = np.zeros((len(lag), lag.shape[1] + 1), dtype=np.int64)
        np.cumsum(np.sort(lag, axis=1), axis=1, out=ascending[:, 1:])
        whole, count = ascending[:, -1], lag.shape[1]
        best = np.maximum(lag.max(axis=1), -(-whole // members))
        k = np.arange(min(_BOUNDS, (count - 1) // members + 1))
        # Of the falling lags number k M - k to k M: counted from the other end of the rising ones.
        together = ascending[:, count - k * members + k] - ascending[:, count - k * members - 1]
        light = ascending[:, np.maximum(0, least - k - 1)]
        best_of_all: Longs = np.maximum(best, (together + light).max(axis=1))
        return best_of_all


def _per_member(owner: Ints, lag: Longs, members: int) -> tuple[Ints, Longs]:
    """(G, M) partitions and messages of each member, of (G, P) owners with no -1 among them."""
    rows = len(owner)
    cell = (owner + members * np.arange(rows)[:, None]).ravel()
    load = np.bincount(cell, minlength=rows * members).reshape(rows, members)
    held = np.zeros(rows * members, dtype=np.int64)
    np.add.at(held, cell, lag.ravel())
    return load, held.reshape(rows, members)


def _misses(group: Group, owner: Ints) -> Ints | None:
    """(G,) rack misses; None if no racks are known."""
    racks = group.racks
    if racks is None or not racks.known:
        return None
    rack = np.where(owner == NOBODY, UNKNOWN, racks.of_member[owner])
    known = (rack != UNKNOWN) & (racks.set_of != UNKNOWN)
    near = racks.near[rack, np.broadcast_to(racks.set_of, owner.shape)]
    missed: Ints = np.count_nonzero(known & ~near, axis=1)
    return missed

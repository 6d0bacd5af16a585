"""The lag of the heaviest member in plans that stay as they are, for many groups' lags at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from apportion.arrays import NOBODY, Ints, Longs
from apportion.solvers.dealing import stable_order


class Heaviest:
    """Plans, each looked at once, however many rows have it."""

    def __init__(self, rows: Sequence[tuple[int, Ints, Ints]]) -> None:
        """Rows as (row, (P,) places of lags, (P,) owners)."""
        plans: dict[tuple[int, bytes], int] = {}
        self._row: list[tuple[int, int]] = []
        orders: list[Ints] = []
        members: list[int] = []
        firsts: list[int] = []
        end = 0
        for at, places, owner in rows:
            key = id(places), owner.tobytes()
            if key not in plans:
                order = stable_order(owner + 1)[np.count_nonzero(owner == NOBODY) :]  # nobody's come first
                if not len(order):
                    plans[key] = -1
                else:
                    plans[key] = len(firsts)
                    firsts.append(len(members))
                    held = owner[order]
                    starts = (held[1:] != held[:-1]).nonzero()[0] + 1
                    members += [end, *(starts + end).tolist()]
                    orders.append(places[order])
                    end += len(order)
            self._row.append((at, plans[key]))
        self._order = np.concatenate(orders).astype(np.int32) if orders else np.empty(0, dtype=np.int32)
        self._members, self._firsts = np.array(members, dtype=np.int64), np.array(firsts, dtype=np.int64)
        self.rows = np.array([at for at, _ in self._row], dtype=np.int64)

    def of(self, lag: Longs) -> Longs:
        """(G, rows) of lags (G, places), summable in 64 bits."""
        heaviest = np.zeros((len(lag), len(self._firsts) + 1), dtype=np.int64)  # the last: of a plan that gives nothing
        if len(self._firsts):
            held = np.add.reduceat(lag[:, self._order], self._members, axis=1)
            heaviest[:, :-1] = np.maximum.reduceat(held, self._firsts, axis=1)
        return heaviest[:, [plan for _, plan in self._row]]

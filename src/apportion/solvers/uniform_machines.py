"""Partitions of different lag on members of different capacity: counts first, then lag per capacity evened out.

The problem is makespan on uniform machines (Q||Cmax) with the number of jobs of each machine given, and NP-hard. The
way: counts are the fairest for the capacities (``fair_loads``), so a member's free slots are known; partitions go
heaviest first to the eligible member with a free slot that ends with the least lag per capacity (longest processing
time first: Gonzalez, Ibarra and Sahni 1977); then the most burdened member exchanges single partitions, or gives one
away where counts may leave the fair ones, while that makes the more burdened of the two lighter; at last partitions
that can go back to their past owners within the limit do. The price is a look at the partitions of two members for each
exchange, within an effort that is the same on every machine.

Lag per capacity is compared as ``lag x unit``, in whole numbers (see ``problem.units``).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from apportion.arrays import NOBODY, Bools, Ints, Longs, Numbers
from apportion.solvers.fair_loads import fair_loads
from apportion.solvers.max_flow import feasible_flow

EFFORT: Final = 2_000_000
"""Pairs of partitions that the exchanges look at, at most."""


@dataclass(frozen=True, eq=False)
class Machines:
    """The partitions to be shared among members of different capacity.

    lag, past
        (P,) messages; who had the partition and may have it again, -1 nobody.
    kind, may
        (P,) which of C kinds a partition is; (C, M) who may own which kind.
    unit
        (M,) 1 / capacity in whole numbers.
    skew
        How many partitions a member's count may be from its fair one.
    """

    lag: Longs
    past: Ints
    kind: Ints
    may: Bools
    unit: Numbers
    skew: int = 0

    def burdens(self, owner: Ints) -> list[int]:
        """(M,) lag x unit of each member, in Python's integers."""
        held = [0] * len(self.unit)
        for m, lag in zip(owner.tolist(), self.lag.tolist(), strict=True):
            held[m] += lag
        return [n * u for n, u in zip(held, self.unit.tolist(), strict=True)]

    def least_burden(self) -> Fraction:
        """Lag x unit that the most burdened member has in any plan: the mean, or the heaviest on the largest."""
        total, largest = sum(self.lag.tolist()), min(self.unit.tolist())
        rate = sum(Fraction(1, u) for u in self.unit.tolist())
        return max(Fraction(total) / rate, Fraction(int(self.lag.max(initial=0)) * largest))


def share_by_capacity(machines: Machines, tolerance: float) -> Ints:
    """(P,) owners: counts as fair as can be, then the greatest lag per capacity as small as we can make it.

    >>> every, kinds = np.ones((1, 2), dtype=np.bool_), np.zeros(3, dtype=np.int64)
    >>> machines = Machines(np.array([6, 4, 2]), np.array([-1, -1, -1]), kinds, every, unit=np.array([2, 1]))
    >>> share_by_capacity(machines, tolerance=0.0)
    array([1, 0, 1])
    """
    owner = _longest_first(machines, _fair_counts(machines))
    burden = machines.burdens(owner)
    _exchange(machines, owner, burden)
    limit = max(max(burden), int(machines.least_burden() * (1 + Fraction(str(tolerance)))))
    _bring_back(machines, owner, burden, limit)
    return owner


def deal_topic(lag: Longs, unit: Numbers) -> Ints:
    """(P,) the KIP's rule for one topic, by capacity: heaviest first, to the member whose next partition costs least.

    Of those to the one with the least lag per capacity, then to the first. With equal capacities it is the rule itself.

    >>> deal_topic(np.array([6, 4, 2]), unit=np.array([2, 1]))
    array([1, 0, 1])
    """
    units = unit.tolist()
    count, held = [0] * len(units), [0] * len(units)
    owner = np.full(len(lag), NOBODY, dtype=np.int64)
    lags = lag.tolist()
    for p in sorted(range(len(lags)), key=lambda p: (-lags[p], p)):
        m = min(range(len(units)), key=lambda m: ((2 * count[m] + 1) * units[m], held[m] * units[m], m))
        owner[p] = m
        count[m] += 1
        held[m] += lags[p]
    return owner


def _fair_counts(machines: Machines) -> Ints:
    """(C, M) partitions of each kind that each member gets."""
    kinds, members = machines.may.shape
    supply, ones = np.bincount(machines.kind, minlength=kinds), np.ones(members, dtype=np.int64)
    fair = fair_loads(supply, machines.may, ones, ones - 1, machines.unit)
    table = feasible_flow(supply, fair.low, fair.high, fair.eligible)
    if table is None:
        raise ArithmeticError("no plan fits the loads that were shown to be fair; please report this group")
    return table


def _longest_first(machines: Machines, slots: Ints) -> Ints:
    """(P,) heaviest first, to the eligible member with a slot that ends with the least lag per capacity."""
    free, units = slots.copy(), machines.unit.tolist()
    held = [0] * len(units)
    owner = np.full(len(machines.lag), NOBODY, dtype=np.int64)
    lags, kinds = machines.lag.tolist(), machines.kind.tolist()
    for p in sorted(range(len(lags)), key=lambda p: (-lags[p], p)):
        takers = np.flatnonzero(free[kinds[p]]).tolist()
        m = min(takers, key=lambda m: ((held[m] + lags[p]) * units[m], m))
        owner[p] = m
        held[m] += lags[p]
        free[kinds[p], m] -= 1
    return owner


def _exchange(machines: Machines, owner: Ints, burden: list[int]) -> None:
    """Let the most burdened exchange partitions, or give one away, while the more burdened of the two gets lighter."""
    units, lags = machines.unit.tolist(), machines.lag.tolist()
    effort, fair = EFFORT, np.bincount(owner, minlength=len(units)).tolist()
    count = list(fair)
    while effort > 0:
        heavy = max(range(len(burden)), key=lambda m: (burden[m], -m))
        mine = np.flatnonzero(owner == heavy).tolist()
        best: tuple[int, int, int, int | None] | None = None
        for other in sorted(range(len(burden)), key=lambda m: (burden[m], m)):
            if other == heavy or burden[other] >= burden[heavy] or best is not None:
                break
            theirs = np.flatnonzero(owner == other).tolist()
            effort -= len(mine) * len(theirs) + len(lags) // 8
            gives = count[heavy] > fair[heavy] - machines.skew and count[other] < fair[other] + machines.skew
            for p in mine:
                if not machines.may[machines.kind[p], other]:
                    continue
                for q in ([None] if gives else []) + theirs:
                    shift = lags[p] - (0 if q is None else lags[q])
                    if shift <= 0 or not (q is None or machines.may[machines.kind[q], heavy]):
                        continue
                    worse = max(burden[heavy] - shift * units[heavy], burden[other] + shift * units[other])
                    if worse < (burden[heavy] if best is None else best[0]):
                        best = (worse, other, p, q)
        if best is None:
            return
        _, other, p, q = best
        if q is None:
            owner[p] = other
            burden[heavy] -= lags[p] * units[heavy]
            burden[other] += lags[p] * units[other]
            count[heavy], count[other] = count[heavy] - 1, count[other] + 1
        else:
            _swap(owner, burden, p, q, lags, units)


def _swap(owner: Ints, burden: list[int], p: int, q: int, lags: list[int], units: list[int]) -> None:
    """Partitions p and q change places."""
    holder, other, shift = int(owner[p]), int(owner[q]), lags[p] - lags[q]
    burden[holder] -= shift * units[holder]
    burden[other] += shift * units[other]
    owner[p], owner[q] = other, holder


def _bring_back(machines: Machines, owner: Ints, burden: list[int], limit: int) -> None:
    """Exchange a past owner's lost partitions for others' that it has, if no member's burden passes the limit."""
    units, lags, past = machines.unit.tolist(), machines.lag.tolist(), machines.past
    for p in np.flatnonzero((past != NOBODY) & (past != owner)).tolist():
        home, holder = int(past[p]), int(owner[p])
        if home == holder:
            continue  # it came home in exchange for another one
        for q in np.flatnonzero((owner == home) & (past != home)).tolist():
            shift = lags[p] - lags[q]
            fits = machines.may[machines.kind[q], holder]
            lighter, heavier = burden[holder] - shift * units[holder], burden[home] + shift * units[home]
            if fits and max(lighter, heavier) <= limit:
                _swap(owner, burden, p, q, lags, units)
                break

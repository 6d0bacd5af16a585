"""Balance where members want different things: move partitions along paths until no path helps."""

from __future__ import annotations

import numpy as np

from apportion.arrays import NOBODY, Bools, Ints
from apportion.solvers.fair_loads import pour


def even_out(kind: Ints, may: Bools, past: Ints) -> Ints:
    """(C, M) how many partitions of each kind each member holds in a plan of least squares.

    kind
        (P,) which of C kinds each partition is; those of one kind have the same subscribers.
    may
        (C, M) who may own which kind; every kind has somebody.
    past
        (P,) where each partition starts from; -1 nowhere.

    A plan has the least sum of squares exactly if no chain of hand-overs leads from a member to one that has two
    fewer (Harvey, Ladner, Lovász, Tamir, "Semi-matchings for bipartite graphs and load balancing", theorem 3.1).
    """
    kinds, members = may.shape
    table = np.zeros((kinds, members), dtype=np.int64)
    rooted = past != NOBODY
    np.add.at(table, (kind[rooted], past[rooted]), 1)
    _hand_out(table, may, np.bincount(kind[~rooted], minlength=kinds))
    _follow_paths(table, may)
    return table


def _hand_out(table: Ints, may: Bools, left: Ints) -> None:
    """Fill the least loaded first, kinds with few subscribers before those with many."""
    load = table.sum(axis=0)
    for c in np.argsort(may.sum(axis=1), kind="stable").tolist():
        takers = np.flatnonzero(may[c])
        more = pour(int(left[c]), load[takers])
        table[c, takers] += more
        load[takers] += more


def _follow_paths(table: Ints, may: Bools) -> None:
    """Hand over along a shortest chain from the most loaded member that has one, until nobody has."""
    load = table.sum(axis=0)
    open_members = np.ones(len(load), dtype=np.bool_)
    while open_members.any():
        source = int(np.argmax(np.where(open_members, load, -1)))
        target, by_kind, before, seen = _reach(table, may, load, source, open_members)
        if target == NOBODY:
            # Nobody that the source reaches is lower, and none of them reaches anybody else: they are settled.
            open_members &= ~seen
            continue
        _hand_over(table, source, target, by_kind, before, int(load[source] - load[target]) // 2)
        load = table.sum(axis=0)


def _reach(table: Ints, may: Bools, load: Ints, source: int, open_members: Bools) -> tuple[int, Ints, Ints, Bools]:
    """Breadth first from the source until a member with two fewer is found, if there is one.

    Also, for each member seen, by which kind and from whom a partition comes to it, and who was seen.
    """
    members = len(open_members)
    by_kind, before = np.full(members, NOBODY), np.full(members, NOBODY)
    seen = np.zeros(members, dtype=np.bool_)
    seen[source] = True
    used = np.zeros(len(table), dtype=np.bool_)
    frontier = [source]
    while frontier:
        following: list[int] = []
        for m in frontier:
            for c in np.flatnonzero((table[:, m] > 0) & ~used).tolist():
                used[c] = True
                fresh = np.flatnonzero(may[c] & ~seen & open_members)
                if not len(fresh):
                    continue
                by_kind[fresh], before[fresh], seen[fresh] = c, m, True
                lowest = int(fresh[np.argmin(load[fresh])])
                if load[lowest] <= load[source] - 2:
                    return lowest, by_kind, before, seen
                following.extend(fresh.tolist())
        if used.all():
            break
        frontier = following
    return NOBODY, by_kind, before, seen


def _hand_over(table: Ints, source: int, target: int, by_kind: Ints, before: Ints, most: int) -> None:
    """Move as many along the chain as each link has, at most ``most``."""
    chain = []
    member = target
    while member != source:
        chain.append((int(by_kind[member]), int(before[member]), member))
        member = int(before[member])
    amount = min(most, *(int(table[c, giver]) for c, giver, _ in chain))
    for c, giver, taker in chain:
        table[c, giver] -= amount
        table[c, taker] += amount

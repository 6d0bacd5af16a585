"""Small groups on plain lists, where one call of NumPy costs more than the work: what millions of them need.

The problem is the one of ``lexicographic``, without spread and with equal capacities, and there are two ways.

A uniform group, in which all members want the same and racks do not count, of ``LISTS_MAX_PARTITIONS`` at most:
everybody gets n / m or one more, and claims stay up to that. It gives the very plan of ``lexicographic``.

Any other group of ``LISTS_MAX_CELLS`` partitions x members at most: each partition comes in on the cheapest chain of
hand-overs (successive shortest paths: Jewell; Busacker and Gowen). A best plan of some partitions becomes a best plan
of one more along a shortest path, so the end is best. The goals are one cost by their weights. Its plan is as good as
that of the general way; tests hold both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from heapq import heapify, heapreplace
from typing import Final

import numpy as np

from apportion.arrays import NOBODY, Ints
from apportion.model.group import Group
from apportion.solvers.goals import BALANCE, MOVES, RACKS, Goal

LISTS_MAX_PARTITIONS: Final = 64
"""Up to so many partitions of a uniform group plain lists are faster than arrays."""
LISTS_MAX_CELLS: Final = 48
"""Up to so many cells (partitions x members) of any group plain lists are faster than arrays."""
INFINITE_COST: Final = 1 << 60

Costs = Sequence[dict[int, int]]
"""For each partition the members that want it, each with the cost of standing there."""


def plan_on_lists(group: Group, weight: Mapping[Goal, int] | None) -> Ints:
    """(P,) owners of a small group.

    weight
        What one unit of each goal weighs; None for a uniform group, for balance and then moves.

    >>> from apportion.model.group_json import read_group
    >>> members = {"a": {"topics": ["t"], "owned": {"t": [0, 1, 2]}}, "b": {"topics": ["t"]}}
    >>> group = read_group({"topics": {"t": 4}, "members": members})
    >>> plan_on_lists(group, None)
    array([0, 0, 1, 1])
    >>> plan_on_lists(group, {BALANCE: 5, MOVES: 1})
    array([0, 1, 0, 1])
    """
    claimed = set(group.claims.partition.tolist()) if weight is None or MOVES in weight else set()
    claim = group.owner.tolist() if claimed else [NOBODY] * group.P
    wanted = np.flatnonzero(group.wanted).tolist()
    owner = [NOBODY] * group.P
    if weight is None:
        if claimed:
            _keep(owner, sorted(wanted, key=group.number.tolist().__getitem__), claim, group.M)
        hand_out = partial(_deal, owner, group.M)
        hand_out([p for p in wanted if owner[p] < 0])
    else:
        move, unit = weight.get(MOVES, 0), weight.get(BALANCE, 0)
        near = _rack_costs(group, weight.get(RACKS, 0))
        cost = [
            {m: due + move * (c not in (NOBODY, m)) for m, due in dues.items()}
            for c, dues in zip(claim, near, strict=True)
        ]
        _bring_in(owner, group.M, cost, unit, wanted)
        hand_out = partial(_bring_in, owner, group.M, near, unit)
    # What somebody claims goes last: see ``dealing.claimed_last``.
    moved = [p for p in wanted if owner[p] != claim[p]] if claimed else []
    last = [p for p in moved if p in claimed] or moved
    for p in last:
        owner[p] = NOBODY
    if last:
        hand_out(last)
    return np.array(owner, dtype=np.int64)


def _keep(owner: list[int], wanted: Sequence[int], claim: Sequence[int], members: int) -> None:
    """Give each member its first claims of ``wanted``, up to its share; the first with more keep one more."""
    low, over = divmod(len(wanted), members)
    held: list[list[int]] = [[] for _ in range(members)]
    for p in wanted:
        if claim[p] >= 0:
            held[claim[p]].append(p)
    for m, mine in enumerate(held):
        for p in mine[: low + (over > 0)]:
            owner[p] = m
        over -= len(mine) > low


def _deal(owner: list[int], members: int, rest: Sequence[int]) -> None:
    """Hand out ``rest``, each to the member that holds fewest, of equal ones to the first."""
    load = Counter(owner)
    turns = [(load[m], m) for m in range(members)]
    heapify(turns)
    for p in rest:
        held, owner[p] = turns[0]
        heapreplace(turns, (held + 1, owner[p]))


def _rack_costs(group: Group, miss: int) -> Costs:
    """What it costs each member that wants a partition to have no replica near: ``miss`` or nothing."""
    who: list[list[int]] = [[] for _ in group.topics]
    for m, k in enumerate(group.subscription_of.tolist()):
        for t in group.subscriptions[k].tolist():
            who[t].append(m)
    costs = [dict.fromkeys(who[t], 0) for t in group.topic_of.tolist()]
    if group.racks is not None and miss:
        rack = group.racks.of_member.tolist()
        for dues, s in zip(costs, group.racks.set_of.tolist(), strict=True):
            near = group.racks.sets[s]
            dues.update((m, miss) for m in dues if s >= 0 and rack[m] >= 0 and rack[m] not in near)
    return costs


def _bring_in(owner: list[int], members: int, cost: Costs, unit: int, rest: Sequence[int]) -> None:
    """Give each of ``rest`` to somebody at least cost, handing over what came in before where that pays."""
    load = [owner.count(m) for m in range(members)]
    placed: list[int] = []
    for p in rest:
        distance = [INFINITE_COST] * members
        via: dict[int, tuple[int, int]] = {}
        for m, due in cost[p].items():
            distance[m], via[m] = due, (p, NOBODY)
        _relax(distance, via, placed, owner, cost)
        m = min(range(members), key=lambda m: (distance[m] + unit * (load[m] + 1), load[m], m))
        load[m] += 1
        placed.append(p)
        while m >= 0:
            given, m_before = via[m]
            owner[given], m = m, m_before


def _relax(
    distance: list[int], via: dict[int, tuple[int, int]], placed: Sequence[int], owner: Sequence[int], cost: Costs
) -> None:
    """Let each holder pass on what it has, until no chain gets cheaper."""
    shorter = bool(placed)
    while shorter:
        shorter = False
        for q in placed:
            giver = owner[q]
            dues = cost[q]
            through = distance[giver] - dues[giver]
            if through >= INFINITE_COST // 2:
                continue
            for m, due in dues.items():
                if through + due < distance[m]:
                    distance[m], via[m] = through + due, (q, giver)
                    shorter = True

"""Tiny groups on plain lists: each partition comes in on the cheapest chain of hand-overs.

The problem is that of ``assignment_network`` for a handful of cells, where one call of NumPy costs more than the
work. Successive shortest paths (Jewell; Busacker and Gowen): a best plan of some partitions becomes a best plan of
one more along a shortest path, so the end is best. The goals are one cost by their weights. It applies up to
``LISTS_MAX_CELLS``, to equal capacities, without spread; tests hold it as good as the general way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Final

import numpy as np

from apportion.arrays import NOBODY, Ints
from apportion.model.group import Group
from apportion.solvers.problem import weights

LISTS_MAX_CELLS: Final = 48
"""Up to so many cells (partitions x members) plain lists are faster than arrays."""
INFINITE_COST: Final = 1 << 60

Costs = Sequence[Mapping[int, int]]
"""For each partition the members that want it, each with the cost of standing there."""


def plan_by_paths(group: Group, order: tuple[str, ...], claim: Sequence[int] | None, claimed: Set[int]) -> Ints:
    """(P,) owners of a tiny group of any kind; claims as in ``shortest_paths``."""
    who_of_topic: list[list[int]] = [[] for _ in group.topics]
    for m, k in enumerate(group.subscription_of.tolist()):
        for t in group.subscriptions[k].tolist():
            who_of_topic[t].append(m)
    who = [who_of_topic[t] for t in group.topic_of.tolist()]
    far = _far(group, who) if "racks" in order else None
    weight = weights(order, group.P, group.M)
    return np.array(shortest_paths(group.M, who, far, claim, claimed, weight), dtype=np.int64)


def _far(group: Group, who: list[list[int]]) -> list[set[int]] | None:
    """Members that want each partition and have no replica near."""
    racks = group.racks
    if racks is None:
        return None
    rack = racks.of_member.tolist()
    sets = [None if s < 0 else racks.sets[s] for s in racks.set_of.tolist()]
    return [
        set() if near is None else {m for m in wanting if rack[m] >= 0 and rack[m] not in near}
        for near, wanting in zip(sets, who, strict=True)
    ]


def shortest_paths(
    members: int,
    who: Sequence[Sequence[int]],
    far: Sequence[set[int]] | None,
    claim: Sequence[int] | None,
    claimed: Set[int],
    weight: Mapping[str, int],
) -> list[int]:
    """(P,) owners of a plan that is best for the goals that ``weight`` names.

    who, far
        (P,) members that want each partition; those of them that have no replica near, None where racks do not count.
    claim, claimed
        (P,) whose claim stands, -1 nobody's, None where claims do not count; partitions that anybody claims.
    weight
        What a unit of each goal weighs; see ``problem.weights``.

    Best plans of few partitions become best plans of one more along shortest paths, so the end is best (successive
    shortest paths: Jewell; Busacker and Gowen).
    """
    miss, unit = weight.get("racks", 0), weight.get("balance", 0)
    near: Costs = [
        {m: miss if far is not None and m in far[p] else 0 for m in wanting} for p, wanting in enumerate(who)
    ]
    everything = [p for p, wanting in enumerate(who) if wanting]
    owner = [NOBODY] * len(who)
    if claim is None:
        _bring_in(owner, everything, near, unit, members)
        return owner
    move = weight.get("moves", 0)
    cost: Costs = [
        {m: due + (move if claim[p] not in (NOBODY, m) else 0) for m, due in dues.items()}
        for p, dues in enumerate(near)
    ]
    _bring_in(owner, everything, cost, unit, members)
    # What somebody claims goes last: so a second round, in which it alone is free, hands it out in the same way.
    rest = [p for p in everything if owner[p] != claim[p] and p in claimed]
    rest = rest or [p for p in everything if owner[p] != claim[p]]
    for p in rest:
        owner[p] = NOBODY
    _bring_in(owner, rest, near, unit, members)
    return owner


def _bring_in(owner: list[int], rest: Sequence[int], cost: Costs, unit: int, members: int) -> None:
    """Give each of ``rest`` to somebody at least cost, handing over what came in before where that pays."""
    load = [0] * members
    for m in owner:
        if m >= 0:
            load[m] += 1
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

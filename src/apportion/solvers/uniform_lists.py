"""Small groups of one mind on plain lists, without a single array: what millions of small groups need.

The problem is that of ``lexicographic`` with one row and one column: everybody gets n / m or one more, and claims
stay up to that. It applies up to ``LISTS_MAX_PARTITIONS``, to equal capacities and subscriptions, without spread and
racks; it gives the very plan of ``lexicographic``, which a test holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from apportion.arrays import NOBODY, Ints
from apportion.model.group import Group

LISTS_MAX_PARTITIONS: Final = 64
"""Up to so many partitions plain lists are faster than arrays."""


def plan_uniform(group: Group, claim: Sequence[int] | None, contested: Sequence[bool] | None) -> Ints:
    """(P,) owners of a group of one mind; claims as in ``uniform_plan``."""
    topics, wanted = group.topic_of.tolist(), np.flatnonzero(group.wanted).tolist()
    return np.array(uniform_plan(group.M, wanted, claim, contested, topics, group.number.tolist()), dtype=np.int64)


def uniform_plan(
    members: int,
    wanted: Sequence[int],
    claim: Sequence[int] | None,
    contested: Sequence[bool] | None,
    topic: Sequence[int],
    number: Sequence[int],
) -> list[int]:
    """(P,) owners: loads within one of each other, and of those plans one that moves least.

    wanted
        Partitions to hand out, ascending.
    claim
        (P,) whose claim stands, -1 nobody's; None where claims do not count.
    contested
        (P,) whether anybody claims the partition; None where nobody does.

    The same plan as ``exact.solve`` gives where all want the same topics and racks do not count. A member keeps its
    first claims by (number, topic), up to its share; the first in member order with more keep one more.
    """
    owner = [NOBODY] * len(topic)
    low, over = divmod(len(wanted), members)
    load = [0] * members
    if claim is not None:
        load = _keep(owner, wanted, claim, low, over, load, topic, number)
    rest = [p for p in wanted if owner[p] < 0]
    if claim is not None and contested is not None:
        last = [p for p in rest if contested[p]]
        if last and len(last) < len(rest):
            _deal(owner, rest, load, low, over)
            load = [0] * members
            for p in last:
                owner[p] = NOBODY
            for m in owner:
                if m >= 0:
                    load[m] += 1
            rest = last
    _deal(owner, rest, load, low, over)
    return owner


def _keep(
    owner: list[int],
    wanted: Sequence[int],
    claim: Sequence[int],
    low: int,
    over: int,
    load: list[int],
    topic: Sequence[int],
    number: Sequence[int],
) -> list[int]:
    """Give each member as many of its claims as it may keep; returns the loads."""
    held: list[list[int]] = [[] for _ in load]
    for p in wanted:
        if claim[p] >= 0:
            held[claim[p]].append(p)
    for m, mine in enumerate(held):
        cap = low
        if len(mine) > low and over:
            cap, over = low + 1, over - 1
        if len(mine) > cap:
            mine = sorted(mine, key=lambda p: (number[p], topic[p]))[:cap]
        for p in mine:
            owner[p] = m
        load[m] = len(mine)
    return load


def _deal(owner: list[int], rest: Sequence[int], load: list[int], low: int, over: int) -> None:
    """Hand out ``rest``, each to the member that holds fewest and still needs one."""
    if not rest:
        return
    high = low + (over > 0)
    spare = len(rest) - sum(low - held for held in load if held < low)
    turns = []
    for m, held in enumerate(load):
        upto = low
        if spare and max(held, low) < high:
            upto, spare = high, spare - 1
        turns += [(level, m) for level in range(held, upto)]
    turns.sort()
    for p, (_, m) in zip(rest, turns, strict=True):
        owner[p] = m

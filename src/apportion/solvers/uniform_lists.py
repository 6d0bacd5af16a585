"""Small groups of one mind on plain lists, without a single array: what millions of small groups need.

The problem is that of ``lexicographic`` with one row and one column: everybody gets n / m or one more, and claims
stay up to that. It applies up to ``LISTS_MAX_PARTITIONS``, to equal capacities and subscriptions, without spread and
racks; it gives the very plan of ``lexicographic``, which a test holds.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Final

import numpy as np

from apportion.arrays import NOBODY, Ints
from apportion.model.group import Group

LISTS_MAX_PARTITIONS: Final = 64
"""Up to so many partitions plain lists are faster than arrays."""


def plan_uniform(group: Group, claim: Sequence[int] | None, claimed: Set[int]) -> Ints:
    """(P,) owners of a group of one mind; claims as in ``uniform_plan``."""
    wanted = np.flatnonzero(group.wanted).tolist()
    return np.array(uniform_plan(group.M, wanted, claim, claimed, group.number.tolist()), dtype=np.int64)


def uniform_plan(
    members: int,
    wanted: Sequence[int],
    claim: Sequence[int] | None,
    claimed: Set[int],
    number: Sequence[int],
) -> list[int]:
    """(P,) owners: loads within one of each other, and of those plans one that moves least.

    wanted
        Partitions to hand out, ascending, so by topic.
    claim
        (P,) whose claim stands, -1 nobody's; None where claims do not count.
    claimed
        Partitions that anybody claims, rightly or not.

    A member keeps its first claims by (number, topic), up to its share; the first in member order with more keep one
    more. What somebody claims goes last (see ``dealing.claimed_last``).
    """
    owner = [NOBODY] * len(number)
    low, over = divmod(len(wanted), members)
    if claim is not None:
        _keep(owner, sorted(wanted, key=number.__getitem__), claim, low, over, members)
    rest = [p for p in wanted if owner[p] < 0]
    last = [p for p in rest if p in claimed] if claim is not None else []
    if last and len(last) < len(rest):
        _deal(owner, rest, low, over, members)
        for p in last:
            owner[p] = NOBODY
        rest = last
    _deal(owner, rest, low, over, members)
    return owner


def _keep(owner: list[int], wanted: Sequence[int], claim: Sequence[int], low: int, over: int, members: int) -> None:
    """Give each member as many of its claims as it may keep, the first of ``wanted``."""
    held: list[list[int]] = [[] for _ in range(members)]
    for p in wanted:
        if claim[p] >= 0:
            held[claim[p]].append(p)
    for m, mine in enumerate(held):
        cap = low + (over > 0)
        over -= len(mine) > low
        for p in mine[:cap]:
            owner[p] = m


def _deal(owner: list[int], rest: Sequence[int], low: int, over: int, members: int) -> None:
    """Hand out ``rest``, each to the member that holds fewest and still needs one."""
    load = [0] * members
    for m in owner:
        if m >= 0:
            load[m] += 1
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

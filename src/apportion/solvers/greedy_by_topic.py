"""A plan for groups too wide for one table: topic by topic, then single hand-overs; valid and even, little is shown.

The problem: with thousands of different subscriptions to thousands of topics, the table of subscriptions by topics
alone passes ``CELLS``, and every exact way here needs it. So there are lists only: each topic's members, each member's
load.

Why the plan is valid and even: a partition is only ever given to a subscriber of its topic. Topics that few want are
handed out first, each to the subscribers with the least loads (``fair_loads.pour``). Then single partitions
are handed over wherever that makes the sum of load^2 / capacity less. It falls with each step, so this ends, where no
single hand-over makes it less; a chain of them still could, so it need not be the least. Claims that gave way are
handed out anew after the others, and evened out again, ``PASSES`` times at most. Racks count for nothing. A goal is
called optimal only where the plan meets a bound of all plans: loads that differ by one at most, no rack missed, no
claim lost, each after the goals before it.

The price: a look at every wish and every partition in each pass over the topics, and at one topic for each hand-over.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Final

import numpy as np

from apportion.arrays import NOBODY, Bools, Ints
from apportion.model.group import Group
from apportion.model.measures import measure
from apportion.solvers.dealing import laps
from apportion.solvers.fair_loads import pour
from apportion.solvers.goals import MOVES, SPREAD, Goal, Order

PASSES: Final = 20
"""Rounds of evening out and handing out anew."""

Topics = list[tuple[Ints, Ints]]
"""Of each topic its members and its partitions, both ascending."""


def plan_by_topic(group: Group, unit: Ints, order: Order) -> tuple[Ints, dict[Goal, str]]:
    """Owners (P,) of a group whose subscriptions fill more than one table, and the bounds' proof; spread is left out.

    unit
        (M,) 1 / capacity in whole numbers.

    >>> from apportion.model.group_json import read_group
    >>> members = {"a": {"topics": ["t"], "owned": {"t": [0, 1, 2]}}, "b": {"topics": ["t"]}}
    >>> group = read_group({"topics": {"t": 4}, "members": members})
    >>> from apportion.solvers.goals import BALANCE
    >>> owner, proof = plan_by_topic(group, np.array([1, 1]), (BALANCE, MOVES))
    >>> owner, proof[BALANCE], proof[MOVES]
    (array([0, 0, 1, 1]), 'optimal', 'heuristic')
    """
    claim, waits = np.full(group.P, NOBODY, dtype=np.int64), np.zeros(group.P, dtype=np.bool_)
    if MOVES in order:
        claim, waits = group.owner, (group.owner == NOBODY) & (group.claimed_by != NOBODY)
    # Topics that few members want come first: the others can still go round them.
    pairs = ((group.subscribers(t), np.arange(group.start[t], group.start[t + 1])) for t in range(group.T))
    topics = sorted((pair for pair in pairs if len(pair[0])), key=lambda pair: len(pair[0]))
    owner = _settle(topics, unit, claim, waits)
    measures = measure(group, owner)
    shown = list(takewhile(lambda goal: SPREAD not in order and goal.words(measures)[1], order))
    return owner, {goal: "optimal" if goal in shown else "heuristic" for goal in order}


def _settle(topics: Topics, unit: Ints, claim: Ints, waits: Bools) -> Ints:
    """Owners (P,): claims (P,) stay unless a move makes two loads more even; those that ``waits`` (P,) marks go last.

    What somebody claims goes last and anew: so a second round, in which it alone is free, ends alike.
    """
    owner = _fill(topics, unit, claim.copy())
    for _ in range(PASSES):
        owner[waits] = NOBODY
        before = _fill(topics, unit, owner)
        owner = before.copy()
        while _even_out(topics, unit, owner):
            pass
        moved = (owner != before) & ~waits
        if not moved.any():
            break
        waits |= moved & (claim != NOBODY)
    return owner


def _fill(topics: Topics, unit: Ints, owner: Ints) -> Ints:
    """Give partitions without an owner to subscribers with fewest; writes into the owners (P,), and returns them."""
    load = np.bincount(owner[owner != NOBODY], minlength=len(unit))
    equal = bool((unit == unit[0]).all())
    for who, span in topics:
        rest = span[owner[span] == NOBODY]
        if len(rest):
            need = pour(len(rest), load[who], None if equal else unit[who])
            owner[rest] = who[laps(need, np.zeros_like(who), load[who])]
            load[who] += need
    return owner


def _even_out(topics: Topics, unit: Ints, owner: Ints) -> bool:
    """Hand single partitions to subscribers for whom they cost less than for the holder; whether any was."""
    load = np.bincount(owner[owner != NOBODY], minlength=len(unit))
    moved = False
    for who, span in topics:
        while len(span):
            # One more of load^2 costs 2 load + 1; the last one cost 2 load - 1.
            price = unit[who] * (2 * load[who] + 1)
            least = int(price.argmin())
            paid = unit[owner[span]] * (2 * load[owner[span]] - 1)
            most = len(span) - 1 - int(paid[::-1].argmax())
            if paid[most] <= price[least]:
                break
            load[owner[span[most]]] -= 1
            load[who[least]] += 1
            owner[span[most]] = who[least]
            moved = True
    return moved

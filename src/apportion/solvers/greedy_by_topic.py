"""A plan for groups too wide for one table: topic by topic, then single hand-overs; valid and even, little is shown.

The problem: with thousands of different subscriptions to thousands of topics, the table of subscriptions by topics
alone passes ``CELLS``, and every exact way here needs it. So there are lists only: each topic's members, each member's
load.

Why the plan is valid and even: a partition is only ever given to a subscriber of its topic. Topics that few want are
handed out first, each to the subscribers with the least loads (``fair_loads.pour``). Then single partitions
are handed over wherever that makes the sum of load^2 / capacity less. It falls with each step, so this ends, where no
single hand-over makes it less; a chain of them still could (``semi_matching`` follows chains), so it need not be the
least. Claims that gave way are handed out anew after the others, and evened out again, ``PASSES`` times at most. Racks
count for nothing. A goal is called optimal only where the plan meets a bound of all plans: loads that differ by one at
most, no rack missed, no claim lost, each after the goals before it.

The price: a look at every wish and every partition in each pass over the topics, and at one topic for each hand-over.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Final

import numpy as np

from apportion.arrays import NOBODY, Bools, Ints
from apportion.model.group import Group
from apportion.model.measures import loads, rack_misses
from apportion.solvers.dealing import laps
from apportion.solvers.fair_loads import pour

PASSES: Final = 20
"""Rounds of evening out and handing out anew."""


def plan_by_topic(group: Group, unit: Ints, order: tuple[str, ...]) -> tuple[Ints, dict[str, str]]:
    """Owners (P,) of a group whose subscriptions fill more than one table, and what bounds show; spread is left out.

    unit
        (M,) 1 / capacity in whole numbers.
    """
    claim, contested = np.full(group.P, NOBODY, dtype=np.int64), None
    if "moves" in order:
        claim, contested = group.owner, group.claimed_by != NOBODY
    who = subscribers(group.subscriptions, group.subscription_of, group.T)
    owner = Wide(group.start, who, unit).plan(claim, contested)
    load = loads(owner, group.M)
    met = {
        "balance": bool((unit == unit[0]).all()) and int(load.max() - load.min()) <= 1,
        "racks": not rack_misses(group, owner).any(),
        "moves": bool((owner == group.owner)[group.owner != NOBODY].all()),
    }
    shown = list(takewhile(lambda goal: "spread" not in order and met[goal], order))
    return owner, {goal: "optimal" if goal in shown else "heuristic" for goal in order}


class Wide:
    """Topics as runs of partitions, their subscribers as runs of members; loads kept as partitions change hands.

    start
        (T + 1,) partitions of topic t are ``start[t]:start[t + 1]``.
    subscribers
        For each topic its members, ascending.
    unit
        (M,) 1 / capacity in whole numbers.
    """

    def __init__(self, start: Ints, subscribers: list[Ints], unit: Ints) -> None:
        self.start = start.tolist()
        self.unit = unit
        self.subscribers = subscribers
        # Topics that few members want come first: the others can still go round them.
        wish = np.array([len(who) for who in subscribers])
        self.topics = [t for t in np.argsort(wish, kind="stable").tolist() if wish[t]]
        self.members = len(unit)

    def plan(self, claim: Ints, contested: Bools | None) -> Ints:
        """Owners (P,): claims stay unless handing them over makes two loads more even.

        claim
            (P,) whose claim stands, -1 nobody's. contested (P,) whether anybody claims it.
        """
        waits = np.zeros(len(claim), dtype=np.bool_) if contested is None else contested & (claim == NOBODY)
        owner = self._fill(claim.copy())
        owner[waits] = NOBODY
        owner = self._fill(owner)
        for _ in range(PASSES):
            before = owner.copy()
            while self._even_out(owner):
                pass
            moved = (owner != before) & ~waits
            if not moved.any():
                break
            # What somebody claims goes last and anew: so a second round, in which it alone is free, ends alike.
            waits |= moved & (claim != NOBODY)
            owner[waits] = NOBODY
            owner = self._fill(owner)
        return owner

    def _fill(self, owner: Ints) -> Ints:
        """Give what nobody has to the subscribers that hold fewest."""
        load = np.bincount(owner[owner != NOBODY], minlength=self.members)
        for t in self.topics:
            span = slice(self.start[t], self.start[t + 1])
            rest = np.flatnonzero(owner[span] == NOBODY) + span.start
            if not len(rest):
                continue
            who = self.subscribers[t]
            base = load[who]
            unit = self.unit[who] if (self.unit != self.unit[0]).any() else None
            need = pour(len(rest), base, unit)
            owner[rest] = who[laps(need, np.zeros(len(who), dtype=np.int64), base)]
            load[who] += need
        return owner

    def _even_out(self, owner: Ints) -> bool:
        """Hand single partitions to subscribers for whom they cost less than for the holder; whether any was."""
        load = np.bincount(owner[owner != NOBODY], minlength=self.members)
        moved = False
        for t in self.topics:
            who = self.subscribers[t]
            open_ = np.arange(self.start[t], self.start[t + 1])
            while len(open_):
                least = int(who[(self.unit[who] * (2 * load[who] + 1)).argmin()])
                holder = owner[open_]
                paid = self.unit[holder] * (2 * load[holder] - 1)
                most = len(open_) - 1 - int(paid[::-1].argmax())
                p = int(open_[most])
                if paid[most] <= self.unit[least] * (2 * load[least] + 1):
                    break
                load[owner[p]] -= 1
                load[least] += 1
                owner[p] = least
                moved = True
        return moved


def subscribers(subscriptions: tuple[Ints, ...], subscription_of: Ints, topics: int) -> list[Ints]:
    """Each topic's members, ascending, without a table of members by topics."""
    topic = np.concatenate([subscriptions[k] for k in subscription_of.tolist()])
    member = np.repeat(np.arange(len(subscription_of)), [len(subscriptions[k]) for k in subscription_of.tolist()])
    order = np.argsort(topic, kind="stable")
    return np.split(member[order], np.cumsum(np.bincount(topic, minlength=topics))[:-1])

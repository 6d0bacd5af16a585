"""Groups whose members want the same or nothing in common, can take the same and where no rack counts: by counting.

The problem is the one of ``lexicographic`` where each row has one column. Nobody competes, so the members that want the
same share as if they were alone: each gets n / m or one more, and claims stay up to that, those with the lowest numbers
first. What is left goes round the members that hold fewest. The plan is the very plan of ``lexicographic``, for balance
and then moves, without classes, flows and checks of what rows of one column cannot break.
"""

from __future__ import annotations

import numpy as np

from apportion.arrays import NOBODY, Ints
from apportion.model.group import Group
from apportion.model.measures import loads
from apportion.solvers.dealing import claimed_last, laps, stable_order
from apportion.solvers.retention import first_ones


def plan_uniform(group: Group) -> Ints:
    """(P,) owners; ``group.apart`` must hold."""
    kind, kinds = group.subscription_of, len(group.subscriptions)
    kind_of_topic = np.full(group.T, kinds)
    for k, topics in enumerate(group.subscriptions):
        kind_of_topic[topics] = k
    wanted = np.bincount(kind_of_topic, group.start[1:] - group.start[:-1], kinds + 1)[:kinds].astype(np.int64)
    share, over = np.divmod(wanted, np.bincount(kind))
    low, owner = share[kind], group.owner.copy()
    own = loads(owner, group.M)

    def first_of_kinds(members: Ints, count: Ints) -> Ints:
        """Those of the members, ascending, that are the first ``count`` (K,) of their kind."""
        return members[: count[0]] if kinds == 1 else members[first_ones(kind[members], count, ())]

    cap = low.copy()
    cap[first_of_kinds((own > low).nonzero()[0], over)] += 1
    pressed = ((own > cap)[owner] & (owner != NOBODY)).nonzero()[0]
    if len(pressed):
        stays = first_ones(owner[pressed], cap, (group.number[pressed],))
        owner[pressed[~stays]] = NOBODY

    def hand_out(owner: Ints, rest: Ints) -> Ints:
        load, kind_of = loads(owner, group.M), kind_of_topic[group.topic_of[rest]]
        need = np.maximum(low - load, 0)
        more = np.bincount(kind_of, minlength=kinds) - np.bincount(kind, need, kinds).astype(np.int64)
        need[first_of_kinds((load <= low).nonzero()[0], more)] += 1
        owner = owner.copy()
        owner[rest[stable_order(kind_of)]] = laps(need, kind, load)
        return owner

    return claimed_last(owner, group.wanted, group.claimed_by != NOBODY, hand_out)

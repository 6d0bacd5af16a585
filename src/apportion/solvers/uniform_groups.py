"""Groups whose members want the same, can take the same and where no rack counts: balance, then moves, by counting.

The problem is the one of ``lexicographic`` with one row and one column. Everybody gets n / m or one more, and claims
stay up to that, those with the lowest numbers first. What is left goes round the members that hold fewest. The plan is
the very plan of ``lexicographic``, without classes, flows and checks of what one row and one column cannot break.
"""

from __future__ import annotations

import numpy as np

from apportion.arrays import NOBODY, Ints
from apportion.model.group import Group
from apportion.model.measures import loads
from apportion.solvers.dealing import claimed_last, laps
from apportion.solvers.retention import first_ones


def plan_uniform(group: Group) -> Ints:
    """(P,) owners."""
    low, over = divmod(int(np.count_nonzero(group.wanted)), group.M)
    owner = group.owner.copy()
    own = loads(owner, group.M)
    cap = np.full(group.M, low, dtype=np.int64)
    cap[(own > low).nonzero()[0][:over]] += 1
    pressed = np.append(own > cap, np.False_)[owner].nonzero()[0]
    if len(pressed):
        stays = first_ones(owner[pressed], cap, (group.number[pressed],))
        owner[pressed[~stays]] = NOBODY

    def hand_out(owner: Ints, rest: Ints) -> Ints:
        load = loads(owner, group.M)
        need = np.maximum(low - load, 0)
        need[(load <= low).nonzero()[0][: len(rest) - int(need.sum())]] += 1
        owner = owner.copy()
        owner[rest] = laps(need, np.zeros_like(need), load)
        return owner

    return claimed_last(owner, group.wanted, group.claimed_by != NOBODY, hand_out)

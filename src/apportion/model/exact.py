"""The best plan of a group for goals in an order."""

from __future__ import annotations

from typing import Final

import numpy as np

from apportion.arrays import NOBODY
from apportion.model.group import Group
from apportion.model.plan import Answer

GOALS: Final = ("balance", "racks", "moves")


def check_order(order: tuple[str, ...]) -> None:
    """Raise ValueError unless the order names some of the goals, each once."""
    if not isinstance(order, tuple) or not order or len(set(order)) < len(order) or set(order) - set(GOALS):
        raise ValueError(f"order={','.join(map(str, order))}; it names some of {', '.join(GOALS)}, each once")


def best(group: Group, order: tuple[str, ...] = GOALS) -> Answer:
    """The plan that is best for the goals in their order, with what is proved of it."""
    owner = np.full(group.P, NOBODY, dtype=np.int64)
    past = group.owner if "moves" in order else owner
    load = np.zeros(group.M, dtype=np.int64)
    wanted = int(group.wanted.sum())
    quota, over = divmod(wanted, group.M)
    if len(group.subscriptions) > 1:
        quota, over = -(-wanted // group.M), 0
    for p in np.lexsort((group.topic_of, group.number)).tolist():
        m = int(past[p])
        if m == NOBODY or load[m] > quota or (load[m] == quota and not over):
            continue
        over -= int(load[m] == quota)
        owner[p] = m
        load[m] += 1
    for t in range(group.T):
        members = group.subscribers(t)
        for p in range(int(group.start[t]), int(group.start[t + 1])):
            if owner[p] == NOBODY and len(members):
                owner[p] = m = int(members[np.argmin(load[members])])
                load[m] += 1
    return Answer(owner, {goal: "heuristic" for goal in order if goal != "racks"})

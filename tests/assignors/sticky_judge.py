"""Whether a plan is the best there is, found without a line of the solver: raw partitions and raw members.

Two judges. ``fewer_by_trying`` tries every plan of a tiny group. ``better_exchange`` looks, in a group of any size that
fits a table, for a chain of hand-overs that improves the goals: a plan is best exactly when there is none, because
the difference of two plans falls apart into such chains and the sum of squares is convex.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np


def facts(
    raw: Mapping[str, Any],
) -> tuple[list[tuple[str, int]], list[str], list[list[int]], list[list[int]], list[int]]:
    """The group in plain lists: partitions, members, who may own each, who misses each, whose claim stands."""
    parts = []
    racks = {}
    for topic, what in raw["topics"].items():
        for entry in range(what) if isinstance(what, int) else what:
            p = (topic, entry if isinstance(entry, int) else entry["partition"])
            parts.append(p)
            racks[p] = set() if isinstance(entry, int) else {r for r in entry.get("racks") or [] if r}
    members = list(raw["members"])
    may, miss, past = [], [], []
    for p in parts:
        may.append([m for m, name in enumerate(members) if p[0] in raw["members"][name]["topics"]])
        miss.append(
            [
                m
                for m, name in enumerate(members)
                if racks[p] and (r := raw["members"][name].get("rack")) and r not in racks[p]
            ]
        )
        claims = []
        for m, name in enumerate(members):
            member = raw["members"][name]
            if p[1] in (member.get("owned") or {}).get(p[0], []):
                generation = member.get("generation")
                claims.append((-1 if generation is None else generation, m))
        top = [m for g, m in claims if g == max(claims)[0]]
        past.append(top[0] if len(top) == 1 and top[0] in may[-1] else -1)
    return parts, members, may, miss, past


def owners(raw: Mapping[str, Any], assignment: Mapping[str, Mapping[str, list[int]]]) -> list[int]:
    """The plan as one owner a partition, after checking that it is a valid plan."""
    parts, members, may, _, _ = facts(raw)
    index = {p: i for i, p in enumerate(parts)}
    owner = [-1] * len(parts)
    assert sorted(assignment) == sorted(members)
    for name, topics in assignment.items():
        for topic, numbers in topics.items():
            assert numbers == sorted(numbers)
            assert numbers
            for number in numbers:
                i = index[topic, number]
                assert owner[i] == -1, "a partition twice"
                assert members.index(name) in may[i], "a partition that the member does not want"
                owner[i] = members.index(name)
    assert all((o == -1) == (not w) for o, w in zip(owner, may, strict=True)), "a wanted partition is left over"
    return owner


def score(raw: Mapping[str, Any], owner: list[int], order: tuple[str, ...]) -> tuple[int, ...]:
    """The goals' values, most important first; the less the better."""
    _, members, _, miss, past = facts(raw)
    loads = np.bincount([o for o in owner if o >= 0], minlength=len(members))
    value = {
        "balance": int((loads**2).sum()),
        "racks": sum(o in miss[p] for p, o in enumerate(owner)),
        "moves": sum(past[p] not in (-1, o) for p, o in enumerate(owner)),
    }
    return tuple(value[goal] for goal in order)


def best_by_trying(raw: Mapping[str, Any], order: tuple[str, ...]) -> tuple[int, ...]:
    """The best score among all plans."""
    _, _, may, _, _ = facts(raw)
    return min(score(raw, list(plan), order) for plan in itertools.product(*[who or [-1] for who in may]))


def better_exchange(raw: Mapping[str, Any], owner: list[int], order: tuple[str, ...]) -> bool:
    """Whether some chain of hand-overs improves the plan."""
    _, members, may, miss, past = facts(raw)
    n, parts = len(members), len(owner)
    limit = {"balance": 2 * parts + 2, "racks": n + 1, "moves": n + 1}
    weight, below = {}, 0
    for goal in reversed(order):
        weight[goal] = below + 1
        below += weight[goal] * limit[goal]
    assert below < 2**60
    far = 2**61
    cost = np.full((parts, n), far, dtype=object)
    for p in range(parts):
        for m in may[p]:
            cost[p, m] = weight.get("racks", 0) * (m in miss[p]) + weight.get("moves", 0) * (past[p] not in (-1, m))
    hop = np.full((n + 1, n + 1), far, dtype=np.int64)
    for p, o in enumerate(owner):
        if o >= 0:
            for m in may[p]:
                hop[o, m] = min(hop[o, m], cost[p, m] - cost[p, o])
    loads = np.bincount([o for o in owner if o >= 0], minlength=n)
    # The last node stands for "one more here, one less there": squares change by 2 (there - here + 1).
    hop[:n, n] = weight.get("balance", 0) * (loads + 1)
    hop[n, :n] = np.where(loads > 0, -weight.get("balance", 0) * loads, far)
    np.fill_diagonal(hop, 0)
    for via in range(n + 1):
        if (np.diag(hop) < 0).any():
            return True
        reach = (hop[:, via] < far // 2)[:, None] & (hop[via] < far // 2)[None, :]
        through = np.where(reach, hop[:, via][:, None] + np.where(hop[via] < far // 2, hop[via], 0), far)
        hop = np.minimum(hop, through)
    return bool((np.diag(hop) < 0).any())


def flaw(
    raw: Mapping[str, Any],
    owner: list[int],
    order: tuple[str, ...],
    weight: Mapping[str, int],
    price: Mapping[str, int],
) -> str | None:
    """What is wrong with a certificate; None where it shows that no plan is better.

    Checked on raw partitions and raw members: the weights keep the goals' order, each partition is at its cheapest
    member, each price lies between what the last and the next partition weigh.
    """
    _, members, may, miss, past = facts(raw)
    below = 0
    for goal in reversed(order):
        if weight[goal] <= below:
            return f"the weight of {goal} is too small"
        # An exchange passes each member once; half of the squares change by the difference of two loads.
        below += weight[goal] * (len(owner) if goal == "balance" else len(members))
    dues = [price[name] for name in members]
    for p, who in enumerate(may):
        cost = {
            m: dues[m] + weight.get("racks", 0) * (m in miss[p]) + weight.get("moves", 0) * (past[p] not in (-1, m))
            for m in who
        }
        if who and cost[owner[p]] > min(cost.values()):
            return f"partition {p} is cheaper elsewhere"
    unit = weight.get("balance", 0)
    for m, due in enumerate(dues):
        load = owner.count(m)
        if due > unit * (load + 1) or (load and due < unit * load):
            return f"the price {due} of {members[m]} does not fit its load {load}"
    return None

"""The value of an answer: balance, moves, lag spread, locality, a line each."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np

from apportion.arrays import NOBODY, UNKNOWN, Bools, Ints, Longs
from apportion.errors import BadInput
from apportion.model.group import Group
from apportion.model.group_json import GroupLike, group_of
from apportion.model.to_names import by_owner

_COUNTED: Final = 4
"""Members x topics for each partition, up to which counting in a table is quicker than sorting."""


def measure(group: GroupLike, owner: Ints | Sequence[int]) -> dict[str, Any]:
    """The measures of a plan, named as in plan.json.

    group
        A ``Group``, group.json as a dict or text, or the ``Path`` of a file.
    owner
        (P,) the plan's answer: members by their number; -1 nobody.
    Raises
        BadInput for a bad group, and for owners of which there are not P, or that are no members.

    >>> pair = {"topics": {"t": 3}, "members": {"a": {"topics": ["t"]}, "b": {"topics": ["t"]}}}
    >>> measure(pair, [0, 1, 1])["load_max"]
    2

    Returns
        partitions (wanted ones), members, load_min, load_max, load_squares (partitions a member, squared and summed),
        spread_squares (partitions of a topic that a member holds, squared and summed); where some capacity is not 1,
        load_cost and spread_cost, the same sums with each square divided by the member's capacity, as fractions in
        text; kept and moves (standing claims whose partition stays, or goes to another member); where a stale claim
        tells where partitions may come home, returned (those that do); rack_misses; and where the
        lag of a wanted partition is known, lag_max (messages of the heaviest member), lag_bound (no plan that assigns
        the same partitions gets below it), lag_unknown (wanted partitions).
    """
    group = group_of(group)
    owner = _checked(owner, group)
    held = loads(owner, group.M)
    past = group.owner
    of_topic = held_of_topic(group, owner)
    table = table_measures(group, owner)
    result: dict[str, Any] = {
        "partitions": table["partitions"],
        "members": group.M,
        "load_min": table["load_min"],
        "load_max": table["load_max"],
        "load_squares": int(held @ held),
        "spread_squares": int(of_topic[1] @ of_topic[1]),
        "kept": int(np.count_nonzero((past != NOBODY) & (past == owner))),
        "moves": table["moves"],
        "rack_misses": table["rack_misses"],
    }
    if group.has_capacities:
        result["load_cost"] = str(cost_of_loads(held, group.capacity))
        result["spread_cost"] = str(cost_of_loads(of_topic[1], group.capacity[of_topic[0]]))
    if len(group.verdict.newest) and (group.home != NOBODY).any():
        result["returned"] = int(np.count_nonzero((group.home == owner) & (owner != NOBODY)))
    if "lag_max" in table:
        result["lag_max"] = table["lag_max"]
        result["lag_bound"] = lag_bound(group, owner)
        result["lag_unknown"] = int(np.count_nonzero(group.wanted & ~group.lag_known))
    return result


def _checked(owner: object, group: Group) -> Ints:
    """(P,) the owners, if they can be."""
    given = np.asarray(owner)
    if given.shape != (group.P,) or (given.dtype.kind not in "iu" and group.P):
        raise BadInput(
            "owner", f"{given.dtype} of shape {given.shape}", f"a whole number for each of {group.P} partitions"
        )
    if group.P and not NOBODY <= int(given.min()) <= int(given.max()) < group.M:
        raise BadInput("owner", f"numbers from {given.min()} to {given.max()}", f"-1 (nobody) to {group.M - 1}")
    return given.astype(np.int64, copy=False)


def table_measures(group: Group, owner: Ints) -> dict[str, int]:
    """Of the same measures those that a table has: partitions, load_min, load_max, moves, rack_misses and lag_max."""
    held = loads(owner, group.M).tolist()  # of a few members Python finds the least and the most sooner than NumPy
    result = {
        "partitions": group.P if group.all_wanted else int(np.count_nonzero(group.wanted)),
        "load_min": min(held, default=0),
        "load_max": max(held, default=0),
        "moves": moves(group, owner),
        "rack_misses": int(np.count_nonzero(rack_misses(group, owner))) if group.racks and group.racks.known else 0,
    }
    if group.shows_lag:
        result["lag_max"] = max(lag_held(group, owner).tolist(), default=0)
    return result


def moves(group: Group, owner: Ints) -> int:
    """Standing claims whose partition goes to another member."""
    if not len(group.claims.member):
        return 0
    past = group.owner
    return int(np.count_nonzero((past != NOBODY) & (owner != NOBODY) & (past != owner)))


def cost_of_loads(held: Ints, capacity: Ints) -> Fraction:
    """The sum of held^2 / capacity, both (N,), exactly.

    >>> print(cost_of_loads(np.array([3, 1]), np.array([2, 1])))
    11/2
    """
    squares: dict[int, int] = {}
    for c, square in zip(capacity.tolist(), (held * held).tolist(), strict=True):
        squares[c] = squares.get(c, 0) + square
    return sum((Fraction(square, c) for c, square in squares.items()), Fraction(0))


def held_of_topic(group: Group, owner: Ints) -> tuple[Ints, Ints]:
    """(N,) members and partitions held, one entry for each topic and member that has some of it."""
    if group.M * group.T <= _COUNTED * group.P:
        owned = (owner != NOBODY).nonzero()[0]
        count = np.bincount(owner[owned] * group.T + group.topic_of[owned])
        cell = count.nonzero()[0]
        return cell // max(group.T, 1), count[cell]
    order, held = by_owner(owner, group.M)
    member, topic = np.repeat(np.arange(group.M), held), group.topic_of[order]
    begins = np.ones(len(order), dtype=np.bool_)
    begins[1:] = (topic[1:] != topic[:-1]) | (member[1:] != member[:-1])
    first = np.flatnonzero(begins)
    return member[first], np.diff(first, append=len(order))


def loads(owner: Ints, members: int) -> Ints:
    """(M,) partitions each member holds."""
    # Counted with those that nobody has: leaving them out first takes longer.
    return np.bincount(owner + 1, minlength=members + 1)[1:]


def lag_held(group: Group, owner: Ints) -> Longs:
    """(M,) messages each member has to read; exact beyond 2**53 too, unlike floats."""
    if group.lag_floats is not None:
        return np.bincount(owner + 1, group.lag_floats, group.M + 1)[1:].astype(np.int64)
    mine = owner != NOBODY
    lag = summable(group.lag[mine])
    held = np.zeros(group.M, dtype=lag.dtype)
    np.add.at(held, owner[mine], lag)
    return held


def lag_bound(group: Group, owner: Ints) -> int:
    """Messages that the heaviest member must have in any plan that assigns the same partitions."""
    lag = summable(group.lag[owner != NOBODY])
    if not len(lag):
        return 0
    return max(int(lag.max()), -(-int(lag.sum()) // group.M))


def summable(lag: Longs) -> Longs:
    """The lags, as Python's unbounded integers if their sum may pass 63 bits."""
    return lag if not len(lag) or int(lag.max()) < 2**62 // len(lag) else lag.astype(object)


def rack_misses(group: Group, owner: Ints) -> Bools:
    """(P,) whether both racks are known and no replica is in the owner's."""
    racks = group.racks
    if racks is None or not racks.known:
        return np.zeros(group.P, dtype=np.bool_)
    rack = np.where(owner == NOBODY, UNKNOWN, racks.of_member[owner])
    known = (rack != UNKNOWN) & (racks.set_of != UNKNOWN)
    missed = np.zeros(group.P, dtype=np.bool_)
    missed[known] = ~racks.near[rack[known], racks.set_of[known]]
    return missed

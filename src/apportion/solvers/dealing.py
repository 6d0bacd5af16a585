"""Hand out in laps: the next partition to the next member that still needs one.

The problem: a table says how many partitions of each row go to each column, and each member's load is known. Which
partition goes to which member is free then as far as balance, racks and moves are concerned. It is chosen so that each
topic is spread over its members, and that the same group always gives the same plan.

Why laps: topics come one after the other, so a topic of n partitions dealt round m like members gives each n / m of
them or one more, as long as all are served. Members that hold fewest are served first, so laps end level. Where a row
goes to several columns, its k-th unit of n in a column comes at (k - 1/2) / n: the order of Sainte-Laguë's divisors in
apportionment, and of due dates in level schedules (Inman and Bulfin, "Sequencing JIT mixed-model assembly lines",
1991). The price is a few sorts of the partitions that are dealt. ``deal_by_topic`` tries harder, member by member, and
takes a step for each partition: a good try where members hold something already, and no promise.

What somebody claims goes last (``claimed_last``): then cooperative groups end in their second round where they were
sent in the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from apportion.arrays import NOBODY, Bools, Ints

RADIX_MAX: Final = 1 << 15
"""Keys below this are sorted by radix."""
HandOut = Callable[[Ints, Ints], Ints]
"""Gives (P,) owners from those that are fixed and the partitions (F,) to hand out."""


def claimed_last(owner: Ints, wanted: Bools, contested: Bools | None, hand_out: HandOut) -> Ints:
    """(P,) owners with all wanted partitions handed out, those with a new claim after all others.

    owner
        (P,) what is fixed; -1 elsewhere.
    contested
        (P,) whether anybody claims the partition; None where that does not count.

    In a second cooperative round just these partitions are free, around all others: it hands them out in the same way.

    >>> def to_the_first(owner, rest):
    ...     return np.where(np.isin(np.arange(len(owner)), rest), 0, owner)
    ...
    >>> claimed_last(np.array([1, -1, -1]), np.array([True, True, False]), None, to_the_first)
    array([ 1,  0, -1])
    """
    rest = ((owner == NOBODY) & wanted).nonzero()[0]
    if contested is not None:
        last = contested[rest]
        if last.any() and not last.all():
            owner = hand_out(owner, rest)
            rest = rest[last]
            owner[rest] = NOBODY
    return hand_out(owner, rest) if len(rest) else owner


def laps(need: Ints, column: Ints, load: Ints) -> Ints:
    """Members in the order in which they are served: column by column, in each the one that holds fewest first.

    need
        (M,) partitions that each member still gets.
    column, load
        (M,) its column, and how many it holds by now.
    Returns
        (sum of need,) members.

    >>> laps(np.array([2, 1, 3]), np.array([0, 0, 0]), np.array([0, 1, 0]))
    array([0, 2, 0, 1, 2, 2])
    """
    member = np.arange(len(need)).repeat(need)
    level = np.arange(len(member)) + (load - need.cumsum() + need).repeat(need)
    key = column[member] * (int(level.max(initial=0)) + 1) + level
    return member[stable_order(key)]


def deal(row: Ints, table: Ints, need: Ints, column: Ints, load: Ints) -> Ints:
    """(S,) the member for each partition, if ``table`` (I, J) says how many of each row go to which column.

    row
        (S,) row of each partition, in the order in which they are dealt.
    need, column, load
        (M,) partitions that each member gets, its column, and how many it holds by now.

    >>> deal(np.array([0, 0, 1]), np.array([[1, 1], [0, 1]]), np.array([1, 2]), np.array([0, 1]), np.array([0, 0]))
    array([0, 1, 1])
    """
    into = table.argmax(axis=1)[row]
    if int(np.count_nonzero(table, axis=1).max()) > 1:  # some row goes to several columns
        into[stable_order(row)] = np.concatenate([interleave(amounts) for amounts in table])
    owner = np.empty(len(row), dtype=np.int64)
    owner[stable_order(into)] = laps(need, column, load)
    return owner


def deal_by_topic(row: Ints, topic: Ints, table: Ints, need: Ints, column: Ints, held: Ints) -> Ints:
    """(S,) as ``deal``, each member taking of topics of which it has least, of those the most plentiful first.

    topic
        (S,) of each partition. held (T, M) how many partitions of each topic each member has.

    Loads and the columns' amounts are those of ``deal``. Plentiful topics first is how degree sequences are realised
    (Gale, Ryser); with what members hold already it is a good try, not a promise. Single exchanges mend the rest.

    >>> row, topic, alike = np.zeros(4, dtype=np.int64), np.array([0, 0, 1, 1]), np.zeros(2, dtype=np.int64)
    >>> deal_by_topic(row, topic, np.array([[4]]), np.array([2, 2]), alike, np.zeros((2, 2), dtype=np.int64))
    array([0, 1, 0, 1])
    """
    entries, entry, unassigned = np.unique(row * len(held) + topic, return_inverse=True, return_counts=True)
    entry_row, entry_topic = entries // len(held), entries % len(held)
    rows, topics, lefts, budget = (array.tolist() for array in (entry_row, entry_topic, unassigned, table.T))
    reach: dict[int, Ints] = {}
    # What somebody holds of a topic outweighs what is left of it, so that one sort of one key serves a member.
    held, weight = held.copy(), int(unassigned.max(initial=0)) + 1
    members, taken = np.lexsort((np.arange(len(need)), -need)), list[int]()
    for m, j, end in zip(members.tolist(), column[members].tolist(), need[members].cumsum().tolist(), strict=True):
        if j not in reach:
            reach[j] = table[entry_row, j].nonzero()[0]
        units, entry_of, of_member = budget[j], reach[j], held[:, m]
        while len(taken) < end:
            seen = set[int]()
            keys = of_member[entry_topic[entry_of]] * weight - unassigned[entry_of]
            for e in entry_of[keys.argsort(kind="stable")].tolist():
                if lefts[e] and units[rows[e]] and topics[e] not in seen:
                    seen.add(topics[e])
                    taken.append(e)
                    lefts[e] -= 1
                    unassigned[e] -= 1
                    of_member[topics[e]] += 1
                    units[rows[e]] -= 1
                    if len(taken) == end:
                        break
    member = members.repeat(need[members])
    _exchange_topics(entry_topic[taken], member, column, held)
    owner = np.empty(len(row), dtype=np.int64)
    owner[np.argsort(entry, kind="stable")] = member[np.argsort(taken, kind="stable")]
    return owner


def _exchange_topics(topic: Ints, member: Ints, column: Ints, held: Ints) -> None:
    """Exchange partitions dealt to two members of a column, if that spreads both topics better; writes into both."""
    for a in (held[topic, member] > 1).nonzero()[0].tolist():
        t, m = int(topic[a]), int(member[a])
        gain = held[t, m] - held[t, member] + held[topic, member] - held[topic, m] - 2
        gain[(column[member] != column[m]) | (topic == t) | (member == m)] = 0
        b = int(gain.argmax())
        if gain[b] > 0:
            other, theirs = int(member[b]), int(topic[b])
            held[t, m] -= 1
            held[t, other] += 1
            held[theirs, other] -= 1
            held[theirs, m] += 1
            member[a], member[b] = other, m


def stable_order(key: Ints) -> Ints:
    """Positions in ascending order of small keys, equal ones as they come; short keys are sorted by radix.

    >>> stable_order(np.array([1, 0, 1, 0]))
    array([1, 3, 0, 2])
    """
    if len(key) and int(key.max()) < RADIX_MAX:
        key = key.astype(np.int16)
    return key.argsort(kind="stable")


def order_by_keys(keys: Sequence[Ints]) -> Ints:
    """Positions in ascending order of several keys, none below 0, the most important last; equal ones as they come.

    Keys are small, so one sort after the other by radix is faster than ``np.lexsort``; keys that fit into 15 bits
    together are one. A key that tells nothing apart is left out.

    >>> order_by_keys([np.array([1, 0, 0, 1]), np.array([7, 7, 7, 7]), np.array([1, 1, 0, 0])])
    array([2, 3, 1, 0])
    """
    order: Ints | None = None
    joint, size = np.zeros(len(keys[0]), dtype=np.int64), 1
    for key in keys:
        if not len(key) or (most := int(key.max())) == int(key.min()):
            continue
        if size > 1 and size * (most + 1) > RADIX_MAX:
            order = _then(order, joint)
            size = 1
        joint, size = (key * size + joint, size * (most + 1)) if size > 1 else (key, most + 1)
    return _then(order, joint)


def _then(order: Ints | None, key: Ints) -> Ints:
    """An order, and within it by a key."""
    return stable_order(key) if order is None else order[stable_order(key[order])]


def interleave(amounts: Ints) -> Ints:
    """Columns for the partitions of a row, ``amounts`` (J,) of each, spread as evenly as can be.

    >>> interleave(np.array([2, 0, 4]))
    array([2, 0, 2, 2, 0, 2])
    """
    column = np.arange(len(amounts)).repeat(amounts)
    turn = np.arange(len(column)) - (amounts.cumsum() - amounts)[column]
    return column[np.argsort((turn + 0.5) / amounts[column], kind="stable")]

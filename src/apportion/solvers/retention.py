"""Which claims stay: as many as the fairest loads allow.

The problem: in a best plan each member of a piece holds its low load or one more, and how many hold one more is
known. So no plan keeps more than the sum of min(claims, low), and one more for as many members with more claims as
there are greater loads. Keeping so many is a matter of counting, without any search; whether the rest can still be
handed out is checked by the caller, and only where not it takes a flow. The price is a sort of the claims that must
give way.
"""

from __future__ import annotations

import numpy as np

from apportion.arrays import Bools, Ints
from apportion.solvers.dealing import order_by_keys


def capped(own: Ints, low: Ints, high: Ints, part: Ints, spare: Ints, worth: Ints) -> Ints:
    """(M,) how many claims each member may keep.

    own
        (M,) claims it could keep. low, high (M,) its least and greatest load.
    part, spare
        (M,) the piece it belongs to; (pieces,) how many of a piece's members get the greater load.
    worth
        (M,) how useful it is to others that this member keeps the lower load; the least useful keep more.

    No plan keeps more: a member keeps its low and, if it gets the greater load, one more.

    >>> one, none = np.array([1, 1]), np.array([0, 0])
    >>> capped(np.array([3, 2]), one, one + 1, part=none, spare=np.array([1]), worth=np.array([5, 0]))
    array([1, 2])
    """
    cap = np.minimum(own, low)
    eager = ((own > low) & (high > low)).nonzero()[0]
    cap[eager[first_ones(part[eager], spare, (worth[eager],))]] += 1
    return cap


def given_up_in_turn(member: Ints, cap: Ints, topic: Ints, worth: Ints) -> Ints:
    """(C,) 1 for claims that go first if a member must give some up: of each topic as few as can be in all, else 0.

    member, cap
        (C,) whose claim each is; (M,) how many stay.
    topic, worth
        (C,) of each claim. Whatever is worth more to others goes before.

    >>> mine = np.zeros(4, dtype=np.int64)
    >>> given_up_in_turn(mine, cap=np.array([2]), topic=np.array([0, 0, 1, 1]), worth=mine)
    array([0, 1, 0, 1])
    """
    first = np.zeros(len(member), dtype=np.int64)
    given = np.zeros(int(topic.max(initial=0)) + 1, dtype=np.int64)
    own = np.bincount(member, minlength=len(cap))
    order = np.argsort(member, kind="stable")
    begin = np.concatenate([[0], own.cumsum()])
    for m in (own > cap).nonzero()[0].tolist():
        claims = order[begin[m] : begin[m + 1]]
        held = np.bincount(topic[claims], minlength=len(given))
        for _ in range(int(own[m] - cap[m])):
            of = topic[claims]
            at = int(np.lexsort((-claims, given[of], -held[of], -worth[claims]))[0])
            first[claims[at]] = 1
            given[of[at]] += 1
            held[of[at]] -= 1
            claims = np.delete(claims, at)
    return first


def first_ones(kind: Ints, cap: Ints, order: tuple[Ints, ...]) -> Bools:
    """(C,) which claims stay if each kind keeps ``cap`` of its own, the first in ``order``.

    kind
        (C,) the kind of each claim: its member, for example. cap (kinds,) how many stay.
    order
        Keys (C,), none below 0, the most important last as in ``np.lexsort``; equal ones as they come.

    Only kinds that must give something up are looked at.

    >>> first_ones(np.array([0, 0, 0, 1]), np.array([2, 1]), (np.array([5, 1, 3, 0]),))
    array([False,  True,  True,  True])
    """
    stays = np.ones(len(kind), dtype=np.bool_)
    pressed = (np.bincount(kind, minlength=len(cap)) > cap)[kind].nonzero()[0]
    if len(pressed):
        keys = (*order, kind)
        if len(pressed) == len(kind):
            pressed = order_by_keys(keys)
        else:
            pressed = pressed[order_by_keys([key[pressed] for key in keys])]
        which = kind[pressed]
        count = np.bincount(which)
        rank = np.arange(len(which)) - (count.cumsum() - count)[which]
        stays[pressed[rank >= cap[which]]] = False
    return stays

"""Fair shares of like things among like members, with as many as possible left where they were."""

from __future__ import annotations

import numpy as np

from apportion.arrays import NOBODY, Ints
from apportion.solvers.retention import first_ones


def equal_shares(past: Ints, members: int) -> Ints:
    """(N,) the owner of each thing, counts within one of each other, the fewest moves.

    past
        (N,) who had it; -1 nobody.
    members
        How many share, at least 1; each may have anything.

    With q = N // members and r = N % members no plan keeps more than sum(min(had, q)) + min(r, members with more
    than q): a member may stay above q only r times. This one keeps as many. What must go is taken from the longest
    lists first, the last things of a list first; the shortest lists are filled first, in runs.

    >>> equal_shares(np.array([0, 0, 0, 1, 1, 1, 2, 2, -1, -1]), 3)
    array([0, 0, 0, 1, 1, 1, 2, 2, 2, 0])
    """
    share, extra = divmod(len(past), members)
    had = np.bincount(past[past != NOBODY], minlength=members)
    order = np.arange(members)
    # The odd ones stay with those that have more than a share, the shortest list first: stealing begins with the
    # longest. Odd ones that are left go round by member order.
    longer = had > share
    room = np.full(members, share, dtype=np.int64)
    room[np.lexsort((order, had, ~longer))[:extra] if longer.any() else order[:extra]] += 1
    keeps = past != NOBODY
    keeps[keeps] = first_ones(past[keeps], room, ())
    result = np.where(keeps, past, NOBODY)
    load = np.bincount(past[keeps], minlength=members)
    fillers = np.argsort(load, kind="stable")
    result[~keeps] = np.repeat(fillers, (room - load)[fillers])
    return result


def max_kept(past: Ints, members: int) -> int:
    """The most things that any fair plan leaves where they were.

    >>> max_kept(np.array([0, 0, 0, 1]), 2)
    3
    """
    had = np.bincount(past[past != NOBODY], minlength=members)
    share, extra = divmod(len(past), members)
    return int(np.minimum(had, share).sum()) + min(extra, int((had > share).sum()))

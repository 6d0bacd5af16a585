"""Which claims stay: as many as the fairest loads allow."""

from __future__ import annotations

import numpy as np

from apportion.arrays import Bools, Ints


def capped(own: Ints, low: Ints, high: Ints, part: Ints, spare: Ints, worth: Ints) -> Ints:
    """(M,) how many claims each member may keep.

    own
        (M,) claims it could keep. low, high (M,) its least and greatest load.
    part, spare
        (M,) the piece it belongs to; (pieces,) how many of a piece's members get the greater load.
    worth
        (M,) how useful it is to others that this member keeps the lower load; the least useful keep more.

    No plan keeps more: a member keeps its low and, if it gets the greater load, one more.
    """
    cap = np.minimum(own, low)
    eager = np.flatnonzero((own > low) & (high > low))
    if not len(eager):
        return cap
    eager = eager[np.lexsort((eager, worth[eager], part[eager]))]
    rank = np.arange(len(eager)) - np.searchsorted(part[eager], part[eager])
    winners = eager[rank < spare[part[eager]]]
    cap[winners] += 1
    return cap


def first_ones(kind: Ints, cap: Ints, order: tuple[Ints, ...]) -> Bools:
    """(C,) which claims stay where each kind keeps ``cap`` of its own, the first in ``order``.

    kind
        (C,) the kind of each claim: its member, for example. cap (kinds,) how many stay.
    order
        Keys (C,), the most important last as in ``np.lexsort``.

    Only kinds that must give something up are looked at.
    """
    stays = np.ones(len(kind), dtype=np.bool_)
    pressed = np.flatnonzero((np.bincount(kind, minlength=len(cap)) > cap)[kind])
    if len(pressed):
        pressed = pressed[np.lexsort((*(key[pressed] for key in order), kind[pressed]))]
        which = kind[pressed]
        rank = np.arange(len(which)) - np.searchsorted(which, which)
        stays[pressed[rank >= cap[which]]] = False
    return stays

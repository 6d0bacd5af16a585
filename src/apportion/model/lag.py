"""Lag from begin, end, committed offset and auto.offset.reset."""

from __future__ import annotations

from typing import Final

import numpy as np

from apportion.arrays import Longs

RESETS: Final = ("latest", "earliest", "none")
WINDOW_S: Final = 600.0
"""Seconds over which rates are taken where nobody says."""
MARKERS_MAX: Final = 2
"""A lag of so many old messages may be markers of transactions alone."""


def lag_of(begin: Longs, end: Longs, committed: Longs, reset: str) -> Longs:
    """Messages the group still has to read, (P,).

    begin, end
        (P,) log start and log end offset; -1 unknown (begin then counts as 0).
    committed
        (P,) next offset to read; -1 where the group never committed.
    reset
        ``auto.offset.reset``: what a member does without a commit; all but ``latest`` count the whole log.

    The result is 0 to end - begin: what retention deleted is not lag, nor what is not written yet; and 0 where the
    end is unknown. Source: KIP-169, "Algorithm", step 1, with the sign as intended.

    >>> lag_of(np.array([0, 0, 50]), np.array([90, 90, 90]), np.array([80, -1, 10]), "earliest")
    array([10, 90, 40])
    """
    begin = np.maximum(begin, 0)
    whole = np.maximum(end - begin, 0)
    never = np.zeros_like(whole) if reset == "latest" else whole
    behind = np.minimum(np.maximum(end - committed, 0), whole)
    return np.where(end < 0, 0, np.where(committed < 0, never, behind))

"""The log ends that a group's plans are made with: those sampled first after its newest record.

Log ends move all the time, of idle groups too. A what-if by the newest ones would be another one at every sample; by
those of then it stays until the group says something again. A lag is never too small by it: ends are sampled after the
records that they belong to. ``pipeline.end_samples`` has the same rule on columns.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from apportion.arrays import Bools, Ints, Longs

SILENT: Final = -(2**63)
"""Milliseconds: a group that left nothing with a time."""


def last_heard(groups: int, *records: tuple[Ints, Longs, Bools]) -> Longs:
    """(groups,) milliseconds when each group left its newest record, ``SILENT`` if none has a time.

    records
        Of each kind: (N,) which group each is of, (N,) its milliseconds, (N,) whether it counts: it stands, and has a
        time. Generations, epochs and commits are records.
    """
    heard = np.full(groups, SILENT, dtype=np.int64)
    for group, ms, counts in records:
        np.maximum.at(heard, group[counts], ms[counts])
    return heard

"""The letters and array types that every package uses.

P partitions, T topics, M members, K distinct subscriptions, C claims, S distinct sets of racks. An array's name
says what it holds, its docstring the letters of its shape. All are 64 bits wide: NumPy indexes with nothing else.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
"""Indices and counts."""
Longs = NDArray[np.int64]
"""Offsets and lags, in messages."""
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Numbers = NDArray[Any]
"""Whole numbers of 64 bits, or of as many as they need."""

NOBODY: Final = -1
"""In an array of owners: the partition has none."""
UNKNOWN: Final = -1
"""In an array of racks, offsets or lags: not known."""

CAPACITY_MAX: Final = 1_000_000
"""What a member of capacity 1 can take, so many times over at most."""
CELLS: Final = 10_000_000
"""The most cells of a members x topics matrix that is ever built dense."""


def distinct(values: Ints) -> Ints:
    """The values in ascending order, each once; for this alone ``np.unique`` would import masked arrays, a slow start.

    >>> distinct(np.array([3, 1, 3]))
    array([1, 3])
    """
    ordered = np.sort(values)
    fresh = np.ones(len(ordered), dtype=np.bool_)
    fresh[1:] = ordered[1:] != ordered[:-1]
    return ordered[fresh]


def ints(values: object) -> Ints:
    """The values as a fresh array of 64-bit integers."""
    return np.array(values, dtype=np.int64)

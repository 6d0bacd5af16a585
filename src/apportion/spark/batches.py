"""Arrow batches cut into as many rows as may be Python objects at one time; and lists of samples as flat columns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from apportion.arrays import Longs
from apportion.history.lag_time import Samples


def pieces(batch: pa.RecordBatch, rows: int, size: int) -> Iterator[pa.RecordBatch]:
    """The batch in slices of at most so many rows and, but for a single row, bytes."""
    first = 0
    while first < batch.num_rows:
        n = rows
        while n > 1 and batch.slice(first, n).nbytes > size:
            n //= 2
        yield batch.slice(first, n)
        first += n


def samples(moments: pa.ListArray, offsets: pa.ListArray) -> Samples:
    """Two list columns of one shape, moments (ms; null is NaN) and offsets; a null list is an empty one."""
    counts = np.maximum(_longs(moments.value_lengths()), 0)
    return Samples(
        np.asarray(moments.flatten().to_numpy(zero_copy_only=False), dtype=np.float64),
        np.asarray(offsets.flatten().to_numpy(zero_copy_only=False), dtype=np.int64),
        np.concatenate(([0], np.cumsum(counts))),
    )


def _longs(column: pa.Array) -> Longs:
    return np.asarray(column.fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64)

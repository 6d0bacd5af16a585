"""Rows of (kind, bucket, Arrow's bytes) come out as they went in, and what outlives a task burdens no later one."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pytest

from apportion.spark.arrow_rows import gathered, packed, unpacked


@pytest.mark.parametrize("begins", [unpacked, gathered])
def test_what_outlives_a_task_is_left_out_of_the_collection_after_each(begins: Callable[[Any], Iterable[Any]]) -> None:
    gc.unfreeze()
    try:
        assert list(begins([])) == []
        assert gc.get_freeze_count() > 1000
    finally:
        gc.unfreeze()


def test_rows_come_out_as_they_were_packed_in_a_fraction_of_their_bytes() -> None:
    rows = pa.table({"group": [f"team.service-{n // 100}" for n in range(10_000)], "n": range(10_000)})
    batches = list(packed("ends", 3, rows))
    ((kind, bucket, again),) = unpacked(batches)
    assert (kind, bucket) == ("ends", 3)
    assert again.equals(rows)
    assert sum(batch.nbytes for batch in batches) < rows.nbytes / 3
    gc.unfreeze()

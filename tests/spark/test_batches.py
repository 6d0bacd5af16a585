"""Batches are cut so that only as much becomes Python objects as memory allows."""

from __future__ import annotations

import pyarrow as pa

from apportion.spark.batches import AT_ONCE, BYTES_AT_ONCE, pieces


def batch(*sizes: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"group": list(range(len(sizes))), "wide": [bytes(size) for size in sizes]})


def test_small_rows_go_many_at_a_time_and_wide_ones_alone() -> None:
    found = list(pieces(batch(*[10] * 100, 5 * BYTES_AT_ONCE, *[10] * 30, BYTES_AT_ONCE // 2, BYTES_AT_ONCE // 2 + 1)))
    assert [n for piece in found for n in piece["group"].to_pylist()] == list(range(133))
    assert max(piece.num_rows for piece in found) <= AT_ONCE
    assert all(piece.nbytes <= BYTES_AT_ONCE or piece.num_rows == 1 for piece in found)
    assert len(found) < 20


def test_an_empty_batch_has_no_pieces() -> None:
    assert list(pieces(batch())) == []

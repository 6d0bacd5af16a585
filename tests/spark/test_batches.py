"""Batches are cut so that only as much becomes Python objects as memory allows."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa

from apportion.spark.batches import pieces
from apportion.spark.python_rows import rows_of


def batch(*sizes: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"group": list(range(len(sizes))), "wide": [bytes(size) for size in sizes]})


def test_small_rows_go_many_at_a_time_and_wide_ones_alone() -> None:
    rows, size = 64, 2 << 20
    found = list(pieces(batch(*[10] * 100, 5 * size, *[10] * 30, size // 2, size // 2 + 1), rows, size))
    assert [n for piece in found for n in piece["group"].to_pylist()] == list(range(133))
    assert max(piece.num_rows for piece in found) <= rows
    assert all(piece.nbytes <= size or piece.num_rows == 1 for piece in found)
    assert len(found) < 20


def test_an_empty_batch_has_no_pieces() -> None:
    assert list(pieces(batch(), 64, 2 << 20)) == []


def test_rows_by_columns_are_what_arrow_makes_of_them() -> None:
    """Random rows of every kind that a group's history has, nulls and empty lists among them, whole and in slices."""
    rng = random.Random(0)
    kind = pa.struct(
        {
            "n": pa.int64(), "text": pa.string(), "bytes": pa.binary(), "sure": pa.bool_(), "part": pa.float64(),
            "at": pa.timestamp("us", "UTC"), "ids": pa.list_(pa.int32()), "names": pa.map_(pa.string(), pa.string()),
            "nothing": pa.struct([]), "held": pa.large_list(pa.struct({"topic": pa.string(), "no": pa.int8()})),
        }
    )  # fmt: skip

    def value(of: pa.DataType) -> Any:
        if rng.random() < 0.2:
            return None
        if pa.types.is_struct(of):
            return {field.name: value(field.type) for field in of}
        if pa.types.is_map(of):
            return [(f"k{n}", rng.choice(["", "v", None])) for n in range(rng.randrange(3))]
        if pa.types.is_list(of) or pa.types.is_large_list(of):
            return [value(of.value_type) for _ in range(rng.randrange(4))]
        plain = {"string": "é", "binary": b"\x00", "bool": True, "double": 0.5}
        return plain.get(str(of), rng.randrange(100))

    schema = pa.schema([("one", kind), ("many", pa.list_(kind)), ("n", pa.int32())])
    rows = [{field.name: value(field.type) for field in schema} for _ in range(200)]
    whole = pa.RecordBatch.from_pylist(rows, schema=schema)
    for some in (whole, whole.slice(7, 50), whole.slice(199), whole.slice(3, 0)):
        assert rows_of(some) == some.to_pylist(maps_as_pydicts="strict")
    packed = pa.RecordBatch.from_pydict({"n": [3, 4]})
    assert [type(row["n"]) for row in rows_of(packed)] == [int, int]

"""A digest of each row of an Arrow table, however nested: whether the input of plans has changed."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from apportion.pipeline.columns import fields_of, valid

Hashes = npt.NDArray[np.uint64]
_START: Final = np.uint64(0x9E3779B97F4A7C15)
_NULL: Final = np.uint64(0xD1B54A32D192ED03)
UNSEEN: Final = frozenset(("state", "protocol", "sampled_at", "last_stable"))
"""Fields that no plan looks at."""


def row_digests(rows: pa.Table) -> Hashes:
    """(N,) 64 bits of each row: of its values, its nulls, and the order of columns; ``UNSEEN`` ones left out.

    Numbers are mixed by SplitMix64's finalizer (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators",
    2014), a text counts by the BLAKE2b hash of its bytes, worked out once for each distinct one.
    """
    digests = np.full(rows.num_rows, _START, dtype=np.uint64)
    for name in rows.column_names:
        if name not in UNSEEN:
            digests = _mixed(digests ^ _of(rows[name].combine_chunks()))
    return digests


def _of(column: Any) -> Hashes:
    kind = column.type
    if pa.types.is_map(kind):
        column = column.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
        return _of(column)
    if pa.types.is_list(kind):
        return _of_lists(column)
    if pa.types.is_struct(kind):
        values = np.full(len(column), _START, dtype=np.uint64)
        for name, inner in fields_of(column).items():
            if name not in UNSEEN:
                values = _mixed(values ^ _of(inner))
    elif pa.types.is_string(kind):
        codes = column.dictionary_encode()
        hashes = [
            int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) for text in codes.dictionary.to_pylist()
        ]
        values = np.array([*hashes, 0], dtype=np.uint64)[np.asarray(codes.indices.fill_null(len(hashes)))]
    elif pa.types.is_null(kind):
        values = np.zeros(len(column), dtype=np.uint64)
    else:
        values = _mixed(np.asarray(column.cast(pa.int64()).fill_null(0), dtype=np.int64).view(np.uint64))
    return np.where(valid(column), values, _NULL)


def _of_lists(column: pa.ListArray) -> Hashes:
    """A list by its length, and each value in it by its place."""
    lengths = np.asarray(pc.fill_null(pc.list_value_length(column), -1), dtype=np.int64)
    whose = np.asarray(pc.list_parent_indices(column))
    first = np.cumsum(np.maximum(lengths, 0)) - np.maximum(lengths, 0)
    position = (np.arange(len(whose)) - first[whose]).view(np.uint64)
    digests = lengths.view(np.uint64).copy()
    np.add.at(digests, whose, _mixed(_of(column.flatten()) ^ _mixed(position)))
    return _mixed(digests)


def _mixed(values: Hashes) -> Hashes:
    """Every bit of a number on every bit of the result."""
    values = values + _START
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))

"""Check sums of a dump's rows straight from its files: whether what was read before is still there, and what is new.

The sum of some rows is the exclusive or of a 64-bit hash of each, so that it depends neither on their order nor on the
files that they are in. The hash mixes columns of numbers by SplitMix64's finalizer (Steele, Lea, Flood: "Fast
Splittable Pseudorandom Number Generators", 2014); a text counts by the BLAKE2b hash of its bytes, worked out once for
each distinct one. Spark needs some jobs for as much.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from apportion.inputs.dump_files import DumpFiles
from apportion.spark import schemas

Hashes = npt.NDArray[np.uint64]
PLACE: Final = ("partition", "offset", "timestamp")
BROKEN: Final = (pa.ArrowException, OSError, UnicodeDecodeError)
"""Errors of files that are not as their footers say."""
_START: Final = 0x9E3779B97F4A7C15
_NULL: Final = 0xD1B54A32D192ED03


@dataclass(frozen=True)
class Records:
    """Records counted and summed: all of them, and those that were read before; the last offset of each partition."""

    last: Mapping[int, int]
    count: int
    sum: int
    old_count: int
    old_sum: int


def records(files: DumpFiles, read: Mapping[int, int]) -> Records:
    """One look at where and when each record was.

    read
        Partition to the last offset that was read before.
    """
    last: dict[int, int] = {}
    count = old_count = total = old_total = 0
    for file in files.records:
        table = _read(file, PLACE, schemas.RECORDS)
        partition, offset = places(table)
        hashes, old = row_hashes(table), ~behind(partition, offset, read)
        count, old_count = count + len(hashes), old_count + int(old.sum())
        total, old_total = total ^ _xor(hashes), old_total ^ _xor(hashes[old])
        for number in np.unique(partition).tolist():
            last[number] = max(last.get(number, -1), int(offset[partition == number].max()))
    return Records(dict(sorted(last.items())), count, total, old_count, old_total)


def places(records: pa.Table) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """(N,) the partition and (N,) the offset of each record.

    Raises
        ArrowInvalid: one has none, which a footer without statistics does not tell.
    """
    columns = [records[name] for name in ("partition", "offset")]
    if any(column.null_count for column in columns):
        raise pa.ArrowInvalid("a record without a partition or offset")
    partition, offset = (column.to_numpy() for column in columns)
    return partition, offset


def behind(partition: npt.NDArray[Any], offset: npt.NDArray[Any], read: Mapping[int, int]) -> npt.NDArray[np.bool_]:
    """Whether each record stands behind what was read in its partition."""
    numbers = np.array(sorted(read), dtype=np.int64)
    limits = np.array([read[number] for number in numbers.tolist()], dtype=np.int64)
    if not len(numbers):
        return np.ones(len(offset), dtype=np.bool_)
    nearest = np.minimum(np.searchsorted(numbers, partition), len(numbers) - 1)
    answer: npt.NDArray[np.bool_] = (numbers[nearest] != partition) | (offset > limits[nearest])
    return answer


def ends(files: DumpFiles, before_us: int) -> dict[str, int]:
    """All samples of log ends, each once, and those up to a moment: ``all``, ``all_sum``, ``at``, ``old``, ``old_sum``.

    before_us
        Microseconds; ``at`` is the newest sample's time, this where there is none.
    """
    hashes, times = [np.zeros(0, dtype=np.uint64)], [np.zeros(0, dtype=np.int64)]
    for file in {**files.samples, **files.ends}:
        table = _read(file, schemas.ENDS.schema.names, schemas.ENDS)
        at = table["at"].cast(pa.int64()).fill_null(before_us)
        hashes.append(row_hashes(table))
        times.append(at.to_numpy())
    distinct, first = np.unique(np.concatenate(hashes), return_index=True)
    at_us = np.concatenate(times)[first]
    old = at_us <= before_us
    newest = int(at_us.max()) if len(at_us) else before_us
    return {
        "all": len(distinct), "all_sum": _xor(distinct), "at": max(newest, before_us), "old": int(old.sum()),
        "old_sum": _xor(distinct[old]),
    }  # fmt: skip


def newer_ends(files: DumpFiles, before_us: int) -> pa.Table:
    """Samples of log ends after a moment (microseconds), each once: rows of ``silver/ends``."""
    names = schemas.ENDS.schema.names
    pieces = [schemas.arrow_schema(schemas.ENDS).empty_table()]
    for file in {**files.samples, **files.ends}:
        rows = _read(file, names, schemas.ENDS)
        pieces.append(rows.filter(pc.fill_null(pc.greater(rows["at"].cast(pa.int64()), before_us), False)))
    return pa.concat_tables(pieces).group_by(names).aggregate([]).select(names)


def topics_sum(files: DumpFiles) -> int:
    """The sum of all topics' rows."""
    total = 0
    for file in files.topics:
        total ^= _xor(row_hashes(_read(file, schemas.TOPICS.schema.names, schemas.TOPICS)))
    return total


def row_hashes(table: pa.Table) -> Hashes:
    """(N,) a hash of each row: of its values, its nulls, and the order of the columns."""
    answer = np.full(table.num_rows, _START, dtype=np.uint64)
    for column in table.columns:
        answer = _mixed(answer ^ _column_hashes(column.combine_chunks()))
    return answer


def _column_hashes(column: pa.Array) -> Hashes:
    if pa.types.is_list(column.type):
        lengths = pc.fill_null(pc.list_value_length(column), -1).to_numpy(zero_copy_only=False)
        whose = pc.list_parent_indices(column).to_numpy(zero_copy_only=False)
        first = np.concatenate(([0], np.cumsum(np.maximum(lengths, 0))))
        rank = (np.arange(len(whose)) - first[whose]).astype(np.int64).view(np.uint64)
        answer = lengths.astype(np.int64).view(np.uint64).copy()
        np.add.at(answer, whose, _mixed(_column_hashes(column.flatten()) ^ _mixed(rank)))
        return _mixed(answer)
    there = column.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_string(column.type):
        codes = column.dictionary_encode()
        sums = [blake2b(text.encode(), digest_size=8).digest() for text in codes.dictionary.to_pylist()]
        known = np.array([int.from_bytes(one, "little") for one in sums] or [0], dtype=np.uint64)
        values = known[codes.indices.fill_null(0).to_numpy(zero_copy_only=False)]
    else:
        numbers = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        values = _mixed(numbers.astype(np.int64).view(np.uint64))
    return np.where(there, values, np.uint64(_NULL))


def _mixed(values: Hashes) -> Hashes:
    """SplitMix64's finalizer: every bit of a number on every bit of the answer."""
    values = values + np.uint64(_START)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _xor(hashes: Hashes) -> int:
    return int(np.bitwise_xor.reduce(hashes)) if len(hashes) else 0


def _read(file: Path, names: Sequence[str], table: schemas.TableSchema) -> pa.Table:
    """Some columns of a file in a table's types, whatever form they are stored in."""
    # Not as a data set, which would take a folder called a=b for a column.
    with pq.ParquetFile(file, coerce_int96_timestamp_unit="us") as parquet:
        return as_typed(parquet.read(columns=list(names)), names, table)


def as_typed(rows: pa.Table, names: Iterable[str], table: schemas.TableSchema) -> pa.Table:
    """Columns in a table's types; of a time all below a microsecond is cut off."""
    schema = schemas.arrow_schema(table, names)
    return pa.table([pc.cast(rows[field.name], field.type, safe=False) for field in schema], schema=schema)

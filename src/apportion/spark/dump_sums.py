"""Check sums of a dump's rows straight from its files: whether what was read before is still there, and what is new.

The sum of some rows is the exclusive or of a 64-bit hash of each, so that it depends neither on their order nor on the
files that they are in. A record's is that of Spark's ``xxhash64`` (Collet's XXH64, as ``XXH64.java`` there has it), so
that a dump which one build looks at here and the next by a query is found unchanged. That of other rows mixes columns
of numbers by SplitMix64's finalizer (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", 2014); a
text counts by the BLAKE2b hash of its bytes, worked out once for each distinct one. Spark needs some jobs for as much.

A file is known by a digest of its bytes, as far as they are looked at: what was summed once is not read as rows again.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, Final

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
NO_TIME: Final = -(2**62)
"""Microseconds: the newest sample where there is none."""
FILES_MAX: Final = 10_000
"""Files of records whose sums are kept, the largest ones."""
PIECE: Final = 1 << 20
"""Bytes of a file that are read at once for its digest."""
_PRIMES: Final = np.array(
    [0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5], np.uint64
)
_START: Final = 0x9E3779B97F4A7C15
_NULL: Final = 0xD1B54A32D192ED03


@dataclass(frozen=True)
class Records:
    """Records counted and summed: all of them, and those that were read before; the last offset of each partition.

    seen
        Digest of a file to the count and sum of its records, of at most ``FILES_MAX`` files.
    settled
        Files all of whose records were read before.
    """

    last: Mapping[int, int]
    count: int
    sum: int
    old_count: int
    old_sum: int
    seen: Mapping[str, Sequence[int]]
    settled: frozenset[Path]


def records(files: DumpFiles, read: Mapping[int, int], known: Mapping[str, Sequence[int]] | None = None) -> Records:
    """One look at where and when each record was.

    read
        Partition to the last offset that was read before.
    known
        ``seen`` of when that was read: nothing in these files is behind it.
    """
    last: dict[int, int] = {}
    seen: dict[str, Sequence[int]] = {}
    settled = set()
    count = old_count = total = old_total = 0
    for file in files.records:
        name = digest(file, PLACE)
        if known and name in known:
            rows, hashed = seen[name] = known[name]
            count, old_count, total, old_total = count + rows, old_count + rows, total ^ hashed, old_total ^ hashed
            settled.add(file)
            continue
        table = _read(file, PLACE, schemas.RECORDS)
        partition, offset = places(table)
        hashes, old = place_hashes(table), ~behind(partition, offset, read)
        count, old_count = count + len(hashes), old_count + int(old.sum())
        total, old_total = total ^ _signed_xor(hashes), old_total ^ _signed_xor(hashes[old])
        seen[name] = [len(hashes), _signed_xor(hashes)]
        for number in np.unique(partition).tolist():
            last[number] = max(last.get(number, -1), int(offset[partition == number].max()))
    if settled:  # if one of them were missing now, so would be its part of the sum
        last = {number: max(last.get(number, -1), read.get(number, -1)) for number in {*last, *read}}
    largest = sorted(seen, key=lambda name: (-seen[name][0], name))[:FILES_MAX]
    kept = {name: seen[name] for name in sorted(largest)}
    return Records(dict(sorted(last.items())), count, total, old_count, old_total, kept, frozenset(settled))


def digest(file: Path, names: Sequence[str]) -> str:
    """Of the footer of a Parquet file and the stored bytes of some of its columns, from which their values follow."""
    hashed = blake2b(digest_size=16)
    with file.open("rb") as stored:
        end = stored.seek(-8, os.SEEK_END)
        length = int.from_bytes(stored.read(4), "little")
        for piece in _pieces(stored, end - length, length):
            hashed.update(piece)
        with pq.ParquetFile(file) as parquet:
            footer = parquet.metadata
            for group in map(footer.row_group, range(footer.num_row_groups)):
                for column in map(group.column, range(group.num_columns)):
                    if column.path_in_schema.partition(".")[0] in names:
                        first = column.data_page_offset
                        if column.has_dictionary_page:
                            first = min(first, column.dictionary_page_offset)
                        for piece in _pieces(stored, first, column.total_compressed_size):
                            hashed.update(piece)
    return hashed.hexdigest()


def _pieces(stored: BinaryIO, first: int, size: int) -> Iterator[bytes]:
    """So many bytes of a file from an offset on, or as many as it has: a column may be larger than memory."""
    stored.seek(first)
    while size > 0 and (piece := stored.read(min(size, PIECE))):
        yield piece
        size -= len(piece)


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
        Microseconds; samples without a time count as no later.
    Returns
        ``at`` is the newest sample's time, which may be before that moment; ``NO_TIME`` where none has one.
    """
    hashes, times = [np.zeros(0, dtype=np.uint64)], [np.zeros(0, dtype=np.int64)]
    newest = NO_TIME
    for file in {**files.samples, **files.ends}:
        table = _read(file, schemas.ENDS.schema.names, schemas.ENDS)
        at = table["at"].cast(pa.int64())
        hashes.append(row_hashes(table))
        times.append(at.fill_null(before_us).to_numpy())
        newest = max(newest, at.drop_null().to_numpy().max(initial=NO_TIME))
    distinct, first = np.unique(np.concatenate(hashes), return_index=True)
    old = np.concatenate(times)[first] <= before_us
    return {
        "all": len(distinct), "all_sum": _xor(distinct), "at": int(newest), "old": int(old.sum()),
        "old_sum": _xor(distinct[old]),
    }  # fmt: skip


@dataclass(frozen=True)
class Ends:
    """Samples of log ends.

    sums
        As ``ends`` gives them.
    seen
        Digests of the files.
    newer
        Those behind what was known, each once, if the others did not have to be looked at: rows of ``silver/ends``.
    """

    sums: Mapping[str, int]
    seen: Sequence[str]
    newer: pa.Table | None = None


def ends_since(files: DumpFiles, before_us: int, known: Collection[str] = (), count: int = 0, total: int = 0) -> Ends:
    """``ends``, where files that were looked at before hold ``count`` samples of the sum ``total``.

    known
        Digests of those files, of which no sample is later than ``before_us``.
    """
    by_digest = {digest(file, schemas.ENDS.schema.names): file for file in {**files.samples, **files.ends}}
    seen = sorted(by_digest)
    if not known or not by_digest.keys() >= set(known):
        return Ends(ends(files, before_us), seen)
    new = [
        _read(file, schemas.ENDS.schema.names, schemas.ENDS) for name, file in by_digest.items() if name not in known
    ]
    table = pa.concat_tables([schemas.arrow_schema(schemas.ENDS).empty_table(), *new])
    at_us = table["at"].cast(pa.int64()).fill_null(before_us).to_numpy()
    if (at_us <= before_us).any():
        return Ends(ends(files, before_us), seen)
    hashes = row_hashes(table)
    ordered = np.sort(hashes)
    if (ordered[1:] == ordered[:-1]).any():  # a sample is there twice
        hashes, first = np.unique(hashes, return_index=True)
        table = table.take(pa.array(np.sort(first)))
    sums = {
        "all": count + len(hashes), "all_sum": total ^ _xor(hashes), "old": count, "old_sum": total,
        "at": max(before_us, int(at_us.max(initial=before_us))),
    }  # fmt: skip
    return Ends(sums, seen, table)


def newer_ends(files: DumpFiles, before_us: int) -> pa.Table:
    """Samples of log ends after a moment (microseconds), each once: rows of ``silver/ends``."""
    names = schemas.ENDS.schema.names
    pieces = [schemas.arrow_schema(schemas.ENDS).empty_table()]
    for file in {**files.samples, **files.ends}:
        rows = _read(file, names, schemas.ENDS)
        pieces.append(rows.filter(pc.fill_null(pc.greater(rows["at"].cast(pa.int64()), before_us), False)))
    return pa.concat_tables(pieces).group_by(names).aggregate([]).select(names)


def topics_sum(files: DumpFiles, known: Mapping[str, int] | None = None) -> tuple[int, dict[str, int]]:
    """The sum of all topics' rows, and by the digest of each file.

    known
        Sums of files by their digests.
    """
    sums: dict[str, int] = {}
    total = 0
    for file in files.topics:
        name = digest(file, schemas.TOPICS.schema.names)
        if known and name in known:
            sums[name] = known[name]
        else:
            sums[name] = _xor(row_hashes(_read(file, schemas.TOPICS.schema.names, schemas.TOPICS)))
        total ^= sums[name]
    return total, sums


def place_hashes(records: pa.Table) -> Hashes:
    """(N,) Spark's ``xxhash64("partition", "offset", "timestamp")``; a value that is null changes nothing."""
    answer = np.full(records.num_rows, 42, dtype=np.uint64)
    for name in PLACE:
        column = records[name].combine_chunks()
        there = column.is_valid().to_numpy(zero_copy_only=False)
        values = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False).view(np.uint64)
        if pa.types.is_int32(column.type):
            seeded = (answer + _PRIMES[4] + np.uint64(4)) ^ ((values & np.uint64(0xFFFFFFFF)) * _PRIMES[0])
            mixed = _turned(seeded, 23) * _PRIMES[1] + _PRIMES[2]
        else:
            seeded = (answer + _PRIMES[4] + np.uint64(8)) ^ (_turned(values * _PRIMES[1], 31) * _PRIMES[0])
            mixed = _turned(seeded, 27) * _PRIMES[0] + _PRIMES[3]
        mixed = (mixed ^ (mixed >> np.uint64(33))) * _PRIMES[1]
        mixed = (mixed ^ (mixed >> np.uint64(29))) * _PRIMES[2]
        answer = np.where(there, mixed ^ (mixed >> np.uint64(32)), answer)
    return answer


def _turned(values: Hashes, bits: int) -> Hashes:
    """The bits of each number turned to the left."""
    return (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))


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


def _signed_xor(hashes: Hashes) -> int:
    """As Spark's ``bit_xor`` gives it."""
    return int(np.bitwise_xor.reduce(hashes).view(np.int64)) if len(hashes) else 0


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

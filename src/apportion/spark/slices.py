"""Plain Parquet files of this machine cut into slices, each some row groups that one task reads by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from apportion.errors import Unavailable
from apportion.spark import schemas

ROWS_A_SLICE: Final = 128 * 1024
BYTES_A_SLICE: Final = 64 << 20
"""Row groups of a slice have at most so many rows and bytes; a single one may have more."""
_NO_LIMIT: Final = 2**62
ROWS_READ: Final = 2_000
"""Read at once: a file may say little of how large its values are."""
ROWS: Final = 50_000
BYTES: Final = 8 << 20
"""Batches are put together up to so many rows and bytes, about."""

Batches = Iterable[pa.RecordBatch]


@dataclass(frozen=True)
class Slice:
    """Some row groups of some files, in order."""

    groups: list[tuple[str, int]]
    rows: int = 0


def slices_of(files: Iterable[Path], pieces: int | None = None) -> list[Slice]:
    """All row groups of some files, cut by the files alone, so that the tables come out the same on every machine.

    pieces
        A slice has at most one of so many equal parts of the rows, whatever their bytes; None: at most ``ROWS_A_SLICE``
        rows and ``BYTES_A_SLICE`` bytes.
    """
    import pyarrow.parquet as pq

    groups = list[tuple[tuple[str, int], int, int]]()
    for file in files:
        footer = pq.read_metadata(file)
        for number in range(footer.num_row_groups):
            group = footer.row_group(number)
            groups.append(((str(file), number), group.num_rows, group.total_byte_size))
    rows, size = ROWS_A_SLICE, BYTES_A_SLICE
    if pieces is not None:
        rows, size = -(-sum(count for _, count, _ in groups) // pieces), _NO_LIMIT
    slices, some, count, octets = list[Slice](), list[tuple[str, int]](), 0, 0
    for group, more, larger in groups:
        if some and (count + more > rows or octets + larger > size):
            slices.append(Slice(some, count))
            some, count, octets = [], 0, 0
        some.append(group)
        count, octets = count + more, octets + larger
    return [*slices, Slice(some, count)]


def batches_of(some: Slice, columns: Sequence[str], at_once: int = ROWS) -> Iterator[pa.RecordBatch]:
    """Columns of a slice as they are stored, so many rows at a time.

    Raises
        Unavailable: a file cannot be read to its end.
    """
    # Only here: on a cluster no task reads files of ours, and Arrow's Parquet asks Python for more than Arrow does.
    import pyarrow.parquet as pq

    names = list(columns)
    for file, number in some.groups:
        try:
            with pq.ParquetFile(file, coerce_int96_timestamp_unit="us") as opened:
                for batch in opened.iter_batches(at_once, row_groups=[number], columns=names, use_threads=False):
                    yield batch.select(names)
        except (pa.ArrowException, OSError) as error:
            raise Unavailable(f"{file} cannot be read to its end; copy it again") from error


def read_slice(some: Slice, columns: Sequence[str], table: schemas.TableSchema) -> Iterator[pa.Table]:
    """The rows of a slice in the table's types, whatever form they are stored in, put together."""

    from apportion.spark.dump_sums import as_typed  # reads Parquet itself, see ``batches_of``

    wanted = schemas.arrow_schema(table, columns)

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in batches_of(some, columns, ROWS_READ):
            if batch.schema.equals(wanted):
                yield batch
                continue
            yield from as_typed(pa.Table.from_batches([batch]), columns, table).combine_chunks().to_batches()

    return gathered(batches())


def gathered(batches: Batches) -> Iterator[pa.Table]:
    """Small batches put together."""
    some: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        some.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= ROWS or size >= BYTES:
            yield pa.Table.from_batches(some)
            some, rows, size = [], 0, 0
    if rows:
        yield pa.Table.from_batches(some)

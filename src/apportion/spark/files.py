"""Rows to Parquet files of a folder, by the task that has them; each appears whole, and on the disk.

Arrow writes them: to Spark's own writer every cell would be handed through its JVM.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final
from uuid import uuid4

import numpy as np
import pyarrow as pa

from apportion.pipeline.columns import days, in_table_order
from apportion.tables.schemas import Table

SHOWN: Final = "[!._]*.parquet"
"""A table's files, as a pattern of names: hidden ones are drafts and a desktop's own, which readers leave out too."""

ROWS_A_GROUP: Final = 128 * 1024
"""Rows of a row group: the piece of a file that one task reads."""


def write_table(folder: Path, table: Table, rows: pa.Table, part: str) -> None:
    """A part of a table as files of a folder, which is made: one a day if the table has days, else one."""
    folder.mkdir(parents=True, exist_ok=True)
    ordered = in_table_order(rows, table)
    for first, piece in _by_day(ordered, table.day):
        write_rows(folder / f"{first}-{part}.parquet", piece)


def write_rows(file: Path, rows: pa.Table, bundles: bool = False) -> None:
    """Rows as a file.

    bundles
        Each row holds many of a kind: it is a row group, which who wants another kind passes over.
    """
    import pyarrow.parquet as pq  # only here: executors of a cluster, which may lack what it needs, import this file

    with drafted(file) as draft:
        at_once = 1 if bundles else ROWS_A_GROUP
        # In a table with a row a partition offsets, times and rates hardly repeat: texts alone are worth a dictionary.
        texts = [field.name for field in rows.schema if field.type == pa.string()]
        words = texts if "partition" in rows.column_names else not bundles
        pq.write_table(rows, draft, row_group_size=at_once, use_dictionary=words, store_schema=False)


@contextmanager
def drafted(file: Path, beside: Path | None = None) -> Iterator[Path]:
    """A draft, to be written in the block: then it gets the file's name, whole and on the disk.

    beside
        The folder of the draft, on the same disk; by default the file's own, where it is hidden.
    """
    # Another attempt of the same task may be at work: each has a draft of its own, and all hold the same rows.
    draft = (beside or file.parent) / f".{file.name}.{uuid4().hex}"
    try:
        yield draft
        sync(draft)
        os.replace(draft, file)
    finally:
        draft.unlink(missing_ok=True)


def _by_day(rows: pa.Table, day: str | None) -> Iterator[tuple[str, pa.Table]]:
    """Runs of rows with the first part of the name of their file."""
    if day is None:
        yield "part", rows
        return
    named = days(rows[day])
    codes = np.asarray(named.indices)
    for first, behind in pairwise([0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]):
        if behind > first:
            yield named[first].as_py(), rows.slice(first, behind - first)


def sync(path: Path) -> None:
    """Have a file's bytes, or a folder's names, on the disk: a power cut takes everything that is in memory alone."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def link(file: Path, other: Path) -> None:
    """The same file under another name; a copy if the file system has no links."""
    try:
        os.link(file, other)
    except OSError:
        shutil.copy2(file, other)
        sync(other)

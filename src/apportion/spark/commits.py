"""Commits to Delta tables by this process, through delta-rs: hundredths of a second where Spark takes seconds.

For tables that are there, and rows that are few: a table is read and written by this process alone. A commit is made
only if nobody made one of that number (a conditional put on S3, a hard link on a local disk).

What is committed to so often has to be kept in shape: a table that was added to many times is made of few files, and
every tenth version has a checkpoint, as Spark's have, from which the log is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from apportion.spark.stores import Reached

if TYPE_CHECKING:
    from deltalake import DeltaTable

BYTES_MAX: Final = 1 << 30
"""Of a table as it is stored, of which some groups are replaced here: more is for a cluster."""
FILES_MAX: Final = 20
"""Of a table that is added to; with more it is made anew of few, in a commit of its own that changes no row."""
VERSIONS_A_CHECKPOINT: Final = 10


class Commits:
    """Commits to the tables of a place."""

    def __init__(self, place: Reached) -> None:
        self._place = place

    def overwrite(self, name: str, rows: pa.Table) -> None:
        """Replace a table whole."""
        self._overwrite(name, rows, None)

    def append(self, name: str, rows: pa.Table) -> None:
        """Add rows."""
        from deltalake import write_deltalake

        table = self._table(name)
        if len(table.file_uris()) > FILES_MAX:
            table.optimize.compact()
        write_deltalake(table, rows, mode="append")
        _checkpoint(table)

    def replace_groups(self, name: str, rows: pa.Table, groups: pa.Table) -> None:
        """Replace the rows of some groups; files that hold none of them stay.

        groups
            (group), one row for each; ``rows`` has rows of these alone.
        """
        texts = ", ".join(_literal(group) for group in groups["group"].to_pylist())
        self._overwrite(name, rows, f'"group" IN ({texts})')

    def restore(self, name: str, version: int) -> None:
        """Make a table what it was in a version.

        Raises
            DeltaError: files of that version are gone.
        """
        self._table(name).restore(version)

    def _overwrite(self, name: str, rows: pa.Table, predicate: str | None) -> None:
        from deltalake import write_deltalake

        table = self._table(name)
        write_deltalake(table, rows, mode="overwrite", predicate=predicate)
        _checkpoint(table)

    def _table(self, name: str) -> DeltaTable:
        from deltalake import DeltaTable

        return DeltaTable(self._place.table(name), storage_options=self._place.options)


def _checkpoint(table: DeltaTable) -> None:
    """Write one, if it is time; ``table`` is as the commit left it."""
    if table.version() % VERSIONS_A_CHECKPOINT == 0:
        table.create_checkpoint()


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"

"""Commits to Delta tables by this process, through delta-rs: hundredths of a second where Spark takes seconds.

For tables that are there, and rows that are few: a table is read and written by this process alone. Each function is
one commit, made only if nobody made one of that number (a conditional put on S3, a hard link on a local disk).
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from apportion.spark.stores import Reached

BYTES_MAX: Final = 1 << 30
"""Of a table as it is stored, of which some groups are replaced here: more is for a cluster."""


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

        write_deltalake(self._place.table(name), rows, mode="append", storage_options=self._place.options)

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
        from deltalake import DeltaTable

        DeltaTable(self._place.table(name), storage_options=self._place.options).restore(version)

    def _overwrite(self, name: str, rows: pa.Table, predicate: str | None) -> None:
        from deltalake import write_deltalake

        table, options = self._place.table(name), self._place.options
        write_deltalake(table, rows, mode="overwrite", predicate=predicate, storage_options=options)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"

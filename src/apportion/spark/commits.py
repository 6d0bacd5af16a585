"""Commits to Delta tables by this process, through delta-rs: hundredths of a second where Spark takes seconds.

For tables that are there, and rows that are few: a table is read and written by this process alone. A commit goes on
from a version that its caller knows, and is refused where somebody made another one meanwhile: a build that was held up
for so long that the next one took it for dead adds nothing to what that one wrote. The store sees to it, by a
conditional put on S3 and by a hard link on a local disk.

What is committed to so often has to be kept in shape: small files are put together, and about every tenth version has a
checkpoint, as Spark's have, from which the log is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from apportion.errors import Unavailable
from apportion.spark.delta_log import Version
from apportion.spark.stores import Reached

if TYPE_CHECKING:
    from deltalake import DeltaTable

BYTES_MAX: Final = 1 << 30
"""Of a table as it is stored, of which some groups are replaced here: more is for a cluster."""
SMALL: Final = 8 << 20
SMALL_MAX: Final = 20
"""Files below ``SMALL`` bytes that a table may have; of more, larger ones are made first, in a commit of its own."""
_TOGETHER: Final = 32 << 20
VERSIONS_A_CHECKPOINT: Final = 10


class Table:
    """A table as it was in a version; each commit gives the number of the version that it made.

    Raises
        Unavailable: somebody else has made that version.
    """

    def __init__(self, place: Reached, name: str, version: Version) -> None:
        self._place, self._name, self._version = place, name, version

    def overwrite(self, rows: pa.Table) -> int:
        """Replace it whole; the columns may have changed."""
        return self._write(rows, "", whole=True)

    def append(self, rows: pa.Table) -> int:
        """Add rows."""
        return self._write(rows, "")

    def replace_groups(self, rows: pa.Table, groups: pa.Table) -> int:
        """Replace the rows of some groups; files that hold none of them stay.

        groups
            (group), one row for each; ``rows`` has rows of these alone.
        """
        texts = ", ".join(_literal(group) for group in groups["group"].to_pylist())
        return self._write(rows, f'"group" IN ({texts})')

    def restore(self, version: int) -> int:
        """Make it what it was in a version before.

        Raises
            DeltaError: files of that version are gone.
        """
        from deltalake import CommitProperties

        with self._opened() as table:
            table.restore(version, commit_properties=CommitProperties(max_commit_retries=0))
            return table.version()

    def _write(self, rows: pa.Table, predicate: str, whole: bool = False) -> int:
        from deltalake import CommitProperties, write_deltalake

        once = CommitProperties(max_commit_retries=0)
        with self._opened() as table:
            if whole:
                write_deltalake(table, rows, mode="overwrite", schema_mode="overwrite", commit_properties=once)
            else:
                if sum(file.size < SMALL for file in self._version.files.values()) > SMALL_MAX:
                    table.optimize.compact(target_size=_TOGETHER, commit_properties=once)
                if predicate:
                    write_deltalake(table, rows, mode="overwrite", predicate=predicate, commit_properties=once)
                else:
                    write_deltalake(table, rows, mode="append", commit_properties=once)
            if table.version() // VERSIONS_A_CHECKPOINT > self._version.number // VERSIONS_A_CHECKPOINT:
                self._checkpoint(table)
            return table.version()

    @contextmanager
    def _opened(self) -> Iterator[DeltaTable]:
        from deltalake import DeltaTable
        from deltalake.exceptions import CommitFailedError

        path, number = self._place.table(self._name), self._version.number
        try:
            yield DeltaTable(path, version=number, storage_options=self._place.options)
        except CommitFailedError as error:
            who = f"{path}: somebody else wrote to this table after version {number}, while this build was at work"
            raise Unavailable(f"{who}; nothing is lost, run it again") from error

    def _checkpoint(self, table: DeltaTable) -> None:
        """The commit stands whatever comes of it: without a checkpoint the log is read from the one before."""
        if self._place.is_local:
            # Spark wrote a check sum beside the one before, and would find that this one differs from it.
            Path(self._place.table(self._name), "_delta_log", "._last_checkpoint.crc").unlink(missing_ok=True)
        with suppress(Exception):
            table.create_checkpoint()


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"

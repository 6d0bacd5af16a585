"""Commits to Delta tables by this process, through delta-rs: hundredths of a second where Spark takes seconds.

For tables that are there, and rows that are few: a table is read and written by this process alone. A commit goes on
from a version that its caller knows, and is refused where somebody made another one meanwhile: a build that was held up
for so long that the next one took it for dead adds nothing to what that one wrote. The store sees to it, by a
conditional put on S3 and by a hard link on a local disk.

What is committed to so often has to be kept in shape: small files are put together, and about every tenth version has a
checkpoint, as Spark's have, from which the log is read.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from apportion.errors import Unavailable
from apportion.spark.delta_log import Version
from apportion.spark.stores import StoreAddress

if TYPE_CHECKING:
    from deltalake import DeltaTable

BYTES_MAX: Final = 1 << 30
"""Of a table as it is stored, of which some groups are replaced here: more is for a cluster."""
SMALL: Final = 8 << 20
SMALL_MAX: Final = 20
"""Files below ``SMALL`` bytes that a table may have; of more, larger ones are made first, in a commit of its own."""
_TOGETHER: Final = 32 << 20
VERSIONS_A_CHECKPOINT: Final = 10


class TableVersion:
    """A table as it was in a version; each change is a commit, and gives the number of the version that it made.

    Raises
        Unavailable: somebody else has made that version.
    """

    def __init__(self, store: StoreAddress, name: str, version: Version) -> None:
        self._store, self._name, self._version = store, name, version

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return self._version.size

    def overwrite(self, rows: pa.Table) -> int:
        """Replace it whole; the columns may have changed."""
        from deltalake import write_deltalake

        return self._commit(partial(write_deltalake, data=rows, mode="overwrite", schema_mode="overwrite"))

    def append(self, rows: pa.Table) -> int:
        """Add rows."""
        from deltalake import write_deltalake

        return self._commit(partial(write_deltalake, data=rows, mode="append"), put_together=True)

    def replace_groups(self, rows: pa.Table, groups: pa.Table) -> int:
        """Replace the rows of some groups; files that hold none of them stay.

        groups
            (group), one row for each; ``rows`` has rows of these alone.
        """
        from deltalake import write_deltalake

        texts = ", ".join(_literal(group) for group in groups["group"].to_pylist())
        write = partial(write_deltalake, data=rows, mode="overwrite", predicate=f'"group" IN ({texts})')
        return self._commit(write, put_together=True)

    def restore(self, version: int) -> int:
        """Make it what it was in a version before.

        Raises
            DeltaError: files of that version are gone.
        """
        from deltalake import DeltaTable

        return self._commit(partial(DeltaTable.restore, target=version))

    def _commit(self, change: Callable[..., object], put_together: bool = False) -> int:
        """Make a change of the table, at most once; of many small files larger ones before, if that is asked."""
        from deltalake import CommitProperties, DeltaTable
        from deltalake.exceptions import CommitFailedError

        path, number, once = self._store.table(self._name), self._version.number, CommitProperties(max_commit_retries=0)
        table = DeltaTable(path, version=number, storage_options=self._store.options)
        try:
            if put_together and sum(file.size < SMALL for file in self._version.files.values()) > SMALL_MAX:
                table.optimize.compact(target_size=_TOGETHER, commit_properties=once)
            change(table, commit_properties=once)
        except CommitFailedError as error:
            who = f"{path}: somebody else wrote to this table after version {number}, while this build was at work"
            raise Unavailable(f"{who}; nothing is lost, run it again") from error
        if table.version() // VERSIONS_A_CHECKPOINT > number // VERSIONS_A_CHECKPOINT:
            self._checkpoint(table)
        return table.version()

    def _checkpoint(self, table: DeltaTable) -> None:
        """The commit stands whatever comes of it: without a checkpoint the log is read from the one before."""
        if self._store.is_local:
            # Spark wrote a check sum beside the one before, and would find that this one differs from it.
            Path(self._store.table(self._name), "_delta_log", "._last_checkpoint.crc").unlink(missing_ok=True)
        with suppress(Exception):
            table.create_checkpoint()


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"

"""Where tables go. A store knows how rows are kept and published, and nothing of how they are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STATE: Final = "apportion_state"
"""The table, of rows of ``arrow_rows.ROW``, of what a build keeps for the next one."""

Delivery = Callable[[str, pa.Table, str], Iterator[pa.RecordBatch]]
"""From the name of a table, rows of it and a name of this part of them, which no other part of the stage has, to rows
of ``arrow_rows.ROW``: one ``written`` for the driver with how many there are, and what ``TableStore.write`` needs."""


class TableStore(Protocol):
    """Tables of a place, for one build, which is alone with it.

    What a build before left half done was put right by then: ``read`` and ``text`` give what the last whole build left.
    Tasks deliver rows; ``write`` completes a table of them, in one commit; ``publish`` comes last.
    """

    def names(self) -> set[str]:
        """The tables that the last whole build left and that are there."""

    def read(self, name: str) -> DataFrame | None:
        """The rows that the last whole build left of a table; None where there is no such table."""

    def text(self, name: str) -> str | None:
        """A small text that the last whole build kept beside its tables; None where it kept none."""

    def keep(self, name: str, text: str) -> None:
        """Keep a small text (some MB at most) beside the tables, from ``publish`` on; others that were kept stay."""

    def deliver(self, stage: str) -> Delivery:
        """How the tasks of a stage hand over rows of tables."""

    def write(self, name: str, frames: Sequence[DataFrame], rows: int, whole: bool) -> None:
        """Complete a table.

        frames
            Rows of ``arrow_rows.ROW``, among them those that ``deliver`` gave.
        rows
            How many were delivered.
        whole
            They are all rows of the table; else they are added to those that are there.
        """

    def begin_again(self) -> None:
        """Forget what was delivered and written since the last ``publish``."""

    def publish(self) -> None:
        """Let everybody see all that was written and kept since the last time."""

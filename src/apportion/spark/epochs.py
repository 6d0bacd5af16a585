"""Each epoch of a KIP-848 or streams group with what its members were given, from the records of a group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from apportion.history import rows
from apportion.history.epochs import epoch_rows
from apportion.history.fold import fold


def of_group(row: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The epochs of one row of ``histories``: columns of ``gold/epochs``, the time as ``at_ms``."""
    try:
        folded = fold(rows.events(row["group"], (), row["epochs"]), row["names"] or {})
    except Exception:  # the group's row in gold/groups says what could not be read
        return
    yield from epoch_rows(row["group"], folded.generations)

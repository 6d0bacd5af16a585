"""A folder's memory: the groups and histories of a dump or of the pipeline's tables, whichever it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from apportion.errors import BadInput, MissingExtra
from apportion.history.group_history import GroupHistories
from apportion.sighting.sighting import Sighting
from apportion.sources import sniff


def reader_of(path: str | Path) -> Any:
    """The module that reads the folder: ``dump`` or ``tables``, which have the same functions."""
    if not Path(path).is_dir():
        obstacle = "a file" if Path(path).exists() else "no such folder"
        raise BadInput(str(path), obstacle, "a folder: a dump (records/) or the pipeline's tables (silver/, gold/)")
    kind = sniff.folder_kind(str(path))
    try:
        from apportion.sources import dump, tables
    except ModuleNotFoundError:
        raise MissingExtra(f"Reading a {kind}", "spark") from None
    return dump if kind == "dump" else tables


def load_histories(path: str | Path) -> GroupHistories:
    """Every group of the folder; ``memory.group(name).replay("sticky")`` is the JSON of ``apportion replay``."""
    histories: GroupHistories = reader_of(path).load_histories(path)
    return histories


def next_offsets(path: str | Path) -> dict[int, int]:
    """Partition of ``__consumer_offsets`` to the first offset behind the folder's records, to read on from."""
    offsets: dict[int, int] = reader_of(path).next_offsets(path)
    return offsets


def groups_of(histories: GroupHistories, path: str | Path) -> list[Sighting]:
    """Every living group of the folder, described at its newest records."""
    living = histories.living
    if not living:
        raise BadInput(str(path), "no group", "records or tables of at least one group")
    from apportion.sources.dump import sighted

    return [sighted(group) for group in living]

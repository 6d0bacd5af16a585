"""What a folder remembers: the groups and histories of a dump or of the pipeline's tables, whichever it is."""

from __future__ import annotations

from pathlib import Path

from apportion.errors import BadInput, MissingExtra
from apportion.history.group_history import GroupHistories
from apportion.inputs import sniff


def load_histories(path: str | Path) -> GroupHistories:
    """Every group of the folder; ``memory.group(name).replay("sticky")`` is the JSON of ``apportion replay``."""
    if not Path(path).is_dir():
        obstacle = "a file" if Path(path).exists() else "no such folder"
        raise BadInput(str(path), obstacle, "a folder: a dump (records/) or the pipeline's tables (silver/, gold/)")
    kind = sniff.folder_kind(str(path))
    try:
        from apportion.inputs import dump, tables
    except ModuleNotFoundError:
        raise MissingExtra(f"Reading a {kind}", "spark") from None
    return dump.load_histories(path) if kind == "dump" else tables.load_histories(path)


def next_offsets(path: str | Path) -> dict[int, int]:
    """Partition of ``__consumer_offsets`` to the first offset behind what the folder has, for whoever reads on."""
    if sniff.folder_kind(str(path)) == "dump":
        from apportion.inputs import dump

        return dump.next_offsets(path)
    from apportion.inputs import tables

    return tables.next_offsets(path)

"""Why mutants may live: a text of entries, looked up by file, function and the changed line, not by its number."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

Key = tuple[str, str, str, str]
"""File, function, old line, new line."""


def read(path: Path) -> dict[Key, str]:
    """Each entry and its reason.

    An entry is ``file function``, a line that begins with ``-``, one with ``+`` and the reason; an empty line ends it.
    With ``* *`` before it, it holds everywhere, and its lines are the words that were exchanged.
    """
    entries: dict[Key, str] = {}
    for block in path.read_text(encoding="utf-8").split("\n\n") if path.exists() else []:
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        if not lines:
            continue
        if len(lines) < 4 or lines[1][:1] != "-" or lines[2][:1] != "+" or len(lines[0].split()) != 2:
            raise SystemExit(
                f"{path.name}: found {block!r}; an entry is 'file function', '- old', '+ new' and a reason"
            )
        file, function = lines[0].split()
        entries[file, function, lines[1][1:].strip(), lines[2][1:].strip()] = " ".join(lines[3:])
    return entries


def reason(entries: Mapping[Key, str], key: Key) -> str:
    """The reason of one mutant; empty where nobody gave one."""
    if key in entries:
        return entries[key]
    _, _, was, becomes = key
    for (file, _, old, new), why in entries.items():
        if file == "*" and any(
            was[:at] + new + was[at + len(old) :] == becomes for at in range(len(was)) if was.startswith(old, at)
        ):
            return why
    return ""


def stale(entries: Mapping[Key, str], root: Path) -> list[Key]:
    """Entries whose file below ``root`` has no such function or no such line any more."""
    texts = {file: root / file for file, *_ in entries if file != "*"}
    joined = {
        file: " ".join(line.strip() for line in path.read_text(encoding="utf-8").splitlines()) if path.exists() else ""
        for file, path in texts.items()
    }
    return [
        (file, function, was, becomes)
        for file, function, was, becomes in entries
        if file != "*" and (was not in joined[file] or f"def {function.rpartition('.')[2]}(" not in joined[file])
    ]

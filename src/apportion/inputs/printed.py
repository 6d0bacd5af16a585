"""The tables in what ``kafka-consumer-groups`` printed: their headers, and their rows by column.

Values stand where the header's columns start, as names may hold blanks; where that is lost (tabs, numbers that are too
wide), words count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from apportion.errors import BadInput

_HEADER: Final = frozenset({
    "GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST",
    "CLIENT-ID", "OWNER", "GROUP-INSTANCE-ID", "#PARTITIONS", "ASSIGNMENT", "CURRENT-EPOCH", "CURRENT-ASSIGNMENT",
    "TARGET-EPOCH", "TARGET-ASSIGNMENT", "UPGRADED", "ASSIGNMENT-STRATEGY", "STATE", "GROUP-EPOCH",
    "TARGET-ASSIGNMENT-EPOCH", "#MEMBERS", "COORDINATOR", "COORDINATOR (ID)",
})  # fmt: skip
_COLUMN: Final = re.compile(r"COORDINATOR \(ID\)|[^\s]+")
NAMED: Final = re.compile(
    r"(?:Warning: |Error: )?Consumer group '(.*)' (?:has no active members|is rebalancing|does not exist)"
)
"""At the start of a line alone: a search through a long line of quotes would take for ever."""
_LOGGED: Final = re.compile(r"\[?\d{4}-\d\d-\d\d[ T]")
_NEVER_BLANK: Final = ("TOPIC", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "OWNER", "STATE")
"""Kafka writes ``-`` there for what it does not know."""
Fields = Mapping[str, str]


def rows(text: str, name: str) -> Iterator[tuple[int, list[str] | None, Fields]]:
    """Each row with its line's number and columns; a sentence that names a group has columns None.

    name
        How errors call the input.
    """
    columns: list[tuple[str, int]] | None = None
    for number, line in enumerate(text.split("\n"), 1):
        line = line.rstrip("\r")
        named = NAMED.match(line)
        if named:
            if "does not exist" not in line:
                yield number, None, {"GROUP": named[1]}
            continue
        header = columns_of(line)
        if header:
            columns = header
        elif columns and line.strip() and not _LOGGED.match(line):
            row = _row(line, columns)
            if row is not None and _belongs(row):
                yield number, [name for name, _ in columns], row
            elif _is_cut(row, line, columns):
                needed = f"{len(columns)} columns: " + " ".join(name for name, _ in columns)
                raise BadInput(f"{name}, line {number}", ascii(line[:60]), needed)
            else:
                columns = None  # a prompt or a sentence: the table is over


def columns_of(line: str) -> list[tuple[str, int]] | None:
    """The header's columns and where each starts; None for any other line."""
    if line.startswith("GROUP, TOPIC, PARTITION, "):
        return [(name.strip(), -1) for name in line.split(",")]
    columns = [(match[0], match.start()) for match in _COLUMN.finditer(line.rstrip("\r"))]
    names = {name for name, _ in columns}
    if len(columns) < 4 or not names <= _HEADER:
        return None
    tables = ({"TOPIC", "PARTITION", "LAG"}, {"CONSUMER-ID", "#PARTITIONS"}, {"STATE", "#MEMBERS"})
    return columns if any(table <= names for table in tables) else None


def _row(line: str, columns: list[tuple[str, int]]) -> dict[str, str] | None:
    """The row's values by column: by position where it is aligned, as names may hold blanks, else by words."""
    names = [name for name, _ in columns]
    if columns[0][1] < 0:
        return _by_name(names, line.split(", "))
    placed = _by_name(names, _by_position(line, [start for _, start in columns]) or [])
    if placed is not None and _belongs(placed):
        return placed
    # Blanks may have been squeezed on the way, so that words stand in other columns' places.
    return _by_name(names, line.split(None, len(columns) - 1)) or placed


def _by_name(names: list[str], cells: list[str]) -> dict[str, str] | None:
    """The cells by column, None where there are more or fewer."""
    return dict(zip(names, map(str.strip, cells), strict=True)) if len(cells) == len(names) else None


def _by_position(line: str, starts: list[int]) -> list[str] | None:
    """The cells of a line whose columns start where the header's do; None where they do not.

    Java pads by UTF-16 units, so beyond U+FFFF a letter takes two places.
    """
    if "\t" in line:
        return None
    units = line.encode("utf-16-le", "surrogatepass")
    cells = []
    for start, stop in zip(starts, [*starts[1:], None], strict=True):
        cell = units[2 * start : None if stop is None else 2 * stop].decode("utf-16-le", "replace")
        if stop is not None and cell and not cell.endswith(" ") and 2 * stop < len(units):
            return None
        if cell.startswith(" ") and cell.strip():
            return None
        cells.append(cell)
    return cells


def _belongs(row: Fields) -> bool:
    """Whether the values are of the kinds that the columns hold: else the line is no row, or only a part of one."""
    for column in ("PARTITION", "#PARTITIONS", "#MEMBERS"):
        value = row.get(column)
        if value is not None and value != "-" and not (value.isascii() and value.isdecimal()):
            return False
    return all(row.get(column) != "" for column in _NEVER_BLANK)


def _is_cut(row: Fields | None, line: str, columns: list[tuple[str, int]]) -> bool:
    """Whether a line that is no row was one: its partition is where it belongs."""
    at = next((i for i, (name, _) in enumerate(columns) if name in ("PARTITION", "#PARTITIONS")), None)
    if at is None:
        return False
    if row is not None:
        return row[columns[at][0]].isdecimal()
    words = line.replace(",", " ").split()
    return at < len(words) and words[at].isdecimal()


def decoded(content: bytes, name: str) -> str:
    """The text: UTF-8, or UTF-16 with its mark, as PowerShell writes files."""
    try:
        if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
            return content.decode("utf-16")
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(name, f"bytes that are not text at {error.start}", "UTF-8 text") from None

"""A result as text: aligned columns under Kafka's names, or CSV; nothing here is slow to import.

Columns are plain so that awk and grep can read them, and fast so that 10,000 partitions show at once.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TextIO

Cell = str | int | float | None
"""None is what is not known; it shows as Kafka's ``-``."""

LEAST: Final = 14
"""Places that a text keeps when a table is made to fit a terminal."""


@dataclass(frozen=True)
class TextTable:
    """Rows under named columns.

    columns
        Names, as Kafka's tools write them where those have the column.
    extra
        Columns that only the wide form and CSV show.
    """

    columns: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]
    title: str = ""
    extra: frozenset[str] = field(default_factory=frozenset)

    def narrow(self) -> TextTable:
        """The table without its extra columns."""
        keep = [i for i, name in enumerate(self.columns) if name not in self.extra]
        rows = [tuple(row[i] for i in keep) for row in self.rows]
        return TextTable(tuple(self.columns[i] for i in keep), rows, self.title)

    def records(self) -> list[dict[str, Cell]]:
        """The rows as objects, for NDJSON: names as in the columns, in small letters."""
        names = [field_name(name) for name in self.columns]
        return [dict(zip(names, row, strict=True)) for row in self.rows]


def field_name(column: str) -> str:
    """A column's name as programs like it: ``LOG-END-OFFSET`` is ``log_end_offset``, ``#PARTITIONS`` ``partitions``."""
    return column.lstrip("#").lower().replace("-", "_").replace(" ", "_")


def render(table: TextTable, bold: bool = False) -> str:
    """The table as aligned text, numbers to the right; ends with a newline."""
    cells = [[printable(_shown(cell)) for cell in row] for row in table.rows]
    numeric = [_numeric(row[i] for row in table.rows) for i in range(len(table.columns))]
    widths = [max([cell_width(name), *(cell_width(row[i]) for row in cells)]) for i, name in enumerate(table.columns)]
    last = len(widths) - 1

    def line(row: Sequence[str]) -> str:
        parts = []
        for i, cell in enumerate(row):
            gap = " " * (widths[i] - cell_width(cell))
            parts.append(gap + cell if numeric[i] else cell if i == last else cell + gap)
        return "  ".join(parts).rstrip()

    head = line(table.columns)
    lines = [f"\x1b[1m{head}\x1b[0m" if bold else head, *map(line, cells)]
    title = "".join(printable(part) + "\n" for part in table.title.split("\n")) if table.title else ""
    return title + "".join(text + "\n" for text in lines)


def to_csv(table: TextTable) -> str:
    """The table as CSV with a header; unknown is an empty field."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([field_name(name) for name in table.columns])
    writer.writerows([[_in_csv(cell) for cell in row] for row in table.rows])
    return out.getvalue()


def _in_csv(cell: Cell) -> Cell:
    """A cell that neither a terminal nor a spreadsheet obeys: a text that begins like a formula gets an apostrophe.

    So does one with apostrophes before such a sign: ``describe`` takes the first of them off.
    """
    if not isinstance(cell, str):
        return "" if cell is None else cell
    return f"'{printable(cell)}" if _FORMULA.match(cell) and not _NUMBER.fullmatch(cell) else printable(cell)


_FORMULA: Final = re.compile(r"'*[=+@-]")
_NUMBER: Final = re.compile(r"[+-]?[0-9.,]+%?|-")


def to_json(document: Any) -> str:
    """JSON on one line; characters that a terminal may obey (C1, marks of direction) or cannot show are escaped."""
    text = json.dumps(document, ensure_ascii=False)
    return text if text.isprintable() else _UNSHOWN.sub(_escaped, text)


_UNSHOWN: Final = re.compile(r"[^\x00-\x7e\w]")


def _escaped(letter: re.Match[str]) -> str:
    return letter[0] if letter[0].isprintable() else json.dumps(letter[0])[1:-1]


def _shown(cell: Cell) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:.0f}" if abs(cell) >= 1000 else f"{cell:.4g}"  # 12346, not 1.235e+04
    return str(cell)


def _numeric(cells: Iterable[Cell]) -> bool:
    known = [cell for cell in cells if cell is not None]
    # A number may wear a mark: "12 *" is the best of its column.
    return bool(known) and all(
        isinstance(c, int | float) or (isinstance(c, str) and c.rstrip("* %").replace(".", "").isdigit()) for c in known
    )


def cell_width(text: str) -> int:
    """How many places of a terminal the text takes."""
    if text.isascii():
        return len(text)
    return sum(_places(letter) for letter in text)


def _places(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def printable(text: str) -> str:
    """The text with control characters and lone surrogates escaped: names are other people's words."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == " " else c.encode("unicode_escape").decode() for c in text)


def fitted(table: TextTable, places: int) -> TextTable:
    """The table with its longest texts cut until a line takes so many places; 14 of each stay."""
    texts = [[printable(_shown(row[i])) for row in table.rows] for i in range(len(table.columns))]
    widths = [max([cell_width(name), *map(cell_width, each)]) for name, each in zip(table.columns, texts, strict=True)]
    least = [width if _numeric(row[i] for row in table.rows) else min(width, max(LEAST, cell_width(table.columns[i])))
             for i, width in enumerate(widths)]  # fmt: skip
    room = list(widths)
    while sum(room) + 2 * (len(room) - 1) > places:
        loose = [i for i in range(len(room)) if room[i] > least[i]]
        if not loose:
            break
        room[max(loose, key=lambda i: room[i])] -= 1
    if room == widths:
        return table
    long = [i for i in range(len(room)) if room[i] < widths[i]]
    # Names differ at either end; the last column mostly holds words, which begin with what matters.
    how = [_middle] * (len(room) - 1) + [cut]
    rows = [
        tuple(how[i](printable(_shown(c)), room[i]) if i in long and c is not None else c for i, c in enumerate(row))
        for row in table.rows
    ]
    return TextTable(table.columns, rows, table.title, table.extra)


def _middle(text: str, places: int) -> str:
    """The text with its middle left out if it is too long: names differ at either end."""
    if cell_width(text) <= places:
        return text
    tail = (places - 3) // 3
    return _beginning(text, places - 3 - tail) + "..." + _beginning(text[::-1], tail)[::-1]


def cut(text: str, places: int) -> str:
    """The text with its end left out if it takes more places of a terminal."""
    return text if cell_width(text) <= places else _beginning(text, max(places - 3, 0)) + "..."


def _beginning(text: str, places: int) -> str:
    """As much of a text as so many places hold; a letter may take two of them, or none."""
    taken = 0
    for i, letter in enumerate(text):
        taken += _places(letter)
        if taken > places:
            return text[:i]
    return text


def fold(sentence: str, width: int) -> str:
    """A long sentence broken between words, its further lines indented.

    >>> print(fold("! The lag is local: clicks-0 has 90% of it.", 26))
    ! The lag is local:
      clicks-0 has 90% of it.
    """
    if cell_width(sentence) <= width:
        return sentence
    import textwrap

    return textwrap.fill(
        sentence, max(width, 20), subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def span(low: int, high: int) -> str:
    """The least and the most in one cell; one number if they are the same."""
    return str(low) if low == high else f"{low}-{high}"


def wants_style(stream: TextIO) -> bool:
    """Whether bold letters help: a terminal, and no request for plain text (no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def records_to_ndjson(records: Iterable[Mapping[str, Any]]) -> str:
    """One JSON object a line."""
    return "".join(to_json(record) + "\n" for record in records)

"""The meaning of a printed row's cells: a whole number, nothing, or figures that the row's own sum decides.

People's tools write ``9,100``, ``9.100``, ``9 100``, ``9100.0`` for one number and ``NULL``, ``N/A``, ``?`` for none.
A figure that is not plain is read if LAG = END - CURRENT holds for exactly one reading; any other one is not read, so
that a caller can name it. Digits that were lost (``9.1K``) are not guessed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import comb
from typing import Final

Fields = Mapping[str, str]
EQUATION: Final = ("CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")
"""The third is the second minus the first."""
OFFSETS: Final = ("CURRENT-OFFSET", "LOG-START-OFFSET", "LOG-END-OFFSET", "LAG")
COUNTS: Final = ("PARTITION", "#PARTITIONS", "#MEMBERS")
NEEDED: Final = "a whole number, with every digit, or - for nothing"
_NOTHING: Final = frozenset(
    ("", "null", "none", "nan", "nil", "na", "n/a", "n.a.", "unknown", "undefined", "unset", r"\n", "not available")
)
_PLAIN: Final = re.compile(r"-?[0-9]{1,20}")
_FIGURE: Final = re.compile(r"([+-]?)([0-9]+(?:[\W_][0-9]+)*)")
"""Digits with single signs between them; a letter, as in ``9.1K`` or ``2.04E+10``, stands for digits that are lost."""
_NUMBER_LIKE: Final = re.compile(r"[+-]?[0-9]+(?:[\W_][0-9]+)*(?:[kmgtb]i?|e[+-]?[0-9]+)?", re.IGNORECASE)
_MOST_JOINS: Final = 20_000
"""Ways of joining a line's cells that are tried; beyond it the line is named as it stands."""


def is_nothing(cell: str) -> bool:
    """Whether a cell says that there is no value: a word for it, or dashes and question marks alone.

    >>> [is_nothing(cell) for cell in ("-", "—", "NULL", "<none>", "?", "0", "9.1K")]
    [True, True, True, True, True, False, False]
    """
    word = cell.strip().strip("<>()[]\"'").casefold()
    return word in _NOTHING or all(sign in "?_" or unicodedata.category(sign) == "Pd" for sign in word)


def is_id(cell: str) -> bool:
    """Whether a cell is a partition's id."""
    return cell.isascii() and cell.isdecimal() and len(cell) <= 20


def is_like_a_number(cell: str) -> bool:
    """Whether a cell is meant as a number, readable or not: ``9,100``, ``9.1K``, ``2.04E+10``."""
    return _NUMBER_LIKE.fullmatch(_normal(cell)) is not None


def _normal(cell: str) -> str:
    """With the digits, blanks and minus signs of ASCII in place of their variants."""
    return unicodedata.normalize("NFKC", cell).replace("\N{MINUS SIGN}", "-").strip()


def readings(cell: str) -> set[int]:
    """The whole numbers that a cell may mean: none, one, or one with its sign for thousands and one for decimals.

    >>> sorted(readings("9.000")), readings("9100.0"), readings("1'234'567"), readings("9.1K"), readings("9.5")
    ([9, 9000], {9100}, {1234567}, set(), set())
    """
    figure = _FIGURE.fullmatch(_normal(cell))
    if figure is None or len(figure[2]) > 40:
        return set()
    groups, signs = re.split(r"[\W_]", figure[2]), re.findall(r"[\W_]", figure[2])
    texts = {"".join(groups)} if _are_thousands(groups, signs) else set()
    if signs and signs[-1] in ".," and set(groups[-1]) == {"0"} and signs[-1] not in signs[:-1]:
        texts |= {"".join(groups[:-1])} if _are_thousands(groups[:-1], signs[:-1]) else set()
    return {int(figure[1] + digits) for digits in texts}


def _are_thousands(groups: Sequence[str], signs: Sequence[str]) -> bool:
    """Whether groups of digits are cut as a number's are: by three, by four, or by two above the thousands (India)."""
    if not signs:
        return True
    sizes = [len(group) for group in groups]
    alike = {(3,), (4,)} & {tuple(set(sizes[1:]))} or (set(sizes[1:-1]) == {2} and sizes[-1] == 3)
    return len(set(signs)) == 1 and bool(alike) and 1 <= sizes[0] <= max(sizes[1:])


@dataclass(frozen=True)
class Figures:
    """A row's figures as far as they can be read.

    fields
        The row with plain digits or ``-`` in its columns of numbers; ``-`` for what cannot be read.
    unread
        The first column that cannot be read, and its cell.
    adds_up
        Whether LAG = END - CURRENT; None where one of them is nothing or is no column of the table.
    """

    fields: Fields
    unread: tuple[str, str] | None = None
    adds_up: bool | None = None

    @property
    def trust(self) -> int:
        """How sure it is that the cells were cut right: 3 the sum proves it, 2 nothing speaks against it, 1 the sum
        contradicts, 0 a figure cannot be read.
        """
        return 0 if self.unread else 2 if self.adds_up is None else 3 if self.adds_up else 1


def figures(row: Fields) -> Figures:
    """The row's numbers, see ``Figures``.

    >>> figures({"CURRENT-OFFSET": "88", "LOG-END-OFFSET": "9.188", "LAG": "9.100"}).fields["LAG"]
    '9100'
    """
    cells = {name: "-" if is_nothing(row[name]) else row[name] for name in (*COUNTS, *OFFSETS) if name in row}
    odd = [name for name, cell in cells.items() if cell != "-" and not _PLAIN.fullmatch(cell)]
    if odd and set(odd) <= set(EQUATION) and (decided := _decided(cells)) is not None:
        return Figures({**row, **cells, **decided}, None, True)
    plain = {**row, **cells, **dict.fromkeys(odd, "-")}
    return Figures(plain, (odd[0], row[odd[0]]) if odd else None, _adds_up(plain))


def _decided(cells: Fields) -> dict[str, str] | None:
    """The only reading of the three figures whose sum is right; None for none or several."""
    possible = [readings(cells.get(name, "")) for name in EQUATION]
    right = [values for values in product(*possible) if values[2] == values[1] - values[0]]
    return dict(zip(EQUATION, map(str, right[0]), strict=True)) if len(right) == 1 else None


def _adds_up(row: Fields) -> bool | None:
    current, end, lag = (row.get(name, "-") for name in EQUATION)
    if "-" in (end, lag):
        return None
    if current == "-":  # what was never committed has the whole log to read, at most
        return None if int(lag) <= int(end) else False
    difference = int(end) - int(current)
    # Some tools, and ours, say 0 of a commit beyond the log's end; librdkafka's say -1, or -1001, for unknown.
    if int(lag) in (difference, max(difference, 0)):
        return True
    return None if min(int(current), int(end), int(lag)) < 0 else False


def joined(
    cells: Sequence[str], names: Sequence[str], glue: str, belongs: Callable[[Fields], bool] = lambda row: True
) -> Fields | None:
    """The row that neighbouring cells make, joined to as many as there are columns, in the only way whose sum is right.

    names
        The columns.
    glue
        What stood between the cells.
    belongs
        Whether a row's cells are of their columns' kinds.
    """
    if not len(names) < len(cells) or comb(len(cells) - 1, len(names) - 1) > _MOST_JOINS:
        return None
    rows = [row for row in _joins(cells, names, glue) if is_id(row.get("PARTITION", "")) and belongs(row)]
    rows = [row for row in rows if glue not in row.get("TOPIC", "")]  # no topic's name has such a sign
    right = [row for row in rows if figures(row).adds_up]
    return right[0] if len(right) == 1 else None


def _joins(cells: Sequence[str], names: Sequence[str], glue: str) -> Iterator[Fields]:
    for cuts in combinations(range(1, len(cells)), len(names) - 1):
        bounds = (0, *cuts, len(cells))
        yield {name: glue.join(cells[bounds[i] : bounds[i + 1]]) for i, name in enumerate(names)}

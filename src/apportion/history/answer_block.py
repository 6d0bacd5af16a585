"""Rows of what-ifs of many groups of one structure as arrays: the source of a column of ``gold/whatif``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from apportion.arrays import Ints, Longs
from apportion.history.scenarios import ScenarioResult

COLUMNS: Final = tuple(field.name for field in fields(ScenarioResult))
"""Of a row of ``gold/whatif`` beside the group's name."""
TEXTS: Final = ("assignor", "scenario", "proof", "error")
NUMBERS: Final = tuple(name for name in COLUMNS if name not in TEXTS)
NOTHING: Final = np.iinfo(np.int64).min
"""In an array of numbers: there is none."""

Columns = dict[str, list[Any]]
"""Column to its values, a row for each strategy and scenario."""


class AnswerBlock:
    """G groups with R rows each, group after group.

    numbers
        Column to (G, R) whole numbers, ``NOTHING`` where there is none.
    texts
        Column to (G, R) places in ``words``.
    """

    def __init__(self, groups: int, rows: Sequence[ScenarioResult]) -> None:
        """Begin with equal rows for every group."""
        self.groups, self.rows = groups, len(rows)
        self.words: list[str | None] = [None]
        self._place: dict[str | None, int] = {None: 0}
        shape = (groups, len(rows))
        self.numbers: dict[str, Longs] = {
            name: np.broadcast_to(_numbers([getattr(row, name) for row in rows]), shape) for name in NUMBERS
        }
        self.texts: dict[str, Ints] = {
            name: np.broadcast_to(np.array([self.word(getattr(row, name)) for row in rows], dtype=np.int64), shape)
            for name in TEXTS
        }

    def copy_for(self, groups: int) -> AnswerBlock:
        """The first group's rows for so many groups."""
        twin = object.__new__(AnswerBlock)
        twin.groups, twin.rows = groups, self.rows
        twin.words, twin._place = list(self.words), dict(self._place)
        twin.numbers = {name: values[:1].repeat(groups, axis=0) for name, values in self.numbers.items()}
        twin.texts = {name: values[:1].repeat(groups, axis=0) for name, values in self.texts.items()}
        return twin

    def word(self, text: str | None) -> int:
        """The number of a text."""
        number = self._place.setdefault(text, len(self.words))
        if number == len(self.words):
            self.words.append(text)
        return number

    def changed(self, column: str) -> NDArray[np.int64]:
        """A column to be written into."""
        table = self.texts if column in self.texts else self.numbers
        if not table[column].flags.writeable:
            table[column] = table[column].copy()
        return table[column]

    def put(self, groups: Ints, row: int, values: Mapping[str, Any]) -> None:
        """One row of some groups: numbers, arrays of numbers a group each, None for none, or texts."""
        for name, value in values.items():
            if name in self.texts:
                self.changed(name)[groups, row] = self.word(value)
            else:
                # Offsets of no broker add up to a lag that 64 bits cannot hold.
                unknown = value is None or (isinstance(value, int) and value >= 2**63)
                self.changed(name)[groups, row] = NOTHING if unknown else value

    def put_row(self, group: int, row: int, answer: ScenarioResult) -> None:
        """One row of one group."""
        self.put(np.array([group]), row, {name: getattr(answer, name) for name in COLUMNS})

    def columns(self, group: int) -> Columns:
        """One group's rows as lists."""
        columns: Columns = {}
        for name in COLUMNS:
            if name in self.texts:
                columns[name] = [self.words[number] for number in self.texts[name][group].tolist()]
            else:
                columns[name] = [None if value == NOTHING else value for value in self.numbers[name][group].tolist()]
        return columns


def _numbers(values: Sequence[int | None]) -> Longs:
    return np.array([NOTHING if value is None else value for value in values], dtype=np.int64)

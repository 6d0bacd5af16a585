"""A group as it is now, as tables under Kafka's own column names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import Any, Final

import numpy as np

from apportion.arrays import UNKNOWN
from apportion.model.to_names import partitions_to_names
from apportion.report.roles import roles_dict
from apportion.report.text import Cell, TextTable
from apportion.sighting import measures
from apportion.sighting.judged import Judged
from apportion.sighting.measures import Measure
from apportion.sighting.sighting import Sighting
from apportion.wording import count, partitions_in_words, shorten

MOST_ROWS: Final = 60
"""Partitions that the narrow form lists; above, members alone are shown."""
NARROW: Final = 60
STATE: Final = ("coordinator", "assignor", "state", "generation", "members")
"""Measures of a group in the order of ``kafka-consumer-groups --describe --state``."""


def heading(sighting: Sighting) -> str:
    """One line: name, state, strategy, sizes."""
    group = sighting.group
    parts = [part for part in (sighting.state, sighting.assignor, sighting.protocol) if part]
    if sighting.generation is not None:
        parts.append(f"generation {sighting.generation}")
    members = "members unknown" if sighting.members is None else count(sighting.members, "member")
    parts.append(f"{members}, {count(group.P, 'partition')}")
    if sighting.total_lag is not None:
        parts.append(f"lag {sighting.total_lag:,}")
    elif group.offsets is not None and group.P:
        parts.append("lag unknown")
    if sighting.coordinator:  # last, so that a narrow terminal cuts it and not the sizes
        parts.append(f"coordinator {sighting.coordinator}")
    return f"{group.name or '(unnamed group)'}: {', '.join(parts)}"


def described(judged: Judged) -> dict[str, Any]:
    """The known facts about the group besides group.json: ``described`` of ``describe -o json``."""
    sighting = judged.sighting
    return {
        **measures.known("group", judged),
        **({} if sighting.governed is None else {"governed": sighting.governed.to_dict()}),
        **({} if sighting.owners_told else {"owners_told": False}),
        "lag_unknown": int(np.count_nonzero(sighting.lag == UNKNOWN)),
        "members": _fields("member", sighting),
        "partitions": _fields("row", sighting),
        **roles_dict(sighting.protocol, sighting.roles),
        "odd": judged.odd,
        **judged.to_dict(),
    }


def members_data(sighting: Sighting) -> dict[str, Any] | None:
    """The members' table as data for the page, without columns that say nothing; None if it would be long."""
    if not 0 < sighting.group.M <= MOST_ROWS:
        return None
    columns = [c for c in measures.at("member") if any(value is not None for value in c.value(sighting))]
    head, rows = [column.header.capitalize() for column in columns], [list(row) for row in _rows(columns, sighting)]
    return {"title": "The members as they are described", "head": head, "rows": rows}


def _rows(columns: Sequence[Measure], sighting: Sighting) -> Iterator[tuple[Cell, ...]]:
    """The rows of members or of partitions; the first column knows how many there are."""
    values = [column.value(sighting) for column in columns]
    return zip(*(each or [None] * len(values[0]) for each in values), strict=True)


def _fields(level: str, sighting: Sighting) -> list[dict[str, Any]]:
    """The rows as ``described`` has them: the known facts that group.json does not say."""
    columns = [column for column in measures.at(level) if column.schema is not None]
    rows = _rows(columns, sighting)
    return [{c.name: v for c, v in zip(columns, row, strict=True) if v is not None} for row in rows]


def _table(columns: Sequence[Measure], rows: Sequence[tuple[Cell, ...]], extra: Set[str] = frozenset()) -> TextTable:
    """Rows that begin with their group; ``extra`` is for wide tables, as are optional columns that no row fills."""
    empty = {c.header for i, c in enumerate(columns, 1) if not c.always and not any(row[i] for row in rows)}
    return TextTable(("GROUP", *(column.header for column in columns)), rows, extra=frozenset(extra | empty))


def states(seen: Sequence[Judged]) -> TextTable:
    """A row a group, as ``kafka-consumer-groups --describe --state`` prints it."""
    columns = sorted((m for m in measures.at("group") if m.name in STATE), key=lambda m: STATE.index(m.name))
    return _table(columns, [(j.sighting.name, *(column.value(j) for column in columns)) for j in seen])


def members(sighting: Sighting, wide: bool = False) -> TextTable:
    """A row a member: its host, its partitions, how far behind they are."""

    def assignment(s: Sighting) -> list[Cell]:
        cells: list[Cell] = []
        for read in s.reads:
            mask = np.zeros(s.group.P, dtype=np.bool_)
            mask[read] = True
            text = partitions_in_words(partitions_to_names(s.group, mask), runs=not wide)
            cells.append((text if wide else shorten(text, NARROW)) or None)
        return cells

    columns = [*measures.at("member"), Measure("assignment", "member", assignment, header="ASSIGNMENT")]
    return _table(columns, [(sighting.name, *row) for row in _rows(columns, sighting)], {"GROUP"})


def partitions(seen: Sequence[Sighting]) -> TextTable:
    """A row a partition, as ``kafka-consumer-groups --describe`` prints it."""
    columns = measures.at("row")
    return _table(columns, [(sighting.name, *row) for sighting in seen for row in _rows(columns, sighting)])

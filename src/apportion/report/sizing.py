"""The members that a group may have, as a table."""

from __future__ import annotations

from apportion.report.text import Cell, Table
from apportion.sizing.size import Sizing
from apportion.sizing.sized import number


def table(sizing: Sizing, *, marks: bool = True) -> Table:
    """A row for each plan of the frontier, the advised one with a ``*``, or in a column of its own for programs."""
    rows: list[tuple[Cell, ...]] = []
    for i, sized in enumerate(sizing.frontier):
        chosen = i == sizing.chosen
        least = None if sized.proven else _short(sized.moved_bound)
        rows.append((
            f"{sized.members} *" if marks and chosen else sized.members, len(sized.join), len(sized.leave),
            sized.moves, _short(sized.moved), least, f"{100 * sized.busiest:.1f}%",
            ", ".join([*(f"+{name}" for name in sized.join), *(f"-{name}" for name in sized.leave)]) or None,
            *(() if marks else (chosen,)),
        ))  # fmt: skip
    columns = ["#MEMBERS", "JOIN", "LEAVE", "MOVES", "MOVED", "MOVED-BOUND", "BUSIEST", "WHO"]
    extra = {"WHO"} if any(row[1] or row[2] for row in rows) and len(rows) > 1 else set()
    extra |= {"MOVED-BOUND"} if all(row[5] is None for row in rows) else set()
    if not marks:
        columns.append("CHOSEN")
    title = f"{sizing.group.name or 'group'}: {_short(sizing.total)} by {sizing.work.by}, "
    return Table(tuple(columns), rows, title + f"{_short(sizing.capacity)} a member", frozenset(extra))


def _short(value: float) -> int | float:
    return number(round(value, 3))

"""The members that a group may have, as a table and as a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from apportion.arrays import NOBODY, ints
from apportion.model.build import build
from apportion.model.group_json import group_to_dict
from apportion.report.group_data import group_data, summary
from apportion.report.text import Cell, TextTable
from apportion.sighting.judged import Judged
from apportion.sighting.sighting import Sighting
from apportion.sizing.frontier_point import number
from apportion.sizing.size import Sizing
from apportion.wording import count


def table(sizing: Sizing, *, marks: bool = True) -> TextTable:
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
    return TextTable(tuple(columns), rows, title + f"{_short(sizing.capacity)} a member", frozenset(extra))


def page_data(sighting: Sighting, sizing: Sizing, how: Sequence[str] = ()) -> dict[str, Any]:
    """The group as the page draws it, with each plan of the frontier in the place of a strategy's plan.

    how
        Sentences on how the work was measured. Members that would join stand beside the present ones, with nothing.
    """
    most = max(sizing.frontier, key=lambda sized: len(sized.join))
    raw = group_to_dict(sizing.group)
    raw["members"].update({name: {"topics": list(most.newcomers_want)} for name in most.join})
    group = build(raw)
    at = {name: m for m, name in enumerate(group.members)}
    plans = []
    for i, sized in enumerate(sizing.frontier):
        position = ints([*(at[name] for name in (*sizing.group.members, *sized.join)), NOBODY])
        name = count(sized.members, "member") + (", advised" if i == sizing.chosen else "")
        measures = {**sized.plan.measures, "moves": sized.moves}
        plans.append(summary(name, group, position[sized.owner], sized.plan.proof, measures))
    judged = Judged(replace(sighting, group=group))
    return {**group_data(judged, [], advice=[*sizing.sentences, *how], planned=True), "plans": plans}


def _short(value: float) -> int | float:
    return number(round(value, 3))

"""Tasks of a streams group's members and partitions that a share group's members share, as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from apportion.model.protocols import SHARE, STREAMS
from apportion.report.text import Cell, TextTable
from apportion.wording import partitions_in_words, shorten

if TYPE_CHECKING:
    from apportion.history.records import GenerationMember

NARROW: Final = 40


def roles_table(kind: str | None, members: Sequence[GenerationMember], wide: bool = False) -> TextTable | None:
    """A row a member: its tasks, copies and warm-ups, or its shares; None for groups of other kinds."""
    names = {STREAMS: ("active", "standby", "warmup"), SHARE: ("shared", "target")}.get(kind or "")
    if names is None or not members:
        return None
    if not any("target" in member.roles for member in members):  # a live coordinator does not tell it
        names = tuple(name for name in names if name != "target")
    rows: list[tuple[Cell, ...]] = []
    for member in sorted(members, key=lambda member: (member.process_id or "", member.member_id)):
        texts = [partitions_in_words(member.roles.get(name, {}), runs=not wide) for name in names]
        held = [(text if wide else shorten(text, NARROW)) or None for text in texts]
        rows.append((member.process_id, member.member_id, member.client_id, *held))
    columns = ("PROCESS", "CONSUMER-ID", "CLIENT-ID", *(name.upper() for name in names))
    return TextTable(columns, rows, extra=frozenset({"PROCESS"} if kind == SHARE else ()))


def roles_data(kind: str | None, members: Sequence[GenerationMember]) -> Mapping[str, Any] | None:
    """The rows of ``roles_table`` as data for the page."""
    shown = roles_table(kind, members, wide=True)
    if shown is None:
        return None
    skip = 1 if kind == SHARE else 0
    title = "Who shares which partitions" if kind == SHARE else "Who runs, keeps and warms up which tasks"
    head = [name.capitalize() for name in shown.columns[skip:]]
    return {"title": title, "head": head, "rows": [list(row[skip:]) for row in shown.rows]}


def roles_dict(kind: str | None, members: Sequence[GenerationMember]) -> dict[str, Any]:
    """The same of ``described``: of each member ids, and of each role its tasks or partitions."""
    if roles_table(kind, members) is None:
        return {}
    rows = [
        {"id": m.member_id, "client_id": m.client_id, "process": m.process_id}
        | {role: {name: sorted(ids) for name, ids in sorted(held.items())} for role, held in m.roles.items()}
        for m in sorted(members, key=lambda member: (member.process_id or "", member.member_id))
    ]
    return {"roles": [{name: value for name, value in row.items() if value is not None} for row in rows]}

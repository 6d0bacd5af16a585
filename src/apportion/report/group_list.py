"""The list of groups, one for the page, the server and ``describe``: its columns, and which group comes first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from apportion.report.text import Cell, TextTable
from apportion.report.verdicts import ERR, OK, WARN, judge

if TYPE_CHECKING:
    from apportion.report.describing import ShownGroup

Row = Mapping[str, Any]
"""A group's fields by the names of ``COLUMNS``; None is unknown, and ``catch_up_s`` None beside a trend never."""


@dataclass(frozen=True)
class ListColumn:
    """One column: its field in a row and in JSON, its heading in the page and in text, and what it means."""

    field: str
    label: str
    header: str
    meaning: str = ""


COLUMNS: Final = (
    ListColumn("group", "Group", "GROUP"),
    ListColumn("verdict", "Verdict", "VERDICT", "ERR: messages wait, and nobody reads them. WARN: something is wrong."),
    ListColumn("lag", "Lag", "LAG", "messages that are still to be read"),
    ListColumn("behind_s", "Behind", "BEHIND-S", "how old the oldest unread message is, at least"),
    ListColumn("trend", "Trend", "TREND", "messages a second by which the lag grows; below zero it shrinks"),
    ListColumn("catch_up_s", "Caught up", "CATCH-UP-S", "when everything will have been read, if it goes on like this"),
    ListColumn("kind", "Protocol", "PROTOCOL", "classic, consumer (KIP-848), share, streams; simple: it only commits"),
    ListColumn("state", "State", "STATE", "as Kafka calls it"),
    ListColumn("protocol", "Strategy", "ASSIGNMENT-STRATEGY", "the assignor that the group uses"),
    ListColumn("members", "Members", "#MEMBERS"),
    ListColumn("partitions", "Partitions", "#PARTITIONS"),
    ListColumn("heaviest", "Heaviest", "HEAVIEST", "the share of the lag that one member has to read"),
    ListColumn("last_hour", "Last hour", "LAST-HOUR", "rebalances in the last hour (in records: before the newest)"),
)  # fmt: skip
TROUBLE: Final = ("verdict", "behind_s", "lag")
"""The order that everything begins with: the gravest verdict, then the longest and the most behind, then by name."""
TEXTS: Final = frozenset({"group", "kind", "state", "protocol"})
RANK: Final = {OK: 0, "": 1, WARN: 2, ERR: 3}
FIELD_OF: Final = {
    "name": "group", "behind": "behind_s", "catch-up": "catch_up_s", "protocol": "kind", "strategy": "protocol",
    "last-hour": "last_hour",
    **{name: name for name in ("verdict", "lag", "trend", "state", "members", "partitions", "heaviest")},
}  # fmt: skip
"""What ``--sort`` takes besides ``trouble`` and ``odd``, to the field that it sorts by."""


def row_of(standing: ShownGroup, pace: Mapping[str, Any] = {}, rebalanced_at: Sequence[int] = ()) -> dict[str, Any]:
    """A group's row.

    pace
        As ``lag_times.pace`` gives it, with ``last_hour``; empty where nothing is known over time.
    rebalanced_at
        When (ms) it rebalanced, ascending.
    """
    seen = standing.seen
    verdict, _ = judge(standing.group, seen.kind, seen.protocol, seen.owners_told, rebalanced_at)
    return {
        "group": standing.group.name, "verdict": verdict, "lag": standing.total_lag, "kind": seen.kind or "",
        "state": seen.state or "", "protocol": seen.protocol or "",
        "members": standing.group.M if seen.owners_told else None, "partitions": standing.group.P,
        "heaviest": heaviest(standing), "why": standing.odd, **pace,
    }  # fmt: skip


def heaviest(standing: ShownGroup) -> float | None:
    """The share of the lag that one member has to read, from 0 to 1; None where nothing is left, or nobody reads."""
    if not standing.total_lag or not standing.group.M:
        return None
    return round(max(standing.lags) / standing.total_lag, 4)


def order(row: Row, sort: str = "trouble") -> tuple[Any, ...]:
    """A key that sorts rows as ``--sort`` wants it: numbers from the greatest, texts by letters, the unknown last."""
    name = str(row["group"])
    if sort == "trouble":
        return (*(_number(row, field) for field in TROUBLE), name)
    field = FIELD_OF[sort]
    return (not row[field], row[field], name) if field in TEXTS else (_number(row, field), name)


def _number(row: Row, field: str) -> float:
    """A number that is the less the earlier its row comes."""
    if field == "verdict":
        return -RANK[row["verdict"]]
    value = math.inf if never(row) and field == "catch_up_s" else row.get(field)
    return math.inf if value is None else -value


def known_of(row: Row) -> dict[str, Any]:
    """What ``describe -o json`` says of a group in its list's words; the unknown is left out, null is never."""
    fields = ("verdict", "heaviest", "behind_s", "trend", "catch_up_s", "last_hour")
    return {
        field: row.get(field)
        for field in fields
        if row.get(field) is not None or (field == "catch_up_s" and never(row))
    }


def never(row: Row) -> bool:
    """Whether the group has a pace at which it never catches up."""
    return row.get("catch_up_s") is None and row.get("trend") is not None and bool(row.get("lag"))


def table(rows: Sequence[Row]) -> TextTable:
    """The list as text, with each group's gravest oddity; columns of which nothing is known are in the wide form."""
    cells: list[tuple[Cell, ...]] = [
        (*(_cell(row, column.field) for column in COLUMNS), next(iter(row["why"]), None)) for row in rows
    ]
    names = (*(column.header for column in COLUMNS), "ODD")
    empty = {name for i, name in enumerate(names[:-1]) if all(row[i] is None for row in cells)}
    return TextTable(names, cells, extra=frozenset(empty))


def _cell(row: Row, field: str) -> Cell:
    value: Cell = row.get(field)
    if field == "catch_up_s" and never(row):
        return "never"
    if field == "heaviest" and isinstance(value, float):
        return f"{value * 100:.0f} %"
    if field in ("behind_s", "catch_up_s") and isinstance(value, float):
        return round(value)
    return None if value == "" else value

"""The list of groups, one for the page, the server and ``describe``: its columns, and which group comes first."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from apportion.arrays import UNKNOWN
from apportion.report.oddities import ERR, OK, WARN
from apportion.report.text import Cell, TextTable

if TYPE_CHECKING:
    from apportion.report.describing import ShownGroup
    from apportion.report.verdicts import Verdict

Row = Mapping[str, Any]
"""A group's fields by the names of ``COLUMNS``; None is unknown, and ``catch_up_s`` None beside a trend never."""


@dataclass(frozen=True)
class Listed:
    """What a row of the list is made of.

    verdict, why, diagnosis
        As ``judge`` gives them; why: the reasons, and then what is odd besides.
    pace
        As ``lag_text.pace`` gives it, with ``last_hour``; empty where nothing is known over time.
    behind
        (T,) seconds that each topic's oldest unread message is old; None unknown. Empty: nothing is known of any.
    past
        Remembered rebalances, partitions that moved in them, and needlessly; None where none is remembered.
    gone
        Whether it was known once, and is not listed any more.
    """

    shown: ShownGroup
    verdict: str
    why: Sequence[str]
    diagnosis: Mapping[str, str] = field(default_factory=dict)
    pace: Mapping[str, Any] = field(default_factory=dict)
    behind: Sequence[float | None] = ()
    past: tuple[int, int, int] | None = None
    gone: bool = False


@dataclass(frozen=True)
class ListColumn:
    """One column: its field in a row and in JSON, its heading in the page and in text, its value, what it means.

    header
        "" for what the page and the server have alone.
    """

    field: str
    label: str
    header: str
    of: Callable[[Listed], Any]
    meaning: str = ""
    text: bool = False


def _past(i: int) -> Callable[[Listed], int | None]:
    return lambda listed: None if listed.past is None else listed.past[i]


def _paced(name: str) -> Callable[[Listed], float | None]:
    return lambda listed: listed.pace.get(name)


COLUMNS: Final = (
    ListColumn("group", "Group", "GROUP", lambda listed: listed.shown.group.name, text=True),
    ListColumn("verdict", "Verdict", "VERDICT", lambda listed: listed.verdict,
               "ERR: messages wait, and nobody reads them. WARN: something is wrong."),
    ListColumn("lag", "Lag", "LAG", lambda listed: listed.shown.total_lag, "messages that are still to be read"),
    ListColumn("behind_s", "Behind", "BEHIND-S", _paced("behind_s"),
               "how old the oldest unread message is, at least"),
    ListColumn("trend", "Trend", "TREND", _paced("trend"),
               "messages a second by which the lag grows; below zero it shrinks"),
    ListColumn("catch_up_s", "Caught up", "CATCH-UP-S", _paced("catch_up_s"),
               "when everything will have been read, if it goes on like this"),
    ListColumn("kind", "Protocol", "PROTOCOL", lambda listed: listed.shown.seen.kind or "",
               "classic, consumer (KIP-848), share, streams; simple: it only commits", text=True),
    ListColumn("state", "State", "STATE", lambda listed: "gone" if listed.gone else listed.shown.seen.state or "",
               "as Kafka calls it", text=True),
    ListColumn("protocol", "Strategy", "ASSIGNMENT-STRATEGY", lambda listed: listed.shown.seen.protocol or "",
               "the assignor that the group uses", text=True),
    ListColumn("members", "Members", "#MEMBERS", lambda listed: listed.shown.members),
    ListColumn("partitions", "Partitions", "#PARTITIONS", lambda listed: listed.shown.group.P),
    ListColumn("heaviest", "Heaviest", "HEAVIEST", lambda listed: listed.shown.heaviest,
               "the share of the lag that one member has to read"),
    ListColumn("last_hour", "Last hour", "LAST-HOUR", _paced("last_hour"),
               "rebalances in the last hour (in records: before the newest)"),
    ListColumn("rebalances", "Rebalances", "", _past(0), "all that are remembered"),
    ListColumn("moved", "Moved", "", _past(1),
               "partitions that went from one member to another that stayed, in all these rebalances"),
    ListColumn("needless", "Needless", "", _past(2), "moves that the fairest sharing did not need"),
)  # fmt: skip
IN_TEXT: Final = tuple(column for column in COLUMNS if column.header)
TROUBLE: Final = ("verdict", "behind_s", "lag")
"""The order that everything begins with: the gravest verdict, then the longest and the most behind, then by name."""
TEXTS: Final = frozenset(column.field for column in COLUMNS if column.text)
RANK: Final = {OK: 0, "": 1, WARN: 2, ERR: 3}
FIELD_OF: Final = {
    "name": "group", "behind": "behind_s", "catch-up": "catch_up_s", "protocol": "kind", "strategy": "protocol",
    "last-hour": "last_hour",
    **{name: name for name in ("verdict", "lag", "trend", "state", "members", "partitions", "heaviest")},
}  # fmt: skip
"""What ``--sort`` takes besides ``trouble`` and ``odd``, to the field that it sorts by."""


def declared() -> dict[str, Any]:
    """The list as the page gets it: its columns, the order that it begins with, and which verdict is graver."""
    columns = [[column.field, column.label, column.meaning, column.text] for column in COLUMNS]
    return {"columns": columns, "trouble": list(TROUBLE), "rank": RANK}


def row_of(listed: Listed) -> dict[str, Any]:
    """A group's row."""
    return {**{column.field: column.of(listed) for column in COLUMNS}, "why": listed.why,
            "diagnosis": listed.diagnosis}  # fmt: skip


def judged(verdict: Verdict, pace: Mapping[str, Any] | None = None) -> Listed:
    """A group as it was judged."""
    return Listed(verdict.shown, verdict.word, verdict.why, verdict.diagnosis.to_dict(), pace or {})


def found_by(listed: Listed, most_topics: int | None = None, most_members: int | None = None) -> dict[str, Any]:
    """What else a reader looks for: topics with what is left in them and how old that is, members, hosts.

    most_topics, most_members
        No more than so many: topics with most to read, members and hosts in order.
    """
    group, lag = listed.shown.group, listed.shown.lag
    topics: list[list[Any]] = []
    for t, topic in enumerate(group.topics):
        mine = lag[group.partitions(t)]
        known = mine[mine != UNKNOWN]
        topics.append([topic, sum(known.tolist()) if len(known) else None, listed.behind[t] if listed.behind else None])
    if most_topics is not None:
        topics = sorted(topics, key=lambda row: (-(row[1] or 0), row[0]))[:most_topics]
    labels, hosts = listed.shown.labels_and_hosts
    return {"topics": topics, "who": [*labels[:most_members], *hosts[:most_members]]}


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
    fields = ("heaviest", "behind_s", "trend", "catch_up_s", "last_hour")
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
        (*(_cell(row, column.field) for column in IN_TEXT), next(iter(row["why"]), None)) for row in rows
    ]
    names = (*(column.header for column in IN_TEXT), "ODD")
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

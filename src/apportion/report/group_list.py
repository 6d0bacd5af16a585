"""The list of groups, one for the page, the server and ``describe``: its rows, and which group comes first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from apportion.report.text import Cell, TextTable
from apportion.sighting import measures
from apportion.sighting.judged import RANK, Judged

TROUBLE: Final = ("verdict", "behind_s", "lag")
"""The order that everything begins with: the gravest verdict, then the longest and the most behind, then by name."""


def declared() -> dict[str, Any]:
    """The list as the page gets it: its columns, the order that it begins with, and which verdict is graver."""
    columns = [[m.field, m.label, m.words, m.letters] for m in measures.listed() if m.label]
    return {"columns": columns, "trouble": list(TROUBLE), "rank": RANK}


def row_of(judged: Judged) -> dict[str, Any]:
    """A group's row: a field a column; None is unknown, and ``catch_up_s`` None next to a trend never."""
    fields = {m.field: (m.value(judged) or "") if m.letters else m.value(judged) for m in measures.listed()}
    return {**fields, "diagnosis": judged.diagnosis.to_dict()}


def found_by(judged: Judged, most_topics: int | None = None, most_members: int | None = None) -> dict[str, Any]:
    """More that a reader looks for: topics with their unread messages and the age of those, members, hosts.

    most_topics, most_members
        No more than so many: topics with most to read, members and hosts in order.
    """
    sighting, times = judged.sighting, judged.evidence.times
    group = sighting.group
    behind = measures.behind_by_topic(group, times) if times is not None else [None] * len(group.topics)
    lags = measures.lag_of_topics(sighting)
    topics: list[list[Any]] = [list(row) for row in zip(group.topics, lags, behind, strict=True)]
    if most_topics is not None:
        topics = sorted(topics, key=lambda row: (-(row[1] or 0), row[0]))[:most_topics]
    labels, hosts = sighting.labels_and_hosts
    return {"topics": topics, "who": [*labels[:most_members], *hosts[:most_members]]}


def order(judged: Judged, sort: str = "trouble") -> tuple[Any, ...]:
    """A key that sorts groups as ``--sort`` wants it: numbers from the greatest, texts by letters, the unknown last."""
    name = judged.sighting.name
    if sort == "trouble":
        by_name = {measure.name: measure for measure in measures.at("group")}
        return (*(_number(by_name[field], judged) for field in TROUBLE if field in by_name), name)
    measure = measures.sorts()[sort]
    if measure.letters:
        text = measure.value(judged) or ""
        return not text, text, name
    return _number(measure, judged), name


def _number(measure: measures.Measure, judged: Judged) -> float:
    """A number that is the less the earlier its row comes."""
    if measure.name == "verdict":
        return -RANK[judged.verdict]
    value = math.inf if measure.name == "catch_up_s" and measures.never(judged) else measure.value(judged)
    return math.inf if value is None else -value


def table(groups: Sequence[Judged]) -> TextTable:
    """The list as text, with each group's gravest oddity; columns of which nothing is known are in the wide form."""
    columns = [measure for measure in measures.listed() if measure.header]
    cells = [(*(_cell(m, judged) for m in columns), next(iter(judged.why), None)) for judged in groups]
    empty = {m.header for i, m in enumerate(columns) if all(row[i] is None for row in cells)}
    return TextTable((*(m.header for m in columns), "ODD"), cells, extra=frozenset(empty))


def _cell(measure: measures.Measure, judged: Judged) -> Cell:
    value: Cell = measure.value(judged)
    if measure.name == "catch_up_s" and measures.never(judged):
        return "never"
    if measure.name == "heaviest" and isinstance(value, float):
        return f"{value * 100:.0f} %"
    if measure.name in ("behind_s", "catch_up_s") and isinstance(value, float):
        return round(value)
    return None if value == "" else value

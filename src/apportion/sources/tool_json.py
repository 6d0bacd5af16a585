"""JSON that other tools print of groups (Confluent's CLI, kafkactl, Burrow, kcl, kt), as the rows of their tables.

They agree on little but this: somewhere an object has a partition's id and an offset or a lag, and its topic and its
group stand beside it or in an object around it. So rows are found by those names, whatever the tool's nesting.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from apportion.sighting.sighting import Sighting
from apportion.sources.cells import Fields
from apportion.sources.pasted import groups_of
from apportion.sources.printed import Event, Header, Row, SummaryLine, row

COLUMNS: Final = {
    "GROUP": ("consumergroup", "consumergroupid", "groupid", "group"),
    "TOPIC": ("topic", "topicname"),
    "PARTITION": ("partition", "partitionid"),
    "CURRENT-OFFSET": ("currentoffset", "consumeroffset", "committedoffset", "offset"),
    "LOG-START-OFFSET": ("logstartoffset", "oldestoffset"),
    "LOG-END-OFFSET": ("logendoffset", "newestoffset", "endoffset", "latestoffset"),
    "LAG": ("lag", "currentlag", "offsetlag"),
    "CONSUMER-ID": ("consumer", "consumerid", "memberid", "owner"),
    "CLIENT-ID": ("client", "clientid"),
    "HOST": ("host", "clienthost"),
    "GROUP-INSTANCE-ID": ("instance", "instanceid"),
}
"""A column as Kafka's tool calls it, and its names in JSON in small letters without signs."""
_COLUMN_OF: Final = {name: column for column, names in COLUMNS.items() for name in names}
_AROUND: Final = ("GROUP", "TOPIC")
_FACTS: Final = {"state": "STATE", "protocol": "ASSIGNMENT-STRATEGY", "balancer": "ASSIGNMENT-STRATEGY"}
_OFFSETS: Final = Header(("TOPIC", "PARTITION", "CURRENT-OFFSET", "LAG"))
_MEMBERS: Final = Header(("CONSUMER-ID", "#PARTITIONS"))
_NUMBERS: Final = Header(("CLIENT-ID", "HOST", "TOPIC", "NUMBERS"))
_LOOKED_AT: Final = 65_536
_A_PARTITION: Final = re.compile(rb'"partition_?(?:id)?"\s*:', re.IGNORECASE)
_OURS: Final = re.compile(rb'\A\s*\{\s*"version"|"topics"\s*:\s*[{0-9]|"assignment"\s*:\s*\{')
"""How group.json and plan.json differ: ``topics`` is an object."""


def groups_in(content: bytes, name: str, whole: bool = True) -> list[Sighting] | None:
    """The groups of another tool's JSON, one document or several in turn; None for any other content.

    name, whole
        As of ``pasted.groups_in``.
    """
    begin = content[:_LOOKED_AT]
    if not _A_PARTITION.search(begin) or _OURS.search(begin):
        return None
    try:
        documents = list(_documents(content.decode("utf-8-sig").strip()))
    except (ValueError, RecursionError):
        return None
    events = [event for document in documents for event in _events(document, {})]
    if not any(isinstance(event, Row) for event in events):
        return None
    return groups_of(_numbered(events), name, whole, unit="entry")


def _documents(text: str) -> Iterator[Any]:
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        document, end = decoder.raw_decode(text, at)
        yield document
        at = next((i for i in range(end, len(text)) if not text[i].isspace()), len(text))


def _numbered(events: list[Event]) -> Iterator[Event]:
    """Rows with their places, for errors."""
    count = 0
    for event in events:
        if isinstance(event, Row):
            count += 1
            yield Row(count, event.header, event.fields, event.unread, event.adds_up)
        else:
            yield event


def _events(node: Any, around: Fields, under: str = "") -> Iterator[Event]:
    """Rows and facts in a document, each with the group and the topic around it.

    under
        The name of the field that holds ``node``.
    """
    if isinstance(node, list):
        for entry in node:
            yield from _events(entry, around, under)
    if not isinstance(node, dict):
        return
    entries = {re.sub(r"[\W_]", "", key).lower(): value for key, value in node.items()}
    cells = _cells(entries, under)
    around = {**around, **{column: cells[column] for column in _AROUND if column in cells}}
    facts = {column: str(entries[name]) for name, column in _FACTS.items() if isinstance(entries.get(name), str)}
    if facts and "GROUP" in around:
        for column, value in {"GROUP": around["GROUP"], **facts}.items():
            yield SummaryLine(0, column, value)
    if "PARTITION" in cells and {"CURRENT-OFFSET", "LAG"} & cells.keys():
        yield row(0, _OFFSETS, {"CURRENT-OFFSET": "-", "TOPIC": "-", **around, **cells})
        return
    if under == "members":
        yield from _member(entries, cells, around)
        return
    for name, value in entries.items():
        yield from _events(value, around, name)


def _cells(entries: Mapping[str, Any], under: str) -> dict[str, str]:
    """The known columns among an object's fields."""
    cells = {
        _COLUMN_OF[name]: "-" if value is None or value == "" else str(value)
        for name, value in entries.items()
        if name in _COLUMN_OF and not isinstance(value, (dict, list, bool))
    }
    if isinstance(group := entries.get("group"), dict):  # kafkactl
        cells["GROUP"] = str(next((value for key, value in group.items() if key.lower() == "name"), "-"))
    if isinstance(name := entries.get("name"), str):
        cells["GROUP" if "offsets" in entries else "TOPIC"] = name  # kt; kafkactl
    if isinstance(end := entries.get("end"), dict) and "offset" in end:  # Burrow's newest commit, and a host as owner
        cells["CURRENT-OFFSET"] = str(end["offset"])
        cells["HOST"] = cells.pop("CONSUMER-ID", "-")
    return cells


def _member(entries: Mapping[str, Any], cells: Fields, around: Fields) -> Iterator[Event]:
    """A member of a list of members, with the partitions that it names."""
    who = {**around, **{name: cells[name] for name in ("CONSUMER-ID", "CLIENT-ID", "HOST") if name in cells}}
    if "CONSUMER-ID" in cells:  # kcl, whose rows name the owner too
        yield Row(0, _MEMBERS, {**who, "#PARTITIONS": "-"})
        return
    held = entries.get("assignedpartitions") or [{}]
    for topic in held if isinstance(held, list) else []:
        fields = {key.lower(): value for key, value in topic.items()} if isinstance(topic, dict) else {}
        ids = ",".join(map(str, fields.get("partitions") or []))
        yield Row(0, _NUMBERS, {**who, "TOPIC": str(fields.get("name", "-")), "NUMBERS": ids or "-"})

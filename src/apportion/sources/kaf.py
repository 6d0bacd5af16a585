"""The output of ``kaf group describe``, as the rows and facts that other tools' tables hold.

It indents instead of repeating: topics below ``Offsets:``, members below ``Members:``, each with its own small tables.
The blanks before a line are not needed: what people paste has often lost them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from apportion.sources.printed import Event, Header, Row, SummaryLine, Unread, header_of, row, unread_row

OFFSETS: Final = Header(("TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"))
NUMBERS: Final = Header(("CLIENT-ID", "HOST", "TOPIC", "NUMBERS"))
_FACTS: Final = {"Group ID": "GROUP", "State": "STATE", "Protocol": "ASSIGNMENT-STRATEGY"}
_FACT: Final = re.compile(r"(Group ID|State|Protocol):\s*(.*)")
_TITLE: Final = re.compile(r"\s*(\S.*):\s*")
_OFFSET: Final = re.compile(r"\s*([0-9]+)\s+(\S+)\s+(\S+)\s+(\S+)(?:\s.*)?")
_HELD: Final = re.compile(r"\s*(\S+)\s+\[([0-9 ]*)\]\s*")
_LIKE_OFFSETS: Final = re.compile(r"\s*(?!Total\b)(?:[0-9]+\b|\S+(?:\s+-?[0-9]+){3}).*")
_LIKE_HELD: Final = re.compile(r"\s*\S+\s+\[[0-9].*")


def is_kaf(lines: Sequence[str]) -> bool:
    """Whether the lines are kaf's output for a group."""
    heads = {line.partition(":")[0] for line in lines if line.startswith(("Group ID:", "Offsets:"))}
    return len(heads) == 2


def events(lines: Sequence[str]) -> Iterator[Event]:
    """The group's facts, a row a partition, and a row for each topic that a member holds partitions of."""
    section = title = host = ""
    for number, line in enumerate(lines, 1):
        fact, heading = _FACT.fullmatch(line), re.fullmatch(r"(Offsets|Members):\s*", line)
        if fact is not None:
            yield SummaryLine(number, _FACTS[fact[1]], fact[2].strip())
        elif heading is not None:
            section, title = heading[1], ""
            yield OFFSETS if section == "Offsets" else NUMBERS
        elif section == "Offsets" and (entry := _OFFSET.fullmatch(line)) is not None and title:
            yield row(number, OFFSETS, dict(zip(OFFSETS.names, (title, *entry.groups()), strict=True)))
        elif section == "Members" and line.strip().startswith("Host:"):
            host = line.partition(":")[2].strip()
            if title:
                yield Row(number, NUMBERS, {"CLIENT-ID": title, "HOST": host, "TOPIC": "-", "NUMBERS": "-"})
        elif section == "Members" and (held := _HELD.fullmatch(line)) is not None and title and host:
            values = (title, host, held[1], ",".join(held[2].split()))
            yield Row(number, NUMBERS, dict(zip(NUMBERS.names, values, strict=True)))
        elif (named := _TITLE.fullmatch(line)) is not None and named[1] not in ("Assignments", "Metadata"):
            title = named[1]
        elif (section == "Offsets" and _LIKE_OFFSETS.fullmatch(line)) or (
            section == "Members" and _LIKE_HELD.fullmatch(line)
        ):
            yield Unread(number, unread_row(line, number))
        elif header_of(line) is not None:
            yield Unread(number, f"line {number} begins another tool's table below what kaf printed")

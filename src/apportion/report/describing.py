"""A group as it stands, as tables under Kafka's own column names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from apportion.arrays import NOBODY, UNKNOWN, Longs
from apportion.history.records import GenerationMember
from apportion.model.group import Group
from apportion.model.measures import lag_held, loads
from apportion.model.to_names import owners_to_names
from apportion.report.oddities import oddities
from apportion.report.roles import sentences
from apportion.report.text import Cell, TextTable
from apportion.wording import count, partitions_in_words, shorten

MOST_ROWS: Final = 60
"""Partitions that the narrow form lists; above, members alone are shown."""
NARROW: Final = 60


@dataclass(frozen=True)
class ShownGroup:
    """A group to be shown, with what its source told besides.

    facts
        Any of ``state``, ``protocol``, ``kind``, ``coordinator``, ``generation``; None is unknown.
    says
        What the source found odd.
    members
        Of a streams or share group: with their tasks, or what they share.
    """

    group: Group
    facts: Mapping[str, Any]
    says: Sequence[str] = ()
    members: Sequence[GenerationMember] = ()

    @cached_property
    def lag(self) -> Longs:
        """(P,) messages left; -1 where nothing tells: unlike a plan, a person must see what is not known."""
        group = self.group
        if group.offsets is None:
            return np.full(group.P, UNKNOWN, dtype=np.int64)
        committed_known = (group.offsets.committed != UNKNOWN) | (group.auto_offset_reset != "latest")
        known = (group.offsets.lag != UNKNOWN) | (group.lag_known & committed_known)
        return np.where(known, group.lag, UNKNOWN)

    @property
    def total_lag(self) -> int | None:
        """All messages left, as far as they are known; exact beyond 64 bits."""
        known = self.lag[self.lag != UNKNOWN]
        return sum(known.tolist()) if len(known) else None

    @cached_property
    def odd(self) -> list[str]:
        """What is odd, the gravest first."""
        return [
            *oddities(self.group, self.facts.get("state"), self.facts.get("kind")),
            *sentences(self.facts.get("kind"), self.members),
            *self.says,
        ]

    @property
    def heading(self) -> str:
        """One line: name, state, strategy, sizes."""
        facts = self.facts
        parts = [str(facts[name]) for name in ("state", "protocol", "kind") if facts.get(name)]
        if facts.get("generation") is not None:
            parts.append(f"generation {facts['generation']}")
        if facts.get("coordinator"):
            parts.append(f"coordinator {facts['coordinator']}")
        group = self.group
        parts.append(f"{count(group.M, 'member')}, {count(group.P, 'partition')}")
        if self.total_lag is not None:
            parts.append(f"lag {self.total_lag:,}")
        return f"{group.name or '(unnamed group)'}: {', '.join(parts)}"


def groups(standings: Sequence[ShownGroup]) -> TextTable:
    """A row a group."""
    columns = ("GROUP", "STATE", "ASSIGNMENT-STRATEGY", "#MEMBERS", "#PARTITIONS", "LAG", "ODD")
    rows: list[tuple[Cell, ...]] = [
        (
            s.group.name, s.facts.get("state"), s.facts.get("protocol"), s.group.M, s.group.P, s.total_lag,
            shorten(s.odd[0], NARROW + 20) if s.odd else None,
        )
        for s in standings
    ]  # fmt: skip
    return TextTable(columns, rows)


def members(standing: ShownGroup, wide: bool = False) -> TextTable:
    """A row a member: where it is, what it holds, how far behind that is."""
    group = standing.group
    held, lag, owned = loads(group.owner, group.M), lag_held(group, group.owner), owners_to_names(group, group.owner)
    rows: list[tuple[Cell, ...]] = []
    for m, name in enumerate(group.members):
        text = partitions_in_words(owned[name], runs=not wide)
        rows.append((
            group.name, name, group.instance_ids[m], _at(group.hosts, m), _at(group.client_ids, m), _rack(group, m),
            int(group.capacity[m]) if group.has_capacities else None,
            int(held[m]), int(lag[m]) if standing.total_lag is not None else None,
            (text if wide else shorten(text, NARROW)) or None,
        ))  # fmt: skip
    columns = (
        "GROUP",
        "CONSUMER-ID",
        "GROUP-INSTANCE-ID",
        "HOST",
        "CLIENT-ID",
        "RACK",
        "CAPACITY",
        "#PARTITIONS",
        "LAG",
        "ASSIGNMENT",
    )
    empty = {name for i, name in enumerate(columns) if i in (2, 3, 4, 5, 6) and not any(row[i] for row in rows)}
    return TextTable(columns, rows, extra=frozenset({"GROUP"} | empty))


def partitions(standings: Sequence[ShownGroup]) -> TextTable:
    """A row a partition, as ``kafka-consumer-groups --describe`` prints it."""
    rows: list[tuple[Cell, ...]] = []
    for standing in standings:
        group = standing.group
        unknown = [UNKNOWN] * group.P
        committed = group.offsets.committed.tolist() if group.offsets is not None else unknown
        end = group.offsets.end.tolist() if group.offsets is not None else unknown
        who = [(name, _at(group.hosts, m), _at(group.client_ids, m)) for m, name in enumerate(group.members)]
        nobody = (None, None, None)
        for t, p, c, e, left, m in zip(
            group.topic_of.tolist(), group.number.tolist(), committed, end, standing.lag.tolist(),
            group.owner.tolist(), strict=True,
        ):  # fmt: skip
            rows.append((
                group.name, group.topics[t], p, _known(c), _known(e), _known(left), *(nobody if m == NOBODY else who[m])
            ))  # fmt: skip
    columns = (
        "GROUP",
        "TOPIC",
        "PARTITION",
        "CURRENT-OFFSET",
        "LOG-END-OFFSET",
        "LAG",
        "CONSUMER-ID",
        "HOST",
        "CLIENT-ID",
    )
    return TextTable(columns, rows)


def states(standings: Sequence[ShownGroup]) -> TextTable:
    """A row a group, as ``kafka-consumer-groups --describe --state`` prints it."""
    columns = ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "GENERATION", "#MEMBERS")
    rows: list[tuple[Cell, ...]] = [
        (s.group.name, *(s.facts.get(name) for name in ("coordinator", "protocol", "state", "generation")), s.group.M)
        for s in standings
    ]
    return TextTable(columns, rows)


def _known(value: int) -> int | None:
    return None if value == UNKNOWN else value


def _at(values: Sequence[str | None], m: int) -> str | None:
    return values[m] if values else None


def _rack(group: Group, m: int) -> str | None:
    if group.racks is None or group.racks.of_member[m] == UNKNOWN:
        return None
    return group.racks.names[int(group.racks.of_member[m])]

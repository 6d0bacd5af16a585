"""A group as it stands, as tables under Kafka's own column names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from apportion.arrays import UNKNOWN, Longs
from apportion.history.records import SHARE, GenerationMember
from apportion.model.build import build
from apportion.model.group import Group
from apportion.model.present import observed_lag, owed, readers
from apportion.model.to_names import partitions_to_names
from apportion.report.oddities import oddities
from apportion.report.roles import sentences
from apportion.report.text import Cell, TextTable
from apportion.wording import count, partitions_in_words, shorten

if TYPE_CHECKING:
    from apportion.inputs.described_group import Observed

MOST_ROWS: Final = 60
"""Partitions that the narrow form lists; above, members alone are shown."""
NARROW: Final = 60


FACTS: Final = ("state", "protocol", "kind", "coordinator", "generation", "governed")
"""What a source tells of a group besides members and partitions, as ``Observed`` has it."""


@dataclass(frozen=True)
class ShownGroup:
    """A group to be shown, with what its source told besides: for text, page and JSON.

    facts
        Any of ``FACTS``; None is unknown.
    says
        What the source found odd.
    members
        Of a streams or share group: with their tasks, or what they share.
    left_out, owners_told, assumed
        As ``Observed`` has them.
    """

    group: Group
    facts: Mapping[str, Any]
    says: Sequence[str] = ()
    members: Sequence[GenerationMember] = ()
    left_out: Sequence[str] = ()
    owners_told: bool = True
    assumed: str = ""

    @cached_property
    def lag(self) -> Longs:
        """(P,) messages left; -1 where nothing tells, as for all of a share group, whose progress stands elsewhere."""
        if self.facts.get("kind") == SHARE:
            return np.full(self.group.P, UNKNOWN, dtype=np.int64)
        return observed_lag(self.group)

    @property
    def total_lag(self) -> int | None:
        """All messages left of topics that the group still wants, as far as they are known; exact beyond 64 bits."""
        known = self.lag[(self.lag != UNKNOWN) & owed(self.group, bool(self.assumed))]
        return sum(known.tolist()) if len(known) else None

    @cached_property
    def odd(self) -> list[str]:
        """What is odd, the gravest first."""
        facts = self.facts
        return [
            *(f"Not all was read: {sentence}." for sentence in self.left_out),
            *oddities(
                self.group, facts.get("state"), facts.get("kind"), protocol=facts.get("protocol"),
                owners_told=self.owners_told, assumed=bool(self.assumed),
            ),
            *sentences(facts.get("kind"), self.members),
            *self.says,
        ]  # fmt: skip

    @property
    def heading(self) -> str:
        """One line: name, state, strategy, sizes."""
        facts = self.facts
        parts = [str(facts[name]) for name in ("state", "protocol", "kind") if facts.get(name)]
        if facts.get("generation") is not None:
            parts.append(f"generation {facts['generation']}")
        group = self.group
        members = count(group.M, "member") if self.owners_told else "members not told"
        parts.append(f"{members}, {count(group.P, 'partition')}")
        if self.total_lag is not None:
            parts.append(f"lag {self.total_lag:,}")
        elif group.offsets is not None and group.P:
            parts.append("lag unknown")
        if facts.get("coordinator"):  # last, so that a narrow terminal cuts it and not the sizes
            parts.append(f"coordinator {facts['coordinator']}")
        return f"{group.name or '(unnamed group)'}: {', '.join(parts)}"

    @cached_property
    def reads(self) -> list[list[int]]:
        """(M,) the partitions that each member reads, those that others read too among them."""
        held: list[list[int]] = [[] for _ in range(self.group.M)]
        for member, partition in zip(*(column.tolist() for column in readers(self.group)), strict=True):
            held[member].append(partition)
        return held

    def lag_of(self, m: int) -> int | None:
        """Messages that a member has to read, as far as they are known; None where none is."""
        if self.total_lag is None:
            return None
        held: list[int] = self.lag[self.reads[m]].tolist()
        return sum(left for left in held if left != UNKNOWN)

    def to_dict(self) -> dict[str, Any]:
        """What is known of the group besides group.json: ``described`` of ``describe -o json``."""
        facts = {
            "state": self.facts.get("state"), "protocol": self.facts.get("kind"),
            "assignor": self.facts.get("protocol"), "coordinator": self.facts.get("coordinator"),
            "generation": self.facts.get("generation"), "lag": self.total_lag,
            "governed": under.to_dict() if (under := self.facts.get("governed")) else None,
        }  # fmt: skip
        members = [
            {
                column.field: value
                for column in MEMBER_COLUMNS
                if column.field and (value := column.of(self, m)) is not None
            }
            for m in range(self.group.M)
        ]
        unknown = int(np.count_nonzero(self.lag == UNKNOWN))
        return {
            **{name: value for name, value in facts.items() if value is not None},
            "lag_unknown": unknown, "members": members, "odd": self.odd,
        }  # fmt: skip


def shown(observed: Observed, group: Group | None = None) -> ShownGroup:
    """What is shown of a group as a source saw it, which may be without members; ``group`` where it was built."""
    facts = {name: getattr(observed, name) for name in FACTS}
    return ShownGroup(
        build(observed.raw) if group is None else group, facts, observed.says, observed.members, observed.left_out,
        observed.owners_told, observed.assumed,
    )  # fmt: skip


@dataclass(frozen=True)
class MemberColumn:
    """A column of the members: its name in tables, its field in ``described``, its value, and when it is shown.

    field
        "" for what group.json says already.
    always
        Whether the narrow table has it where no member has a value, too.
    """

    name: str
    field: str
    of: Callable[[ShownGroup, int], Cell]
    always: bool = True


MEMBER_COLUMNS: Final = (
    MemberColumn("CONSUMER-ID", "id", lambda s, m: s.group.members[m]),
    MemberColumn("GROUP-INSTANCE-ID", "", lambda s, m: s.group.instance_ids[m], always=False),
    MemberColumn("HOST", "host", lambda s, m: _at(s.group.hosts, m), always=False),
    MemberColumn("CLIENT-ID", "client_id", lambda s, m: _at(s.group.client_ids, m), always=False),
    MemberColumn("RACK", "", lambda s, m: _rack(s.group, m), always=False),
    MemberColumn(
        "CAPACITY", "", lambda s, m: int(s.group.capacity[m]) if s.group.has_capacities else None, always=False
    ),
    MemberColumn("#PARTITIONS", "partitions", lambda s, m: len(s.reads[m])),
    MemberColumn("LAG", "lag", lambda s, m: s.lag_of(m)),
)


def members(standing: ShownGroup, wide: bool = False) -> TextTable:
    """A row a member: where it is, what it holds, how far behind that is."""
    group = standing.group
    rows: list[tuple[Cell, ...]] = []
    for m in range(group.M):
        mask = np.zeros(group.P, dtype=np.bool_)
        mask[standing.reads[m]] = True
        text = partitions_in_words(partitions_to_names(group, mask), runs=not wide)
        values = [column.of(standing, m) for column in MEMBER_COLUMNS]
        rows.append((group.name, *values, (text if wide else shorten(text, NARROW)) or None))
    columns = ("GROUP", *(column.name for column in MEMBER_COLUMNS), "ASSIGNMENT")
    empty = {
        column.name
        for i, column in enumerate(MEMBER_COLUMNS, 1)
        if not column.always and not any(row[i] for row in rows)
    }
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
        readers_of: list[list[int]] = [[] for _ in range(group.P)]
        for member, partition in zip(*(column.tolist() for column in readers(group)), strict=True):
            readers_of[partition].append(member)
        for t, p, c, e, left, reading in zip(
            group.topic_of.tolist(), group.number.tolist(), committed, end, standing.lag.tolist(), readers_of,
            strict=True,
        ):  # fmt: skip
            for reader in [who[m] for m in reading] or [(None, None, None)]:
                rows.append((group.name, group.topics[t], p, _known(c), _known(e), _known(left), *reader))
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

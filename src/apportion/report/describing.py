"""A group as it stands, as tables under Kafka's own column names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from apportion.arrays import NOBODY, UNKNOWN, Bools, Longs
from apportion.history.records import SHARE
from apportion.model.build import build
from apportion.model.group import Group
from apportion.model.present import observed_lag, owed, readers
from apportion.model.to_names import partitions_to_names
from apportion.report.oddities import Finding, findings, member_labels, named
from apportion.report.roles import roles_dict
from apportion.report.text import Cell, TextTable
from apportion.wording import count, partitions_in_words, shorten

if TYPE_CHECKING:
    from apportion.report.verdicts import Verdict
    from apportion.sources.described_group import Observed

MOST_ROWS: Final = 60
"""Partitions that the narrow form lists; above, members alone are shown."""
NARROW: Final = 60


@dataclass(frozen=True)
class ShownGroup:
    """A group to be shown: for text, page, JSON and server.

    group
        Its arrays, built once; where names are hidden, under the names that may be shown.
    seen
        What its source told besides; of ``raw`` only the group's name counts.
    """

    group: Group
    seen: Observed

    @cached_property
    def lag(self) -> Longs:
        """(P,) messages left; -1 where nothing tells, as for all of a share group, whose progress stands elsewhere."""
        if self.seen.kind == SHARE:
            return np.full(self.group.P, UNKNOWN, dtype=np.int64)
        return observed_lag(self.group)

    @cached_property
    def total_lag(self) -> int | None:
        """All messages left of topics that the group still wants, as far as they are known; exact beyond 64 bits."""
        known = self.lag[(self.lag != UNKNOWN) & owed(self.group, bool(self.seen.assumed))]
        return sum(known.tolist()) if len(known) else None

    @cached_property
    def held_back(self) -> Bools:
        """(P,) where an open transaction ends what a ``read_committed`` reader can read, and the group is there."""
        group, offsets = self.group, self.group.offsets
        if not self.seen.stable or offsets is None:
            return np.zeros(group.P, dtype=np.bool_)
        stable = [self.seen.stable.get(group.name_of(p), UNKNOWN) for p in range(group.P)]
        held: Bools = (np.array(stable) != UNKNOWN) & (offsets.committed >= np.array(stable)) & (self.lag != 0)
        return held

    @cached_property
    def findings(self) -> list[Finding]:
        """What one look at it shows; ``verdicts.judge`` adds what is known over time."""
        held = self.held_back
        seen = findings(self.group, self.seen)
        if held.any():
            where = named(self.group, held)
            seen.append(Finding(f"A transaction is open on {where}: who reads committed messages sees none behind it."))
        return seen

    @property
    def heading(self) -> str:
        """One line: name, state, strategy, sizes."""
        group, seen = self.group, self.seen
        parts = [part for part in (seen.state, seen.protocol, seen.kind) if part]
        if seen.generation is not None:
            parts.append(f"generation {seen.generation}")
        members = "members not told" if self.members is None else count(self.members, "member")
        parts.append(f"{members}, {count(group.P, 'partition')}")
        if self.total_lag is not None:
            parts.append(f"lag {self.total_lag:,}")
        elif group.offsets is not None and group.P:
            parts.append("lag unknown")
        if seen.coordinator:  # last, so that a narrow terminal cuts it and not the sizes
            parts.append(f"coordinator {seen.coordinator}")
        return f"{group.name or '(unnamed group)'}: {', '.join(parts)}"

    @property
    def members(self) -> int | None:
        """How many members it has, those that the source counts and does not name too; None where nothing tells."""
        return max(self.group.M, self.seen.counted_members) if self.seen.owners_told else None

    @cached_property
    def reads(self) -> list[list[int]]:
        """(M,) the partitions that each member reads, those that others read too among them."""
        held: list[list[int]] = [[] for _ in range(self.group.M)]
        for member, partition in zip(*(column.tolist() for column in readers(self.group)), strict=True):
            held[member].append(partition)
        return held

    @cached_property
    def lags(self) -> list[int]:
        """(M,) messages that each member has to read, as far as they are known; empty where none is."""
        if self.total_lag is None:
            return []
        lags = self.lag.tolist()
        return [sum(lags[p] for p in read if lags[p] != UNKNOWN) for read in self.reads]

    @cached_property
    def heaviest(self) -> float | None:
        """The share of the lag that one member has to read, from 0 to 1; None: nothing is left, or nobody reads."""
        total = self.total_lag
        if not total or not self.group.M:
            return None
        member, partition = readers(self.group)
        held = np.bincount(member, weights=np.maximum(self.lag[partition], 0), minlength=self.group.M)
        return round(float(held.max()) / total, 4)

    @cached_property
    def labels_and_hosts(self) -> tuple[list[str], list[str]]:
        """(M,) what members are called, and the hosts that are known, each once."""
        hosts = {host.lstrip("/") for host in self.group.hosts or () if host}
        return member_labels(self.group), sorted(hosts)

    @cached_property
    def read_by(self) -> tuple[list[int], list[int]]:
        """Each partition beside a member that reads it, a row each; beside -1 where nobody does."""
        readers_of: list[list[int]] = [[] for _ in range(self.group.P)]
        for member, partition in zip(*(column.tolist() for column in readers(self.group)), strict=True):
            readers_of[partition].append(member)
        rows = [(p, m) for p, reading in enumerate(readers_of) for m in (reading or [NOBODY])]
        return [p for p, _ in rows], [m for _, m in rows]

    def to_dict(self, verdict: Verdict) -> dict[str, Any]:
        """What is known of the group besides group.json: ``described`` of ``describe -o json``."""
        (document,) = fields(GROUP_COLUMNS, self)
        if self.seen.governed is not None:
            document["governed"] = self.seen.governed.to_dict()
        if not self.seen.owners_told:
            document["owners_told"] = False
        return {
            **document,
            "lag_unknown": int(np.count_nonzero(self.lag == UNKNOWN)),
            "members": fields(MEMBER_COLUMNS, self),
            "partitions": fields(PARTITION_COLUMNS, self),
            **roles_dict(self.seen.kind, self.seen.members),
            "odd": verdict.odd,
            **verdict.to_dict(),
        }

    def members_data(self) -> dict[str, Any] | None:
        """The members' table as data for the page, without columns that say nothing; None where it would be long."""
        if not 0 < self.group.M <= MOST_ROWS:
            return None
        columns = [c for c in MEMBER_COLUMNS if any(value is not None for value in c.of(self))]
        head, rows = [column.name.capitalize() for column in columns], [list(row) for row in _rows(columns, self)]
        return {"title": "The members as they are described", "head": head, "rows": rows}


def shown(observed: Observed, group: Group | None = None) -> ShownGroup:
    """A group as a source saw it, which may be without members; ``group`` where it was built."""
    return ShownGroup(build(observed.raw) if group is None else group, observed)


@dataclass(frozen=True)
class ShownColumn:
    """A column of groups, members or partitions: name in tables and on the page, field in ``described``, values, when.

    field
        "" for what group.json says already.
    of
        A value for each row of the group: itself, its members, or its partitions beside who reads them; nothing where
        it is known of none.
    always
        Whether tables have it where no row has a value, too.
    """

    name: str
    field: str
    of: Callable[[ShownGroup], Sequence[Cell]]
    always: bool = True


def _rows(columns: Sequence[ShownColumn], standing: ShownGroup) -> Iterator[tuple[Cell, ...]]:
    """The group's rows; the first column knows how many there are."""
    values = [column.of(standing) for column in columns]
    return zip(*(each or [None] * len(values[0]) for each in values), strict=True)


def fields(columns: Sequence[ShownColumn], standing: ShownGroup) -> list[dict[str, Any]]:
    """The rows as ``described`` has them: what is known of what group.json does not say."""
    return [
        {c.field: value for c, value in zip(columns, row, strict=True) if c.field and value is not None}
        for row in _rows(columns, standing)
    ]


def table(columns: Sequence[ShownColumn], standings: Sequence[ShownGroup], extra: Set[str] = frozenset()) -> TextTable:
    """The rows of some groups; ``extra`` are for wide tables alone, as is what need not be there and no row has."""
    rows = [(s.group.name, *row) for s in standings for row in _rows(columns, s)]
    empty = {c.name for i, c in enumerate(columns, 1) if not c.always and not any(row[i] for row in rows)}
    return TextTable(("GROUP", *(column.name for column in columns)), rows, extra=frozenset(extra | empty))


GROUP_COLUMNS: Final = (
    ShownColumn("STATE", "state", lambda s: [s.seen.state]),
    ShownColumn("PROTOCOL", "protocol", lambda s: [s.seen.kind]),
    ShownColumn("ASSIGNMENT-STRATEGY", "assignor", lambda s: [s.seen.protocol]),
    ShownColumn("COORDINATOR (ID)", "coordinator", lambda s: [s.seen.coordinator]),
    ShownColumn("GENERATION", "generation", lambda s: [s.seen.generation]),
    ShownColumn("#MEMBERS", "", lambda s: [s.members]),
    ShownColumn("LAG", "lag", lambda s: [s.total_lag]),
)
MEMBER_COLUMNS: Final = (
    ShownColumn("CONSUMER-ID", "id", lambda s: s.group.members),
    ShownColumn("GROUP-INSTANCE-ID", "", lambda s: s.group.instance_ids, always=False),
    ShownColumn("HOST", "host", lambda s: s.group.hosts, always=False),
    ShownColumn("CLIENT-ID", "client_id", lambda s: s.group.client_ids, always=False),
    ShownColumn("RACK", "", lambda s: _racks(s.group), always=False),
    ShownColumn("CAPACITY", "", lambda s: s.group.capacity.tolist() if s.group.has_capacities else (), always=False),
    ShownColumn("#PARTITIONS", "partitions", lambda s: [len(read) for read in s.reads]),
    ShownColumn("LAG", "lag", lambda s: s.lags),
    ShownColumn("LAG-PERCENT", "lag_percent", lambda s: [100 * n // (s.total_lag or 1) for n in s.lags], always=False),
)  # fmt: skip
PARTITION_COLUMNS: Final = (
    ShownColumn("TOPIC", "topic", lambda s: _of_partitions(s, [s.group.topics[t] for t in s.group.topic_of.tolist()])),
    ShownColumn("PARTITION", "partition", lambda s: _of_partitions(s, s.group.number.tolist())),
    ShownColumn("CURRENT-OFFSET", "", lambda s: _of_partitions(s, _known(getattr(s.group.offsets, "committed", None)))),
    ShownColumn("LOG-END-OFFSET", "", lambda s: _of_partitions(s, _known(getattr(s.group.offsets, "end", None)))),
    ShownColumn("LAG", "lag", lambda s: _of_partitions(s, _known(s.lag))),
    ShownColumn("CONSUMER-ID", "id", lambda s: _of_readers(s, s.group.members)),
    ShownColumn("HOST", "", lambda s: _of_readers(s, s.group.hosts)),
    ShownColumn("CLIENT-ID", "", lambda s: _of_readers(s, s.group.client_ids)),
)


def states(standings: Sequence[ShownGroup]) -> TextTable:
    """A row a group, as ``kafka-consumer-groups --describe --state`` prints it."""
    return table(_named("COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "GENERATION", "#MEMBERS"), standings)


def members(standing: ShownGroup, wide: bool = False) -> TextTable:
    """A row a member: where it is, what it holds, how far behind that is."""

    def assignment(s: ShownGroup) -> list[Cell]:
        cells: list[Cell] = []
        for read in s.reads:
            mask = np.zeros(s.group.P, dtype=np.bool_)
            mask[read] = True
            text = partitions_in_words(partitions_to_names(s.group, mask), runs=not wide)
            cells.append((text if wide else shorten(text, NARROW)) or None)
        return cells

    return table((*MEMBER_COLUMNS, ShownColumn("ASSIGNMENT", "", assignment)), [standing], extra={"GROUP"})


def partitions(standings: Sequence[ShownGroup]) -> TextTable:
    """A row a partition, as ``kafka-consumer-groups --describe`` prints it."""
    return table(PARTITION_COLUMNS, standings)


def _named(*names: str) -> list[ShownColumn]:
    return [column for name in names for column in GROUP_COLUMNS if column.name == name]


def _of_partitions(standing: ShownGroup, values: Sequence[Cell]) -> list[Cell]:
    """A value of each partition in each of its rows."""
    return [values[p] for p in standing.read_by[0] if values]


def _of_readers(standing: ShownGroup, values: Sequence[str | None]) -> list[str | None]:
    """A value of each member in each of its rows."""
    return [None if m == NOBODY else values[m] for m in standing.read_by[1] if values]


def _known(values: Longs | None) -> list[int | None]:
    return [] if values is None else [None if value == UNKNOWN else value for value in values.tolist()]


def _racks(group: Group) -> list[str | None]:
    names, rack_of = (group.racks.names, group.racks.of_member.tolist()) if group.racks else ((), [])
    return [None if rack == UNKNOWN else names[rack] for rack in rack_of]

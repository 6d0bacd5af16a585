"""A group as some source saw it: its arrays, and the facts seen with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from apportion.arrays import NOBODY, UNKNOWN, Bools, Longs
from apportion.model.group import Group
from apportion.model.present import observed_lag, owed, readers
from apportion.model.protocols import SHARE
from apportion.sighting.oddities import Finding, findings, member_labels, named

if TYPE_CHECKING:
    from apportion.history.records import GenerationMember
    from apportion.sighting.governed import CarriedPlan
    from apportion.wire.plan_text import PlanPart


@dataclass(frozen=True)
class Sighting:
    """One group, its members perhaps none.

    group
        Its arrays, built once; where names are hidden, under the names that may be shown.
    state, protocol, assignor, coordinator
        As Kafka names them: ``Stable``, ``classic`` or ``consumer``, the strategy, ``host:port (id)``; None unknown.
    generation
        The classic generation or the group epoch.
    notes
        What the source itself found odd, a sentence each.
    roles
        Members of a streams or share group: with their tasks, or what they share.
    assigned_data
        Members whose assignment carries user data, which no group of the new protocol keeps; None unknown.
    assumed
        What was assumed where the source is silent, which every plan of the group rests on; "" nothing.
    unnamed_partitions
        How many partitions members hold that the source counts but does not name.
    gaps
        What of the source was not read, a sentence each: no plan and no gate may rest on the rest alone.
    owners_told
        Whether the source tells who reads; False for a table without a column for it.
    counted_members
        How many members the source counts; it may name fewer.
    contradiction
        Where the source contradicts itself, in a sentence: no gate may pass on it; "" nowhere.
    carried
        Of a governed group: the plans that its carriers bear, who are no members of ``group``.
    classic_members
        Of a group of the new protocol: who joined by the classic one, where the broker tells it.
    governed
        Those plans held against the group.
    addresses
        Member id to the address at which the member says that it answers queries.
    stable
        (topic, partition) to its last stable offset, where a transaction is open there.
    """

    group: Group
    state: str | None = None
    protocol: str | None = None
    assignor: str | None = None
    coordinator: str | None = None
    generation: int | None = None
    notes: Sequence[str] = ()
    roles: Sequence[GenerationMember] = ()
    assigned_data: Sequence[str] | None = None
    assumed: str = ""
    unnamed_partitions: int = 0
    gaps: Sequence[str] = ()
    owners_told: bool = True
    counted_members: int = 0
    contradiction: str = ""
    carried: Sequence[PlanPart] = ()
    classic_members: Sequence[str] = ()
    governed: CarriedPlan | None = None
    addresses: Mapping[str, str] = field(default_factory=dict)
    stable: Mapping[tuple[str, int], int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The group's name."""
        return self.group.name

    @cached_property
    def lag(self) -> Longs:
        """(P,) messages left; -1 if unknown, as for all of a share group, whose progress is kept elsewhere."""
        if self.protocol == SHARE:
            return np.full(self.group.P, UNKNOWN, dtype=np.int64)
        return observed_lag(self.group)

    @cached_property
    def total_lag(self) -> int | None:
        """All messages left of topics that the group still wants, as far as they are known; exact beyond 64 bits."""
        known = self.lag[(self.lag != UNKNOWN) & owed(self.group, bool(self.assumed))]
        return sum(known.tolist()) if len(known) else None

    @cached_property
    def held_back(self) -> Bools:
        """(P,) whether an open transaction ends the range of a ``read_committed`` reader, and the group is there."""
        group, offsets = self.group, self.group.offsets
        if not self.stable or offsets is None:
            return np.zeros(group.P, dtype=np.bool_)
        stable = np.array([self.stable.get(group.name_of(p), UNKNOWN) for p in range(group.P)])
        held: Bools = (stable != UNKNOWN) & (offsets.committed >= stable) & (self.lag != 0)
        return held

    @cached_property
    def findings(self) -> list[Finding]:
        """The findings of one look at it; ``verdicts.judge`` adds those over time."""
        seen, held = findings(self), self.held_back
        if held.any():
            where = named(self.group, held)
            seen.append(Finding(f"A transaction is open on {where}: who reads committed messages sees none behind it."))
        return seen

    @property
    def members(self) -> int | None:
        """How many members it has, with those that the source counts and does not name; None if unknown."""
        return max(self.group.M, self.counted_members) if self.owners_told else None

    @cached_property
    def reads(self) -> list[list[int]]:
        """(M,) the partitions that each member reads, those that others read too among them."""
        held: list[list[int]] = [[] for _ in range(self.group.M)]
        for member, partition in zip(*(column.tolist() for column in readers(self.group)), strict=True):
            held[member].append(partition)
        return held

    @cached_property
    def read_by(self) -> tuple[list[int], list[int]]:
        """Each partition with a member that reads it, a row each; with -1 if there is none."""
        readers_of: list[list[int]] = [[] for _ in range(self.group.P)]
        for member, read in enumerate(self.reads):
            for partition in read:
                readers_of[partition].append(member)
        rows = [(p, m) for p, reading in enumerate(readers_of) for m in (reading or [NOBODY])]
        return [p for p, _ in rows], [m for _, m in rows]

    @cached_property
    def lags(self) -> list[int]:
        """(M,) messages that each member has to read, as far as they are known; empty if none is."""
        lags = self.lag.tolist()
        return (
            [] if self.total_lag is None else [sum(lags[p] for p in read if lags[p] != UNKNOWN) for read in self.reads]
        )

    @cached_property
    def heaviest(self) -> float | None:
        """The share of the lag that one member has to read, from 0 to 1; None: nothing is left, or no member reads."""
        total = self.total_lag
        if not total or not self.group.M:
            return None
        member, partition = readers(self.group)
        held = np.bincount(member, weights=np.maximum(self.lag[partition], 0), minlength=self.group.M)
        return round(float(held.max()) / total, 4)

    @cached_property
    def labels_and_hosts(self) -> tuple[list[str], list[str]]:
        """(M,) the members' names, and the hosts that are known, each once."""
        hosts = {host.lstrip("/") for host in self.group.hosts or () if host}
        return member_labels(self.group), sorted(hosts)

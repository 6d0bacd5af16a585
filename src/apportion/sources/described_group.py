"""A group as some source saw it: group.json, and what the source told besides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from apportion.history.records import GenerationMember
from apportion.model.group import Group
from apportion.sources.governed import CarriedPlan
from apportion.wire.plan_text import PlanPart


@dataclass(frozen=True)
class Observed:
    """One group, its members perhaps none.

    raw
        The form of group.json; already checked where ``group`` was made first.
    state, protocol, kind, coordinator
        As Kafka names them: ``Stable``, the strategy, ``classic`` or ``consumer``, ``host:port (id)``; None unknown.
    generation
        The classic generation or the group epoch.
    sentences
        What the source itself found odd, a sentence each.
    members
        Of a streams or share group: with their tasks, or what they share.
    assigned_data
        Members whose assignment carries user data, which no group of the new protocol keeps; None unknown.
    assumed
        What was assumed where the source is silent, which every plan of the group rests on; "" nothing.
    unnamed_partitions
        How many partitions members hold that the source counts but does not name.
    left_out
        What of the source was not read, a sentence each: no plan and no gate may rest on the rest alone.
    owners_told
        Whether the source tells who reads; False for a table without a column for it.
    counted_members
        How many members the source counts; it may name fewer.
    contradiction
        Where the source contradicts itself, in a sentence: no gate may pass on it; "" nowhere.
    carried
        Of a governed group: the plans that its carriers bear, which are no members of ``raw``.
    classic_members
        Of a group of the new protocol: who joined by the classic one, where the broker tells it.
    stable
        (topic, partition) to its last stable offset, where a transaction is open there.
    governed
        Those plans held against the group.
    """

    raw: Mapping[str, Any]
    state: str | None = None
    protocol: str | None = None
    kind: str | None = None
    coordinator: str | None = None
    generation: int | None = None
    sentences: Sequence[str] = ()
    members: Sequence[GenerationMember] = ()
    assigned_data: Sequence[str] | None = None
    assumed: str = ""
    unnamed_partitions: int = 0
    left_out: Sequence[str] = ()
    owners_told: bool = True
    counted_members: int = 0
    contradiction: str = ""
    carried: Sequence[PlanPart] = ()
    classic_members: Sequence[str] = ()
    governed: CarriedPlan | None = None
    stable: Mapping[tuple[str, int], int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The group's name."""
        return str(self.raw.get("group") or "")

    @cached_property
    def group(self) -> Group:
        """The group as arrays, after every field was looked at; BadInput where it has no member."""
        from apportion.model.group_json import read_group

        return read_group(dict(self.raw))

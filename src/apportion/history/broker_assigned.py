"""The common part of groups whose broker assigns: members, targets and assignments come in records of their own.

Several bumps of the epoch may pass before one target comes, and none comes for a group that emptied: there the record
of the group completes the epoch itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from apportion.history.records import Assigned, Generation, GenerationMember, GroupRecord
from apportion.wire.coordinator import EpochRecord

Body = Mapping[str, Any]


@dataclass
class BrokerAssigned(ABC):
    """One group's records of one kind, taken in the order of their offsets.

    epoch, opened
        The newest epoch, and when (ms) the oldest was opened that has no target yet.
    members, targets, current
        Member id to the body of its newest record.
    touched
        Offset of the last record that was taken.
    names
        Topics by id.
    """

    epoch: int | None = None
    opened: int | None = None
    group: Body = field(default_factory=dict)
    members: dict[str, Body] = field(default_factory=dict)
    targets: dict[str, Body] = field(default_factory=dict)
    current: dict[str, Body] = field(default_factory=dict)
    touched: int = -1
    fresh: bool = True
    names: Mapping[str, str] = field(default_factory=dict)

    GROUP: ClassVar[int]
    MEMBER: ClassVar[int]
    TARGET: ClassVar[int]
    TARGET_OF: ClassVar[int]
    CURRENT: ClassVar[int]

    def take(self, event: GroupRecord) -> Generation | None:
        """Take one record; the generation that it completes, if it does."""
        record = event.record
        assert isinstance(record, EpochRecord)  # noqa: S101 - for the type checker
        self.touched = event.offset
        table = {self.MEMBER: self.members, self.TARGET_OF: self.targets, self.CURRENT: self.current}.get(
            record.key_type
        )
        if table is not None:
            if record.body is None:
                table.pop(record.member_id or "", None)
            else:
                table[record.member_id or ""] = record.body
            return None
        if record.key_type == self.GROUP:
            return self._bump(event, record)
        if record.key_type == self.TARGET and record.body is not None:
            return self._complete(event, record.epoch or 0)
        return None

    def _bump(self, event: GroupRecord, record: EpochRecord) -> Generation | None:
        if record.tombstone:
            self.epoch, self.opened, self.group, self.fresh = None, None, {}, True
            for table in (self.members, self.targets, self.current):
                table.clear()
            return None
        self.epoch, self.group = record.epoch, record.body or {}
        if self.opened is None:
            self.opened = event.at
        return None if self.members else self._complete(event, record.epoch or 0)

    def _complete(self, event: GroupRecord, number: int) -> Generation | None:
        epoch = self._generation(event, number)
        self.opened, self.fresh = None, False
        return epoch

    def _generation(self, event: GroupRecord, number: int) -> Generation | None:
        """The generation of the targets; None in a kind without owners."""
        return None

    def _completed(
        self, event: GroupRecord, number: int, kind: str, members: tuple[GenerationMember, ...], protocol: str | None
    ) -> Generation:
        return Generation(
            offset=event.offset,
            at=event.at,
            kind=kind,
            number=number,
            members=members,
            protocol=protocol,
            started=self.opened,
            holes=event.holes,
            fresh=self.fresh,
        )

    @abstractmethod
    def present_members(self) -> tuple[GenerationMember, ...]:
        """The members with their present partitions."""

    def name_of(self, topic_id: str) -> str | None:
        """A topic's name; partitions of topics without one are left out."""
        return self.names.get(topic_id)

    def held(self, entries: Iterable[Mapping[str, Any]] | None) -> Assigned:
        """Partitions by topic name, ids ascending: the records have them unsorted."""
        ids_of: dict[str, set[int]] = {}
        for entry in entries or ():
            if (name := self.name_of(entry["topicId"])) is not None:
                ids_of.setdefault(name, set()).update(entry["partitions"])
        return {name: tuple(sorted(ids)) for name, ids in sorted(ids_of.items()) if ids}

    @property
    def stands(self) -> bool:
        """Whether the group is there after its last record."""
        return self.epoch is not None or bool(self.members)


def member_of(member: str, body: Body, topics: Iterable[str], assigned: Assigned, **more: Any) -> GenerationMember:
    """A member by the body of its newest record, with the fields that only groups of its kind have."""
    return GenerationMember(
        member,
        tuple(sorted(topics)),
        assigned,
        body.get("instanceId"),
        body.get("clientId"),
        body.get("clientHost"),
        body.get("rackId") or None,
        **more,
    )

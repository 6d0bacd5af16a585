"""The records of a consumer group of the new protocol (KIP-848) folded: members, targets, and present partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from apportion.history import patterns
from apportion.history.broker_assigned import Body, BrokerAssigned, member_of
from apportion.history.records import Assigned, Generation, GenerationMember, GroupRecord
from apportion.model.protocols import CONSUMER

DEFAULT_ASSIGNOR: Final = "uniform"
"""What a broker uses where no KIP-848 member asks for an assignor: the first of ``group.consumer.assignors``."""


@dataclass
class ConsumerRecords(BrokerAssigned):
    """One consumer group."""

    GROUP: ClassVar[int] = 3
    MEMBER: ClassVar[int] = 5
    TARGET: ClassVar[int] = 6
    TARGET_OF: ClassVar[int] = 7
    CURRENT: ClassVar[int] = 8

    def _generation(self, event: GroupRecord, number: int) -> Generation:
        return self._completed(event, number, CONSUMER, self.target_members(), self.assignor)

    @property
    def assignor(self) -> str | None:
        """The server's strategy; None if no member is there to ask for one."""
        return server_assignor(self.members.values()) if self.members else None

    @property
    def sentences(self) -> tuple[str, ...]:
        """The unknown facts about topics."""
        return patterns.of_members(body.get("subscribedTopicRegex") for body in self.members.values())

    def target_members(self) -> tuple[GenerationMember, ...]:
        """The members with the partitions that they are to have."""
        return self._members(self.targets, "topicPartitions")

    def present_members(self) -> tuple[GenerationMember, ...]:
        """The members with their present partitions, not their targets."""
        return self._members(self.current, "assignedPartitions")

    def _members(self, table: Mapping[str, Body], lists: str) -> tuple[GenerationMember, ...]:
        held = {member: self.held(table.get(member, {}).get(lists)) for member in self.members}
        wide = self._by_expression(held)
        return tuple(_member(member, self.members[member], held[member], wide) for member in sorted(self.members))

    def _by_expression(self, held: Mapping[str, Assigned]) -> dict[str, set[str]]:
        """Regular expression to the topics that members with it hold or are to hold."""
        wide: dict[str, set[str]] = {}
        for member, body in self.members.items():
            if body.get("subscribedTopicRegex"):
                topics = wide.setdefault(body["subscribedTopicRegex"], set())
                topics.update(held[member])
                topics.update(self.held(self.targets.get(member, {}).get("topicPartitions")))
        return wide


def _member(member: str, body: Body, held: Assigned, wide: Mapping[str, set[str]]) -> GenerationMember:
    named = body.get("subscribedTopicNames") or ()
    topics = wide.get(body.get("subscribedTopicRegex") or "", set()).union(named)
    classic = body.get("classicMemberMetadata")
    session_timeout_ms = classic["sessionTimeoutMs"] if classic else None
    return member_of(member, body, topics, held, session_timeout_ms=session_timeout_ms)


def server_assignor(members: Iterable[Mapping[str, Any]]) -> str:
    """The server's strategy that most KIP-848 members ask for, of equals the first by name; the default if none does.

    members
        Bodies of their key-5 records.
    """
    votes = Counter(name for body in members if (name := body.get("serverAssignor")))
    return min(votes, key=lambda name: (-votes[name], name), default=DEFAULT_ASSIGNOR)

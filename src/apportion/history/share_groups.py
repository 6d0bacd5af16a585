"""The records of a share group (KIP-932) folded: its members, and the present and future share of each.

Several members may read one partition at the same time, so that nobody owns it and nothing moves: a share group has a
present and no generations. How far it has read stands in ``__share_group_state``, not in ``__consumer_offsets``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from apportion.history.broker_assigned import BrokerAssigned, member_of
from apportion.history.records import Assigned, GenerationMember


@dataclass
class ShareRecords(BrokerAssigned):
    """One share group; ``names`` are topics by id, without which a topic has its id as name."""

    names: Mapping[str, str] = field(default_factory=dict)

    GROUP: ClassVar[int] = 11
    MEMBER: ClassVar[int] = 10
    TARGET: ClassVar[int] = 12
    TARGET_OF: ClassVar[int] = 13
    CURRENT: ClassVar[int] = 14

    def present_members(self) -> tuple[GenerationMember, ...]:
        """The members with their present and future shares; they own nothing."""
        return tuple(
            member_of(
                member,
                body,
                set(body.get("subscribedTopicNames") or ()),
                {},
                roles={
                    "shared": self._held(self.current.get(member, {}).get("assignedPartitions") or ()),
                    "target": self._held(self.targets.get(member, {}).get("topicPartitions") or ()),
                },
            )
            for member, body in sorted(self.members.items())
        )

    def _held(self, entries: Iterable[Mapping[str, Any]]) -> Assigned:
        ids_of: dict[str, set[int]] = {}
        for entry in entries:
            ids_of.setdefault(self.names.get(entry["topicId"], entry["topicId"]), set()).update(entry["partitions"])
        return {name: tuple(sorted(ids)) for name, ids in sorted(ids_of.items()) if ids}

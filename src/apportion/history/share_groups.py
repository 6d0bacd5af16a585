"""The records of a share group (KIP-932) folded: its members, and the present and future share of each.

Several members may read one partition at the same time, so that nobody owns it and nothing moves: a share group has a
present and no generations. How far it has read stands in ``__share_group_state``, not in ``__consumer_offsets``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from apportion.history.broker_assigned import BrokerAssigned, member_of
from apportion.history.records import GenerationMember


@dataclass
class ShareRecords(BrokerAssigned):
    """One share group."""

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
                    "shared": self.held(self.current.get(member, {}).get("assignedPartitions")),
                    "target": self.held(self.targets.get(member, {}).get("topicPartitions")),
                },
            )
            for member, body in sorted(self.members.items())
        )

    def name_of(self, topic_id: str) -> str:
        """A topic's name, or its id where that is not known."""
        return self.names.get(topic_id, topic_id)

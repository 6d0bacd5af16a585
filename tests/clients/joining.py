"""What a leader makes of members with these subscriptions, as objects: the bytes in between are the product's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from apportion.clients.group.bridge import Bridge
from apportion.clients.group.joined_group import JoinedGroup
from apportion.wire.assignment import Assignment, read_assignment
from apportion.wire.subscription import Subscription, write_subscription

from .metadata import as_client


class JoiningMember(NamedTuple):
    """One member at the door: who it is and what it sent."""

    member_id: str
    instance_id: str | None
    subscription: Subscription


def assign(
    leader: Bridge, members: Sequence[JoiningMember], cluster: Any, group: str = "", generation: int | None = None
) -> dict[str, Assignment]:
    """Every member's share."""
    joined = JoinedGroup(
        [member.member_id for member in members],
        [member.instance_id for member in members],
        [write_subscription(member.subscription) for member in members],
    )
    answers = leader.lead(joined, as_client(cluster), group, generation)
    return {member: read_assignment(answer) for member, answer in answers.items()}

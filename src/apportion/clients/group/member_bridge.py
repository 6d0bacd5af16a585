"""One member's side of a group, as the adapters know it: partitions by a strategy, or whole tasks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, Self

from apportion.clients.group.joined_group import JoinedGroup
from apportion.clients.group.options import Options
from apportion.clients.group.topic_metadata import ClusterMetadata
from apportion.strategy.traits import OnForeign
from apportion.wire.assignment import Assignment
from apportion.wire.partitions import Held
from apportion.wire.subscription import Subscription


class MemberBridge(Protocol):
    """What ``Bridge`` and ``TaskBridge`` are to an adapter."""

    options: Options
    on_foreign: OnForeign
    """What the member does once the broker assigns by the new protocol."""
    kept_whole: str
    """What the strategy gives to one member as a whole, which a governor's plan may keep; "" nothing."""
    cooperative: bool
    reads_on: bool
    """Whether a member may read what it keeps while its join waits for the others."""

    def copy(self) -> Self:
        """The same for another consumer, without the memory of this one."""
        ...

    @property
    def name(self) -> str:
        """The strategy's name, as the group knows it."""
        ...

    def subscription(self, topics: Iterable[str], *, keeps: bool, holds: Held | None = None) -> Subscription:
        """What this member says when it joins."""
        ...

    def on_assignment(self, given: Assignment, generation: int | None, group: str | None = None) -> bool:
        """Remember what this member was told; whether it joins again at once."""
        ...

    def lead(
        self,
        joined: JoinedGroup,
        cluster: ClusterMetadata,
        group: str = "",
        generation: int | None = None,
        began: float | None = None,
    ) -> dict[str, bytes]:
        """As leader: the bytes of every member's assignment."""
        ...

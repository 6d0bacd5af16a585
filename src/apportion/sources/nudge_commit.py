"""A nudge: one commit in a group of its own that asks the leader of another for a rebalance.

The protocol lets nobody but a member ask for one, and a member that joins and leaves costs two. So whoever wants it
commits an offset under the name of the group with ``SUFFIX``: the moment, in milliseconds. The lag feed of a leader
that acts reads it with the group's own offsets; the leader asks for a rejoin, and marks the commit as heeded.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Final

from apportion.errors import Unavailable

SUFFIX: Final = ".apportion-nudge"
HEEDED: Final = "heeded"
"""The metadata of a nudge that a leader took."""
YOUNG_S: Final = 600.0
"""Seconds for which a nudge counts: whoever made it has given up by then."""


@dataclass(frozen=True)
class Nudge:
    """One that is valid: the topic of its commit, when it was made (milliseconds), and whether a leader took it."""

    topic: str
    at_ms: int
    heeded: bool

    @property
    def waits(self) -> bool:
        """Whether a leader should take it now."""
        return not self.heeded and abs(time.time() - self.at_ms / 1000) < YOUNG_S


def newest(admin: Any, group: str) -> Nudge | None:
    """The newest nudge of a group; None if there is none."""
    offsets = admin.list_group_offsets({group + SUFFIX: None})[group + SUFFIX]
    nudges = [Nudge(part.topic, at.offset, at.metadata == HEEDED) for part, at in offsets.items() if at.offset >= 0]
    return max(nudges, key=lambda nudge: nudge.at_ms, default=None)


def commit(admin: Any, group: str, topic: str, at_ms: int, metadata: str = "") -> None:
    """Write a nudge on the topic's partition 0, or mark it as heeded.

    Raises
        Unavailable where the broker refuses the commit.
    """
    from kafka.structs import OffsetAndMetadata, TopicPartition

    name, part = group + SUFFIX, TopicPartition(topic, 0)
    for error in admin.alter_group_offsets(name, {part: OffsetAndMetadata(at_ms, metadata, -1)}).values():
        if error.errno:
            needed = f"the right to read group {name!r} and topic {topic!r}"
            raise Unavailable(f"no nudge could be left for group {group!r}: {error.__name__}; needed {needed}")


def remove(admin: Any, group: str) -> None:
    """Delete the group that nudges are committed in; without the right to it stays, and is forgotten by the broker."""
    from kafka.errors import KafkaError

    try:
        admin.delete_groups([group + SUFFIX])
    except KafkaError:
        return

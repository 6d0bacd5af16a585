"""A member's assignment: its partitions, and user data from the leader's assignor.

Versions 0 to 3 of Kafka's ConsumerProtocolAssignment differ in the version alone; a higher one is read as 3 and its
tail left alone. Source: ``ConsumerProtocol``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from apportion.wire.partitions import Held, held, merged, read_held, write_held
from apportion.wire.primitives import Bytes, Reader
from apportion.wire.subscription import read_version
from apportion.wire.writer import Writer

NEWEST: Final = 3
"""The highest version that Kafka 4.3 writes."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """One member's share, in the order of its bytes: (topic, ids), user data, the version as sent."""

    partitions: Held = ()
    user_data: bytes | None = None
    version: int = NEWEST


def read_assignment(raw: Bytes) -> Assignment:
    """Read any version; UnreadableBytes if Kafka's own reader gives up too, zero bytes included."""
    reader = Reader(raw)
    version = read_version(reader)
    return Assignment(read_held(reader), reader.nullable_blob(), version)


def write_assignment(assignment: Assignment) -> bytes:
    """The bytes that Kafka's own writer gives: each topic once, by first appearance, ids as given."""
    if not 0 <= assignment.version <= NEWEST:
        raise ValueError(f"assignment version {assignment.version}; there are 0 to {NEWEST}")
    writer = Writer().int16(assignment.version)
    write_held(writer, held({topic: ids for topic, ids in merged(assignment.partitions).items() if ids}))
    return writer.blob(assignment.user_data).done()

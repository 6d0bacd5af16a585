"""A member's subscription when it joins: topics, user data, past partitions with their generation, and its rack.

Versions 0 to 3 of Kafka's ConsumerProtocolSubscription: 1 added what is owned, 2 its generation, 3 the rack. A higher
version is read as 3 and its tail left alone. Source: ``ConsumerProtocol``; KIP-429, KIP-792, KIP-881.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from apportion.errors import UnreadableBytes
from apportion.wire.partitions import Held, in_order, read_held, write_held
from apportion.wire.primitives import Bytes, Reader, utf16
from apportion.wire.writer import Writer

NEWEST: Final = 3
"""The highest version that Kafka 4.3 writes."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """One member's words at the door, in the order of its bytes.

    topics
        Names it wants; may be empty.
    user_data
        Bytes for the assignor alone; None if it sent null.
    owned
        (topic, ids) it still holds; empty before version 1.
    generation
        The last one that it took part in; None before version 2 and where it sent a negative one.
    rack
        Its ``client.rack``; None before version 3 and where it sent "".
    version
        As sent, so it may be above 3.
    """

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: Held = ()
    generation: int | None = None
    rack: str | None = None
    version: int = NEWEST


def read_version(reader: Reader) -> int:
    """The int16 at the head of both of the consumer protocol's messages; negative ones are refused."""
    version = reader.int16()
    if version < 0:
        raise UnreadableBytes(f"version {version} of the consumer protocol", 0)
    return version


def read_subscription(raw: Bytes) -> Subscription:
    """Read any version; UnreadableBytes if Kafka's own reader gives up too."""
    reader = Reader(raw)
    version = read_version(reader)
    topics = _topics(reader)
    user_data = reader.nullable_blob()
    owned = read_held(reader) if version >= 1 else ()
    generation = reader.int32() if version >= 2 else -1
    rack = reader.nullable_string() if version >= 3 else None
    return Subscription(topics, user_data, owned, generation if generation >= 0 else None, rack or None, version)


def _topics(reader: Reader) -> tuple[str, ...]:
    """The names, taken from the last subscription read if the bytes are the same: members of a group repeat them.

    The list says its own length, so whatever begins with the same bytes begins with the same list.
    """
    global _last  # one pair, replaced whole: safe between threads, and it never changes an answer
    piece, topics = _last
    if piece and reader.raw.startswith(piece, reader.at):
        reader.at += len(piece)
        return topics
    start = reader.at
    topics = reader.strings()
    _last = (reader.raw[start : reader.at], topics)
    return topics


_last: tuple[bytes, tuple[str, ...]] = (b"", ())


def write_subscription(subscription: Subscription) -> bytes:
    """The bytes that Kafka's own writer gives for this ``version`` (0 to 3): topics and owned sorted as Java does."""
    if not 0 <= subscription.version <= NEWEST:
        raise ValueError(f"subscription version {subscription.version}; there are 0 to {NEWEST}")
    writer = Writer().int16(subscription.version)
    writer.array(sorted(subscription.topics, key=utf16), writer.string)
    writer.blob(subscription.user_data)
    if subscription.version >= 1:
        write_held(writer, in_order(subscription.owned))
    if subscription.version >= 2:
        writer.int32(-1 if subscription.generation is None else subscription.generation)
    if subscription.version >= 3:
        writer.string(subscription.rack)
    return writer.done()

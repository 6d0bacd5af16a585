"""Lists of (topic, partition ids) as they occur in subscriptions, assignments and memories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import unpack_from

from apportion.wire.primitives import MAX_STRING, Reader, text, utf16
from apportion.wire.writer import Writer

Held = tuple[tuple[str, tuple[int, ...]], ...]
"""(topic, ids) in the order of the bytes; a topic may come twice, as foreign bytes may have it."""


def read_held(reader: Reader) -> Held:
    """int32 count, then for each a topic and its int32 partition ids.

    One loop without a call for each part, since a leader reads hundreds of thousands of these; where a length does
    not fit, the checked readers say what is wrong.
    """
    raw, end, out = reader.raw, reader.end, []
    # The two smallest parts of an element: an int16 length and an int32 count.
    for _ in range(reader.count(6)):
        start = reader.at + 2
        name_size = raw[start - 2] << 8 | raw[start - 1] if start <= end else end
        ids_at = start + name_size + 4
        ids = int.from_bytes(raw[ids_at - 4 : ids_at], "big") if ids_at <= end else end
        if name_size > MAX_STRING or ids_at + 4 * ids > end:
            out.append((reader.string(), reader.int32s()))
            continue
        out.append((text(raw[start : ids_at - 4]), unpack_from(f">{ids}i", raw, ids_at)))
        reader.at = ids_at + 4 * ids
    return tuple(out)


def write_held(writer: Writer, held: Held) -> None:
    """Write topics with their partitions, in the order given."""
    writer.int32(len(held))
    for topic, ids in held:
        writer.string(topic).int32s(ids)


def merged(held: Iterable[tuple[str, Iterable[int]]]) -> dict[str, list[int]]:
    """Topic to its ids, a topic that comes twice put together; order and doubles stay.

    >>> merged((("clicks", (1, 0)), ("orders", (2,)), ("clicks", (5,))))
    {'clicks': [1, 0, 5], 'orders': [2]}
    """
    out: dict[str, list[int]] = {}
    for topic, ids in held:
        out.setdefault(topic, []).extend(ids)
    return out


def held(partitions: Mapping[str, Iterable[int]]) -> Held:
    """A mapping as ``Held``, in the mapping's own order."""
    return tuple((topic, tuple(ids)) for topic, ids in partitions.items())


def in_order(partitions: Held) -> Held:
    """Topics as Java sorts them, ids ascending: the form in which Kafka's clients write their partitions.

    A topic without ids falls, since Java's writer works from single partitions.
    """
    whole = merged(partitions)
    return tuple((topic, tuple(sorted(whole[topic]))) for topic in sorted(whole, key=utf16) if whole[topic])

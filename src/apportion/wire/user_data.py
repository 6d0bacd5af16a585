"""The assignors' memory between rebalances, inside a member's user data.

Here are Kafka's own layouts, which have no version: ``sticky`` V0 and V1, and ``cooperative-sticky``. Those of other
strategies are in their files and begin with an int16 version; a reader of version n takes what it knows of n + 1 and
leaves the tail alone.

Every ``read_*`` answers, whatever the bytes: where they cannot be read the memory is empty and ``lost`` says why in
words for the log, for a rebalance must not fail because one member talks nonsense.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from apportion.errors import UnreadableBytes
from apportion.wire.partitions import Held, in_order, read_held, write_held
from apportion.wire.primitives import Reader
from apportion.wire.writer import Writer

M = TypeVar("M")

OWN_VERSION: Final = 1
"""The version that layouts of ours carry today."""
CAPACITY_MARK: Final = b"capacity"
"""What tells that a capacity follows, as the last four bytes of user data."""
CAPACITY_SIZE: Final = len(CAPACITY_MARK) + 4
FACTS_MARK: Final = b"appfacts"
"""What tells that facts stand before it, as many bytes of them as the int32 behind it says."""


@dataclass(frozen=True, slots=True)
class StickyData:
    """The partitions of a member of a sticky group, and since which generation.

    generation
        None where none was sent (V0, nothing) or it is negative.
    lost
        Why there is no memory; None where there is one, or where the member sent nothing.
    """

    owned: Held = ()
    generation: int | None = None
    lost: str | None = None


# -- sticky ----------------------------------------------------------------------------------------------------------


def read_sticky(raw: bytes | None) -> StickyData:
    """V1, else V0, else kafka-python's own form, else no memory; null or empty is nothing said.

    Kafka's reader tries V1, then V0, and leaves a tail alone. kafka-python 3.0 writes V1 behind an int16 version of
    its own, which Java's reader cannot follow; it is taken as such only when neither of Kafka's forms fits.
    """
    if not raw:
        return StickyData()
    for layout in (_sticky_v1, _sticky_v0, _sticky_kafka_python):
        try:
            return layout(Reader(raw))
        except UnreadableBytes:
            continue
    return StickyData(lost=f"{len(raw)} bytes of user data are no memory of a sticky assignor")


def write_sticky(owned: Held, generation: int | None, version: int = 1) -> bytes:
    """Kafka's V1 (or V0, without the generation): topics and ids in order, a missing generation as -1."""
    writer = Writer()
    write_held(writer, in_order(owned))
    if version >= 1:
        writer.int32(-1 if generation is None else generation)
    return writer.done()


def _sticky_v1(reader: Reader) -> StickyData:
    return StickyData(read_held(reader), known(reader.int32()))


def _sticky_v0(reader: Reader) -> StickyData:
    return StickyData(read_held(reader))


def _sticky_kafka_python(reader: Reader) -> StickyData:
    version = reader.int16()
    if version != 1:
        raise reader.fail(f"version {version} of kafka-python's sticky user data")
    memory = _sticky_v1(reader)
    if reader.at != reader.end:
        # A guessed prefix must explain every byte, or random bytes would turn into claims.
        raise reader.fail("bytes after kafka-python's sticky user data")
    return memory


# -- cooperative-sticky ----------------------------------------------------------------------------------------------


def read_cooperative(raw: bytes | None) -> StickyData:
    """The generation alone (int32); the partitions are in the subscription itself."""
    return read_layout(
        raw, StickyData, lambda reader: StickyData(generation=known(reader.int32())), "cooperative-sticky"
    )


def write_cooperative(generation: int | None) -> bytes:
    """Four bytes, -1 before the first assignment."""
    return Writer().int32(-1 if generation is None else generation).done()


# -- capacity --------------------------------------------------------------------------------------------------------


def write_capacity(capacity: int) -> bytes:
    """The end of a member's user data: a mark of eight bytes and an int32, behind all that Kafka's readers look at."""
    return Writer().raw(CAPACITY_MARK).int32(capacity).done()


def without_capacity(raw: bytes | None) -> bytes | None:
    """User data without the capacity at its end."""
    return raw[:-CAPACITY_SIZE] if raw and raw[-CAPACITY_SIZE:-4] == CAPACITY_MARK else raw


# -- facts ------------------------------------------------------------------------------------------------------------


def write_facts(facts: Mapping[str, int]) -> bytes:
    """Numbers by name, for the end of user data before a capacity: int32 count, (string, int64) each; mark, int32 size.

    >>> read_facts(b"anything" + write_facts({"warmth": 7}))
    {'warmth': 7}
    """
    writer = Writer().int32(len(facts))
    for name, value in sorted(facts.items()):
        writer.string(name).int64(value)
    body = writer.done()
    return Writer().raw(body).raw(FACTS_MARK).int32(len(body)).done()


def read_facts(raw: bytes | None) -> dict[str, int]:
    """The facts at the end of user data, before a capacity; none if there are none, or none that can be read."""
    reader = Reader(_split(raw)[1])
    try:
        return {reader.string(): reader.int64() for _ in range(reader.count(10))} if reader.end else {}
    except UnreadableBytes:
        return {}


def without_facts(raw: bytes | None) -> bytes | None:
    """User data without a capacity and facts at its end."""
    return _split(raw)[0]


def _split(raw: bytes | None) -> tuple[bytes | None, bytes]:
    """The bytes before the facts, and the facts' own bytes; a capacity is behind them."""
    raw = without_capacity(raw)
    if not raw or raw[-CAPACITY_SIZE:-4] != FACTS_MARK:
        return raw, b""
    begin = len(raw) - CAPACITY_SIZE - Reader(raw[-4:]).int32()
    return (raw[:begin], raw[begin:-CAPACITY_SIZE]) if 0 <= begin < len(raw) - CAPACITY_SIZE else (raw, b"")


# -- shared ----------------------------------------------------------------------------------------------------------


def read_layout(raw: bytes | None, kind: Callable[..., M], layout: Callable[[Reader], M], name: str) -> M:
    """The layout's reading; ``kind()`` of nothing, and ``kind(lost=why)`` of bytes that are none of the strategy's."""
    if not raw:
        return kind()
    try:
        return layout(Reader(raw))
    except UnreadableBytes as error:
        return kind(lost=f"{len(raw)} bytes of user data are no memory of {name}: {error}")


def own_version(reader: Reader) -> None:
    """Pass over the version at the head of a layout of this package."""
    version = reader.int16()
    if version < OWN_VERSION:
        raise reader.fail(f"version {version}, needed {OWN_VERSION} or higher")


def known(number: int) -> int | None:
    """A generation or epoch; negative means that there is none yet."""
    return number if number >= 0 else None

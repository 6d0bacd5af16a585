"""Kafka's numbers, strings and lists into bytes, in the classic and the compact forms."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from apportion.wire.primitives import MAX_STRING

T = TypeVar("T")


class Writer:
    """Collects bytes in Kafka's forms; ``done()`` gives them as one."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def done(self) -> bytes:
        """Everything written so far."""
        return b"".join(self._parts)

    def raw(self, piece: bytes) -> Writer:
        """Bytes as they are."""
        self._parts.append(piece)
        return self

    def int8(self, value: int) -> Writer:
        """One signed byte."""
        return self.raw(struct.pack(">b", value))

    def int16(self, value: int) -> Writer:
        """Two bytes, signed."""
        return self.raw(struct.pack(">h", value))

    def int32(self, value: int) -> Writer:
        """Four bytes, signed."""
        return self.raw(struct.pack(">i", value))

    def int64(self, value: int) -> Writer:
        """Eight bytes, signed."""
        return self.raw(struct.pack(">q", value))

    def uvarint(self, value: int) -> Writer:
        """Seven bits a byte, low ones first."""
        piece = bytearray()
        while value > 0x7F:
            piece.append(value & 0x7F | 0x80)
            value >>= 7
        piece.append(value)
        return self.raw(bytes(piece))

    def string(self, value: str | None) -> Writer:
        """An int16 length and UTF-8; None is length -1."""
        if value is None:
            return self.int16(-1)
        piece = _utf8(value)
        return self.int16(len(piece)).raw(piece)

    def blob(self, value: bytes | None) -> Writer:
        """An int32 length and bytes; None is length -1."""
        return self.int32(-1) if value is None else self.int32(len(value)).raw(value)

    def array(self, values: Sequence[T], element: Callable[[T], object]) -> Writer:
        """An int32 count and each element by ``element``."""
        self.int32(len(values))
        return self._each(values, element)

    def int32s(self, values: Sequence[int]) -> Writer:
        """An int32 count and as many int32."""
        return self.raw(struct.pack(f">i{len(values)}i", len(values), *values))

    def compact_string(self, value: str | None) -> Writer:
        """A compact length and UTF-8; None is 0."""
        if value is None:
            return self.uvarint(0)
        piece = _utf8(value)
        return self.uvarint(len(piece) + 1).raw(piece)

    def compact_blob(self, value: bytes | None) -> Writer:
        """A compact length and bytes; None is 0."""
        return self.uvarint(0) if value is None else self.uvarint(len(value) + 1).raw(value)

    def compact_array(self, values: Sequence[T], element: Callable[[T], object]) -> Writer:
        """A compact count and each element by ``element``."""
        self.uvarint(len(values) + 1)
        return self._each(values, element)

    def compact_int32s(self, values: Sequence[int] | None) -> Writer:
        """A compact count and as many int32; None is 0."""
        if values is None:
            return self.uvarint(0)
        return self.uvarint(len(values) + 1).raw(struct.pack(f">{len(values)}i", *values))

    def tags(self, fields: dict[int, bytes] | None = None) -> Writer:
        """Tagged fields, ascending by tag."""
        self.uvarint(len(fields or {}))
        for tag, piece in sorted((fields or {}).items()):
            self.uvarint(tag).uvarint(len(piece)).raw(piece)
        return self

    def _each(self, values: Iterable[T], element: Callable[[T], object]) -> Writer:
        for value in values:
            element(value)
        return self


def _utf8(value: str) -> bytes:
    piece = value.encode("utf-8")
    if len(piece) > MAX_STRING:
        raise ValueError(f"a string of {len(piece)} bytes does not fit: Kafka allows {MAX_STRING}")
    return piece

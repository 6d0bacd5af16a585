"""Kafka's numbers, strings and lists out of bytes, with every length checked before it is believed.

Both families are here: the classic forms (int16 and int32 lengths, -1 for null) and the compact ones (an unsigned
varint of length + 1, 0 for null, tagged fields at the end). What Kafka's own deserializer accepts is accepted
here, with the same value; what it refuses raises ``UnreadableBytes``. Three of its habits that one would not guess:

* text that is not UTF-8 is no error: each bad piece becomes U+FFFD (``java.lang.String``);
* the fifth byte of a varint overflows silently, and a length that becomes negative by it means null;
* the size of a tagged field that is known is read and then ignored.

Source: ``ByteBufferAccessor``, ``ByteUtils``, and the classes generated from Kafka 4.3's message files.
"""

from __future__ import annotations

import codecs
import struct
from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Final, TypeVar

from apportion.errors import UnreadableBytes

T = TypeVar("T")

Bytes = bytes | bytearray | memoryview
"""What a reader takes; anything but ``bytes`` is copied once."""

MAX_STRING: Final = 0x7FFF
"""The longest string, in bytes, in the compact form too."""
MAX_TOPIC: Final = 249
"""Letters of a topic's name in Kafka (``Topic.MAX_NAME_LENGTH``); what is longer is no topic's, and not remembered."""

_INT8 = struct.Struct(">b")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")


def _replace_as_java(error: UnicodeError) -> tuple[str, int]:
    """One U+FFFD for a bad piece; a surrogate written as three bytes, or begun so, is one piece for Java alone."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    piece = error.object[error.start : error.start + 3]
    if len(piece) > 1 and piece[0] == 0xED and 0xA0 <= piece[1] <= 0xBF:
        whole = len(piece) == 3 and 0x80 <= piece[2] <= 0xBF
        return "\ufffd", error.start + (3 if whole else 2)
    return "\ufffd", error.end


codecs.register_error("apportion-java", _replace_as_java)


def text(raw: bytes) -> str:
    """UTF-8 as Java reads it: never an error, U+FFFD for malformed bytes."""
    return raw.decode("utf-8", "apportion-java")


def utf16(name: str) -> bytes:
    """The key that sorts names as Java does: by UTF-16 units."""
    return name.encode("utf-16-be", "surrogatepass")


def uuid_text(raw: bytes) -> str:
    """16 bytes as Kafka prints an id: 22 characters of base64url."""
    return urlsafe_b64encode(raw).decode("ascii").rstrip("=")


class Reader:
    """Reads foreign bytes from left to right and stops at the first one that cannot be right.

    ``at`` is the next byte to read; ``end`` is the number of bytes there are.
    """

    __slots__ = ("at", "end", "raw")

    def __init__(self, raw: Bytes) -> None:
        self.raw = raw if isinstance(raw, bytes) else bytes(raw)
        self.at = 0
        self.end = len(self.raw)

    def fail(self, reason: str) -> UnreadableBytes:
        """The error that says where reading stopped."""
        return UnreadableBytes(reason, self.at)

    def int8(self) -> int:
        """One signed byte."""
        at, self.at = self.at, self.at + 1
        if self.at > self.end:
            raise self._short(at, 1)
        value: int = _INT8.unpack_from(self.raw, at)[0]
        return value

    def int16(self) -> int:
        """Two bytes, signed."""
        at, self.at = self.at, self.at + 2
        if self.at > self.end:
            raise self._short(at, 2)
        value: int = _INT16.unpack_from(self.raw, at)[0]
        return value

    def int32(self) -> int:
        """Four bytes, signed."""
        at, self.at = self.at, self.at + 4
        if self.at > self.end:
            raise self._short(at, 4)
        value: int = _INT32.unpack_from(self.raw, at)[0]
        return value

    def int64(self) -> int:
        """Eight bytes, signed."""
        at, self.at = self.at, self.at + 8
        if self.at > self.end:
            raise self._short(at, 8)
        value: int = _INT64.unpack_from(self.raw, at)[0]
        return value

    def uvarint(self) -> int:
        """One to five bytes of seven bits each, as Java's 32-bit int: the fifth byte may make it negative."""
        value = 0
        for shift in range(0, 35, 7):
            if self.at >= self.end:
                raise self.fail("a variable-length number is cut off")
            byte = self.raw[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return _signed(value)
        raise self.fail("a variable-length number has more than five bytes")

    def take(self, size: int) -> bytes:
        """The next ``size`` bytes."""
        at, stop = self.at, self.at + size
        if size < 0 or stop > self.end:
            raise self.fail(f"{size} bytes claimed, {self.end - at} left")
        self.at = stop
        return self.raw[at:stop]

    def uuid(self) -> str:
        """16 bytes, as Kafka's 22 characters."""
        return uuid_text(self.take(16))

    # -- classic forms ------------------------------------------------------------------------------------------

    def nullable_string(self) -> str | None:
        """An int16 length and UTF-8; any negative length is null."""
        size = self.int16()
        return None if size < 0 else text(self.take(size))

    def string(self) -> str:
        """An int16 length and UTF-8; null is forbidden."""
        return self._not_null(self.nullable_string(), "string")

    def nullable_blob(self) -> bytes | None:
        """An int32 length and bytes; any negative length is null."""
        size = self.int32()
        return None if size < 0 else self.take(size)

    def blob(self) -> bytes:
        """An int32 length and bytes; null is forbidden."""
        return self._not_null(self.nullable_blob(), "byte string")

    def count(self, least: int) -> int:
        """An int32 number of elements of at least ``least`` bytes each, believed only if they can be there."""
        return self._believe(self.int32(), least)

    def array(self, element: Callable[[], T], least: int) -> list[T]:
        """``count`` elements; ``least`` is the fewest bytes that one of them takes."""
        return [element() for _ in range(self.count(least))]

    def int32s(self) -> tuple[int, ...]:
        """An int32 count and as many int32, all at once: partition ids."""
        return self._run(self.count(4))

    def strings(self) -> tuple[str, ...]:
        """An int32 count and as many strings, without a call for each: a leader reads a million of them."""
        raw, end, names = self.raw, self.end, []
        for _ in range(self.count(2)):
            start = self.at + 2
            stop = start + (raw[start - 2] << 8 | raw[start - 1]) if start <= end else end + 1
            if stop > end or stop - start > MAX_STRING:
                self.string()  # which says what is wrong
            names.append(text(raw[start:stop]))
            self.at = stop
        return tuple(names)

    # -- compact forms ------------------------------------------------------------------------------------------

    def compact_size(self) -> int:
        """A length that is sent plus one; negative is null. Wraps at 32 bits as Java does."""
        return _signed(self.uvarint() - 1)

    def compact_nullable_string(self) -> str | None:
        """A compact length and UTF-8."""
        size = self.compact_size()
        if size > MAX_STRING:
            raise self.fail(f"a string of {size} bytes, at most {MAX_STRING} allowed")
        return None if size < 0 else text(self.take(size))

    def compact_string(self) -> str:
        """A compact length and UTF-8; null is forbidden."""
        return self._not_null(self.compact_nullable_string(), "string")

    def compact_blob(self) -> bytes:
        """A compact length and bytes; null is forbidden."""
        size = self.compact_size()
        return self._not_null(None if size < 0 else self.take(size), "byte string")

    def compact_count(self, least: int) -> int:
        """The number of elements of a compact array, believed only if they can be there."""
        return self._believe(self.compact_size(), least)

    def compact_array(self, element: Callable[[], T], least: int) -> list[T]:
        """A compact count and its elements."""
        return [element() for _ in range(self.compact_count(least))]

    def compact_nullable_array(self, element: Callable[[], T], least: int) -> list[T] | None:
        """A compact count and its elements, or null."""
        size = self.compact_size()
        return None if size < 0 else [element() for _ in range(self._believe(size, least))]

    def compact_int32s(self) -> tuple[int, ...]:
        """A compact count and as many int32."""
        return self._run(self.compact_count(4))

    def compact_nullable_int32s(self) -> tuple[int, ...] | None:
        """A compact count and as many int32, or null."""
        size = self.compact_size()
        return None if size < 0 else self._run(self._believe(size, 4))

    def tags(self, known: Callable[[int], bool] = lambda tag: False) -> None:
        """Tagged fields: ``known(tag)`` reads one that it knows and answers True; the rest are stepped over.

        A tag that comes twice is read twice and the last one counts; a negative count is none: as Kafka does.
        """
        for _ in range(self.uvarint()):
            tag, size = self.uvarint(), self.uvarint()
            if not known(tag):
                self.take(size)

    # -- checks -------------------------------------------------------------------------------------------------

    def _short(self, at: int, size: int) -> UnreadableBytes:
        self.at = at
        return self.fail(f"{size} bytes needed for a number, {self.end - at} left")

    def _not_null(self, value: T | None, kind: str) -> T:
        if value is None:
            raise self.fail(f"a null {kind}, but one is required")
        return value

    def _believe(self, count: int, least: int) -> int:
        if count < 0:
            raise self.fail("a null list, but one is required")
        if count * least > self.end - self.at:
            raise self.fail(f"{count} elements claimed, {self.end - self.at} bytes left")
        return count

    def _run(self, count: int) -> tuple[int, ...]:
        values = struct.unpack_from(f">{count}i", self.raw, self.at)
        self.at += 4 * count
        return values


def _signed(value: int) -> int:
    """The low 32 bits as Java's int."""
    return ((value & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000

"""Text that is kept compressed in blocks, so that a block that did not change is neither written nor compressed again.

A file of gzip is a header, a stream of deflate, a checksum and a length. A stream may be put together from pieces,
where each piece ends on a whole byte, is not marked as the last, and refers to nothing before it: a compressor of its
own for each piece and a full flush give that. The checksum of the whole follows from those of the pieces, without their
text: CRC-32 is linear, so putting n bytes behind a text multiplies its checksum by x^8n modulo the polynomial. All is
then one member of gzip; of several members, curl and browsers show the first alone.
Sources: RFC 1951 §2.3, RFC 1952 §2.3, zlib's manual on Z_FULL_FLUSH.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

PIECE: Final = 1 << 18
"""Bytes of plain text at one time, for those who ask for it."""
FED: Final = 1 << 14
"""Bytes that are unpacked at one time."""
_HEAD: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff"
_END: Final = b"\x03\x00"
"""An empty last block of deflate."""
_POLYNOMIAL: Final = 0xEDB88320


@dataclass(frozen=True, eq=False)
class Block:
    """Some text as a piece of deflate, with the length and CRC-32 of the text, and the series in it."""

    deflated: bytes
    series: int
    size: int
    crc: int

    def text(self) -> bytes:
        """What it is the block of."""
        return zlib.decompress(self.deflated + _END, wbits=-15)

    def holds(self, text: bytes) -> bool:
        """Whether it is this text's."""
        return self.size == len(text) and self.crc == zlib.crc32(text) and self.text() == text


def block(text: bytes, series: int = 0) -> Block:
    """A text as a block."""
    packer = zlib.compressobj(1, wbits=-15)
    deflated = packer.compress(text) + packer.flush(zlib.Z_FULL_FLUSH)
    return Block(deflated, series, len(text), zlib.crc32(text))


@dataclass(frozen=True, eq=False)
class Rendered:
    """The lines of one round, compressed; ``left_out`` series were beyond the bound.

    deflated
        All blocks, one after the other.
    size, crc
        Of the plain text.
    """

    deflated: bytes
    series: int
    left_out: int
    size: int
    crc: int

    @staticmethod
    def of(blocks: Iterable[Block], left_out: int) -> Rendered:
        """From blocks in their order."""
        parts, series, size, crc = [], 0, 0, 0
        for one in blocks:
            parts.append(one.deflated)
            series += one.series
            size += one.size
            crc = joined_crc(crc, one.crc, one.size)
        return Rendered(b"".join(parts), series, left_out, size, crc)

    def gzipped(self, more: bytes = b"") -> bytes:
        """One member of gzip: the text, and ``more`` behind it."""
        last = block(more)
        crc, size = joined_crc(self.crc, last.crc, last.size), self.size + last.size
        end = crc.to_bytes(4, "little") + (size & 0xFFFFFFFF).to_bytes(4, "little")
        return b"".join((_HEAD, self.deflated, last.deflated, _END, end))

    def pieces(self) -> Iterator[bytes]:
        """The text unpacked, piece by piece: nobody who asks for plain text makes a second copy of all of it."""
        unpacker = zlib.decompressobj(-15)
        for start in range(0, len(self.deflated), FED):
            rest: bytes | memoryview = memoryview(self.deflated)[start : start + FED]
            while rest:
                yield unpacker.decompress(rest, PIECE)
                rest = unpacker.unconsumed_tail
        # Where a piece was full, what belongs behind it may wait inside though all has been fed.
        while last := unpacker.decompress(b"", PIECE):
            yield last


EMPTY: Final = Rendered(b"", 0, 0, 0, 0)


def joined_crc(first: int, second: int, size: int) -> int:
    """CRC-32 of two texts one after the other, from theirs and the second's size.

    >>> joined_crc(zlib.crc32(b"one"), zlib.crc32(b" two"), 4) == zlib.crc32(b"one two")
    True
    """
    return _times(_power(size), first) ^ second


def _times(one: int, other: int) -> int:
    """The product of two polynomials modulo CRC-32's; the highest of 32 bits is x^0."""
    product, bit = 0, 1 << 31
    while one:
        if one & bit:
            product ^= other
            one ^= bit
        bit >>= 1
        other = (other >> 1) ^ _POLYNOMIAL if other & 1 else other >> 1
    return product


def _squares() -> tuple[int, ...]:
    powers = [1 << 30]
    for _ in range(63):
        powers.append(_times(powers[-1], powers[-1]))
    return tuple(powers)


_SQUARES: Final = _squares()
"""x to the power of 2^k."""


@lru_cache(maxsize=4096)
def _power(size: int) -> int:
    """x to the power of eight times the size."""
    product, bit = 1 << 31, 3
    while size:
        if size & 1:
            product = _times(_SQUARES[bit], product)
        size >>= 1
        bit += 1
    return product

"""The text of one round, kept packed, behind which each scrape puts the server's facts about itself.

Packed text is a twentieth of the plain one. All of an answer is one member of gzip: of several, curl and browsers show
the first alone. So the packer of a round is kept unfinished, and each scrape goes on with a copy of it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Final

PIECE: Final = 1 << 18
"""Bytes of plain text at one time, for those who ask for it."""
FED: Final = 1 << 14
"""Bytes that are unpacked at one time."""


class Rendered:
    """The lines of one round, packed.

    series, left_out
        How many there are, and how many were beyond the bound.
    size
        Bytes of the plain text.
    """

    def __init__(self, texts: Iterable[bytes] = (), series: int = 0, left_out: int = 0) -> None:
        self.series, self.left_out, self.size = series, left_out, 0
        self._packer = zlib.compressobj(1, wbits=31)
        packed = []
        for text in texts:
            self.size += len(text)
            packed.append(self._packer.compress(text))
        self._packed = b"".join([*packed, self._packer.flush(zlib.Z_SYNC_FLUSH)])

    def gzipped(self, more: bytes = b"") -> bytes:
        """One member of gzip: the text, and ``more`` behind it."""
        last = self._packer.copy()
        return b"".join((self._packed, last.compress(more), last.flush()))

    def pieces(self) -> Iterator[bytes]:
        """The text unpacked, piece by piece: a client that asks for plain text makes no second copy of all of it."""
        unpacker = zlib.decompressobj(31)
        for start in range(0, len(self._packed), FED):
            rest: bytes | memoryview = memoryview(self._packed)[start : start + FED]
            while rest:
                yield unpacker.decompress(rest, PIECE)
                rest = unpacker.unconsumed_tail
        # Where a piece was full, what belongs behind it may wait inside though all has been fed.
        while last := unpacker.decompress(b"", PIECE):
            yield last


EMPTY: Final = Rendered()

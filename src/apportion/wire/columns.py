"""Lists of (topic, partition ids) of many members read at once, from bytes into arrays and back.

A leader reads a list from every member and a list has a part for every topic that a member owns: hundreds of thousands
of parts, whose places are known only one after the other. But the members' lists do not depend on each other: so the
n-th part of every list is read in one step, by NumPy, and the steps are as many as the longest list has parts. Where
few lists are left, a plain loop is quicker. Nothing is believed before it was seen to fit, exactly as in
``partitions.read_held``, which is the reference: a list is refused here if and only if it is refused there.

Numbers that stand anywhere in a buffer are read through windows: arrays over the buffer that begin at every byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from apportion.arrays import NOBODY, Bools, Ints
from apportion.wire.primitives import MAX_STRING, text

_PAD: Final = 8
"""Bytes behind the buffer, so that every window of a number begins inside."""
_FEW: Final = 48
"""Lists; below, a step in NumPy costs more than the parts one by one."""
_MIX: Final = tuple(
    np.uint64(odd) for odd in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93)
)
"""Odd multipliers that spread names over a table, one for each try."""


class Buffer:
    """The bytes of many messages as one, with windows of Kafka's numbers at every byte."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self.raw = b"".join([*pieces, bytes(_PAD)])
        self.size = len(self.raw) - _PAD
        self.uint16: NDArray[Any] = np.ndarray((self.size + _PAD - 1,), ">u2", self.raw, 0, (1,))
        self.int32: NDArray[Any] = np.ndarray((self.size + _PAD - 3,), ">i4", self.raw, 0, (1,))
        self.word: NDArray[Any] = np.ndarray((self.size + 1,), "<u8", self.raw, 0, (1,))

    def int32s(self, at: Ints) -> Ints:
        """The int32 at each place."""
        return self.int32[at].astype(np.int64)

    def uint16s(self, at: Ints) -> Ints:
        """The two bytes at each place; as a length, 2**15 and more is negative."""
        return self.uint16[at].astype(np.int64)


@dataclass(frozen=True, eq=False)
class HeldLists:
    """(topic, ids) lists of N members, as places in a buffer.

    first
        (N + 1,) the parts of list n are ``first[n]:first[n + 1]`` of the arrays (E,); a refused list has none.
    name_at, name_size
        (E,) where a topic's name begins, and its bytes.
    ids
        (E,) how many partition ids follow the name and their int32 count.
    stop
        (N,) the byte after each list; -1 where the list is refused.
    """

    first: Ints
    name_at: Ints
    name_size: Ints
    ids: Ints
    stop: Ints

    @property
    def count(self) -> Ints:
        """(N,) parts of each list."""
        return np.diff(self.first)

    @property
    def list_of(self) -> Ints:
        """(E,) the list of each part."""
        return np.repeat(np.arange(len(self.stop)), self.count)

    def numbers(self, buffer: Buffer) -> Ints:
        """(C,) all partition ids, part by part."""
        at = self.name_at + self.name_size
        at += 4
        if len(at) and self.ids.min() == 1 == self.ids.max():
            return buffer.int32s(at)
        at = np.repeat(at - 4 * (np.cumsum(self.ids) - self.ids), self.ids)
        at += 4 * np.arange(len(at))
        return buffer.int32s(at)


def read_held_lists(buffer: Buffer, begin: Ints, end: Ints) -> HeldLists:
    """Read the list that begins at each of ``begin`` (N,) and must not pass ``end`` (N,), both inside the buffer."""
    room = end - begin - 4
    count = buffer.int32s(begin)
    # A part takes six bytes at least: an int16 length and an int32 count.
    refused = (room < 0) | (count < 0) | (6 * count > room)
    if refused.any():
        count = np.where(refused, 0, count)
    first = np.zeros(len(begin) + 1, dtype=np.int64)
    np.cumsum(count, out=first[1:])
    walk = _Walk(buffer, int(first[-1]))
    stop = np.where(refused, -1, begin + 4)
    walk.all(np.flatnonzero(count), first[:-1], count, stop, end)
    lists = HeldLists(first, walk.name_at, walk.name_size, walk.ids, stop)
    return _without_refused(lists) if (stop < 0).any() else lists


def _without_refused(lists: HeldLists) -> HeldLists:
    """The same without what was read of refused lists before they were refused."""
    counts = lists.count
    keep = np.repeat(lists.stop >= 0, counts)
    counts[lists.stop < 0] = 0
    first = np.concatenate([[0], np.cumsum(counts)])
    return HeldLists(first, lists.name_at[keep], lists.name_size[keep], lists.ids[keep], lists.stop)


class _Walk:
    """The parts of all lists, read step by step."""

    def __init__(self, buffer: Buffer, parts: int) -> None:
        self.buffer = buffer
        self.name_at, self.name_size, self.ids = (np.zeros(parts, dtype=np.int64) for _ in range(3))

    def all(self, lists: Ints, first: Ints, count: Ints, stop: Ints, end: Ints) -> None:
        """Read the lists whose numbers are given; ``stop`` (N,) is where each goes on, at last where it ends."""
        at, slot, last, bound = stop[lists], first[lists], first[lists] + count[lists], end[lists]
        while len(lists) > _FEW:
            at, good = self._step(at, slot, bound)
            slot = slot + 1
            if good is None and slot[0] != last[0] and (slot != last).all():
                continue
            fits = np.ones(len(lists), dtype=np.bool_) if good is None else good
            stop[lists] = np.where(fits, at, -1)
            more = fits & (slot != last)
            lists, at, slot, last, bound = lists[more], at[more], slot[more], last[more], bound[more]
        places = (lists, at, slot, last, bound)
        for number, *span in zip(*(column.tolist() for column in places), strict=True):
            stop[number] = self._one(*span)

    def _step(self, at: Ints, slot: Ints, bound: Ints) -> tuple[Ints, Bools | None]:
        """One part of each list; where the next begins, and which of them fit (None: all)."""
        size = self.buffer.uint16s(at)
        ids_at = at + size
        ids_at += 6
        good = None
        if int(ids_at.max()) > self.buffer.size or int(size.max()) > MAX_STRING:
            good = (ids_at <= bound) & (size <= MAX_STRING)
            ids_at = np.where(good, ids_at, bound)
        ids = self.buffer.int32s(ids_at - 4)
        after = 4 * ids
        after += ids_at
        fits = after <= bound
        fits &= ids >= 0
        if good is not None or not fits.all():
            good = fits if good is None else fits & good
            slot, at, size, ids = slot[good], at[good], size[good], ids[good]
        self.name_at[slot] = at + 2
        self.name_size[slot] = size
        self.ids[slot] = ids
        return after, good

    def _one(self, at: int, slot: int, last: int, bound: int) -> int:
        """The rest of one list; the byte after it, -1 where it is refused."""
        raw, parts = self.buffer.raw, []
        for _ in range(slot, last):
            size = raw[at] << 8 | raw[at + 1]
            ids_at = at + size + 6
            if ids_at > bound or size > MAX_STRING:
                return -1
            ids = int.from_bytes(raw[ids_at - 4 : ids_at], "big")
            if ids_at + 4 * ids > bound:  # a negative number is huge without its sign
                return -1
            parts.append((at + 2, size, ids))
            at = ids_at + 4 * ids
        if parts:
            self.name_at[slot:last], self.name_size[slot:last], self.ids[slot:last] = zip(*parts, strict=True)
        return at


# -- names -------------------------------------------------------------------------------------------------------------


def number_names(buffer: Buffer, at: Ints, size: Ints, known: Mapping[bytes, int]) -> Ints:
    """(E,) the number of each name that stands at ``at`` (E,) in ``size`` (E,) bytes; -1 where it is not known.

    known
        Names as bytes to their numbers. A name that is no UTF-8 may be known in another spelling of the same text.
    """
    numbers = np.full(len(at), NOBODY, dtype=np.int64)
    if not len(at):
        return numbers
    by_size: dict[int, list[tuple[bytes, int]]] = {}
    for name, number in known.items():
        by_size.setdefault(len(name), []).append((name, number))
    sizes = np.flatnonzero(np.bincount(size)).tolist()
    for n in sizes:
        if n in by_size:
            which = slice(None) if len(sizes) == 1 else np.flatnonzero(size == n)
            numbers[which] = _of_one_size(buffer, at[which], n, by_size[n])
    unknown = np.flatnonzero(numbers == NOBODY)
    if len(unknown):
        as_text = {text(name): number for name, number in known.items()}
        raw = buffer.raw
        numbers[unknown] = [
            as_text.get(text(raw[a : a + n]), NOBODY)
            for a, n in zip(at[unknown].tolist(), size[unknown].tolist(), strict=True)
        ]
    return numbers


def _of_one_size(buffer: Buffer, at: Ints, size: int, known: list[tuple[bytes, int]]) -> Ints:
    """The numbers of names of one size: a table by hash, and the names that lost their place in another."""
    sought = [_word(buffer, at + offset, size) for offset in _offsets(size)]
    names = Buffer([name for name, _ in known])
    where = np.arange(len(known)) * size
    words = [_word(names, where + offset, size) for offset in _offsets(size)]
    of_name = np.array([number for _, number in known], dtype=np.int64)
    bits = max(6, (4 * len(known)).bit_length())
    numbers, open_names, open_at = np.full(len(at), NOBODY, dtype=np.int64), np.arange(len(known)), np.arange(len(at))
    for mix in _MIX:
        table = np.zeros(1 << bits, dtype=np.int64)
        slots = _slots([word[open_names] for word in words], mix, bits)
        table[slots] = open_names
        some = [word[open_at] for word in sought] if len(open_at) < len(at) else sought
        candidate = table[_slots(some, mix, bits)]
        same = np.ones(len(candidate), dtype=np.bool_)
        for word, of_known in zip(some, words, strict=True):
            same &= of_known[candidate] == word
        numbers[open_at[same]] = of_name[candidate[same]]
        open_at, open_names = open_at[~same], open_names[table[slots] != open_names]
        if not len(open_at) or not len(open_names):
            return numbers
    rest = {known[n][0]: known[n][1] for n in open_names.tolist()}
    numbers[open_at] = [rest.get(buffer.raw[a : a + size], NOBODY) for a in at[open_at].tolist()]
    return numbers


def _offsets(size: int) -> list[int]:
    """Where words of eight bytes begin that together are the whole name."""
    return [*range(0, size - 7, 8), size - 8] if size > 8 and size % 8 else list(range(0, max(size, 1), 8))


def _word(buffer: Buffer, at: Ints, size: int) -> NDArray[np.uint64]:
    """Eight bytes at each place, or as many as a shorter name has."""
    words: NDArray[np.uint64] = buffer.word[at].astype(np.uint64)
    return words if size >= 8 else words & np.uint64((1 << 8 * size) - 1)


def _slots(words: list[NDArray[np.uint64]], mix: np.uint64, bits: int) -> NDArray[np.int64]:
    """A place in the table for each name; sums and products wrap at 64 bits."""
    mixed = words[0] * mix
    for word in words[1:]:
        mixed ^= mixed >> np.uint64(29)
        mixed += word
        mixed *= mix
    mixed ^= mixed >> np.uint64(32)
    mixed *= mix
    return (mixed >> np.uint64(64 - bits)).astype(np.int64)

"""Lists of (topic, partition ids) of many members read at once, from bytes into arrays and back.

A leader reads a list from every member and a list has a part for every topic that a member owns: hundreds of thousands
of parts, whose places are known only one after the other. But the members' lists do not depend on each other: so the
n-th part of every list is read in one step, by NumPy, and the steps are as many as the longest list has parts. Where
few lists are left, a plain loop is quicker. Where the names are known that members can own, the places at which a part
can begin are sought first, in one pass over all bytes: if they follow on each other without a gap from the beginning to
the end of every list, they are the parts, and no step is needed. Nothing is believed before it was seen to fit, exactly
as in ``partitions.read_held``, which is the reference: a list is refused here if and only if it is refused there.

Numbers that stand anywhere in a buffer are read through windows: arrays over the buffer that begin at every byte.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from apportion.arrays import NOBODY, Bools, Ints
from apportion.wire.primitives import MAX_STRING, MAX_TOPIC, text

_PAD: Final = 8
"""Bytes behind the buffer, so that every window of a number begins inside."""
_FEW: Final = 48
"""Lists; below, a step in NumPy costs more than the parts one by one."""
_SOUGHT_LISTS_MAX: Final = 1_500
"""Lists up to which one look at all bytes is quicker than a step for each part of the longest."""
_SOUGHT_MAX: Final = 6
"""Different bytes up to which comparing with each is quicker than looking each byte up."""
_MIX: Final = tuple(
    np.uint64(odd) for odd in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93)
)
"""Odd multipliers that spread names over a table, one for each try."""
_TABLE_KEPT_NAMES: Final = 4_096
_TABLE_KEPT_BYTES: Final = 1 << 17
"""Names, and bytes if all were as long as the longest, up to which their table is kept."""
_FIRST_BYTES: Final = np.array([(1 << 8 * n) - 1 for n in range(9)], dtype=np.uint64)
"""What leaves the first n bytes of a word."""


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
        return self.first[1:] - self.first[:-1]

    @property
    def list_of(self) -> Ints:
        """(E,) the list of each part."""
        return np.arange(len(self.stop)).repeat(self.count)

    def numbers(self, buffer: Buffer) -> Ints:
        """(C,) all partition ids, part by part."""
        at = self.name_at + self.name_size
        at += 4
        if len(at) and self.ids.min() == 1 == self.ids.max():
            return buffer.int32s(at)
        at = (at - 4 * (self.ids.cumsum() - self.ids)).repeat(self.ids)
        at += 4 * np.arange(len(at))
        return buffer.int32s(at)


def read_held_lists(buffer: Buffer, begin: Ints, end: Ints, names: Collection[bytes] = ()) -> HeldLists:
    """Read the list that begins at each of ``begin`` (N,) and must not pass ``end`` (N,), both inside the buffer.

    names
        Those that the lists are likely to have, if that is known.
    """
    room = end - begin - 4
    count = buffer.int32s(begin)
    # A part takes six bytes at least: an int16 length and an int32 count.
    refused = (count < 0) | (6 * count > room)
    if refused.any():
        count, names = np.where(refused, 0, count), ()  # parts are sought where all lists are good
    first = np.zeros(len(begin) + 1, dtype=np.int64)
    count.cumsum(out=first[1:])
    if names and len(begin) <= _SOUGHT_LISTS_MAX and int(first[-1]) > _FEW:
        sought = _sought(buffer, begin, end, first, names)
        if sought is not None:
            return sought
    walk = _Walk(buffer, int(first[-1]))
    stop = np.where(refused, -1, begin + 4)
    walk.all(count.nonzero()[0], first[:-1], count, stop, end)
    lists = HeldLists(first, walk.name_at, walk.name_size, walk.ids, stop)
    return _without_refused(lists) if (stop < 0).any() else lists


def _sought(buffer: Buffer, begin: Ints, end: Ints, first: Ints, names: Collection[bytes]) -> HeldLists | None:
    """The lists, with ``first`` (N + 1,) by their own counts, where all are good and have these names; None elsewhere.

    A number or a rack may look like a part's beginning. Inside of a list it would break the chain, and the steps are
    taken after all; outside it is skipped, as each list's first part is known.
    """
    parts, count = int(first[-1]), first[1:] - first[:-1]
    at = _beginnings(buffer, names)
    if len(at) < parts:
        return None
    if len(at) > parts:
        skipped = at.searchsorted(begin + 4) - first[:-1]
        at = at.take(skipped.repeat(count) + np.arange(parts), mode="clip")
    size = buffer.uint16s(at)
    ids_at = at + size
    ids_at += 2
    if int(ids_at.max()) > buffer.size:
        return None
    ids = buffer.int32s(ids_at)
    after = 4 * ids
    after += ids_at
    after += 4
    full = count.nonzero()[0]
    begins, last = first[full], first[full + 1] - 1
    stop = begin + 4
    follows = np.empty(parts, dtype=np.bool_)
    np.equal(at[1:], after[:-1], out=follows[1:])
    follows[begins] = at[begins] == stop[full]
    stop[full] = after[last]
    if not follows.all() or int(ids.min()) < 0 or (stop > end).any():
        return None
    return HeldLists(first, at + 2, size, ids, stop)


def _beginnings(buffer: Buffer, names: Collection[bytes]) -> Ints:
    """Every place where the length of one of the names stands, and after it how one of them begins, ascending."""
    raw, size = np.frombuffer(buffer.raw, np.uint8), buffer.size
    sizes = set(map(len, names))
    # Where a name has less than two bytes, any will do behind it.
    firsts, seconds = (set(map(itemgetter(n), names)) if min(sizes) > n else None for n in (0, 1))
    there = raw[:size] == 0  # longer names than of 255 bytes are read in steps
    there &= _is_one_of(raw[1 : size + 1], {n for n in sizes if 0 < n < 1 << 8})
    if firsts is not None:
        there &= _is_one_of(raw[2 : size + 2], firsts)
    at = there.nonzero()[0]
    # A byte of a number may look like all that; a second letter behind it is never there by chance.
    beginnings: Ints = at if seconds is None else at[_is_one_of(raw[at + 3], seconds)]
    return beginnings


def _is_one_of(values: NDArray[np.uint8], sought: Collection[int]) -> Bools:
    """(N,) whether each byte is among these."""
    if len(sought) > _SOUGHT_MAX:
        table = np.zeros(1 << 8, dtype=np.bool_)
        table[list(sought)] = True
        return table[values]
    is_one: Bools | None = None
    for one in sought:
        is_one = values == one if is_one is None else np.logical_or(is_one, values == one, out=is_one)
    return np.zeros(len(values), dtype=np.bool_) if is_one is None else is_one


def _without_refused(lists: HeldLists) -> HeldLists:
    """The lists without what was read of refused lists before they were refused."""
    counts = lists.count
    keep = np.repeat(lists.stop >= 0, counts)
    counts[lists.stop < 0] = 0
    first = np.concatenate([[0], counts.cumsum()])
    return HeldLists(first, lists.name_at[keep], lists.name_size[keep], lists.ids[keep], lists.stop)


class _Walk:
    """The parts of all lists, read step by step."""

    def __init__(self, buffer: Buffer, parts: int) -> None:
        self.buffer = buffer
        self.name_at, self.name_size, self.ids = (np.zeros(parts, dtype=np.int64) for _ in range(3))

    def all(self, lists: Ints, first: Ints, count: Ints, stop: Ints, end: Ints) -> None:
        """Read the lists whose numbers are given; ``stop`` (N,) is where each goes on, at last where it ends."""
        if len(lists) > _FEW:
            order = np.argsort(-count[lists], kind="stable")  # those that end first stand last
            lists = lists[order]
        at, slot, last, bound = stop[lists], first[lists], first[lists] + count[lists], end[lists]
        fits: Bools | None
        if len(lists) > _FEW and (fitting := self._believed(at, last - slot, slot, bound)) is not None:
            at, slot = fitting
            stop[lists] = at
            more = (slot != last).nonzero()[0]
            lists, at, slot, last, bound = lists[more], at[more], slot[more], last[more], bound[more]
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

    def _believed(self, at: Ints, count: Ints, slot: Ints, bound: Ints) -> tuple[Ints, Ints] | None:
        """Read steps of all lists, longest first, and judge afterwards; None where anything does not fit.

        Lengths that are not negative only lead forward. So where no length is negative and each list's last part ends
        inside its bound, all its parts do, and every number was read where it stands.
        Returns where each list goes on, in bytes and in parts.
        """
        steps = np.arange(int(count[0]))
        active = len(at) - np.searchsorted(count[::-1], steps, side="right")
        active = active[active > _FEW]
        uint16, int32 = self.buffer.uint16, self.buffer.int32[2:]
        # Whole arrays of one number: NumPy takes longer to make one of it at each step than to add or multiply.
        four, six = np.full(len(at), 4), np.full(len(at), 6)
        places, sizes, ids, ended = [], [], [], []
        try:
            for n in active.tolist():
                if n < len(at):
                    ended.append(at[n:])
                    at, four, six = at[:n], four[:n], six[:n]
                size = uint16[at]
                ids_at = at + size
                several = int32[ids_at]
                places.append(at)
                sizes.append(size)
                ids.append(several)
                at = several * four
                at += ids_at
                at += six
        except IndexError:
            return None
        if not places:
            return at, slot
        size, several = np.concatenate(sizes).astype(np.int64), np.concatenate(ids).astype(np.int64)
        reached = np.concatenate([at, *ended[::-1]])
        if int(size.max()) > MAX_STRING or int(several.min()) < 0 or (reached > bound).any():
            return None
        lists = np.arange(len(size)) - np.repeat(active.cumsum() - active, active)
        into = slot[lists] + steps[: len(active)].repeat(active)
        self.name_at[into] = np.concatenate(places) + 2
        self.name_size[into] = size
        self.ids[into] = several
        return reached, slot + np.minimum(count, len(active))

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
    if not len(at):
        return np.empty(0, dtype=np.int64)
    numbers = _of_known(buffer, at, size, known)
    unknown = (numbers == NOBODY).nonzero()[0]
    if len(unknown):
        as_text = {text(name): number for name, number in known.items()}
        raw = buffer.raw
        numbers[unknown] = [
            as_text.get(text(raw[a : a + n]), NOBODY)
            for a, n in zip(at[unknown].tolist(), size[unknown].tolist(), strict=True)
        ]
    return numbers


def _of_known(buffer: Buffer, at: Ints, size: Ints, known: Mapping[bytes, int]) -> Ints:
    """The numbers of names of the very bytes: a table by hash, and the names that lost their place in another."""
    numbers = np.full(len(at), NOBODY, dtype=np.int64)
    longest = max(map(len, known), default=0)
    if longest > MAX_TOPIC:  # no topic's: one member's word alone would have thousands of words read at each place
        known, longest = {name: number for name, number in known.items() if len(name) <= MAX_TOPIC}, MAX_TOPIC
    if not known:
        return numbers
    is_small = len(known) <= _TABLE_KEPT_NAMES and len(known) * longest <= _TABLE_KEPT_BYTES
    names = _table_of(tuple(known)) if is_small else _NameTable(tuple(known))
    of_name = np.fromiter(known.values(), np.int64, len(known))
    open_at = np.arange(len(at))
    words = _words(buffer, at, size, names.most)
    for mix, table in names.tables:
        all_open = len(open_at) == len(at)
        some, its_size = (words, size) if all_open else ([word[open_at] for word in words], size[open_at])
        candidate = table[_slots(some, its_size, mix, names.bits)]
        same = names.size[candidate] == its_size
        for word, of_known in zip(some, names.words, strict=True):
            same &= of_known[candidate] == word
        if all_open and same.all():
            return of_name[candidate]
        numbers[open_at[same]] = of_name[candidate[same]]
        open_at = open_at[~same]
    if names.lost:
        numbers[open_at] = [
            NOBODY if (number := names.lost.get(buffer.raw[a : a + n])) is None else int(of_name[number])
            for a, n in zip(at[open_at].tolist(), size[open_at].tolist(), strict=True)
        ]
    return numbers


class _NameTable:
    """Names by hash: a table of their numbers, another one for those that lost their place in it, and so on.

    tables
        Each with the multiplier by which its names were spread.
    lost
        Names without a place in any.
    """

    def __init__(self, names: tuple[bytes, ...]) -> None:
        buffer = Buffer(names)
        self.size = np.fromiter(map(len, names), np.int64, len(names))
        self.most = int(self.size.max())
        self.words = _words(buffer, self.size.cumsum() - self.size, self.size, self.most)
        self.bits = max(6, min(16, 2 * len(names).bit_length()), (4 * len(names)).bit_length())
        self.tables: list[tuple[np.uint64, Ints]] = []
        number = np.arange(len(names))
        for mix in _MIX:
            table = np.zeros(1 << self.bits, dtype=np.int64)
            slots = _slots([word[number] for word in self.words], self.size[number], mix, self.bits)
            table[slots] = number
            self.tables.append((mix, table))
            number = number[table[slots] != number]
            if not len(number):
                break
        self.lost = {names[n]: n for n in number.tolist()}


_table_of: Final = lru_cache(maxsize=2)(_NameTable)
"""Most groups want the topics that they wanted the last time."""


def _words(buffer: Buffer, at: Ints, size: Ints, most: int) -> list[NDArray[np.uint64]]:
    """Words of eight bytes that together are the whole of each name up to ``most`` bytes, the last ones first.

    A shorter name has one word, with zeros behind it, and repeats it.
    """
    last = np.maximum(size - 8, 0)
    words: list[NDArray[np.uint64]] = [buffer.word[at + last].astype(np.uint64)]
    short = size < 8
    if short.any():
        words[0] &= _FIRST_BYTES[np.minimum(size, 8)]
    for offset in range(0, most - 8, 8):
        word = buffer.word[at + np.minimum(last, offset)].astype(np.uint64)
        words.append(np.where(short, words[0], word))
    return words


def _slots(words: list[NDArray[np.uint64]], size: Ints, mix: np.uint64, bits: int) -> NDArray[np.int64]:
    """A place in the table for each name; sums and products wrap at 64 bits."""
    mixed = words[0] + size.view(np.uint64)
    mixed *= mix
    for word in words[1:]:
        mixed ^= mixed >> np.uint64(29)
        mixed += word
        mixed *= mix
    mixed ^= mixed >> np.uint64(32)
    mixed *= mix
    return (mixed >> np.uint64(64 - bits)).astype(np.int64)

"""Lists of (topic, partition ids) of many members read at once, from bytes into arrays and back.

A leader reads a list from every member and a list has a part for every topic that a member owns: hundreds of thousands
of parts, whose places are known only one after the other. But the members' lists do not depend on each other: so the
n-th part of every list is read in one step, by NumPy, and the steps are as many as the longest list has parts. Where
few lists are left, or any is malformed, a plain loop reads them one by one. What was read in steps is judged
afterwards, exactly as ``partitions.read_held`` judges, which is the reference: it refuses what is refused here.

Numbers that stand anywhere in a buffer are read through windows: arrays over the buffer that begin at every byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from apportion.arrays import NOBODY, Ints, ints
from apportion.wire.primitives import MAX_STRING, MAX_TOPIC, text

_PAD: Final = 8
"""Bytes behind the buffer, so that every window of a number begins inside."""
_FIRST_BYTES: Final = np.array([(1 << 8 * n) - 1 for n in range(9)], dtype=np.uint64)
"""What leaves the first n bytes of a word."""
_ODD: Final = np.uint64(0x9E3779B97F4A7C15)
"""A multiplier that spreads words over 64 bits."""
_FEW: Final = 48
"""Lists; below, a step in NumPy costs more than the parts one by one."""


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


def read_held_lists(buffer: Buffer, begin: Ints, end: Ints) -> HeldLists:
    """Read the list that begins at each of ``begin`` (N,) and must not pass ``end`` (N,), both inside the buffer."""
    room = end - begin - 4
    count = buffer.int32s(begin)
    # A part takes six bytes at least: an int16 length and an int32 count.
    refused = (count < 0) | (6 * count > room)
    if refused.any():
        count = np.where(refused, 0, count)
    first = np.zeros(len(begin) + 1, dtype=np.int64)
    count.cumsum(out=first[1:])
    walk = _Walk(buffer, int(first[-1]))
    stop = np.where(refused, -1, begin + 4)
    walk.all(count.nonzero()[0], first[:-1], count, stop, end)
    lists = HeldLists(first, walk.name_at, walk.name_size, walk.ids, stop)
    return _without_refused(lists) if (stop < 0).any() else lists


def _without_refused(lists: HeldLists) -> HeldLists:
    """The lists without the entries that were read of refused lists before the refusal."""
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
        lists = lists[np.argsort(-count[lists], kind="stable")]  # those that end first stand last
        at, slot, last, bound = stop[lists], first[lists], first[lists] + count[lists], end[lists]
        if len(lists) > _FEW and (fitting := self._believed(at, last - slot, slot, bound)) is not None:
            at, slot = fitting
            stop[lists] = at
            more = (slot != last).nonzero()[0]
            lists, at, slot, last, bound = lists[more], at[more], slot[more], last[more], bound[more]
        places = (lists, at, slot, last, bound)
        for number, *span in zip(*(column.tolist() for column in places), strict=True):
            stop[number] = self._one(*span)

    def _believed(self, at: Ints, count: Ints, slot: Ints, bound: Ints) -> tuple[Ints, Ints] | None:
        """Read steps of all lists, longest first, and judge afterwards; None if anything does not fit.

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

    def _one(self, at: int, slot: int, last: int, bound: int) -> int:
        """The rest of one list; the byte after it, -1 if it is refused."""
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
    """(E,) the number of each name that is at ``at`` (E,) in ``size`` (E,) bytes; -1 if it is not known.

    Names are found by a key of 64 bits and compared word by word: a name as bytes of its own takes three times as long.

    known
        Names as bytes to their numbers. A name that is no UTF-8 may be known in another spelling of the same text.
    """
    numbers = np.full(len(at), NOBODY, dtype=np.int64)
    topics = [name for name in known if len(name) <= MAX_TOPIC]  # else one name would make words of 32 KB for each
    if topics and len(at):
        sizes = ints(list(map(len, topics)))
        theirs = _words(Buffer(topics), sizes.cumsum() - sizes, sizes, int(sizes.max()))
        words = _words(buffer, at, size, int(sizes.max()))
        keys = _keys(theirs, sizes)
        order = keys.argsort()
        topic_at = order[np.minimum(keys[order].searchsorted(_keys(words, size)), len(topics) - 1)]
        same = sizes[topic_at] == size
        for word, of_topic in zip(words, theirs, strict=True):
            same &= word == of_topic[topic_at]
        numbers[same] = ints([known[name] for name in topics])[topic_at[same]]
    longer = (numbers == NOBODY).nonzero()[0].tolist()
    if longer:
        names = [buffer.raw[at[e] : at[e] + size[e]] for e in longer]
        as_text = {text(name): number for name, number in known.items()}
        numbers[longer] = [known.get(name, as_text.get(text(name), NOBODY)) for name in names]
    return numbers


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


def _keys(words: list[NDArray[np.uint64]], size: Ints) -> NDArray[np.uint64]:
    """A number for each name, by its words and size; sums and products wrap at 64 bits."""
    key = size.view(np.uint64)
    for word in words:
        key = key * _ODD + word
    return key

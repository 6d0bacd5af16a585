"""All members' assignments, written at once: the bytes of every assignment from arrays.

Where each number and name goes follows from the sizes alone, so everything of one kind is put into its places in one
step. The bytes are those of ``assignment.write_assignment``, which is the reference.

A leader's whole call takes 4.6 ms with it and 15 without (1,000 members, 10,000 partitions), 15 and 56 with 50,000.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.arrays import Ints, ints
from apportion.wire.assignment import NEWEST
from apportion.wire.primitives import MAX_STRING

_ONE = ints([1])
_HEAD = 6
"""Bytes before a member's topics: the version and their number."""


def write_assignments(
    topics: Sequence[str], topic: Ints, number: Ints, held: Ints, user_data: bytes | None = None
) -> list[bytes]:
    """The assignment of each of M members, version 3.

    topic, number
        (C,) topic and id of each partition that is given, by member, then in the order of their bytes; a member's
        partitions of one topic stand together.
    held
        (M,) how many of them each member gets.
    user_data
        What every member gets beside.
    """
    if not len(held):
        return []
    tail = _tail(user_data)
    first, part_end = _parts(topic, held)
    of_topic = topic if len(first) == len(topic) else topic[first]
    names = _Names(topics)
    size = names.size[of_topic]
    ids = _ONE
    if len(first) < len(topic):
        ids = -first
        ids[:-1] += first[1:]
        ids[-1] += len(topic)
    stop = np.zeros(len(first) + 1, dtype=np.int64)
    (size + (6 + 4 * ids)).cumsum(out=stop[1:])
    # Before a member's parts stand the heads of all so far, and the tails of those before.
    around = np.arange(1, len(held) + 1) * (_HEAD + len(tail))
    ends = stop[part_end] + around
    parts = part_end.copy()
    parts[1:] -= part_end[:-1]
    ids_at = stop[1:] - 4 * ids
    ids_at += (around - len(tail)).repeat(parts)
    out = np.empty(int(ends[-1]) + 8, dtype=np.uint8)
    begin = np.zeros(len(held), dtype=np.int64)
    begin[1:] = ends[:-1]
    int32 = _window(out, ">i4", 4)
    _window(out, ">i2", 2)[begin] = NEWEST
    int32[begin + 2] = parts
    _window(out, f"V{len(tail)}", len(tail))[ends - len(tail)] = np.frombuffer(tail, dtype=f"V{len(tail)}")
    names.write(out, ids_at - (size + 6), of_topic, size)
    int32[ids_at - 4] = ids
    if len(first) < len(topic):
        ids_at = (ids_at - 4 * first).repeat(ids)
        ids_at += 4 * np.arange(len(topic))
    int32[ids_at] = number
    raw = out.tobytes()
    return [raw[low:high] for low, high in pairwise([0, *ends.tolist()])]


def _tail(user_data: bytes | None) -> bytes:
    return b"\xff\xff\xff\xff" if user_data is None else len(user_data).to_bytes(4, "big") + user_data


def _too_long(size: int) -> ValueError:
    return ValueError(f"a topic's name of {size} bytes; Kafka allows {MAX_STRING}")


def _parts(topic: Ints, held: Ints) -> tuple[Ints, Ints]:
    """The start of each part (E,): a member's partitions of one topic; and how many there are up to each member."""
    ends = held.cumsum()
    begins = np.ones(len(topic) + 1, dtype=np.bool_)
    np.not_equal(topic[1:], topic[:-1], out=begins[1:-1])
    begins[ends] = True
    first = begins[:-1].nonzero()[0]
    return first, first.searchsorted(ends)


class _Names:
    """The names of topics with their int16 lengths before them, all of one size together.

    size, rank
        (T,) bytes of each name, and its place among the names of its size.
    by_length
        Size to the names of that size, as one array; none where it is too large to be written.
    """

    def __init__(self, topics: Sequence[str]) -> None:
        same_length: dict[int, list[bytes]] = {}
        ranks = []
        encoded = [topic.encode() for topic in topics]
        for name in encoded:
            same = same_length.setdefault(len(name), [])
            ranks.append(len(same))
            same.append(name)
        self.size = ints(list(map(len, encoded)))
        self.rank = ints(ranks)
        self.by_length = {n: _with_length(n, names) for n, names in same_length.items() if n <= MAX_STRING}

    def write(self, out: NDArray[np.uint8], at: Ints, of_topic: Ints, size: Ints) -> None:
        """Put each part's name to its place, all names of one size together."""
        if int(size.max(initial=0)) > MAX_STRING:
            raise _too_long(int(size.max()))
        position = self.rank[of_topic]
        for n, names in self.by_length.items():
            which = (size == n).nonzero()[0]
            _window(out, f"V{n + 2}", n + 2)[at[which]] = names[position[which]]


def _with_length(size: int, names: Sequence[bytes]) -> NDArray[Any]:
    """Names of one size, each with its length before it."""
    length = size.to_bytes(2, "big")
    return np.frombuffer(length + length.join(names), dtype=f"V{size + 2}")


def _window(out: NDArray[np.uint8], kind: str, size: int) -> NDArray[Any]:
    """The buffer as values of this kind that begin at every byte."""
    return np.ndarray((max(len(out) - size + 1, 0),), kind, out, 0, (1,))

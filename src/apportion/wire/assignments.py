"""What all members are told, written at once: the bytes of every assignment from arrays.

Where each number and name goes follows from the sizes alone, so everything of one kind is put into its places in one
step. The bytes are those of ``assignment.write_assignment``, which is the reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.arrays import Ints
from apportion.wire.assignment import NEWEST
from apportion.wire.primitives import MAX_STRING

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
    tail = b"\xff\xff\xff\xff" if user_data is None else len(user_data).to_bytes(4, "big") + user_data
    member = np.repeat(np.arange(len(held)), held)
    begins = np.ones(len(topic), dtype=np.bool_)
    begins[1:] = (topic[1:] != topic[:-1]) | (member[1:] != member[:-1])
    first = np.flatnonzero(begins)
    of_topic, ids = topic[first], np.diff(first, append=len(topic))
    names = _Names(topics, of_topic)
    parts = np.bincount(member[first], minlength=len(held))
    size = names.size[of_topic]
    stop = np.cumsum(size + 6 + 4 * ids) + (member[first] + 1) * _HEAD + member[first] * len(tail)
    ids_at = stop - 4 * ids
    # Where the last part of each member stops, its user data begin; a member without parts has a head alone.
    sizes = np.concatenate([[0], np.cumsum(size + 6 + 4 * ids)])[np.cumsum(parts)]
    tail_at = sizes + np.arange(1, len(held) + 1) * _HEAD + np.arange(len(held)) * len(tail)
    ends = tail_at + len(tail)
    out = np.empty(int(ends[-1]) + 8, dtype=np.uint8)
    begin = np.concatenate([[0], ends[:-1]])
    _window(out, ">i2", 2)[begin] = NEWEST
    _window(out, ">i4", 4)[begin + 2] = parts
    _window(out, f"V{len(tail)}", len(tail))[tail_at] = np.frombuffer(tail, dtype=f"V{len(tail)}")
    names.write(out, ids_at - 6 - size, of_topic)
    int32 = _window(out, ">i4", 4)
    int32[ids_at - 4] = ids
    if len(first) == len(topic):
        int32[ids_at] = number
    else:
        position = np.repeat(ids_at - 4 * first, ids)
        position += 4 * np.arange(len(topic))
        int32[position] = number
    raw = out.tobytes()
    return [raw[low:high] for low, high in pairwise([0, *ends.tolist()])]


class _Names:
    """The names that are written, with their int16 lengths before them."""

    def __init__(self, topics: Sequence[str], of_topic: Ints) -> None:
        used = np.flatnonzero(np.bincount(of_topic, minlength=len(topics))).tolist()
        names = [topics[t].encode() for t in used]
        self.size = np.zeros(len(topics), dtype=np.int64)
        self.size[used] = list(map(len, names))
        self.rank = np.zeros(len(topics), dtype=np.int64)
        """Each topic's place among the names of its size."""
        self.alike: dict[int, list[bytes]] = {}
        for t, name in zip(used, names, strict=True):
            alike = self.alike.setdefault(len(name), [])
            self.rank[t] = len(alike)
            alike.append(name)
        if self.size.max(initial=0) > MAX_STRING:
            raise ValueError(f"a topic's name of {self.size.max()} bytes; Kafka allows {MAX_STRING}")

    def write(self, out: NDArray[np.uint8], at: Ints, of_topic: Ints) -> None:
        """Put each part's name to its place, all names of one size together."""
        size, position = self.size[of_topic], self.rank[of_topic]
        for n, alike in self.alike.items():
            length = n.to_bytes(2, "big")
            names = np.frombuffer(length + length.join(alike), dtype=f"V{n + 2}")
            which: Any = slice(None) if len(self.alike) == 1 else np.flatnonzero(size == n)
            _window(out, f"V{n + 2}", n + 2)[at[which]] = names[position[which]]


def _window(out: NDArray[np.uint8], kind: str, size: int) -> NDArray[Any]:
    """The buffer as values of this kind that begin at every byte."""
    return np.ndarray((max(len(out) - size + 1, 0),), kind, out, 0, (1,))

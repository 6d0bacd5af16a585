"""The order in which java.util.HashMap hands on its entries, for member ids, topic ids and small integers.

Kafka's coordinator keeps members, topics and partitions in hash maps and gives in their order. That order is no
accident: ``hashCode`` of strings, UUIDs and integers is specified, and the table of ``HashMap`` is a power of two that
doubles when it is three quarters full. An entry's bin is its hash, its upper half folded into its lower, modulo the
table's size. Bins come in ascending order, and inside a bin entries come in the order in which they were put, which a
doubling keeps. Two things are known only by living through them, and the caller has to try both ways: in which order
colliding entries were put, and how large a table is that a collection was copied into at a size of exactly three
quarters of a power of two, since that changed between Java 17 and 21 (JDK-8284780).

A ninth entry of one bin doubles a table below 64 bins and makes a tree of the bin in a larger one. A tree's order is
not modelled; ``BinOrder.trees`` says that there is one. Source: OpenJDK, ``java.util.HashMap``; Kafka, ``Uuid``.
"""

from __future__ import annotations

import base64
import binascii
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from apportion.arrays import Ints
from apportion.solvers.dealing import stable_order

INITIAL_BINS: Final = 16
LOAD_FACTOR: Final = 0.75
TREE_ENTRIES: Final = 9
"""Entries of one bin that make a tree of it."""
TREE_BINS: Final = 64
"""In a smaller table they double it instead."""
_LOW32: Final = 0xFFFFFFFF
_TIMELINE: Final = -7046029254386353131 & 0xFFFFFFFFFFFFFFFF
_LOW64: Final = 0xFFFFFFFFFFFFFFFF


@lru_cache(maxsize=4096)
def string_hash(text: str) -> int:
    """``String.hashCode`` over UTF-16 units, as an unsigned 32-bit number.

    >>> string_hash("Aa") == string_hash("BB") == 2112
    True
    """
    value = 0
    for unit in memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H"):
        value = (31 * value + unit) & _LOW32
    return value


def string_hashes(texts: Sequence[str]) -> NDArray[np.uint32]:
    """``string_hash`` of many texts.

    >>> string_hashes(["Aa", "", "BB"])
    array([2112,    0, 2112], dtype=uint32)
    """
    whole = "".join(texts)
    if whole.isascii():
        units = np.frombuffer(whole.encode("ascii"), dtype=np.uint8).astype(np.uint32)
        lengths = np.array(list(map(len, texts)), dtype=np.int64)
    else:
        raw = [text.encode("utf-16-le", "surrogatepass") for text in texts]
        units = np.frombuffer(b"".join(raw), dtype="<u2").astype(np.uint32)
        lengths = np.array([len(name) // 2 for name in raw], dtype=np.int64)
    hashes = np.zeros(len(texts), dtype=np.uint32)
    ends = np.cumsum(lengths)
    if not len(units):
        return hashes
    powers = np.full(int(lengths.max()), 31, dtype=np.uint32)
    powers[0] = 1
    powers = np.cumprod(powers, dtype=np.uint32)
    behind = np.repeat(ends, lengths) - np.arange(len(units)) - 1
    filled = np.flatnonzero(lengths)
    hashes[filled] = np.add.reduceat(units * powers[behind], (ends - lengths)[filled], dtype=np.uint32)
    return hashes


def timeline_ranks(hashes: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """``timeline_rank`` of many hash codes."""
    return hashes.astype(np.int32).astype(np.int64).astype(np.uint64) * np.uint64(_TIMELINE)


def small_bins(hashes: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The bin of each entry in a table of 16, which no more than eight entries make grow."""
    return (hashes ^ (hashes >> np.uint32(16))) & np.uint32(INITIAL_BINS - 1)


def uuid_words(text: str) -> tuple[int, int] | None:
    """The two signed 64-bit words of a topic id as Kafka prints it (22 characters of base64url); None if it is none.

    >>> uuid_words("AAAAAAAAAAEAAAAAAAAAAg")
    (1, 2)
    """
    try:
        raw = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    if len(raw) != 16:
        return None
    return int.from_bytes(raw[:8], "big", signed=True), int.from_bytes(raw[8:], "big", signed=True)


def uuid_hash(high: int, low: int) -> int:
    """``Uuid.hashCode`` of the two words, as an unsigned 32-bit number."""
    both = (high ^ low) & _LOW64
    return (both >> 32) ^ (both & _LOW32)


def timeline_rank(value: int) -> int:
    """The slot of an entry of this ``hashCode`` in Kafka's TimelineHashMap: it hands entries on by ascending ranks."""
    signed = value - (1 << 32) if value >> 31 else value
    return (signed * _TIMELINE) & _LOW64


@dataclass(frozen=True)
class BinOrder:
    """Entries as a hash map hands them on.

    positions
        Which entry comes first, second, ...: positions in the order of putting.
    trees
        Whether a bin holds, or held before the table grew, so many that Java makes a tree of it: its order is not known
        here, nor that of the bins that it was split into.
    """

    positions: tuple[int, ...]
    trees: bool


def bin_order(hashes: Sequence[int], bins: int = INITIAL_BINS, *, backwards: bool = False) -> BinOrder:
    """The order of entries that were put one after the other into a table of so many bins.

    hashes
        ``hashCode`` of each, unsigned, in the order of putting.
    bins
        A power of two; the table grows from it as Java's does.
    backwards
        Turn the order inside each bin round, as if they had been put the other way.

    >>> bin_order([3, 17, 1, 0]).positions  # 17 and 1 share a bin of sixteen
    (3, 1, 2, 0)
    """
    if len(hashes) == 1:
        return BinOrder((0,), trees=False)
    spread = [value ^ (value >> 16) for value in hashes]
    bins, trees = _grown(spread, bins)
    by_bin: dict[int, list[int]] = {}
    for position, value in enumerate(spread):
        by_bin.setdefault(value & (bins - 1), []).append(position)
    fullest = max(map(len, by_bin.values()), default=0)
    step = -1 if backwards else 1
    positions = tuple(position for bin_ in sorted(by_bin) for position in by_bin[bin_][::step])
    return BinOrder(positions, trees or fullest >= TREE_ENTRIES)


def _grown(spread: Sequence[int], bins: int) -> tuple[int, bool]:
    """The table's size in the end, and whether a bin may have been a tree before that."""
    in_bin: dict[int, int] = {}
    for count, value in enumerate(spread, 1):
        if bins >= TREE_BINS:  # from here on only the number of entries counts
            break
        bin_number = value & (bins - 1)
        in_bin[bin_number] = in_bin.get(bin_number, 0) + 1
        before = bins
        if in_bin[bin_number] >= TREE_ENTRIES:
            bins *= 2
        if count > bins * LOAD_FACTOR:  # of the table that a full bin may just have doubled
            bins *= 2
        if bins > before:
            in_bin = {}
            for earlier in spread[:count]:
                in_bin[earlier & (bins - 1)] = in_bin.get(earlier & (bins - 1), 0) + 1
    trees = False
    while len(spread) > bins * LOAD_FACTOR:
        in_bin = Counter([value & (bins - 1) for value in spread[: int(bins * LOAD_FACTOR) + 1]])
        trees = trees or max(in_bin.values()) >= TREE_ENTRIES
        bins *= 2
    return bins, trees


@lru_cache(maxsize=4096)
def copied_bins(entries: int, *, since_19: bool = False) -> int:
    """The table of ``new HashSet<>(collection)``: Java 17 adds one if the size is three quarters of a power of two.

    >>> copied_bins(12), copied_bins(12, since_19=True)
    (32, 16)
    """
    exact = np.float32(entries) / np.float32(LOAD_FACTOR)
    wanted = max(int(np.ceil(max(entries, 12) / LOAD_FACTOR)) if since_19 else int(exact) + 1, INITIAL_BINS)
    return 1 << (wanted - 1).bit_length()


def number_order(numbers: Ints, *, backwards: bool = False, since_19: bool = False) -> Ints | None:
    """Positions of ascending partition ids as a HashSet that they were copied into hands them on; None: as they are."""
    bins = copied_bins(len(numbers), since_19=since_19)
    if not len(numbers) or numbers[-1] < bins:
        return None
    if bins < TREE_BINS:
        return np.array(bin_order(numbers.tolist(), bins, backwards=backwards).positions, dtype=np.int64)
    # Partition ids are their own hash codes, and no bin makes a table of this size grow.
    bin_of = (numbers ^ (numbers >> 16)) & (bins - 1)
    return len(numbers) - 1 - stable_order(bin_of[::-1]) if backwards else stable_order(bin_of)

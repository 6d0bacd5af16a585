"""A topic's partitions on arrays where group.json has a list of entries: read like that list, and built from faster.

Tables have what is known of partitions in columns. As entries a million partitions are a million dictionaries, which is
most of what a group costs that is planned once. ``build`` and the history's steps look at the columns themselves;
whoever else reads the topic gets its entries one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, overload

import numpy as np

from apportion.arrays import UNKNOWN, Ints, Longs

OFFSETS: Final = ("begin", "end", "committed")
FIELDS: Final = ("partition", "racks", *OFFSETS)
"""What an entry may have."""


@dataclass(frozen=True, eq=False)
class TopicColumns(Sequence[Mapping[str, Any]]):
    """A topic's n partitions in any order.

    number
        (n,) ids, each once.
    begin, end, committed
        (n,) offsets; -1 unknown.
    rack_lists, racks_of
        Lists of racks, and (n,) which of them holds each partition's replicas; an empty one where that is unknown.
    """

    number: Ints
    begin: Longs
    end: Longs
    committed: Longs
    rack_lists: Sequence[tuple[str, ...]]
    racks_of: Ints

    def __len__(self) -> int:
        return len(self.number)

    @overload
    def __getitem__(self, at: int) -> Mapping[str, Any]: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Mapping[str, Any]]: ...
    def __getitem__(self, at: int | slice) -> Mapping[str, Any] | Sequence[Mapping[str, Any]]:
        if isinstance(at, slice):
            return self.take(np.arange(len(self))[at])
        entry: dict[str, Any] = {"partition": int(self.number[at])}
        if racks := self.rack_lists[int(self.racks_of[at])]:
            entry["racks"] = list(racks)
        for name in OFFSETS:
            if (offset := int(getattr(self, name)[at])) != UNKNOWN:
                entry[name] = offset
        return entry

    def take(self, at: Ints) -> TopicColumns:
        """Some of the partitions, in this order."""
        columns = {name: getattr(self, name)[at] for name in ("number", "racks_of", *OFFSETS)}
        return replace(self, **columns)

    @classmethod
    def together(cls, topics: Sequence[TopicColumns]) -> TopicColumns:
        """The partitions of several topics, one after the other; ids may then stand twice."""
        if len(topics) == 1:
            return topics[0]
        first = np.cumsum([0, *(len(one.rack_lists) for one in topics)])
        return cls(
            number=np.concatenate([one.number for one in topics]),
            begin=np.concatenate([one.begin for one in topics]),
            end=np.concatenate([one.end for one in topics]),
            committed=np.concatenate([one.committed for one in topics]),
            rack_lists=[racks for one in topics for racks in one.rack_lists],
            racks_of=np.concatenate([one.racks_of + n for one, n in zip(topics, first.tolist(), strict=False)]),
        )

    def racks(self) -> tuple[list[tuple[str, ...]], Ints]:
        """The lists of racks that some partition has, and (n,) which of them each one has."""
        count = np.bincount(self.racks_of, minlength=len(self.rack_lists))
        used = np.flatnonzero(count)
        rank = np.cumsum(count > 0) - 1
        return [self.rack_lists[n] for n in used.tolist()], rank[self.racks_of]

    def numbered(self, n: int, offsets: bool) -> TopicColumns | int:
        """Partitions 0 to n - 1 with what is known of them, offsets if asked for; n alone where that is nothing."""
        logs = OFFSETS if offsets else ()
        # An offset of 0 is as good as none where the topic has nothing else: no lag can follow from it.
        some = any((getattr(self, name) > 0).any() for name in logs)
        if not some and not any(self.racks()[0]):
            return n
        fits = (self.number >= 0) & (self.number < n)
        at = self.number[fits]

        def column(values: Longs, otherwise: int) -> Longs:
            wide = np.full(n, otherwise, dtype=np.int64)
            wide[at] = values[fits]
            return wide

        unknown = np.full(n, UNKNOWN, dtype=np.int64)
        return TopicColumns(
            number=np.arange(n),
            begin=column(self.begin, UNKNOWN) if offsets else unknown,
            end=column(self.end, UNKNOWN) if offsets else unknown,
            committed=column(self.committed, UNKNOWN) if offsets else unknown,
            rack_lists=[*self.rack_lists, ()],
            racks_of=column(self.racks_of, len(self.rack_lists)),
        )

"""The facts known about partitions, on arrays: made by ``build`` from the entries of group.json, or given.

Tables have columns already. As entries a million partitions are a million dictionaries, which is most of what a group
costs that is planned once. ``build`` and the history's steps look at the columns themselves; whoever else reads the
topic gets its entries one by one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, Final, overload

import numpy as np

from apportion.arrays import UNKNOWN, Floats, Ints, Longs, ints

OFFSETS: Final = ("begin", "end", "committed")


@dataclass(frozen=True, eq=False)
class TopicColumns(Sequence[Mapping[str, Any]]):
    """A topic's n partitions in any order.

    number
        (n,) ids, each once.
    begin, end, committed
        (n,) offsets; -1 unknown.
    rack_lists, racks_of
        Lists of racks, and (n,) which of them holds each partition's replicas; an empty one where that is unknown.
    lag, weight
        (n,) as entries have them, -1 and NaN unknown; None where no entry has any. Only ``of`` knows them.
    """

    number: Ints
    begin: Longs
    end: Longs
    committed: Longs
    rack_lists: Sequence[tuple[str, ...]]
    racks_of: Ints
    lag: Longs | None = None
    weight: Floats | None = None

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
        columns = {name: getattr(self, name) for name in ("number", "racks_of", *OFFSETS, "lag", "weight")}
        return replace(self, **{name: column[at] for name, column in columns.items() if column is not None})

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]]) -> TopicColumns:
        """Entries as group.json has them."""
        fields: set[str] = set().union(*rows)
        number_of: defaultdict[tuple[str, ...], int] = defaultdict()
        number_of.default_factory = number_of.__len__
        which = [number_of[tuple(racks or ())] for racks in column_of(rows, fields, "racks")]

        def offsets(name: str) -> Longs:
            if name not in fields:
                return np.full(len(rows), UNKNOWN)
            return ints([UNKNOWN if value is None else value for value in column_of(rows, fields, name)])

        weights = column_of(rows, fields, "weight") if "weight" in fields else None
        return cls(
            number=ints(column_of(rows, fields, "partition")),
            begin=offsets("begin"),
            end=offsets("end"),
            committed=offsets("committed"),
            rack_lists=list(number_of),
            racks_of=ints(which),
            lag=offsets("lag"),
            weight=None if weights is None else np.array([np.nan if w is None else w for w in weights], np.float64),
        )

    @classmethod
    def together(cls, topics: Sequence[TopicColumns]) -> TopicColumns:
        """The partitions of several topics, one after the other; ids may then occur twice."""
        if len(topics) == 1:
            return topics[0]
        first = np.cumsum([0, *(len(each.rack_lists) for each in topics)])
        return cls(
            number=np.concatenate([each.number for each in topics]),
            begin=np.concatenate([each.begin for each in topics]),
            end=np.concatenate([each.end for each in topics]),
            committed=np.concatenate([each.committed for each in topics]),
            rack_lists=[racks for each in topics for racks in each.rack_lists],
            racks_of=np.concatenate([each.racks_of + n for each, n in zip(topics, first.tolist(), strict=False)]),
            lag=np.concatenate([np.full(len(each), UNKNOWN) if each.lag is None else each.lag for each in topics]),
            weight=np.concatenate(
                [np.full(len(each), np.nan) if each.weight is None else each.weight for each in topics]
            ),
        )

    def racks(self) -> tuple[list[tuple[str, ...]], Ints]:
        """The lists of racks that some partition has, and (n,) which of them each one has."""
        count = np.bincount(self.racks_of, minlength=len(self.rack_lists))
        used = np.flatnonzero(count)
        rank = np.cumsum(count > 0) - 1
        return [self.rack_lists[n] for n in used.tolist()], rank[self.racks_of]

    def numbered(self, n: int, offsets: bool) -> TopicColumns | int:
        """Partitions 0 to n - 1 with their known facts, offsets if asked for; n alone if nothing is known."""
        logs = OFFSETS if offsets else ()
        # An offset of 0 is as good as none where the topic has nothing else: no lag can follow from it.
        has_offsets = any((getattr(self, name) > 0).any() for name in logs)
        if not has_offsets and not any(self.racks()[0]):
            return n
        fits = (self.number >= 0) & (self.number < n)
        at = self.number[fits]

        def column(values: Longs, otherwise: int) -> Longs:
            wide = np.full(n, otherwise)
            wide[at] = values[fits]
            return wide

        unknown = np.full(n, UNKNOWN)
        return TopicColumns(
            number=np.arange(n),
            begin=column(self.begin, UNKNOWN) if offsets else unknown,
            end=column(self.end, UNKNOWN) if offsets else unknown,
            committed=column(self.committed, UNKNOWN) if offsets else unknown,
            rack_lists=[*self.rack_lists, ()],
            racks_of=column(self.racks_of, len(self.rack_lists)),
        )


def column_of(rows: Sequence[Mapping[str, Any]], fields: AbstractSet[str], field: str) -> list[Any]:
    """One field of all rows, which have no others than ``fields``; None if it is missing."""
    if field not in fields:
        return [None] * len(rows)
    try:
        return list(map(itemgetter(field), rows))  # faster, where every row has the field
    except KeyError:
        return [row.get(field) for row in rows]

"""Which offsets at logs' ends are no messages, as far as somebody looked: kept from round to round."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from apportion.arrays import UNKNOWN, Bools, Longs
from apportion.history.lag_time import maybe_markers
from apportion.model.group import Group
from apportion.sources.log_tails import PLACES_MAX, Place, Tail

KEPT: Final = 100_000
"""Commits that were looked behind; beyond it, all are forgotten and looked at again."""


@dataclass(frozen=True, eq=False)
class ReadUpTo:
    """(P,) of one group: the offset up to which all is read.

    first
        The first offset that may be an unread message: the commit, or behind markers that follow it; -1 no commit.
    looked, message
        Whether the log was looked at there, and whether it is known to be a message.
    """

    first: Longs
    looked: Bools
    message: Bools

    @classmethod
    def of_commits(cls, group: Group) -> ReadUpTo:
        """The tails if no log was looked at."""
        none = np.zeros(group.P, dtype=np.bool_)
        committed = np.full(group.P, UNKNOWN) if group.offsets is None else group.offsets.committed.copy()
        return cls(committed, none, none.copy())

    def lag(self, committed: Longs, begin: Longs, end: Longs) -> Longs:
        """(P,) messages left if markers follow the commit; -1 elsewhere, but the offsets give."""
        known = (self.first > committed) & (begin != UNKNOWN) & (end != UNKNOWN)
        return np.where(known, np.maximum(end - np.maximum(self.first, begin), 0), UNKNOWN)


@dataclass
class Tails:
    """The tails behind commits, by topic: partition and committed offset to the tail, None if they may not be read.

    ask
        Looks at some logs from an offset each.
    """

    ask: Callable[[Mapping[Place, int]], Mapping[Place, Tail]]
    _of_topic: dict[str, dict[tuple[int, int], Tail | None]] = field(default_factory=dict)
    _before: dict[tuple[str, int, int], int] = field(default_factory=dict)
    _short: dict[tuple[str, int, int], int] = field(default_factory=dict)
    _wanted: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)

    def forget(self, topic: str) -> None:
        """The topic was recreated, or is gone."""
        self._of_topic.pop(topic, None)

    def of(self, group: Group) -> ReadUpTo:
        """The known facts about a group's partitions."""
        known = ReadUpTo.of_commits(group)
        for t, topic in enumerate(group.topics):
            mine = self._of_topic.get(topic)
            if not mine:
                continue
            span = group.partitions(t)
            for p, number, committed in zip(
                range(span.start, span.stop), group.number[span].tolist(), known.first[span].tolist(), strict=True
            ):
                tail = mine.get((number, committed))
                if tail is not None:
                    known.first[p], known.looked[p], known.message[p] = tail.first, True, tail.message
        return known

    def want(self, group: Group, known: ReadUpTo) -> None:
        """Ask for a look wherever a lag of one or two has not moved since the last look, and is not of a message."""
        if group.offsets is None:
            return
        short_lags = np.flatnonzero(
            maybe_markers(group.lag, known.message) & group.lag_known & (known.first != UNKNOWN)
        )
        for p in short_lags.tolist():
            topic, number = group.name_of(p)
            committed, end = int(group.offsets.committed[p]), int(group.offsets.end[p])
            key = topic, number, committed
            self._short[key] = end
            refused = (number, committed) in self._of_topic.get(topic, {}) and not known.looked[p]
            if self._before.get(key) == end and not refused and len(self._wanted) < PLACES_MAX:
                self._wanted[topic, number] = committed, int(known.first[p])

    def look(self) -> None:
        """Look at all places that were asked for since the last call."""
        places, self._wanted = self._wanted, {}
        self._before, self._short = self._short, {}
        if not places:
            return
        tail_of = self.ask({pair: first for pair, (_, first) in places.items()})
        if sum(map(len, self._of_topic.values())) > KEPT:
            self._of_topic.clear()
        for (topic, number), (committed, _) in places.items():
            self._of_topic.setdefault(topic, {})[number, committed] = tail_of.get((topic, number))

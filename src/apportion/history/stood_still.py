"""How long partitions stopped that eager members gave up at a rebalance only to get them again, as far as is known.

No record says when a member stops to read. Two moments that are recorded lie within that time: when all had joined, and
the assignment. Two lie outside: the last commit before, and the first after, since what is committed was read before it
stopped, or after it went on. So each partition has a lower and an upper bound, where the log has these.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TypeVar

from apportion.assignors import known
from apportion.history.cause import CommitInterval
from apportion.history.commits import TopicPartition
from apportion.history.rebalance_rows import Rebalance
from apportion.history.records import Generation
from apportion.model.protocols import CLASSIC
from apportion.strategy.traits import traits_of

Time = TypeVar("Time", int, tuple[int, int])


@dataclass(frozen=True, slots=True)
class Standstill:
    """How many partitions one rebalance stopped, and for how long, as far as the records show.

    partitions
        Eager: all that had an owner before and after. Else: those that another member has than before. Of the new
        protocol none: its records tell targets, not when members let go.
    at_least_ms
        Of each of them: eager, from all having joined to the assignment; cooperative, from the round that took a
        partition away to this one. None where no record tells.
    at_most_ms
        Of the median one, from its last commit before to its first after; None where commits are missing.
    silent_from
        When that last commit was (ms).
    """

    eager: bool
    partitions: int
    at_least_ms: int | None
    at_most_ms: int | None
    silent_from: int | None = None

    def columns(self, kind: str) -> dict[str, int | None]:
        """Its part in ``gold/rebalances`` and a replay; nothing is known of the new protocol."""
        return {"stopped": self.partitions if kind == CLASSIC else None, "stopped_ms": self.at_least_ms}


def standstills(
    generations: Sequence[Generation], rows: Sequence[Rebalance], commits: Sequence[CommitInterval] = ()
) -> dict[int, Standstill]:
    """Each rebalance's pauses, by the offset of its record."""
    eager = eager_offsets(generations, rows)
    silences: dict[int, Counter[tuple[int, int]]] = {}
    for offset, silence, since in _silences(generations, rows, commits, eager) if commits else ():
        silences.setdefault(offset, Counter())[silence, since] += 1
    result = {}
    at: int | None = None
    for row in rows:
        all_stop, offset = row.source_offset in eager, row.source_offset
        stopped = row.moved + row.inherited + (row.kept - row.handed if all_stop else 0) if row.kind == CLASSIC else 0
        least = row.duration_ms if all_stop else None
        if (
            row.kind == CLASSIC
            and row.handed
            and row.handed == row.moved
            and not row.inherited
            and at is not None
            and row.at >= at
        ):
            least = row.at - at
        silent = _median(silences[offset]) if offset in silences else (None, None)
        result[offset] = Standstill(all_stop, stopped, least if stopped else None, *silent)
        at = row.at
    return result


def eager_offsets(generations: Sequence[Generation], rows: Sequence[Rebalance]) -> set[int]:
    """Offsets of the classic generations at which members gave everything up.

    By offset: numbers begin anew in a group that was deleted. At a static member's return nobody gives anything up.
    """
    eager = {
        generation.offset for generation in generations if generation.kind == CLASSIC and is_eager(generation.protocol)
    }
    return eager - {row.source_offset for row in rows if row.generation == row.previous_generation}


def is_eager(protocol: str | None) -> bool:
    """Whether members give everything up at a rebalance; of a strategy that is not known here, False."""
    strategy = known().get(protocol or "")
    return strategy is not None and not traits_of(strategy).cooperative


def bounds(
    generations: Sequence[Generation],
    rows: Sequence[Rebalance],
    commits: Sequence[CommitInterval],
    eager: Collection[int],
) -> dict[str, int]:
    """The median partition's bounds in milliseconds, ``at_least`` and ``at_most``; unrecorded bounds are left out.

    rows
        Its rebalances.
    eager
        Offsets of the classic generations at which members gave everything up.
    """
    # Counted, not listed: a large group has millions of partitions that stayed, over all its rebalances.
    lows: Counter[int] = Counter()
    for row in rows:
        if row.kind == CLASSIC and row.source_offset in eager and row.duration_ms is not None:
            lows[row.duration_ms] += row.kept
    known = {"at_least": lows, "at_most": Counter(ms for _, ms, _ in _silences(generations, rows, commits, eager))}
    return {name: _median(times) for name, times in known.items() if times.total()}


def _median(times: Counter[Time]) -> Time:
    """The lower one of the two in the middle, of times that are counted."""
    ordered: list[Time] = sorted(times)
    middle = (times.total() - 1) // 2
    return ordered[bisect_right(list(accumulate(times[ms] for ms in ordered)), middle)]


def _silences(
    generations: Sequence[Generation],
    rows: Sequence[Rebalance],
    commits: Sequence[CommitInterval],
    eager: Collection[int],
) -> Iterator[tuple[int, int, int]]:
    """Of each partition that stayed at an eager one: offset, ms from its last commit to its next, and when that was."""
    by_offset = sorted(commits, key=lambda interval: interval.after)
    after = [interval.after for interval in by_offset]
    complete = {row.source_offset for row in rows if row.complete}
    ends = [generation.offset for generation in generations[2:]] + [2**63 - 1]

    def between(low: int, high: int) -> Mapping[TopicPartition, list[CommitInterval]]:
        commits_of: dict[TopicPartition, list[CommitInterval]] = {}
        for interval in by_offset[bisect_left(after, low) : bisect_left(after, high)]:
            commits_of.setdefault((interval.topic, interval.partition), []).append(interval)
        return commits_of

    # One generation alone has no pair, and would have an end.
    for (before, now), end in zip(pairwise(generations), ends, strict=False):
        if now.kind != CLASSIC or before.kind != CLASSIC or now.offset not in eager or now.offset not in complete:
            continue
        had, first, last = before.owners(), between(now.offset, end), between(before.offset, now.offset)
        for partition, owner in now.owners().items():
            if had.get(partition) == owner and partition in first and partition in last:
                since = max(interval.last for interval in last[partition])
                silence = min(interval.first for interval in first[partition]) - since
                if silence >= 0:  # clocks of members may differ
                    yield now.offset, silence, since

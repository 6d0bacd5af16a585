"""A history for the picture of time: moments, moves, and how long partitions were paused."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from apportion.history import cause
from apportion.history.group_history import GroupHistory
from apportion.history.moves import moves_between_living
from apportion.history.rebalance_rows import Rebalance
from apportion.history.stood_still import standstills
from apportion.history.time_window import AllSeries

LANES: Final = 40
"""Partitions that the picture draws."""
MOST_SAMPLES: Final = 600
"""Samples of the lag that it draws, the newest."""


def moments(past: GroupHistory) -> dict[int, dict[str, Any]]:
    """Of each rebalance, by the offset of its record: fields of a row of the page's history.

    ``at_ms``; ``duration_ms``; ``kind``; ``eager``: everybody gave up everything; ``still``: how many partitions stood
    still, and of each at least and of the median one at most how many milliseconds, and when that began, None where
    no record tells;
    ``movers``: topic and partition of each move; ``commits``: how many came until the next record, None where commits
    are not kept.
    """
    generations, habits = past.folded.generations, past.habits
    stood = standstills(generations, past.rebalances, habits)
    movers = moves_between_living(generations)
    offsets, committed = sorted(movers), Counter[int]()
    for interval in habits:
        committed[offsets[bisect_right(offsets, interval.after) - 1]] += interval.n
    rows = {}
    for row in past.rebalances:
        still = stood[row.source_offset]
        rows[row.source_offset] = {
            "at_ms": row.at if row.at >= 0 else None, "duration_ms": row.duration_ms, "kind": row.kind,
            "eager": still.eager, "still": [still.partitions, still.at_least_ms, still.at_most_ms, still.silent_from],
            "movers": movers.get(row.source_offset, frozenset()),
            "commits": committed[row.source_offset] if habits else None,
        }  # fmt: skip
    return rows


def commits_in_lanes(past: GroupHistory, rows: Sequence[str]) -> list[list[int]]:
    """Of each drawn partition and generation: its row, how many commits, and when the first and the last came.

    Milliseconds after the first rebalance: a page of thousands of groups has many of them.

    rows
        The page's partitions, as ``topic-0``.
    """
    lanes = {name: i for i, name in enumerate(rows[:LANES])}
    begin = past.rebalances[0].at if past.rebalances else 0
    return [
        [lanes[name], interval.n, interval.first - begin, interval.last - begin]
        for interval in past.habits
        if (name := f"{interval.topic}-{interval.partition}") in lanes and interval.first >= 0
    ]


def lag_line(series: AllSeries) -> list[list[int]]:
    """Milliseconds and the messages behind then, summed over the partitions, if log ends were sampled.

    A partition counts from its first commit on; between two samples of a log its end is the earlier one's.
    """
    times = sorted({at for partition in series.values() for at, _ in partition.ends})[-MOST_SAMPLES:]
    total: Counter[int] = Counter()
    for partition in series.values():
        ends, commits = ([at for at, _ in side] for side in (partition.ends, partition.commits))
        for at in times:
            end, commit = bisect_right(ends, at) - 1, bisect_right(commits, at) - 1
            if min(end, commit) >= 0:
                total[at] += max(0, partition.ends[end][1] - partition.commits[commit][1])
    return [[at, total[at]] for at in times if at in total]


def where_they_end(rebalances: Sequence[Rebalance], moves: Mapping[int, int]) -> list[int]:
    """Another strategy's moves at the rebalances that they replace, one a rebalance.

    A cooperative group's rebalance has two rounds, and its moves count in the second; so do those beside it.
    """
    counted = [moves.get(rebalance.source_offset, 0) for rebalance in rebalances]
    hands_over = [cause.HAND_OVER in rebalance.cause for rebalance in rebalances]
    for i in range(1, len(counted)):
        # Where hand-overs follow each other, the first ends the round before, whose past the strategy was given.
        if hands_over[i] and not hands_over[i - 1]:
            counted[i], counted[i - 1] = counted[i] + counted[i - 1], 0
    return counted

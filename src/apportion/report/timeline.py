"""What the picture of time needs of a history: moments, who moved where, and how long partitions stood still."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from apportion.history import cause
from apportion.history.rebalances import Owners, Rebalance
from apportion.history.records import Generation
from apportion.history.replay_totals import Past
from apportion.history.stood_still import standstills


def moments(past: Past) -> dict[int, dict[str, Any]]:
    """Of each rebalance, by the offset of its record: fields of a row of the page's history.

    ``at_ms``; ``duration_ms``; ``kind``; ``eager``: everybody gave up everything; ``still``: how many partitions stood
    still, and of each at least and of the median one at most how many milliseconds, None where no record tells;
    ``movers``: topic and partition of each move between members that stay.
    """
    generations = past.folded.generations
    stood = standstills(generations, past.rebalances, getattr(past, "habits", ()))
    movers = moves_between_living(generations)
    rows = {}
    for row in past.rebalances:
        still = stood[row.source_offset]
        rows[row.source_offset] = {
            "at_ms": row.at if row.at >= 0 else None, "duration_ms": row.duration_ms, "kind": row.kind,
            "eager": still.eager, "still": [still.partitions, still.at_least_ms, still.at_most_ms],
            "movers": movers.get(row.source_offset, frozenset()),
        }  # fmt: skip
    return rows


def moves_between_living(generations: Sequence[Generation]) -> dict[int, frozenset[tuple[str, int]]]:
    """Partitions that went from one member that stays to another, by the offset of each generation.

    A partition that is given up in one round and given in a later one moves in the later. ``moves_then`` of a replay
    counts the same ones.
    """
    movers = {}
    last: Owners = {}
    for generation in generations:
        if generation.fresh or not generation.members:
            last = {}
        living = {seat.identity for seat in generation.members}
        last = {key: who for key, who in last.items() if who in living}
        has = generation.owners()
        movers[generation.offset] = frozenset(key for key, who in has.items() if last.get(key, who) != who)
        last.update(has)
    return movers


def where_they_end(rebalances: Sequence[Rebalance], moves: Mapping[int, int]) -> list[int]:
    """Another strategy's moves at the rebalances that they replace, one a rebalance.

    A cooperative group's rebalance has two rounds, and its moves count in the second; so do those beside it.
    """
    counted = [moves.get(one.source_offset, 0) for one in rebalances]
    hands_over = [cause.HAND_OVER in one.cause for one in rebalances]
    for i in range(1, len(counted)):
        # Where hand-overs follow each other, the first ends the round before, whose past the strategy was given.
        if hands_over[i] and not hands_over[i - 1]:
            counted[i], counted[i - 1] = counted[i] + counted[i - 1], 0
    return counted

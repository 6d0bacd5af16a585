"""The definition of a move, everywhere: a partition went from one member that stays to another.

A partition that is given up in one round and given in a later one, as cooperative members do, moves in the later. One
whose owner left goes on, and does not move.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import eq

from apportion.history.records import Generation

Owners = dict[tuple[str, int], str]
"""Each assigned partition's owner by identity."""


class Moves:
    """Who had each partition last, of those that stay; generations come in their order."""

    def __init__(self) -> None:
        self._last: Owners = {}
        self._living: frozenset[str] = frozenset()

    def past(self, generation: Generation) -> Owners:
        """Who had each partition last, of this generation's members, before ``take`` adds its own partitions."""
        living = frozenset([seat.identity for seat in generation.members])
        if generation.fresh or not living:
            self._last = {}
        elif not self._living <= living:
            self._last = {key: who for key, who in self._last.items() if who in living}
        self._living = living
        return self._last

    def take(self, has: Owners) -> None:
        """The generation's assignment."""
        self._last.update(has)


def count_moves(past: Owners, has: Owners) -> int:
    """How many partitions moved to whom they belong now, of whose ``past`` gives."""
    # Over all partitions of all groups: no step of Python's own for each.
    known: int = sum(map(past.__contains__, has))
    stayed: int = sum(map(eq, map(past.get, has), has.values()))
    return known - stayed


def moves_between_living(generations: Sequence[Generation]) -> dict[int, frozenset[tuple[str, int]]]:
    """The partitions that moved, by the offset of each generation: as many as ``moved`` of its rebalance counts."""
    moves, moved = Moves(), {}
    for generation in generations:
        past, has = moves.past(generation), generation.owners()
        moved[generation.offset] = frozenset(key for key, who in has.items() if past.get(key, who) != who)
        moves.take(has)
    return moved

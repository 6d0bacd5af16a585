"""What a move is, everywhere: a partition went from one member that stays to another.

A partition that is given up in one round and given in a later one, as cooperative members do, moves in the later. One
whose owner left goes on, and does not move.
"""

from __future__ import annotations

from collections.abc import Sequence

from apportion.history.rebalances import Owners
from apportion.history.records import Generation


class Moves:
    """Tells of each generation which partitions moved; generations come in their order."""

    def __init__(self) -> None:
        self._last: Owners = {}

    def take(self, generation: Generation) -> frozenset[tuple[str, int]]:
        """The partitions that moved in this generation."""
        if generation.fresh or not generation.members:
            self._last = {}
        living = {seat.identity for seat in generation.members}
        last = {key: who for key, who in self._last.items() if who in living}
        has = generation.owners()
        self._last = {**last, **has}
        return frozenset(key for key, who in has.items() if last.get(key, who) != who)


def moves_between_living(generations: Sequence[Generation]) -> dict[int, frozenset[tuple[str, int]]]:
    """The partitions that moved, by the offset of each generation; ``moves_then`` of a replay counts the same ones."""
    moves = Moves()
    return {generation.offset: moves.take(generation) for generation in generations}

"""What is asked of the exact solver, and between what bounds the answer must stay."""

from __future__ import annotations

from dataclasses import dataclass

from apportion.arrays import Bools, Ints


@dataclass(frozen=True, eq=False)
class Problem:
    """What is asked: like partitions as rows (I of them), like members as columns (J of them).

    row, column
        (P,) each partition's row, -1 where nobody wants it; (M,) each member's column.
    open, miss
        (I, J) whether the column's members want the row; whether they have no replica near (None: nothing misses).
    claim
        (P,) whose claim stands, -1 nobody's.
    contested
        (P,) whether anybody claims the partition, rightly or not; None where nobody claims anything.
    topic, number
        (P,) which claims of a member are given up first: those with the highest number.
    """

    row: Ints
    column: Ints
    open: Bools
    miss: Bools | None
    claim: Ints
    contested: Bools | None
    topic: Ints
    number: Ints


@dataclass(frozen=True, eq=False)
class OptimalFace:
    """What all plans have in common that are best so far.

    column, low, high
        (M,) each member's column; the fewest and most partitions that it gets.
    open
        (I, J) cells where partitions stand in some of these plans.
    cost
        (I, J) cells that miss a rack, where misses are still to be minimised.
    part
        (J,) the piece that a column belongs to; no plan moves anything between pieces.
    """

    column: Ints
    low: Ints
    high: Ints
    open: Bools
    cost: Bools | None
    part: Ints

"""The packing behind a group's size: work in whole units, members of some capacity, and the present owners.

Variable-size bin packing with a past: every partition on one member, never more than a member takes, few members,
and move little weight. Both goals pull against each other, so the answer is a frontier (``frontier``). Deciding how
many members suffice is bin packing, which is strongly NP-hard (Garey and Johnson, 1979): what is shown is a bound
(``bounds``), a plan, and the gap between the two; small problems are closed by branch and bound (``exact``).

All weights are whole numbers of one small unit, so that sums are exact: no plan is a rounding error over capacity.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property


@dataclass(frozen=True)
class SizingProblem:
    """Partitions, present members, and a newcomer's capacity.

    weight
        (P,) units of work that each partition brings.
    capacity
        (M,) units that each present member takes.
    new_capacity
        Units that a newcomer takes.
    previous_owner
        (P,) present owner, -1 nobody.
    kind
        (P,) the partition's topic.
    eligible
        (M + 1, T) whether a member may own a topic's partitions; the last row is a newcomer's. None: everybody may
        own everything.
    process
        (M,) the process in which each present member runs; members of one process come and go together.
    threads
        Members of one process that comes.
    """

    weight: Sequence[int]
    capacity: Sequence[int]
    new_capacity: int
    previous_owner: Sequence[int]
    kind: Sequence[int] = ()
    eligible: Sequence[Sequence[bool]] | None = None
    process: Sequence[int] = ()
    threads: int = 1

    @property
    def M(self) -> int:
        """How many members are there now."""
        return len(self.capacity)

    @cached_property
    def process_of(self) -> Sequence[int]:
        """(M,) the process of each present member, which is the member itself if none is given."""
        return self.process or range(self.M)

    @cached_property
    def processes(self) -> int:
        """How many processes are there now."""
        return len(set(self.process_of))

    @cached_property
    def total(self) -> int:
        """All the work there is."""
        return sum(self.weight)

    def may_own(self, p: int, m: int) -> bool:
        """Whether member m (M and above: a newcomer) may own partition p."""
        return self.eligible is None or self.eligible[min(m, self.M)][self.kind[p]]

    def takes(self, m: int) -> int:
        """Units that member m takes, M and above being newcomers."""
        return self.capacity[m] if m < self.M else self.new_capacity

    @cached_property
    def held(self) -> list[list[int]]:
        """(M,) partitions of each present member that it may still own."""
        held: list[list[int]] = [[] for _ in range(self.M)]
        for p, m in enumerate(self.previous_owner):
            if m >= 0:
                held[m].append(p)
        return held

    @cached_property
    def oversize(self) -> frozenset[int]:
        """Partitions heavier than any member that may own them can take: each has the largest member to itself."""
        kinds = range(len(self.eligible[0])) if self.eligible is not None else range(1)
        rows = self.eligible if self.eligible is not None else [[True]] * (self.M + 1)
        largest = [max((self.takes(m) for m in range(self.M + 1) if rows[m][t]), default=0) for t in kinds]
        kind = self.kind if self.eligible is not None else [0] * len(self.weight)
        return frozenset(p for p, weight in enumerate(self.weight) if weight > largest[kind[p]])


def in_units(values: Iterable[float], capacities: Iterable[float]) -> tuple[list[int], list[int], int]:
    """Numbers as whole multiples of one unit, exactly as they are written in decimals; and how many units make one.

    >>> in_units([0.1, 2], [0.3])
    ([1, 20], [3], 10)
    """
    weights, takes = [Decimal(repr(x)) for x in values], [Decimal(repr(x)) for x in capacities]
    digits = 0
    for number in {*weights, *takes}:
        exponent = number.normalize().as_tuple().exponent
        digits = max(digits, -exponent if isinstance(exponent, int) else 0)
    scale = 10**digits
    return [int(x.scaleb(digits)) for x in weights], [int(x.scaleb(digits)) for x in takes], scale

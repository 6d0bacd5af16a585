"""A packing that is being changed: owners, room left, moves so far, and the likely next losses.

``ahead`` is the look ahead. Of two plans that move the same weight now, the better one is that which will move less at
the next change. A member that is nearly full loses the lightest set that frees enough room, once its work has
grown; how much it grows is unknown, so each member's work is taken to change like a random walk of ``swing`` (share of
a newcomer's capacity, standard deviation a partition), and the cost of what it would let go is averaged over the
quantiles of that growth. It only decides between plans; it never stands in a number that is shown.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import sqrt
from statistics import NormalDist
from typing import Final

from apportion.sizing.problem import SizingProblem

QUANTILES: Final = tuple(NormalDist().inv_cdf(1 - (i + 0.5) / 16) for i in range(8))
"""Growths, in standard deviations, that stand for the upper half of all, a sixteenth of all cases each."""
_FEW: Final = 6
"""Partitions of a member up to which all sets of them are looked at; beyond, the lightest go first."""


ROOM_IN_ONE_PIECE: Final = 0.2
"""What an empty member's room is worth, as a share of its capacity; half the room is worth a quarter of that, since a
partition that must go somewhere needs its room in one piece."""


class Packing:
    """Owners of all partitions, on members 0 to M - 1 and newcomers from M on, of which some are open."""

    def __init__(self, problem: SizingProblem, swing: float) -> None:
        self.problem = problem
        self.weight = problem.weight
        self.owner = [-1] * len(problem.weight)
        self.items: dict[int, set[int]] = {}
        self.load: dict[int, int] = {}
        self._room: list[tuple[int, int]] = []
        self.reserved: set[int] = set()
        self._deviation = swing * problem.new_capacity * sqrt(2)
        self._ahead: dict[tuple[int, ...], float] = {}
        self.newcomers = 0
        self.effort = 0
        self._now: dict[int, float] = {}

    def copy(self) -> Packing:
        """The same state, to be changed by itself."""
        twin = Packing.__new__(Packing)
        twin.__dict__.update(self.__dict__)
        twin.owner, twin.load, twin._room = list(self.owner), dict(self.load), list(self._room)
        twin.items = {m: set(held) for m, held in self.items.items()}
        twin.reserved, twin._now = set(self.reserved), dict(self._now)
        return twin

    @property
    def members(self) -> int:
        """How many members are open."""
        return len(self.items)

    def cost(self, p: int, m: int) -> int:
        """Weight that moves if p is on m."""
        home = self.problem.previous_owner[p]
        return self.weight[p] if home >= 0 and home != m else 0

    @property
    def moved(self) -> int:
        """Weight of all partitions that are not where they were."""
        return sum(self.cost(p, m) for p, m in enumerate(self.owner) if m >= 0)

    def room(self, m: int) -> int:
        """Units that m can still take."""
        return 0 if m in self.reserved else self.problem.takes(m) - self.load[m]

    def open(self, m: int) -> None:
        """The member is there, and has nothing."""
        self.items[m], self.load[m] = set(), 0
        insort(self._room, (self.room(m), m))

    def open_process(self) -> None:
        """A process of newcomers comes."""
        for _ in range(self.problem.threads):
            self.open(self.problem.M + self.newcomers)
            self.newcomers += 1

    def close(self, members: Iterable[int]) -> list[int]:
        """The members are gone; returned are the partitions that need a place."""
        free: list[int] = []
        for m in members:
            free += sorted(self.items[m])
            for p in self.items[m]:
                self.owner[p] = -1
            self._forget_room(m)
            del self.items[m], self.load[m]
        return free

    def put(self, p: int, m: int) -> None:
        """The partition is on the member."""
        self._forget_room(m)
        self.items[m].add(p)
        self.owner[p] = m
        self.load[m] += self.weight[p]
        insort(self._room, (self.room(m), m))

    def take(self, p: int) -> int:
        """The partition is nowhere; returned is the member that had it."""
        m = self.owner[p]
        self._forget_room(m)
        self.items[m].discard(p)
        self.owner[p] = -1
        self.load[m] -= self.weight[p]
        insort(self._room, (self.room(m), m))
        return m

    def reserve(self, m: int) -> None:
        """Nothing more goes to the member: it is for a partition that no member can take along with another."""
        self._forget_room(m)
        self.reserved.add(m)
        insort(self._room, (0, m))

    def _forget_room(self, m: int) -> None:
        self._now.pop(m, None)
        del self._room[bisect_left(self._room, (self.room(m), m))]

    def tightest(self, p: int, but: int = -1) -> int | None:
        """The member with least room of those that can take p; None if none can."""
        for i in range(bisect_left(self._room, (self.weight[p], -1)), len(self._room)):
            m = self._room[i][1]
            if m != but and m not in self.reserved and self.problem.may_own(p, m):
                return m
        return None

    def with_room(self, weight: int, most: int) -> list[int]:
        """Members with so much room: all of them, or so many, half of them the tightest and half the loosest."""
        first = bisect_left(self._room, (weight, -1))
        n = len(self._room) - first
        chosen = self._room[first:] if n <= most else self._room[first : first + most // 2] + self._room[-most // 2 :]
        return [m for _, m in chosen if m not in self.reserved]

    def by_room(self, most: int) -> list[int]:
        """Open members with most room, at most so many."""
        return [m for _, m in self._room[-most:] if m not in self.reserved]

    def ahead_now(self, m: int) -> float:
        """``ahead`` of the member as it is."""
        known = self._now.get(m)
        if known is None:
            known = self._now[m] = self.ahead(m)
        return known

    def ahead(self, m: int, without: int = -1, plus: int = -1) -> float:
        """Weight that the member may be expected to lose at the next change, less the value of its room."""
        if not self._deviation:
            return 0.0
        self.effort -= 1 + len(self.items[m]) // 8  # a look takes as long as its member is full
        weights = [self.weight[p] for p in self.items[m] if p != without]
        if plus >= 0:
            weights.append(self.weight[plus])
        weights.sort()
        key = (self.problem.takes(m), *weights)
        known = self._ahead.get(key)
        if known is None:
            room = max(0.0, 1 - sum(weights) / key[0])
            known = self._expected_loss(key[0], weights) - ROOM_IN_ONE_PIECE * key[0] * room * room
            self._ahead[key] = known
        return known

    def ahead_swapped(self, m: int, gone: int, come: int) -> float:
        """As ``ahead``, with one partition in the place of another."""
        return self.ahead(m, without=gone, plus=come)

    def _expected_loss(self, capacity: int, weights: Sequence[int]) -> float:
        if len(weights) < 2:
            return 0.0
        room = capacity - sum(weights)
        deviation = self._deviation * sqrt(len(weights))
        if QUANTILES[0] * deviation <= room:
            return 0.0
        sums: list[int] = [0]
        if len(weights) <= _FEW:
            for w in weights:
                sums += [s + w for s in sums]
            sums.sort()
        else:
            sums = list(accumulate(weights, initial=0))
        most = sum(weights) - weights[-1]
        total = 0.0
        for quantile in QUANTILES:
            need = quantile * deviation - room
            if need <= 0:
                break
            i = bisect_left(sums, need)
            total += min(sums[i], most) if i < len(sums) else most
        return total / 16

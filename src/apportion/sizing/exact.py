"""Branch and bound: the least weight that any plan for at most n members moves, for groups of few partitions.

Those that no member can take come first, each alone on a member. Then partitions in descending order of weight, each
first at home, then on the others, then on one newcomer, since newcomers that have nothing are all alike. A branch ends
when what it moved, plus what present owners are still over by, is no less than the best plan known, or when it would
need another member than n. The search is complete, so a plan that it ends with is the best, and n members do not
suffice if it ends without one; the steps it may take are bounded, and one that ran out of them proves nothing.

Why the local search is not enough: without this one, plans for 32 autoscaled partitions move 2 to 11 percent more, the
fewest members up to 17 percent more (``python -m bench.autoscaling --partitions 32 --intervals 60``, 20 ms a plan), and
where a partition is more than any member takes up to twice as much.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from apportion.sizing.problem import SizingProblem

PARTITIONS_MAX: Final = 40
STEPS_MAX: Final = 4_000
FEW: Final = 14
STEPS_MAX_FEW: Final = 20_000
"""For up to ``FEW`` partitions: enough for nearly every group, in tenths of a second."""
FULL: Final = -1
"""Room of a member that has what no member can take: not even for work of 0."""


@dataclass
class SearchResult:
    """owner: (P,) the best plan, None if there is none; finished: whether that is proved."""

    owner: list[int] | None
    moved: int
    finished: bool


def applies(problem: SizingProblem) -> bool:
    """Whether the group is small and plain enough: one member a process.

    >>> from apportion.sizing.problem import SizingProblem
    >>> problem = SizingProblem([4, 3, 2], [5, 5], 5, [0, 0, 1])
    >>> applies(problem)
    True
    """
    return len(problem.weight) <= PARTITIONS_MAX and problem.threads == 1 and problem.processes == problem.M


def least_moved_plan(problem: SizingProblem, most_members: int, known: tuple[int, list[int]] | None) -> SearchResult:
    """The plan of least moved weight on at most so many members; ``known`` is one to beat.

    >>> from apportion.sizing.problem import SizingProblem
    >>> problem = SizingProblem([4, 3, 2], [5, 5], 5, [0, 0, 1])
    >>> least_moved_plan(problem, 2, None)
    SearchResult(owner=[0, 1, 1], moved=3, finished=True)
    """
    search = _Search(problem, most_members, known)
    search.place(0, 0)
    return SearchResult(search.best_owner, search.best, search.steps <= search.steps_max)


class _Search:
    """One search; members 0 to M - 1, then the newcomers."""

    def __init__(self, problem: SizingProblem, most_members: int, known: tuple[int, list[int]] | None) -> None:
        self.problem, self.most = problem, most_members
        self.best: int = known[0] if known else sum(problem.weight) + 1
        self.best_owner: list[int] | None = list(known[1]) if known else None
        over = self.over = problem.oversize
        self.order = sorted(range(len(problem.weight)), key=lambda p: (p not in over, -problem.weight[p], p))
        self.steps_max = STEPS_MAX_FEW if len(self.order) <= FEW else STEPS_MAX
        members = problem.M + min(most_members, len(problem.weight))
        self.room = [problem.takes(m) for m in range(members)]
        self.count = [0] * members
        # What is at home and not yet placed: an owner is over by what this passes its room.
        self.waiting = [sum(problem.weight[p] for p in problem.held[m] if p not in over) for m in range(problem.M)]
        self.rest = [0] * (len(self.order) + 1)
        for i in range(len(self.order) - 1, -1, -1):
            self.rest[i] = self.rest[i + 1] + (problem.weight[self.order[i]] if self.order[i] not in over else 0)
        self.owner = [-1] * len(problem.weight)
        self.used = self.steps = 0
        self.largest = max(self.room, default=0)

    def place(self, i: int, moved: int) -> None:
        """Place the i-th and all lighter partitions in every way that may be better."""
        self.steps += 1
        if self.steps > self.steps_max or moved + self._overdue() >= self.best:
            return
        if i == len(self.order):
            self.best, self.best_owner = moved, list(self.owner)
            return
        free = sum(max(room, 0) for room, n in zip(self.room, self.count, strict=True) if n)
        if self.rest[i] > free + (self.most - self.used) * self.largest:
            return
        p = self.order[i]
        home, w = self.problem.previous_owner[p], self.problem.weight[p]
        if p in self.over:
            self._place_alone(i, moved, p, home, w)
            return
        if home >= 0:
            self.waiting[home] -= w
        for m in self._members(home):
            if self.room[m] >= w and (self.count[m] or self.used < self.most) and self.problem.may_own(p, m):
                self._put(p, m, w)
                self.place(i + 1, moved + (w if home >= 0 and m != home else 0))
                self._put(p, m, -w)
        if home >= 0:
            self.waiting[home] += w

    def _place_alone(self, i: int, moved: int, p: int, home: int, w: int) -> None:
        """Give what no member can take to its owner, the largest, then others that have nothing; of like ones one."""
        tried: set[tuple[int, int, tuple[int, ...]]] = set()
        for m in sorted(self._members(home), key=lambda m: (m != home, -self.problem.takes(m))):
            if self.count[m] or self.used >= self.most or not self.problem.may_own(p, m):
                continue
            held = tuple(self.problem.held[m]) if m < self.problem.M else ()
            kind = (self.room[m], m if m == home or self.problem.eligible is not None else -1, held)
            if kind in tried:
                continue
            tried.add(kind)
            room, self.room[m] = self.room[m], FULL
            self.count[m], self.used, self.owner[p] = 1, self.used + 1, m
            self.place(i + 1, moved + (w if home >= 0 and m != home else 0))
            self.room[m], self.count[m], self.used, self.owner[p] = room, 0, self.used - 1, -1

    def _overdue(self) -> int:
        """Weight that owners must still let go."""
        return sum(max(0, wait - max(room, 0)) for wait, room in zip(self.waiting, self.room, strict=False))

    def _members(self, home: int) -> list[int]:
        """Home first, then the others, the fullest first, and one newcomer that has nothing yet."""
        M = self.problem.M
        fresh = next((m for m in range(M, len(self.room)) if not self.count[m]), None)
        members = [m for m in range(len(self.room)) if m != home and (m < M or self.count[m])]
        members.sort(key=lambda m: (self.count[m] == 0, self.room[m], m))
        return ([home] if home >= 0 else []) + members + ([fresh] if fresh is not None else [])

    def _put(self, p: int, m: int, w: int) -> None:
        step = 1 if self.owner[p] < 0 else -1
        self.room[m] -= w
        self.used += self.count[m] == 0 and step > 0
        self.count[m] += step
        self.used -= self.count[m] == 0 and step < 0
        self.owner[p] = m if step > 0 else -1

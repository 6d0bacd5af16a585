"""Bounds that no plan beats: how many members it takes at least, and how much weight a change moves at least.

Members: the work must fit into the largest members there can be; and partitions that do not fit beside each other need
as many members (Martello and Toth, *Knapsack Problems*, 1990, section 8.3.2, bound L2, with the largest capacity for
all, which only lowers it). Weight: a member that holds more than it takes must let go a set that suffices, so at
least the lightest such set; and a group that shrinks by k processes gives up all that k of them hold. Neither knows
where the partitions go, so both hold whatever the rest does.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import Final

from apportion.sizing.problem import SizingProblem

SUMS_MAX: Final = 20_000
"""Subset sums that are looked at for one member; beyond, the set let go is good, not the lightest."""


def least_members(problem: SizingProblem) -> int:
    """Members that every plan needs, at least 1.

    >>> from apportion.sizing.problem import SizingProblem
    >>> problem = SizingProblem([4, 3, 2], [5, 5], 5, [0, 0, 1])
    >>> least_members(problem)
    2
    """
    over = problem.oversize
    rest = [w for p, w in enumerate(problem.weight) if p not in over and w > 0]
    biggest = sorted((c for c in problem.capacity if c > problem.new_capacity), reverse=True)
    need = sum(rest)
    n = 0
    while need > 0 and n < len(biggest):
        need -= biggest[n]
        n += 1
    if need > 0:
        n += -(-need // problem.new_capacity) if problem.new_capacity else 0
    n = max(n, _martello_toth(sorted(rest), max([problem.new_capacity, *problem.capacity])))
    return max(n + len(over), 1)


def _martello_toth(weights: list[int], capacity: int) -> int:
    """Bound L2 on the bins of one capacity that weights (ascending, none above it) need."""
    if not weights:
        return 0
    sums = [0, *accumulate(weights)]
    half = bisect_right(weights, capacity // 2)
    best = 0
    for alpha in {0, *weights[:half]}:
        # Beside the huge ones nothing of alpha and more fits; the large ones cannot share; the rest fills their gaps.
        huge_from = bisect_right(weights, capacity - alpha)
        small_from = bisect_left(weights, alpha)
        large = huge_from - half if huge_from > half else 0
        huge = len(weights) - max(huge_from, half)
        gaps = large * capacity - (sums[max(huge_from, half)] - sums[half])
        small = sums[half] - sums[min(small_from, half)]
        best = max(best, huge + large + max(0, -(-(small - gaps) // capacity)))
    return best


def lightest_set(weights: list[int], need: int) -> tuple[int, list[int], bool]:
    """The lightest set of weights that comes to ``need`` or more: its sum, its places, and whether it is the lightest.

    Subset sums, from the lightest weight on; a sum that suffices is not built upon.

    >>> lightest_set([5, 3, 2], need=4)
    (5, [1, 2], True)
    """
    if need <= 0:
        return 0, [], True
    order = sorted(range(len(weights)), key=lambda i: (weights[i], i))
    reach: dict[int, tuple[int, int]] = {0: (-1, 0)}
    best = sum(weights)
    for i in order:
        w = weights[i]
        if w == 0:
            continue
        for s in list(reach):
            if s < need and s + w <= best and s + w not in reach:
                reach[s + w] = (i, s)
                if s + w >= need:
                    best = s + w
        if len(reach) > SUMS_MAX:
            return _greedy_set(weights, order, need)
    if best not in reach:
        return best, [i for i in order if weights[i]], True
    return best, _trace(reach, best), True


def _trace(reach: dict[int, tuple[int, int]], total: int) -> list[int]:
    places = []
    while total:
        i, total = reach[total]
        places.append(i)
    return places


def _greedy_set(weights: list[int], order: list[int], need: int) -> tuple[int, list[int], bool]:
    """A light set if there are too many sums: the heaviest that stay below, then the lightest that completes.

    What that one makes needless is left out again, the heaviest first.
    """
    places: list[int] = []
    missing = need
    for i in reversed(order):
        if 0 < weights[i] <= missing:
            places.append(i)
            missing -= weights[i]
    if missing > 0:
        taken = set(places)
        last = next(i for i in order if i not in taken and weights[i] >= missing)
        over, chosen = weights[last] - missing, []
        for i in places:
            if weights[i] <= over:
                over -= weights[i]
            else:
                chosen.append(i)
        places = [*chosen, last]
    total = sum(weights[i] for i in places)
    return total, places, total == need


def least_moved(problem: SizingProblem) -> list[int]:
    """Weight that every plan moves which closes k processes, for k from 0 to all but one.

    Entry k counts, of members that stay, the lightest set each must let go, and of the k cheapest processes all.

    >>> from apportion.sizing.problem import SizingProblem
    >>> problem = SizingProblem([4, 3, 2], [5, 5], 5, [0, 0, 1])
    >>> least_moved(problem)
    [3, 5]
    """
    over: dict[int, int] = {}
    load: dict[int, int] = {}
    for m in range(problem.M):
        mine = [p for p in problem.held[m] if p not in problem.oversize]
        weights = [problem.weight[p] for p in mine]
        need = sum(weights) - problem.capacity[m]
        total, _, exact = lightest_set(weights, need)
        least = total if exact else max(need, 0)
        huge = [problem.weight[p] for p in problem.held[m] if p in problem.oversize]
        if huge:
            # It keeps one of those that no member can take, and nothing beside it, or none of them.
            least = sum(huge) + sum(weights) - max(max(huge), min(sum(weights), problem.capacity[m]))
        u = problem.process_of[m]
        over[u] = over.get(u, 0) + least
        load[u] = load.get(u, 0) + sum(problem.weight[p] for p in problem.held[m])
    return list(accumulate(sorted(load[u] - over[u] for u in load), initial=sum(over.values())))[: max(len(load), 1)]

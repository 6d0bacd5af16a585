"""Repair and local search: a group's packing for at most so many members that moves little weight.

A plan for the present number is a repair: everybody keeps what it has, members that hold too much let the lightest
sufficient set go (exactly, by subset sums), and what is free goes where it leaves least room. What fits nowhere takes a
place from lighter partitions that do. Fewer members come from closing the process that gives up least, again and again.
After each of these, partitions that moved change places, one or two at a time, while that lowers the weight moved plus
what may be lost next (``Packing.ahead``). Nothing here is proved: ``bounds`` and ``exact`` say how far off it can be.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Final

from apportion.sizing.bounds import lightest_set
from apportion.sizing.packing import Packing
from apportion.sizing.problem import SizingProblem

MEMBERS_LOOKED_AT: Final = 128
"""Members that one partition is tried on; of more, the tightest and the loosest."""
ROUNDS: Final = 6
RUINS: Final = 150
EFFORT: Final = 200_000
"""Looks ahead that the first repair may take, and all plans for fewer members together, at a member of few partitions:
a microsecond or two each; one of many costs more of them."""
RUIN_EFFORT: Final = 20_000
"""Looks beyond its effort that a plan may take to place what has no place."""
EJECTIONS: Final = 12
"""How often, for each partition that has no place, others are moved to make one."""
_NOISE: Final = 1e-9
"""Differences of expected losses that are rounding, not gain, as a share of a newcomer's capacity."""


def start(problem: SizingProblem, swing: float, most_processes: int, scarce: bool = False) -> Packing | None:
    """The repaired packing on at most so many processes; None if the search leaves some partition without a place.

    scarce
        Only the largest processes are there at first, as many as may be: for a packing that forgets the past.

    >>> from apportion.sizing.problem import SizingProblem
    >>> problem = SizingProblem([4, 3, 2], [5, 5], 5, [0, 0, 1])
    >>> start(problem, swing=0.0, most_processes=2).owner
    [0, 1, 1]
    """
    packing = _start(problem, swing, most_processes, scarce, on_largest=True)
    if packing is None and problem.oversize:
        # What is heavier than any member but the largest may need that one.
        packing = _start(problem, swing, most_processes, scarce, on_largest=False)
    return packing


def _start(
    problem: SizingProblem, swing: float, most_processes: int, scarce: bool, *, on_largest: bool
) -> Packing | None:  # fmt: skip
    """``start`` with partitions that no member can take on the largest members, or on the smallest."""
    packing = Packing(problem, swing)
    packing.effort = EFFORT
    for m in _largest(problem, most_processes) if scarce else range(problem.M):
        packing.open(m)
    for p, m in enumerate(problem.previous_owner):
        if m >= 0 and p not in problem.oversize:
            packing.put(p, m)
    _give_oversize_their_own(packing, on_largest)
    free = [p for p, m in enumerate(packing.owner) if m < 0]
    for m in list(packing.items):
        free += _let_go(packing, m)
    while processes(packing) > most_processes:
        closing = _cheapest_processes(packing, set(), processes(packing) - most_processes)
        if not closing:
            return None
        free += packing.close(closing)
    return packing if settle(packing, free, most_processes) else None


def _largest(problem: SizingProblem, most_processes: int) -> list[int]:
    """Members of the processes that take most, of those that take no less than newcomers."""
    takes: dict[int, int] = {}
    for m in range(problem.M):
        takes[problem.process_of[m]] = takes.get(problem.process_of[m], 0) + problem.capacity[m]
    able = [
        u for u in sorted(takes, key=lambda u: (-takes[u], u)) if takes[u] >= problem.threads * problem.new_capacity
    ]
    chosen = set(able[:most_processes])
    return [m for m in range(problem.M) if problem.process_of[m] in chosen]


def processes(packing: Packing) -> int:
    """How many processes are open.

    >>> from apportion.sizing.problem import SizingProblem
    >>> problem = SizingProblem([4, 3, 2], [5, 5], 5, [0, 0, 1])
    >>> packing = start(problem, swing=0.0, most_processes=2)
    >>> processes(packing)
    2
    """
    if packing.problem.threads == 1 and not packing.problem.process:
        return packing.members  # every member is a process of its own
    newcomers = sum(m >= packing.problem.M for m in packing.items) // packing.problem.threads
    return len({packing.problem.process_of[m] for m in packing.items if m < packing.problem.M}) + newcomers


def _give_oversize_their_own(packing: Packing, on_largest: bool) -> None:
    """Each partition that no member can take gets the largest member that is left, its own if that is as large.

    on_largest
        False: the smallest member, in place of the largest.
    """
    problem = packing.problem
    for p in sorted(problem.oversize, key=lambda p: (-problem.weight[p], p)):
        able = [m for m in packing.items if m not in packing.reserved and problem.may_own(p, m)]
        best = (max if on_largest else min)(map(problem.takes, able), default=0)
        suits = able and (best >= problem.new_capacity if on_largest else best <= problem.new_capacity)
        if not suits and problem.may_own(p, problem.M):
            packing.open_process()
            able, best = [max(packing.items)], problem.new_capacity
        if not able:
            continue
        home = problem.previous_owner[p]
        m = home if home in able and problem.takes(home) == best else next(m for m in able if problem.takes(m) == best)
        packing.reserve(m)
        packing.put(p, m)


def _let_go(packing: Packing, m: int) -> list[int]:
    """The lightest set whose loss brings the member down to its capacity, taken from it."""
    held = sorted(p for p in packing.items[m] if p not in packing.problem.oversize)
    weights = [packing.weight[p] for p in held]
    limit = 0 if m in packing.reserved else packing.problem.takes(m)
    _, places, _ = lightest_set(weights, sum(weights) - limit)
    free = [held[i] for i in places]
    if m in packing.reserved:
        free = held
    for p in free:
        packing.take(p)
    return free


def _cheapest_processes(packing: Packing, spared: set[int], n: int) -> list[int]:
    """Members of the n processes whose partitions, as far as they are at home, weigh least; [] if all must stay."""
    mine: dict[int, list[int]] = {}
    for m in packing.items:
        mine.setdefault(process_key(packing.problem, m), []).append(m)
    weight, home = packing.weight, packing.problem.previous_owner

    def given_up(u: int) -> tuple[float, int]:
        at_previous = sum(weight[p] for m in mine[u] for p in packing.items[m] if home[p] == m)
        return at_previous - sum(packing.ahead_now(m) for m in mine[u]), -u

    able = [u for u in mine if not any(m in packing.reserved for m in mine[u]) and u not in spared]
    return [m for u in sorted(able, key=given_up)[:n] for m in mine[u]] if able else []


def process_key(problem: SizingProblem, m: int) -> int:
    """The number of a member's process; newcomers' are above all others.

    >>> from apportion.sizing.problem import SizingProblem
    >>> threaded = SizingProblem([4], [5, 5], 5, [0], process=[7, 7], threads=2)
    >>> process_key(threaded, 1), process_key(threaded, 2), process_key(threaded, 3)
    (7, 2, 2)
    """
    return problem.process_of[m] if m < problem.M else problem.M + (m - problem.M) // problem.threads


def shrink(packing: Packing, effort: int, by: int = 1) -> Packing | None:
    """The packing with so many processes fewer, None if the search leaves some partition without a place.

    effort
        Looks ahead that the search may take.

    >>> from apportion.sizing.problem import SizingProblem
    >>> problem = SizingProblem([2, 2, 1], [5, 5], 5, [0, 0, 1])
    >>> shrink(start(problem, swing=0.0, most_processes=2), effort=1_000).owner
    [0, 0, 0]
    """
    spared: set[int] = set()
    for _ in range(3):
        closing = _cheapest_processes(packing, spared, by)
        if not closing or packing.members == len(closing):
            return None
        fewer = packing.copy()
        fewer.effort = effort
        if settle(fewer, fewer.close(closing), processes(fewer)):
            return fewer
        spared.add(process_key(packing.problem, closing[0]))
    return None


def settle(packing: Packing, free: list[int], most_processes: int) -> bool:
    """Find a place for all free partitions, then improve; False if some partition has none.

    >>> from apportion.sizing.problem import SizingProblem
    >>> problem = SizingProblem([4, 3, 2], [5, 5], 5, [0, 0, 1])
    >>> packing = start(problem, swing=0.0, most_processes=2)
    >>> held_by = packing.take(2)
    >>> settle(packing, [2], most_processes=2), packing.owner
    (True, [0, 1, 1])
    """
    weight = packing.weight
    stuck = []
    for p in sorted(free, key=lambda p: (-weight[p], p)):
        m = _tightest_or_new(packing, p, most_processes)
        if m is None:
            stuck.append(p)
        else:
            packing.put(p, m)
    stuck = _throw_out(packing, stuck, most_processes)
    if stuck:
        stuck = ruin_and_recreate(packing, stuck)
    if not stuck:
        improve(packing)
    return not stuck


def _tightest_or_new(packing: Packing, p: int, most_processes: int, but: int = -1) -> int | None:
    """The member with least room of those that can take p, a newcomer if none can; None if that may not come."""
    m = packing.tightest(p, but)
    if (
        m is None
        and packing.weight[p] <= packing.problem.new_capacity
        and packing.problem.may_own(p, packing.problem.M)
    ):
        if processes(packing) >= most_processes:
            packing.close(_idle_process(packing))
        if processes(packing) < most_processes:
            packing.open_process()
            m = packing.tightest(p, but)
    return m


def _idle_process(packing: Packing) -> list[int]:
    """The members of the smallest process of present members without work; [] if there is none."""
    mine: dict[int, list[int]] = {}
    for m in packing.items:
        if m < packing.problem.M:
            mine.setdefault(packing.problem.process_of[m], []).append(m)
    idle = [members for members in mine.values() if not any(packing.items[m] or m in packing.reserved for m in members)]
    return min(idle, key=lambda members: (sum(map(packing.problem.takes, members)), members), default=[])


def _throw_out(packing: Packing, stuck: list[int], most_processes: int) -> list[int]:
    """Make room for partitions without a place by moving lighter ones; returned are those without one in the end.

    What is too heavy for a newcomer may throw out what is not, for which one may come.
    """
    weight = packing.weight
    budget = EJECTIONS * len(stuck)
    while stuck and budget and packing.effort > -EFFORT:
        budget -= 1
        p = stuck.pop(0)
        thrown = _make_room(packing, p)
        if thrown is None:
            return [p, *stuck]
        for q in sorted(thrown, key=lambda q: (-weight[q], q)):
            m = _tightest_or_new(packing, q, most_processes, but=packing.owner[p])
            if m is None:
                stuck.append(q)
            else:
                packing.put(q, m)
        stuck.sort(key=lambda p: (-weight[p], p))
    return stuck


def _make_room(packing: Packing, p: int) -> list[int] | None:
    """Put p on the member that loses least by it; returned are its losses, None if no member may have p."""
    problem, weight = packing.problem, packing.weight
    best: tuple[float, int, list[int]] | None = None
    for m in packing.by_room(MEMBERS_LOOKED_AT if packing.effort > 0 else MEMBERS_LOOKED_AT // 16):
        packing.effort -= 10 * len(packing.items[m])
        need = weight[p] - packing.room(m)
        if not problem.may_own(p, m) or need > packing.load[m]:
            continue
        held = sorted(packing.items[m])
        _, places, _ = lightest_set([weight[q] for q in held], need)
        thrown = [held[i] for i in places]
        homeless = sum(weight[q] for q in thrown if packing.tightest(q, but=m) is None)
        # What fits nowhere is thrown on, so it counts again; guests are lighter to throw out than those at home.
        price = sum(weight[q] - packing.cost(q, m) for q in thrown) + 3 * homeless + (thrown == []) * -1
        if best is None or price < best[0]:
            best = (price, m, thrown)
    if best is None:
        return None
    for q in best[2]:
        packing.take(q)
    packing.put(p, best[1])
    return best[2]


def improve(packing: Packing) -> None:
    """Let moved partitions change places while that lowers the weight moved and the likely next losses.

    >>> from apportion.sizing.problem import SizingProblem
    >>> problem = SizingProblem([4, 3, 2], [5, 5], 5, [0, 0, 1])
    >>> packing = start(problem, swing=0.0, most_processes=2)
    >>> improve(packing)
    >>> packing.owner
    [0, 1, 1]
    """
    noise = _NOISE * packing.problem.new_capacity
    for _ in range(ROUNDS):
        changed = False
        for p in _loose(packing):
            if packing.effort < 0:
                return
            changed |= _better_place(packing, p, noise)
        if not changed:
            return


def _loose(packing: Packing) -> Iterable[int]:
    """Partitions that are not at home, and those so light that a move may pay, the heaviest first."""
    over = packing.problem.oversize
    loose = []
    for m, held in packing.items.items():
        gain = packing.ahead_now(m)
        loose += [
            p for p in held if p not in over and (packing.problem.previous_owner[p] != m or packing.weight[p] < gain)
        ]
    return sorted(loose, key=lambda p: (-packing.weight[p], p))


def _better_place(packing: Packing, p: int, noise: float) -> bool:
    """Move p, or swap it with another, to where that pays most; whether it was done."""
    a, weight = packing.owner[p], packing.weight
    without_it, before = packing.ahead(a, without=p), packing.ahead_now(a)
    leaves = without_it - before - packing.cost(p, a)
    best: tuple[float, int, int] = (-noise, -1, -1)
    for b in packing.with_room(weight[p], MEMBERS_LOOKED_AT):
        if b != a and packing.problem.may_own(p, b):
            change = leaves + packing.cost(p, b) + packing.ahead(b, plus=p) - packing.ahead_now(b)
            if change < best[0]:
                best = (change, b, -1)
    home = packing.problem.previous_owner[p]
    candidates = packing.by_room(MEMBERS_LOOKED_AT)
    for b in candidates if home in candidates or home not in packing.items else [*candidates, home]:
        if packing.effort < 0:
            break
        if b != a and packing.problem.may_own(p, b) and b not in packing.reserved:
            best = min(best, _swap(packing, p, b, before))
    change, b, q = best
    if b < 0:
        return False
    packing.take(p)
    if q >= 0:
        packing.take(q)
        packing.put(q, a)
    packing.put(p, b)
    return True


def _swap(packing: Packing, p: int, b: int, before: float) -> tuple[float, int, int]:
    """The greatest saving by a swap of p with one of b's: the change, b, and the other."""
    a, weight = packing.owner[p], packing.weight
    best = (0.0, -1, -1)
    room_a, room_b = packing.room(a) + weight[p], packing.room(b) - weight[p]
    at_stake = before + packing.ahead_now(b) + packing.cost(p, a) - packing.cost(p, b)
    packing.effort -= len(packing.items[b])
    for q in packing.items[b]:
        if weight[q] > room_a or room_b + weight[q] < 0 or not packing.problem.may_own(q, a):
            continue
        moved = packing.cost(q, a) - packing.cost(q, b)
        if moved >= at_stake:
            continue
        after = packing.ahead_swapped(a, p, q) + packing.ahead_swapped(b, q, p)
        best = min(best, (moved + after - at_stake, b, q))
    return best if best[0] < 0 else (0.0, -1, -1)


def ruin_and_recreate(packing: Packing, stuck: list[int], rounds: int = RUINS) -> list[int]:
    """Empty and refill some members at a time until all partitions have a place; returned are those without one.

    After Schrimpf et al., "Record breaking optimization results using the ruin and recreate principle" (2000).

    >>> from apportion.sizing.problem import SizingProblem
    >>> problem = SizingProblem([4, 3, 2], [5, 5], 5, [0, 0, 1])
    >>> packing = start(problem, swing=0.0, most_processes=2)
    >>> held_by = packing.take(2)
    >>> ruin_and_recreate(packing, [2]), packing.owner
    ([], [0, 1, 1])
    """
    draw = random.Random(len(packing.weight))  # noqa: S311 - the same input must give the same plan
    for _ in range(rounds):
        if not stuck or packing.effort < -RUIN_EFFORT:
            break
        stuck = _ruin_once(packing, stuck, draw)
    return stuck


def _ruin_once(packing: Packing, stuck: list[int], draw: random.Random) -> list[int]:
    problem, weight = packing.problem, packing.weight
    p = stuck[draw.randrange(len(stuck))]
    around = {m for m in packing.items if m == problem.previous_owner[p]}
    open_members = packing.by_room(MEMBERS_LOOKED_AT)
    around.update(draw.choices(open_members, k=draw.randrange(1, 5)) if open_members else ())
    around -= packing.reserved
    out = [q for m in sorted(around) for q in sorted(packing.items[m])
           if problem.previous_owner[q] != m or draw.random() < 0.35]  # fmt: skip
    before = {q: packing.owner[q] for q in out}
    # Each partition counts as moved, or more than all could, where it has no place.
    lost = 4 * problem.new_capacity
    worth = (
        sum(map(packing.ahead_now, packing.items))
        + sum(packing.cost(q, m) for q, m in before.items())
        + lost * len(stuck)
    )
    for q in out:
        packing.take(q)
    unplaced = []
    for q in sorted([*out, *stuck], key=lambda q: -weight[q] * draw.uniform(0.7, 1.3)):
        m = _cheapest_place(packing, q)
        if m is None:
            unplaced.append(q)
        else:
            packing.put(q, m)
    after = sum(map(packing.ahead_now, packing.items)) + lost * len(unplaced)
    after += sum(packing.cost(q, packing.owner[q]) for q in {*out, *stuck} if packing.owner[q] >= 0)
    if after <= worth:
        return unplaced
    for q in {*out, *stuck}:
        if packing.owner[q] >= 0:
            packing.take(q)
    for q, m in before.items():
        packing.put(q, m)
    return stuck


def _cheapest_place(packing: Packing, p: int) -> int | None:
    best: tuple[float, int] | None = None
    members = packing.with_room(packing.weight[p], MEMBERS_LOOKED_AT)
    packing.effort -= len(members) // 4  # most of them may not have it, where members want different topics
    for m in members:
        if packing.problem.may_own(p, m):
            price = packing.cost(p, m) + packing.ahead(m, plus=p) - packing.ahead_now(m)
            if best is None or price < best[0]:
                best = (price, m)
    return best[1] if best else None

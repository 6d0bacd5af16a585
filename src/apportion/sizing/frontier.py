"""The frontier: for each number of members that makes sense a plan that moves little; none is beaten by another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

from apportion.sizing import exact, repair
from apportion.sizing.bounds import least_members, least_moved
from apportion.sizing.packing import Packing
from apportion.sizing.problem import SizingProblem

STEPS_MAX: Final = 40
"""Plans that are looked for at most; where more numbers of members are possible, several members go at once."""
MANY_PARTITIONS: Final = 2_000
"""Beyond, a quarter as many plans are looked for."""


@dataclass(frozen=True)
class Candidate:
    """One plan.

    members
        How many it needs, those that stay without work to make up a demanded number included.
    moved, moved_bound
        Units of weight that change hands, and a bound for every plan of so many members: equal ones prove the plan.
    owner
        (P,) members 0 to M - 1, newcomers from M on, without gaps.
    idle
        Members of the count that have nothing.
    """

    members: int
    moved: int
    moved_bound: int
    owner: list[int]
    idle: int = 0


@dataclass(frozen=True)
class Frontier:
    """Plans by descending number of members, ascending weight moved; ``bound``: members that every plan needs."""

    candidates: list[Candidate]
    bound: int


def frontier(problem: SizingProblem, low: int, high: int, swing: float) -> Frontier:
    """All plans worth showing on low to high members; no candidate if the search found none that fits.

    swing
        How much a partition's weight changes until the next call: a standard deviation, as a share of a newcomer's
        capacity. It only breaks ties, so that the next change moves little.

    >>> from apportion.sizing.problem import SizingProblem
    >>> problem = SizingProblem([4, 3, 2], [5, 5], 5, [0, 0, 1])
    >>> [(plan.members, plan.moved) for plan in frontier(problem, 1, 3, swing=0.0).candidates]
    [(2, 3)]
    """
    threads = problem.threads
    bound = _in_processes(least_members(problem), threads)
    # Fewer than are demanded would be made up with idle ones, which a plan for the demanded number beats.
    plans = _plans(problem, max(bound, low), high, swing)
    if exact.applies(problem):
        plans, bound = _closed(problem, plans, bound, low, high)
    bounds = least_moved(problem)
    candidates: list[Candidate] = []
    padded = [_padded(plan, low, threads) for plan in plans]
    for plan in sorted(padded, key=lambda plan: (plan.members, plan.moved, -plan.moved_bound)):
        if plan.members > high or (candidates and candidates[-1].moved <= plan.moved):
            continue
        closed = max(0, problem.processes - plan.members // threads)
        least = max(plan.moved_bound, bounds[min(closed, len(bounds) - 1)])
        owner = _idle_to_previous_owners(problem, plan.owner)
        candidates.append(replace(plan, owner=owner, moved_bound=min(least, plan.moved)))
    return Frontier(candidates[::-1], bound)


def _idle_to_previous_owners(problem: SizingProblem, owner: Sequence[int]) -> list[int]:
    """The same plan, partitions without work back at owners that stay: no search saves by leaving them there."""
    new_owner, held = list(owner), Counter(owner)
    alone = {owner[p] for p in problem.oversize}
    for p, home in enumerate(problem.previous_owner):
        m = new_owner[p]
        stays = home >= 0 and held[home] and home not in alone and problem.may_own(p, home)
        if problem.weight[p] == 0 and home != m and stays and held[m] > 1:
            new_owner[p] = home
            held.update({home: 1, m: -1})
    return new_owner


def _in_processes(members: int, threads: int) -> int:
    return -(-members // threads) * threads


def _plans(problem: SizingProblem, fewest: int, high: int, swing: float) -> list[Candidate]:
    """Plans from the one that moves least down to ``fewest`` members, or to the fewest that the search finds."""
    most = max(high // problem.threads, 1)
    first = repair.start(problem, swing, most)
    if first is None:
        return _afresh(problem, high, swing)
    plans = []
    packing: Packing | None = first
    fewer_by = max(first.members - fewest, 0) // problem.threads
    stride = max(1, fewer_by // (STEPS_MAX if len(problem.weight) <= MANY_PARTITIONS else STEPS_MAX // 4))
    effort = repair.EFFORT * stride // max(fewer_by, 1)
    while packing is not None:
        plans.append(_candidate(packing))
        surplus = (packing.members - fewest) // problem.threads
        if surplus <= 0:
            break
        packing = repair.shrink(packing, effort, min(stride, surplus)) or repair.shrink(packing, effort)
    if plans[-1].members <= fewest:
        return plans
    return plans + _afresh(problem, min(high, plans[-1].members - problem.threads), swing)


def _afresh(problem: SizingProblem, high: int, swing: float) -> list[Candidate]:
    """A plan that forgets the past: fewer members than repair finds, or any if repair finds none."""
    if high < 1:
        return []
    nobody = replace(problem, previous_owner=[-1] * len(problem.weight))
    packing = repair.start(nobody, 0.0, max(high // problem.threads, 1), scarce=True)
    if packing is None or packing.members > high:
        return []
    candidate = _candidate(packing)
    owner = _at_previous_owners(problem, candidate.owner)
    moved = sum(
        w for w, m, home in zip(problem.weight, owner, problem.previous_owner, strict=True) if home >= 0 and home != m
    )
    return [replace(candidate, owner=owner, moved=moved)]


def _at_previous_owners(problem: SizingProblem, owner: list[int]) -> list[int]:
    """The same sharing, its parts given to those members of equal size and rights that had most of them.

    Whole processes first, so that none is torn, and within each its members.
    """
    busy, members = set(owner), dict[int, list[int]]()
    for m in [*range(problem.M), *sorted(m for m in busy if m >= problem.M)]:
        members.setdefault(repair.process_key(problem, m), []).append(m)
    parts = sorted({repair.process_key(problem, m) for m in busy})
    like = {m: _rights(problem, m) for mine in members.values() for m in mine}
    newcomers = [_rights(problem, problem.M)] * problem.threads
    like_of = {
        u: sorted(map(like.__getitem__, mine)) if mine[0] < problem.M else newcomers for u, mine in members.items()
    }
    pairs: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    for p, (m, had) in enumerate(zip(owner, problem.previous_owner, strict=True)):
        if had >= 0:
            both = repair.process_key(problem, m), repair.process_key(problem, had)
            pairs.setdefault(both, []).append((m, had, problem.weight[p]))
    by_process = [(u, v, sum(w for *_, w in shared)) for (u, v), shared in pairs.items()]
    present = [u for u, mine in members.items() if mine[0] < problem.M]
    seat: dict[int, int] = {}
    for u, v in _seated(by_process, parts, present, like_of).items():
        if v is None:  # newcomers in place of a process whose seats others took
            seat |= {m: problem.M * (problem.threads + 1) + len(owner) * problem.threads + m for m in members[u]}
            continue
        within = _seated(pairs.get((u, v), ()), [m for m in members[u] if m in busy], members[v], like)
        seat |= {m: m if home is None else home for m, home in within.items()}
    return _without_gaps([seat[m] for m in owner], problem.M)


def _rights(problem: SizingProblem, m: int) -> tuple[int, tuple[bool, ...]]:
    """The differences between members: how much each takes, and of which work."""
    return problem.takes(m), tuple(problem.eligible[min(m, problem.M)]) if problem.eligible else ()


def _seated(
    pairs: Sequence[tuple[int, int, int]], parts: Sequence[int], homes: Sequence[int], like: Mapping[int, object]
) -> dict[int, int | None]:
    """Each part's home of its like, those that share most first; None if none is left.

    pairs
        (part, home, weight) of what each home had of each part.
    """
    shared: dict[tuple[int, int], int] = {}
    for part, home, weight in pairs:
        shared[part, home] = shared.get((part, home), 0) + weight
    seat: dict[int, int | None] = {}
    taken: set[int] = set()
    for (part, home), _ in sorted(shared.items(), key=lambda entry: (-entry[1], entry[0])):
        if part not in seat and home not in taken and like[part] == like[home]:
            seat[part] = home
            taken.add(home)
    # Whose seat was taken sits where nobody of its like sits any more.
    for part in parts:
        if part not in seat:
            equal_seats = [home for home in homes if home not in taken and like[home] == like[part]]
            seat[part] = part if part in equal_seats else equal_seats[0] if equal_seats else None
            if seat[part] is not None:
                taken.add(cast("int", seat[part]))
    return seat


def _candidate(packing: Packing) -> Candidate:
    """The packing's owners; members of processes without any work are gone."""
    threads = packing.problem.threads
    busy = {repair.process_key(packing.problem, m) for m, held in packing.items.items() if held}
    members = [m for m in packing.items if repair.process_key(packing.problem, m) in busy]
    owner = _without_gaps(packing.owner, packing.problem.M)
    idle = len(members) - len(set(owner))
    return Candidate(_in_processes(len(members), threads), packing.moved, 0, owner, idle)


def _without_gaps(owner: list[int], M: int) -> list[int]:
    """Newcomers numbered from M on, in their order."""
    newcomers = {m: M + i for i, m in enumerate(sorted({m for m in owner if m >= M}))}
    return [newcomers.get(m, m) for m in owner]


def _padded(plan: Candidate, low: int, threads: int) -> Candidate:
    """The plan with empty members, if more were demanded than it needs."""
    lacking = max(0, _in_processes(low, threads) - plan.members)
    return replace(plan, members=plan.members + lacking, idle=plan.idle + lacking)


def _closed(
    problem: SizingProblem, plans: list[Candidate], bound: int, low: int, high: int
) -> tuple[list[Candidate], int]:
    """The best plans of a small group, by branch and bound, and the least members that it proves.

    Numbers below ``low`` are looked at for the least members alone: their plans are made up to ``low``, where others
    may move less.
    """
    # Repair may close the wrong process, and put what is heavier than any member on one that must give up what it has:
    # so no number is passed over up to today's with a newcomer for each such partition, and for each that nobody owns.
    alone = problem.oversize | {p for p, home in enumerate(problem.previous_owner) if home < 0}
    top = min(high, max([*(plan.members for plan in plans), bound, low, problem.M + len(alone)]))
    closed: list[Candidate] = []
    least = least_moved(problem)
    for n in range(bound, top + 1):
        known = min((p for p in [*plans, *closed] if p.members <= n), key=lambda p: p.moved, default=None)
        if known and known.moved == least[min(max(problem.M - n, 0), len(least) - 1)]:
            continue
        outcome = exact.least_moved_plan(problem, n, (known.moved, known.owner) if known else None)
        if outcome.owner is None:
            if outcome.finished and bound == n:
                bound = n + 1
            continue
        owner = _without_gaps(outcome.owner, problem.M)
        proved = outcome.finished and n >= low
        plan = Candidate(len(set(owner)), outcome.moved, outcome.moved if proved else 0, owner)
        closed.append(plan)
    return plans + closed, bound

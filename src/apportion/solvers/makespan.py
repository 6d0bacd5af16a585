"""Counts first, then lag, then stickiness: the best found plan for one set of members, and how good it must be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from apportion.arrays import NOBODY, Bools, Ints, Longs
from apportion.solvers.branch_and_bound import Search
from apportion.solvers.equal_shares import max_kept
from apportion.solvers.fair_loads import pour
from apportion.solvers.goals import BALANCE, MOVES
from apportion.solvers.lexicographic import solve
from apportion.solvers.local_search import Draft, keep_more, settle
from apportion.solvers.number_partitioning import Limits, deal_limited, deal_to_slots, difference, lag_by_member, level
from apportion.solvers.problem import Problem

EFFORT = 200_000
EFFORT_EACH = 15
"""Partitions that one local search looks at, at most: so many, and so many more for each partition of the group."""
ROOTED = 4
"""So many times more where the search starts from past owners: what it does not reach costs moves."""
FEW = 500
"""Partitions up to which every start is searched, not the most promising alone."""
EXACT_MAX_PARTITIONS = 12
"""Partitions up to which a search through all plans is tried."""
NODES = 20_000


@dataclass(frozen=True, eq=False)
class Sharing:
    """The partitions to be shared, and their members.

    lag, past
        (P,) messages; who had the partition and may have it again, -1 nobody.
    kind, may
        (P,) which of C kinds a partition is; (C, M) who may own which kind. Nobody may own nothing at all.
    max_skew
        How far counts may leave the fair ones: no two like members differ by more than 1 + max_skew.
    """

    lag: Longs
    past: Ints
    kind: Ints
    may: Bools
    max_skew: int = 0

    @property
    def members(self) -> int:
        """M."""
        return int(self.may.shape[1])

    @property
    def effort(self) -> int:
        """Partitions that one local search looks at, at most."""
        return EFFORT + EFFORT_EACH * len(self.lag)

    @property
    def equal(self) -> bool:
        """Whether every member may own everything."""
        return len(self.may) == 1

    @cached_property
    def fresh(self) -> Ints:
        """(C, M) balanced counts, the past put aside."""
        return fair_counts(self.kind, self.may, np.full_like(self.kind, NOBODY))

    def may_own(self, member: Ints, partition: Ints) -> Bools:
        """Whether each member may own the partition in the same row."""
        allowed: Bools = self.may[self.kind[partition], member]
        return allowed

    def draft(self, owner: Ints, limits: Limits | None) -> Draft:
        """A full plan that can be improved within the limits on counts."""
        low, high = (limits.low, limits.high) if limits and self.max_skew else (None, None)
        return Draft(self.lag, owner.copy(), self.members, low, high, None if self.equal else self.may_own)

    def heaviest(self, owner: Ints) -> int:
        """Messages of the heaviest member."""
        return int(lag_by_member(self.lag, owner, self.members).max())


def fair_counts(kind: Ints, may: Bools, past: Ints) -> Ints:
    """(C, M) how many partitions of each kind each member holds in a plan of least squares that moves fewest.

    kind, may, past
        As in ``Sharing``: (P,), (C, M) and (P,). Lags do not count, so this is the sticky problem.

    >>> fair_counts(np.array([0, 0, 1]), np.array([[True, True], [False, True]]), np.array([0, 0, -1]))
    array([[2, 0],
           [0, 1]])
    """
    partition, member = np.arange(len(kind)), np.arange(may.shape[1])
    nobody = np.full_like(past, NOBODY)
    problem = Problem(kind, member, may, None, past, None, nobody, kind, partition, np.ones_like(member))
    owner = solve(problem, (BALANCE, MOVES))
    return np.bincount(kind * may.shape[1] + owner, minlength=may.size).reshape(may.shape)


@dataclass(frozen=True, eq=False)
class Shared:
    """The plan (P,), a bound on the heaviest member's lag that no plan beats, and whether no plan keeps more."""

    owner: Ints
    bound: int
    max_kept: bool


def share(sharing: Sharing, tolerance: float, start: Ints | None = None) -> Shared:
    """Share with balanced counts, the heaviest member as light as we can make it, and past owners kept.

    tolerance
        The heaviest member may be this part above what is possible at least, for the sake of past owners.
    start
        (P,) the plan to stay within the tolerance of, in place of the best we can make.

    >>> every = np.ones((1, 2), dtype=np.bool_)
    >>> sharing = Sharing(np.array([9, 5, 4, 1]), np.array([0, -1, -1, -1]), np.zeros(4, dtype=np.int64), every)
    >>> shared = share(sharing, tolerance=0.0)
    >>> shared.owner, shared.bound, shared.max_kept
    (array([0, 1, 1, 0]), 10, True)
    """
    limits = _limits(sharing)
    bound = lower_bound(sharing)
    stretched = int(bound * (1 + Fraction(str(tolerance))))
    has_past = bool((sharing.past != NOBODY).any())
    tiny = start is None and _tiny(sharing)
    rooted = _rooted_draft(sharing, limits[0], stretched) if has_past else None
    if rooted is not None and not tiny and _settled(rooted, stretched, ROOTED * sharing.effort if tolerance else 0):
        # The bound alone shows that this is near enough: what the best plan looks like need not be known.
        return _keep(sharing, [rooted], stretched, bound)
    best = start if start is not None else _lightest(sharing, limits, bound)
    if start is None and sharing.max_skew and len(sharing.lag) <= FEW and sharing.heaviest(best) > bound:
        best = _no_worse_than_even(sharing, best)
    squares = int(np.sum(np.bincount(best, minlength=sharing.members) ** 2))
    if tiny and sharing.heaviest(best) > bound:
        search = _search(sharing, limits[0], squares)
        if search.least_lag(best):
            best, bound = np.array(search.best, dtype=np.int64), search.heaviest
            stretched = int(bound * (1 + Fraction(str(tolerance))))
    if rooted is None:
        return Shared(best, bound, True)
    _settled(rooted, max(stretched, sharing.heaviest(best)), ROOTED * sharing.effort)
    limit = max(stretched, min(sharing.heaviest(best), int(rooted.held.max())))
    shared = _keep(sharing, [_relabelled(sharing, best, limits[0]), rooted], limit, bound)
    return _keep_exactly(sharing, limits[0], squares, shared, limit) if tiny and not shared.max_kept else shared


def _no_worse_than_even(sharing: Sharing, best: Ints) -> Ints:
    """Leave to skew counts makes no plan heavier: the best of fair counts, if the wider search missed it."""
    even = share(replace(sharing, max_skew=0), 0.0).owner
    return even if sharing.heaviest(even) < sharing.heaviest(best) else best


def _rooted_draft(sharing: Sharing, limits: Limits, goal: int) -> Draft:
    return sharing.draft(_levelled(sharing, _rooted(sharing, limits), goal), limits)


def _settled(draft: Draft, goal: int, effort: int) -> bool:
    """Whether a local search brings the heaviest member to the goal."""
    settle(draft, goal, effort)
    return int(draft.held.max()) <= goal


def lower_bound(sharing: Sharing, least: int | None = None) -> int:
    """Messages that the heaviest member must have in any plan: the largest of several bounds that hold.

    least
        Partitions that every one of equal members must hold; None: what balance over all partitions asks for.

    Its heaviest partition; the mean, over all members and over those that alone may own some kinds; and with equal
    members, where k * M + 1 partitions leave one member k + 1 of them, those and the lightest that its count needs.

    >>> every = np.ones((1, 2), dtype=np.bool_)
    >>> sharing = Sharing(np.array([9, 5, 4, 1]), np.array([0, -1, -1, -1]), np.zeros(4, dtype=np.int64), every)
    >>> lower_bound(sharing)
    10
    """
    lag, members = sharing.lag, sharing.members
    if not len(lag):
        return 0
    best = max(int(lag.max()), -(-int(lag.sum()) // members))
    if not best:
        return 0  # nobody has anything to read
    if not sharing.equal:
        return max(best, _narrow_mean(sharing))
    if least is None:
        least = max(0, len(lag) // members - sharing.max_skew)
    light = np.concatenate([np.zeros(1, dtype=lag.dtype), np.cumsum(np.sort(lag))])
    k = np.arange(min(64, (len(lag) - 1) // members + 1))
    # Of the falling lags those from number k M - k to k M: counted from the other end of the rising ones.
    together = light[len(lag) - k * members + k] - light[len(lag) - k * members - 1]
    return max(best, int((together + light[np.maximum(0, least - k - 1)]).max()))


def _narrow_mean(sharing: Sharing) -> int:
    """The largest mean lag over the subscribers of a kind, of all that only they may own."""
    may = sharing.may
    of_kind = np.zeros(len(may), dtype=sharing.lag.dtype)
    np.add.at(of_kind, sharing.kind, sharing.lag)
    best = 0
    for c in np.argsort(may.sum(axis=1), kind="stable")[:512].tolist():
        within = ~(may & ~may[c]).any(axis=1)
        best = max(best, -(-int(of_kind[within].sum()) // int(may[c].sum())))
    return best


def _limits(sharing: Sharing) -> list[Limits]:
    """The windows of counts that are tried: as low as high, then leaning low, then leaning high."""
    base_low, base_high = _fair(sharing)
    skew = sharing.max_skew
    # A window one wider than the skew: at max_skew 0 the fair counts themselves.
    wide = base_low + 1 if skew and sharing.equal else base_high
    below = dict.fromkeys([skew // 2, (skew + 1) // 2, skew, 0] if sharing.equal else [skew // 2])
    return [Limits(np.maximum(0, base_low - a), wide + skew - a) for a in below]


def _fair(sharing: Sharing) -> tuple[Ints, Ints]:
    """(M,) the least and most that like members hold in a plan of fair counts."""
    if sharing.equal:
        least, odd = divmod(len(sharing.lag), sharing.members)
        low = np.full(sharing.members, least, dtype=np.int64)
        return low, low + (odd > 0)
    load = sharing.fresh.sum(axis=0)
    if not sharing.max_skew:
        return load, load
    _, like = np.unique(sharing.may, axis=1, return_inverse=True)
    low = np.full(sharing.members, np.iinfo(np.int64).max)
    high = np.zeros(sharing.members, dtype=np.int64)
    np.minimum.at(low, like, load)
    np.maximum.at(high, like, load)
    return low[like], high[like]


def _window(sharing: Sharing, owner: Ints, limits: Limits) -> Limits:
    """The window that the counts of a plan lie in."""
    if not sharing.equal:
        return limits
    most = int(np.bincount(owner, minlength=sharing.members).max())
    high = np.full(sharing.members, max(most, 1 + sharing.max_skew), dtype=np.int64)
    return Limits(high - 1 - sharing.max_skew, high)


def _starts(sharing: Sharing, limits: Limits) -> list[Ints]:
    """Plans to improve: each (P,)."""
    if not len(sharing.lag):
        return [np.empty(0, dtype=np.int64)]
    if sharing.equal:
        return [difference(sharing.lag, sharing.members), deal_limited(sharing.lag, limits)]
    return [deal_to_slots(sharing.lag, sharing.kind, _slots(sharing.fresh), [0] * sharing.members)]


def _slots(table: Ints) -> dict[int, list[tuple[int, int]]]:
    slots: dict[int, list[tuple[int, int]]] = {c: [] for c in range(len(table))}
    for c, m in np.argwhere(table > 0).tolist():
        slots[c].append((m, int(table[c, m])))
    return slots


def _lightest(sharing: Sharing, limits: list[Limits], bound: int) -> Ints:
    """The start that a local search makes lightest; of many partitions only the lightest start is searched."""
    starts = [(owner, window) for window in limits for owner in _starts(sharing, window)]
    starts.sort(key=lambda start: sharing.heaviest(start[0]))
    searched = starts if len(sharing.lag) <= FEW else starts[:2]
    drafts = [sharing.draft(_levelled(sharing, owner, bound), window) for owner, window in searched]
    drafts.sort(key=lambda draft: int(draft.held.max()))
    for draft in drafts if len(sharing.lag) <= FEW else drafts[:1]:
        settle(draft, bound, sharing.effort)
    return min(drafts, key=lambda draft: int(draft.held.max())).owner


def _levelled(sharing: Sharing, owner: Ints, goal: int) -> Ints:
    return level(sharing.lag, owner, sharing.members, goal) if sharing.equal else owner


def _keep(sharing: Sharing, drafts: list[Draft], limit: int, bound: int) -> Shared:
    """Of the plans within the limit the one that keeps most, after all possible homecomings within it."""
    within = [draft for draft in drafts if int(draft.held.max()) <= limit]
    for draft in within:
        keep_more(draft, sharing.past, limit, sharing.effort)
    owner = max(within, key=lambda draft: _kept(sharing.past, draft.owner)).owner
    return Shared(owner, bound, _kept(sharing.past, owner) >= _max_kept(sharing))


def _keep_exactly(sharing: Sharing, limits: Limits, squares: int, shared: Shared, limit: int) -> Shared:
    """The plan that keeps most of all within the limit, by a search through them all."""
    search = _search(sharing, limits, squares)
    shown = search.max_kept(shared.owner, limit)
    return Shared(np.array(search.best, dtype=np.int64), shared.bound, shown)


def _kept(past: Ints, owner: Ints) -> int:
    return int(((past != NOBODY) & (past == owner)).sum())


def _max_kept(sharing: Sharing) -> int:
    """No plan of fair counts keeps more than this, at any lag."""
    if not sharing.equal or sharing.max_skew:
        return int(np.count_nonzero(sharing.past != NOBODY))
    return max_kept(sharing.past, sharing.members)


def _rooted(sharing: Sharing, limits: Limits) -> Ints:
    """(P,) a plan of fair counts that starts from the past owners and leaves them as much as it can."""
    past = sharing.past
    if sharing.equal:
        had = np.bincount(past[past != NOBODY], minlength=sharing.members)
        table = _into_limits(had, limits, len(past))[None, :]
    else:
        table = fair_counts(sharing.kind, sharing.may, past)
    fixed = _stay(sharing, table)
    owner = np.where(fixed, past, NOBODY)
    held = lag_by_member(sharing.lag, owner, sharing.members)
    stays = np.zeros_like(table)
    np.add.at(stays, (sharing.kind[fixed], past[fixed]), 1)
    given = deal_to_slots(sharing.lag[~fixed], sharing.kind[~fixed], _slots(table - stays), [int(h) for h in held])
    owner[~fixed] = given
    return owner


def _into_limits(had: Ints, limits: Limits, partitions: int) -> Ints:
    """(M,) counts within the limits and as near to those had as fairness allows, ``partitions`` in all."""
    count: Ints = np.clip(had, limits.low, limits.high)
    short = partitions - int(count.sum())
    return count + pour(short, count) if short >= 0 else count - pour(-short, -count)


def _stay(sharing: Sharing, table: Ints) -> Bools:
    """(P,) partitions that stay: of each kind as many as the table leaves the past owner, the lightest of them."""
    past, kind = sharing.past, sharing.kind
    group = np.where(past == NOBODY, -1, kind * sharing.members + past)
    order = np.argsort(sharing.lag, kind="stable")
    order = order[np.argsort(group[order], kind="stable")]
    listed = group[order]
    first = np.searchsorted(listed, listed)
    position = np.arange(len(listed)) - first
    stays = np.zeros(len(past), dtype=np.bool_)
    stays[order] = (listed >= 0) & (position < table.ravel()[np.maximum(listed, 0)])
    return stays


def _relabelled(sharing: Sharing, best: Ints, limits: Limits) -> Draft:
    owner = _relabel(sharing, best)
    return sharing.draft(owner, _window(sharing, owner, limits))


def _relabel(sharing: Sharing, owner: Ints) -> Ints:
    """(P,) the plan with shares exchanged among like members, so that more past owners keep theirs."""
    _, like = np.unique(sharing.may, axis=1, return_inverse=True)
    like = like.ravel()
    rooted = np.flatnonzero(sharing.past != NOBODY)
    pair, overlap = np.unique(owner[rooted] * sharing.members + sharing.past[rooted], return_counts=True)
    new = np.full(sharing.members, NOBODY, dtype=np.int64)
    taken = np.zeros(sharing.members, dtype=np.bool_)
    for i in np.argsort(-overlap, kind="stable").tolist():
        bundle, member = divmod(int(pair[i]), sharing.members)
        if new[bundle] == NOBODY and not taken[member] and like[bundle] == like[member]:
            new[bundle], taken[member] = member, True
    for bundle in np.flatnonzero(new == NOBODY).tolist():
        member = int(np.flatnonzero(~taken & (like == like[bundle]))[0])
        new[bundle], taken[member] = member, True
    return new[owner]


def _tiny(sharing: Sharing) -> bool:
    return len(sharing.lag) <= EXACT_MAX_PARTITIONS and sharing.members <= 6 and (sharing.equal or not sharing.max_skew)


def _search(sharing: Sharing, limits: Limits, squares: int) -> Search:
    """A search through all plans of fair counts."""
    skew = sharing.max_skew

    def fair(count: list[int]) -> bool:
        return max(count) - min(count) <= 1 + skew if skew else sum(n * n for n in count) == squares

    most = len(sharing.lag) // sharing.members + 1 + skew if sharing.equal else len(sharing.lag)
    high = np.full(sharing.members, most, dtype=np.int64)
    return Search(sharing.lag, sharing.may[sharing.kind], sharing.past, high, fair, NODES)

"""Local search on lag: exchange partitions between members until the heaviest is light enough, or nothing helps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from apportion.arrays import NOBODY, Bools, Ints, Longs
from apportion.solvers.number_partitioning import lag_by_member

MayOwn = Callable[[Ints, Ints], Bools]
"""Whether each member may own the partition beside it."""
NEAREST = 6
"""Partners that are compared once one that helps is found."""
OVERHEAD = 200
"""What looking at one trade costs besides its partitions, in partitions."""
PATIENCE = 500
"""Partitions in a row that cannot be brought home before no more are tried."""
PAIRED = 40
"""Longer lists are searched for single partitions only, not for pairs."""


@dataclass(eq=False)
class Draft:
    """A full plan while it is improved.

    lag, owner
        (P,) messages, and the member of each partition.
    low, high
        (M,) how many partitions a member must and may hold; None where only the present counts may change places.
    may_own
        None where every member may own everything.
    """

    lag: Longs
    owner: Ints
    members: int
    low: Ints | None = None
    high: Ints | None = None
    may_own: MayOwn | None = None
    held: Longs = field(init=False)
    count: Ints = field(init=False)
    lists: list[Ints] = field(init=False)

    def __post_init__(self) -> None:
        self.held = lag_by_member(self.lag, self.owner, self.members)
        self.count = np.bincount(self.owner, minlength=self.members)
        order = np.lexsort((self.lag, self.owner)) if self.lag.dtype != object else self._slow_order()
        self.lists = np.split(order, np.cumsum(self.count)[:-1])

    def _slow_order(self) -> Ints:
        by_lag = np.argsort(self.lag, kind="stable")
        return by_lag[np.argsort(self.owner[by_lag], kind="stable")]

    def counts_allow(self, giver: int, taker: int, net: int) -> bool:
        """Whether the giver may end with ``net`` partitions fewer and the taker with as many more."""
        less, more = int(self.count[giver]) - net, int(self.count[taker]) + net
        if net == 0 or (less, more) == (self.count[taker], self.count[giver]):
            return True
        if self.low is None or self.high is None:
            return False
        return bool(self.low[giver] <= less <= self.high[giver] and self.low[taker] <= more <= self.high[taker])

    def may_take(self, member: int, partitions: Ints) -> Ints:
        """Those of the partitions that the member may own."""
        if self.may_own is None:
            return partitions
        return partitions[self.may_own(np.full(len(partitions), member, dtype=np.int64), partitions)]

    def exchange(self, giver: int, given: list[int], taker: int, taken: list[int]) -> None:
        """Hand ``given`` from giver to taker, and ``taken`` back."""
        shift = sum(int(self.lag[p]) for p in given) - sum(int(self.lag[p]) for p in taken)
        self.owner[given], self.owner[taken] = taker, giver
        self.held[giver] -= shift
        self.held[taker] += shift
        self._relist(giver, given, taken)
        self._relist(taker, taken, given)

    def _relist(self, member: int, gone: list[int], come: list[int]) -> None:
        partitions = self.lists[member]
        for partition in gone:
            partitions = partitions[partitions != partition]
        merged = np.concatenate([partitions, np.array(come, dtype=np.int64)])
        self.lists[member] = merged[np.argsort(self.lag[merged], kind="stable")]
        self.count[member] = len(merged)


@dataclass(frozen=True, eq=False)
class Trade:
    """The partitions that two members can exchange, and by how much it lowers the heavier of the two."""

    gain: int
    taker: int
    given: list[int]
    taken: list[int]


def settle(plan: Draft, goal: int, effort: int) -> None:
    """Lower the heaviest member's lag until it is at most ``goal``, no trade helps, or the effort is spent.

    effort
        Partitions looked at, in all: time is bounded, and the same on every machine.

    >>> draft = Draft(np.array([9, 5, 4, 1]), np.array([0, 0, 1, 1]), 2)
    >>> settle(draft, goal=10, effort=1_000)
    >>> draft.held
    array([10,  9])
    """
    while plan.members > 1 and effort > 0:
        heaviest = int(np.argmax(plan.held))
        if plan.held[heaviest] <= goal:
            return
        trade, spent = _best_trade(plan, heaviest, effort, _singles)
        effort -= spent
        if trade is None and plan.count[heaviest] <= PAIRED:
            trade, spent = _best_trade(plan, heaviest, effort, _pairs)
            effort -= spent
        if trade is None:
            return
        plan.exchange(heaviest, trade.given, trade.taker, trade.taken)


Bundles = Iterator[tuple[int, int, Ints, Ints]]
"""Sizes given and taken, and the bundles of each size: rows of partitions, single ones by ascending lag."""


def _best_trade(
    plan: Draft, heaviest: int, effort: int, kinds: Callable[[Ints, Ints], Bundles]
) -> tuple[Trade | None, int]:
    """The best trade of the heaviest with its lightest useful partners, and the effort it took to find."""
    best: Trade | None = None
    spent = 0
    for rank, taker in enumerate(_lightest_first(plan.held)):
        gap = int(plan.held[heaviest] - plan.held[taker])
        if gap <= 1 or spent > effort or (best and (rank >= NEAREST or gap // 2 <= best.gain)):
            break
        mine, theirs = plan.may_take(taker, plan.lists[heaviest]), plan.may_take(heaviest, plan.lists[taker])
        for give, take, given, taken in kinds(mine, theirs):
            spent += given.size + taken.size + OVERHEAD
            if plan.counts_allow(heaviest, taker, give - take):
                best = _better(plan, gap, taker, given, taken, best)
    return best, spent


def _lightest_first(held: Longs) -> Iterator[int]:
    """Members by lag ascending; the first few without sorting the rest."""
    first = min(NEAREST, len(held))
    # By the value of the n-th, since which of equals argpartition picks differs from machine to machine.
    lightest = np.flatnonzero(held <= np.partition(held, first - 1)[first - 1])
    yield from lightest[np.argsort(held[lightest], kind="stable")][:first].tolist()
    yield from np.argsort(held, kind="stable")[first:].tolist()


def _singles(mine: Ints, theirs: Ints) -> Bundles:
    """One for one, one for nothing."""
    nothing = np.empty((1, 0), dtype=np.int64)
    yield 1, 1, mine[:, None], theirs[:, None]
    yield 1, 0, mine[:, None], nothing


def _pairs(mine: Ints, theirs: Ints) -> Bundles:
    """Two for two, two for one, one for two."""
    if len(theirs) > PAIRED:
        return
    two, other_two = _couples(mine), _couples(theirs)
    yield 2, 2, two, other_two
    yield 2, 1, two, theirs[:, None]
    yield 1, 2, mine[:, None], other_two


def _couples(partitions: Ints) -> Ints:
    return np.array(list(combinations(partitions.tolist(), 2)), dtype=np.int64).reshape(-1, 2)


def _better(plan: Draft, gap: int, taker: int, given: Ints, taken: Ints, best: Trade | None) -> Trade | None:
    """The trade of one bundle for another that comes nearest to half the gap, if it beats the best so far."""
    if not len(given) or not len(taken):
        return best
    out, back = _weights(plan.lag, given), _weights(plan.lag, taken)
    order = np.argsort(out, kind="stable") if given.shape[1] > 1 else np.arange(len(out))
    at = np.searchsorted(out[order], back + gap // 2)
    near = np.concatenate([np.minimum(at, len(order) - 1), np.maximum(at - 1, 0)])
    back_of = np.concatenate([np.arange(len(back))] * 2)
    shift = out[order[near]] - back[back_of]
    gain = np.minimum(shift, gap - shift)
    top = int(np.argmax(gain))
    if gain[top] <= (best.gain if best else 0):
        return best
    return Trade(int(gain[top]), taker, given[order[near[top]]].tolist(), taken[back_of[top]].tolist())


def _weights(lag: Longs, bundles: Ints) -> Longs:
    """(bundles,) messages in each."""
    return lag[bundles[:, 0]] if bundles.shape[1] == 1 else lag[bundles].sum(axis=1)


def keep_more(plan: Draft, past: Ints, limit: int, effort: int) -> None:
    """Bring partitions back to their past owners as long as no member's lag passes ``limit``.

    past
        (P,) who had the partition and may have it again; -1 nobody.

    >>> draft = Draft(np.array([5, 5, 4, 4]), np.array([0, 1, 0, 1]), 2)
    >>> keep_more(draft, past=np.array([1, 0, -1, -1]), limit=9, effort=1_000)
    >>> draft.owner
    array([1, 0, 0, 1])
    """
    improved = True
    while improved:
        improved, failed = False, 0
        for p in np.flatnonzero((past != NOBODY) & (past != plan.owner)).tolist():
            if past[p] == plan.owner[p]:
                continue  # it came home in exchange for another one
            effort -= len(plan.lists[int(past[p])]) + OVERHEAD
            failed = 0 if _bring_back(plan, past, p, limit) else failed + 1
            improved = improved or not failed
            if effort < 0 or failed > PATIENCE:
                return


def _bring_back(plan: Draft, past: Ints, partition: int, limit: int) -> bool:
    """Give the partition to its past owner, for another one that this member may give away."""
    holder, home = int(plan.owner[partition]), int(past[partition])
    lag = int(plan.lag[partition])
    if plan.held[home] + lag <= limit and plan.counts_allow(holder, home, 1):
        plan.exchange(holder, [partition], home, [])
        return True
    held = plan.lists[home]
    back = plan.lag[held]
    fits = (past[held] != home) & (back >= plan.held[home] + lag - limit) & (back <= limit - plan.held[holder] + lag)
    fits = plan.may_take(holder, held[fits.astype(np.bool_)])
    if not len(fits):
        return False
    returning = fits[past[fits] == holder]
    chosen = int(returning[0]) if len(returning) else int(fits[0])
    plan.exchange(holder, [partition], home, [chosen])
    return True

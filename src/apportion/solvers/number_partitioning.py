"""Hand out partitions by lag: Kafka's proposed rule, longest first under limits, and differencing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from apportion.arrays import NOBODY, Bools, Ints, Longs, ints

LEVELLED = 32
"""Partitions a member up to which all exchanges of a pair are looked at at once."""
ROUNDS = 4
"""Rounds without progress after which levelling ends."""


def heaviest_first(lag: Longs) -> Ints:
    """(P,) partitions by lag descending, then by place.

    >>> heaviest_first(np.array([4, 9, 4]))
    array([1, 0, 2])
    """
    return len(lag) - 1 - np.argsort(lag[::-1], kind="stable")[::-1]


def deal_rounds(lag: Longs, members: int) -> Ints:
    """(P,) the member of each partition: heaviest first, to the member with fewest, then least lag, then first.

    All members hold equally many when a round begins, so within a round the heaviest goes to the least burdened, the
    next to the next. Source: KIP-169, "Algorithm".

    >>> deal_rounds(np.array([100_000, 60_000, 50_000]), 2)
    array([0, 1, 1])
    """
    if members == 1 or not lag.any():
        return np.arange(len(lag)) % members  # every round begins with the first
    rounds = -(-len(lag) // members)
    order = heaviest_first(lag)
    by_lag = np.zeros(rounds * members, dtype=lag.dtype)
    by_lag[: len(lag)] = lag[order]
    owner = np.empty(len(lag), dtype=np.int64)
    owner[order] = _turns(by_lag.reshape(1, rounds, members)).ravel()[: len(lag)]
    return owner


def deal_rounds_many(lags: Sequence[Longs], members: Sequence[int]) -> list[Ints]:
    """``deal_rounds`` of many tables of lags at once: a round is dealt to all of them in a few calls.

    lags
        (N, P) each, every row a case of its own, summable in 64 bits.
    members
        To how many each table is dealt.
    Returns
        (N, P) owners for each table.

    >>> deal_rounds_many([np.array([[9, 5, 4, 1]])], [2])
    [array([[0, 1, 1, 0]])]
    """
    owners = [np.zeros(lag.shape, dtype=np.int64) for lag in lags]
    rounds = [-(-lag.shape[1] // m) for lag, m in zip(lags, members, strict=True)]
    open_ = [i for i, lag in enumerate(lags) if members[i] > 1 and lag.size]
    for together in _of_like_length(sorted(open_, key=lambda i: (members[i], rounds[i])), members, rounds):
        m, wide = members[together[0]], rounds[together[-1]]
        rows = sum(len(lags[i]) for i in together)
        by_lag = np.zeros((rows, wide * m), dtype=np.int64)
        orders, at = [], 0
        for i in together:
            lag = lags[i]
            order = lag.shape[1] - 1 - np.argsort(lag[:, ::-1], axis=1, kind="stable")[:, ::-1]
            orders.append(order)
            by_lag[at : at + len(lag), : lag.shape[1]] = np.take_along_axis(lag, order, axis=1)
            at += len(lag)
        turns = _turns(by_lag.reshape(rows, wide, m)).reshape(rows, wide * m)
        at = 0
        for i, order in zip(together, orders, strict=True):
            np.put_along_axis(owners[i], order, turns[at : at + len(order), : order.shape[1]], axis=1)
            at += len(order)
    return owners


def _of_like_length(ordered: Sequence[int], members: Sequence[int], rounds: Sequence[int]) -> Iterator[list[int]]:
    """Runs of tables that are dealt to equally many in about as many rounds: the part behind a table's end is waste."""
    run: list[int] = []
    for i in ordered:
        if run and (members[i] != members[run[0]] or rounds[i] > max(8, 1.25 * rounds[run[0]])):
            yield run
            run = []
        run.append(i)
    if run:
        yield run


def _turns(by_lag: Longs) -> Ints:
    """(N, rounds, M) who gets the heaviest of each round, the next, and so on, of lags that fall from round to round.

    Behind a case's end lags are 0, which changes nobody's burden.
    """
    rows, rounds, members = by_lag.shape
    # What a member holds, times the members, plus its place: in the order of these numbers a round is dealt.
    narrow = int(by_lag.max(initial=0)) * rounds * members**2 < 2**62
    lags = by_lag.astype(np.int64 if narrow else object) * members
    keys = np.empty_like(lags)
    line = np.broadcast_to(np.arange(members, dtype=lags.dtype), (rows, members)).copy()
    for n in range(rounds):
        line.sort(axis=1)
        keys[:, n] = line
        line += lags[:, n]
    turns: Ints = (keys % members).astype(np.int64)
    return turns


def deal_skewed(lag: Longs, members: int, max_skew: int) -> Ints:
    """(P,) as ``deal_rounds``, but less lag wins over fewer partitions, up to ``max_skew`` ahead of the fewest.

    Ties: least lag, then fewest partitions, then first.

    >>> deal_skewed(np.array([9, 3, 3, 3]), members=2, max_skew=1)
    array([0, 1, 1, 1])
    """
    owner = np.full(len(lag), NOBODY, dtype=np.int64)
    levels: dict[int, list[tuple[int, int]]] = {0: [(0, m) for m in range(members)]}
    low = 0
    for partition in heaviest_first(lag).tolist():
        while low not in levels:
            low += 1
        near = [count for count in levels if count <= low + max_skew]
        count = min(near, key=lambda count: (levels[count][0][0], count, levels[count][0][1]))
        held, member = heappop(levels[count])
        if not levels[count]:
            del levels[count]
        heappush(levels.setdefault(count + 1, []), (held + int(lag[partition]), member))
        owner[partition] = member
    return owner


@dataclass(frozen=True, eq=False)
class Limits:
    """How many partitions each member must and may hold: (M,) both, inclusive."""

    low: Ints
    high: Ints


def deal_limited(lag: Longs, limits: Limits) -> Ints:
    """(P,) longest first: heaviest partition to the least burdened member that may hold one more.

    >>> deal_limited(np.array([9, 3, 3, 3]), Limits(np.array([1, 1]), np.array([3, 3])))
    array([0, 1, 1, 1])
    """
    lows, highs = limits.low.tolist(), limits.high.tolist()
    owner = np.full(len(lag), NOBODY, dtype=np.int64)
    count = [0] * len(lows)
    queue = [(0, m) for m in range(len(lows)) if highs[m]]
    owed, narrow = sum(lows), False
    for assigned, partition in enumerate(heaviest_first(lag).tolist()):
        # From here on every partition is owed to a member that is still below its least.
        if not narrow and len(lag) - assigned <= owed:
            narrow, queue = True, [(held, m) for held, m in queue if count[m] < lows[m]]
            heapify(queue)
        held, member = heappop(queue)
        owed -= count[member] < lows[member]
        count[member] += 1
        owner[partition] = member
        if count[member] < (lows if narrow else highs)[member]:
            heappush(queue, (held + int(lag[partition]), member))
    return owner


def difference(lag: Longs, members: int) -> Ints:
    """(P,) balanced largest-first differencing: counts within one of each other, lags far closer than longest first.

    Runs of ``members`` partitions by lag are partial plans; again and again the two with the widest spread of lag
    are laid over each other head to foot. Source: Michiels, Korst, Aarts, van Leeuwen, "Performance ratios for the
    differencing method applied to the balanced number partitioning problem" (STACS 2003).

    >>> difference(np.array([8, 7, 6, 5, 4]), members=2)
    array([1, 0, 1, 0, 0])
    """
    rows = -(-len(lag) // members)
    padded = np.full(rows * members, NOBODY, dtype=np.int64)
    padded[: len(lag)] = heaviest_first(lag)
    table = padded.reshape(rows, members)
    sums: list[NDArray[np.int64]] = [np.where(row == NOBODY, 0, lag[row]) for row in table]
    turned: list[tuple[int, int, Ints]] = []
    heap = [(-int(row[0] - row[-1]), i) for i, row in enumerate(sums)]
    heapify(heap)
    while len(heap) > 1:
        (_, a), (_, b) = heappop(heap), heappop(heap)
        laid = sums[a] + sums[b][::-1]
        order = np.argsort(-laid, kind="stable")
        turned.append((a, b, order))
        heappush(heap, (-int(laid[order[0]] - laid[order[-1]]), len(sums)))
        sums.append(laid[order])
        sums[a] = sums[b] = laid[:0]
    return _unfold(table, turned, len(lag))


def _unfold(table: NDArray[np.int64], turned: list[tuple[int, int, Ints]], partitions: int) -> Ints:
    """Follow the overlays back from the whole plan to the rows: (P,) the member of each partition."""
    rows, members = table.shape
    owner = np.full(partitions + 1, NOBODY, dtype=np.int64)
    # who[i][c]: the member that gets column c of partial plan i.
    who: dict[int, Ints] = {rows + len(turned) - 1: np.arange(members)}
    for i in range(len(turned) - 1, -1, -1):
        a, b, order = turned[i]
        unsorted = np.empty(members, dtype=np.int64)
        unsorted[order] = who.pop(rows + i)
        who[a], who[b] = unsorted, unsorted[::-1]
    for row, members_of in who.items():
        owner[table[row]] = members_of
    return owner[:partitions]


def deal_to_slots(lag: Longs, kind: Ints, slots: dict[int, list[tuple[int, int]]], held: Iterable[int]) -> Ints:
    """(P,) longest first if each kind of partition has its own free slots.

    kind
        (P,) partitions of one kind have the same subscribers.
    slots
        Kind to (member, free slots); together as many as there are partitions of the kind.
    held
        (M,) messages that members have already.

    >>> deal_to_slots(np.array([9, 5, 4]), np.zeros(3, dtype=np.int64), {0: [(0, 1), (1, 2)]}, held=[0, 0])
    array([0, 1, 1])
    """
    burden = np.array(list(held), dtype=lag.dtype)
    takers = {k: ints([m for m, n in places if n]) for k, places in slots.items()}
    free = {k: ints([n for _, n in places if n]) for k, places in slots.items()}
    owner = np.full(len(lag), NOBODY, dtype=np.int64)
    kinds, lags = kind.tolist(), lag.tolist()
    for partition in heaviest_first(lag).tolist():
        k = kinds[partition]
        members = takers[k]
        at = int(np.argmin(burden[members]))
        member = owner[partition] = members[at]
        burden[member] += lags[partition]
        free[k][at] -= 1
        if not free[k][at]:
            takers[k], free[k] = np.delete(members, at), np.delete(free[k], at)
    return owner


def lag_by_member(lag: Longs, owner: Ints, members: int) -> Longs:
    """(M,) messages that each member has to read.

    >>> lag_by_member(np.array([9, 5, 4]), np.array([0, 1, 1]), members=3)
    array([9, 9, 0])
    """
    held = np.zeros(members, dtype=lag.dtype)
    mine: Bools = owner != NOBODY
    np.add.at(held, owner[mine], lag[mine])
    return held


def level(lag: Longs, owner: Ints, members: int, goal: int) -> Ints:
    """(P,) the plan after rounds in which every heavy member exchanges one partition with a light one, all at once.

    Counts stay. The heaviest is paired with the lightest, the next with the next; a round looks at all exchanges of all
    pairs. It ends when the heaviest is at most ``goal``, or has not become lighter for some rounds.

    >>> level(np.array([9, 5, 4, 1]), np.array([0, 0, 1, 1]), members=2, goal=10)
    array([0, 0, 1, 1])
    """
    owner = owner.copy()
    count = np.bincount(owner, minlength=members)
    columns = int(count.min())
    if members < 4 or not 0 < columns <= LEVELLED or lag.dtype == object:
        return owner
    order = np.lexsort((lag, owner))
    first = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(count)[:-1]])
    table = order[first[:, None] + np.arange(columns)]
    held = lag_by_member(lag, owner, members)
    least, waited = int(held.max()), 0
    while least > goal and waited < ROUNDS:
        _exchange_in_pairs(lag, table, held, goal)
        waited = waited + 1 if held.max() >= least else 0
        least = min(least, int(held.max()))
    owner[table] = np.arange(members)[:, None]
    return owner


def _exchange_in_pairs(lag: Longs, table: Ints, held: Longs, goal: int) -> None:
    """One round on the (M, columns) table of partitions and the lag that each member holds."""
    by_lag = np.argsort(held, kind="stable")
    half = min(len(held) // 2, int((held > goal).sum()))
    light, heavy = by_lag[:half], by_lag[::-1][:half]
    gap = held[heavy] - held[light]
    shift = lag[table[heavy]][:, :, None] - lag[table[light]][:, None, :]
    gain = np.minimum(shift, gap[:, None, None] - shift).reshape(half, -1)
    chosen = np.argmax(gain, axis=1)
    helps = np.flatnonzero(gain[np.arange(half), chosen] > 0)
    mine, theirs = np.divmod(chosen[helps], table.shape[1])
    heavy, light = heavy[helps], light[helps]
    moved = shift.reshape(half, -1)[helps, chosen[helps]]
    table[heavy, mine], table[light, theirs] = table[light, theirs], table[heavy, mine]
    held[heavy] -= moved
    held[light] += moved

"""Arrays to names: the only door out of a plan.

Nearly all of the time goes into the lists, one for each member and topic, and into fresh memory for them. So the ids in
them are objects that exist already, what a member said before is handed on where nothing changed, and members are named
some thousand partitions at a time, while the lists are still in the processor's cache when the dicts take them.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain, islice, pairwise
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from apportion.arrays import NOBODY, Bools, Ints
from apportion.model.group import Group

Assignment = dict[str, dict[str, list[int]]]
"""Member to topic to ascending partition ids."""
Shares = dict[str, dict[str, Sequence[int]]]
"""Member to topic to ascending ids, to hand on and not to change: the ids may be tuples."""
Kind = type[list[int]] | type[tuple[int, ...]]
BLOCK: Final = 16_384
"""Partitions that are named at a time: their lists and dicts fit into a megabyte or two."""
KEPT_ALONE: Final = 1 << 13
"""Ids whose tuples are kept: 0.6 MB."""


def owners_to_names(group: Group, owner: Ints) -> Assignment:
    """Member to topic to ids of an owner array (P,); every member has an entry, if only ``{}``."""
    return cast(Assignment, _named(group, owner, list))


def owners_to_shares(group: Group, owner: Ints) -> Shares:
    """Member to topic to ids, to be written at once: ids are tuples, and equal single ones are one tuple for all.

    A topic that is spread over more members than it has partitions gives each of them one. A list for each costs more
    than the whole plan: time, memory, and the garbage collector's look at it.
    """
    return _named(group, owner, tuple)


def _named(group: Group, owner: Ints, kind: Kind) -> Shares:
    """Member to topic to ids, in lists or tuples; lists that a member handed in and that did not change are those."""
    with collector_paused():
        order, held = by_owner(owner, group.M)
        holder = owner[order]
        as_given = group.claims.as_given
        if not as_given:
            return dict(zip(group.members, _Naming(group, kind, len(order)).shares(order, holder, held), strict=True))
        same = _unchanged(group, order, held)
        differs = ~same[holder]
        order, holder, changed = order[differs], holder[differs], np.where(same, 0, held)
        # To look for single lists that stayed pays off only where much changes, and new lists would need fresh memory.
        many = len(order) > max(BLOCK, len(differs) // 4)
        fresh = _Naming(group, kind, len(order), reuse=many).shares(order, holder, changed)
        shares: list[dict[str, Sequence[int]]] = [
            dict(old) if kept and old else new for kept, old, new in zip(same.tolist(), as_given, fresh, strict=True)
        ]
        return dict(zip(group.members, shares, strict=True))


def partitions_to_names(group: Group, chosen: Bools) -> dict[str, list[int]]:
    """Topic to ids of the chosen partitions (P,), topics sorted, ids ascending."""
    partition = np.flatnonzero(chosen)
    one = np.array([len(partition)])
    return cast(dict[str, list[int]], next(_Naming(group, list, len(partition)).shares(partition, partition * 0, one)))


def by_owner(owner: Ints, members: int) -> tuple[Ints, Ints]:
    """The owned partitions by member, then ascending, and (M,) how many each holds.

    By counting: 16 bits at a time are sorted without comparing.
    """
    if _is_dealt(owner, members):
        least, more = divmod(len(owner), members)
        dealt = np.arange((least + (more > 0)) * members).reshape(-1, members).T.ravel()
        held = np.full(members, least)
        held[:more] += 1
        return dealt[dealt < len(owner)] if more else dealt, held
    key = owner + 1
    order = key.astype(np.uint16).argsort(kind="stable")
    if members >= 1 << 16:
        order = order[(key >> 16)[order].astype(np.uint16).argsort(kind="stable")]
    held = np.bincount(key, minlength=members + 1)
    return order[held[0] :], held[1:]


def _is_dealt(owner: Ints, members: int) -> bool:
    """Whether the partitions go round and round the members, as those of new groups do: that takes no sorting."""
    if not members or len(owner) < 2 * members or owner[0] != 0 or owner[members - 1] != members - 1:
        return False
    first = np.arange(members)
    return bool((owner[:members] == first).all() and (owner[members:] == owner[:-members]).all())


def _unchanged(group: Group, order: Ints, held: Ints) -> Bools:
    """(M,) whether a member is to hold exactly what it said it held, in the order in which it said it.

    order
        The owned partitions by member.
    held
        (M,) how many each member is to hold.
    """
    member, partition = group.claims.member, group.claims.partition
    claimed = np.bincount(member, minlength=group.M)
    same: Bools = claimed == held
    # The n-th claim of a member against the n-th partition that it is to hold.
    shift = np.cumsum(held) - np.cumsum(claimed) - held + claimed
    compared = np.flatnonzero(same[member])
    differs = order[compared + shift[member[compared]]] != partition[compared]
    same[member[compared[differs]]] = False
    return same


def _alone(count: int) -> NDArray[np.object_]:
    """(count,) each of the first numbers in a tuple."""
    return np.fromiter(zip(range(count), strict=True), dtype=object, count=count)


@cache
def _kept_alone() -> NDArray[np.object_]:
    """The first ``KEPT_ALONE`` of them, which live as long as the process.

    The collector stops looking at tuples of numbers that it has seen once, and at dicts that hold no others: so these
    spare it a walk through the whole answer.
    """
    return _alone(KEPT_ALONE)


class _Naming:
    """What stays the same while the members of a group are named, block by block."""

    def __init__(self, group: Group, kind: Kind, named: int, *, reuse: bool = False) -> None:
        self.group = group
        self.kind = kind
        self.topics = np.array(group.topics, dtype=object)
        # Topics have the same ids: an object that is there already is quicker to come by than a new one.
        most = int(group.number.max(initial=0))
        self.ids = np.arange(most + 1).astype(object) if most < named else None
        self.alone = None
        if self.ids is not None and kind is tuple:
            self.alone = _kept_alone() if most < KEPT_ALONE else _alone(most + 1)
        self.before = _Before(group) if reuse else None

    def shares(self, partition: Ints, holder: Ints, held: Ints) -> Iterator[dict[str, Sequence[int]]]:
        """Topic to ids for each holder.

        partition, holder
            Partitions by holder, then ascending, and who holds each.
        held
            How many each holder has.
        """
        last = np.cumsum(held)
        cuts = np.searchsorted(last, np.arange(BLOCK, len(partition), BLOCK)) + 1
        ends = [0, *last.tolist()]
        spans = [(low, high, slice(ends[low], ends[high])) for low, high in pairwise([0, *cuts.tolist(), len(held)])]
        # A block is made when it is asked for. A generator would be called for each of its dicts.
        return chain.from_iterable(
            self._block(partition[at], holder[at], low, held[low:high]) for low, high, at in spans
        )

    def _block(self, partition: Ints, holder: Ints, low: int, held: Ints) -> list[dict[str, Sequence[int]]]:
        """What the holders from ``low`` on get, from topic to ids each; ``held`` as in ``shares``, of these holders."""
        if not len(partition):
            return [{} for _ in held]
        topic = self.group.topic_of[partition]
        begins = np.ones(len(partition), dtype=np.bool_)
        np.not_equal(topic[1:], topic[:-1], out=begins[1:])
        begins[1:] |= holder[1:] != holder[:-1]
        starts, holders, parts = begins.nonzero()[0], holder, held
        if len(starts) < len(partition):
            topic, holders = topic[starts], holder[starts]
            parts = np.bincount(holders - low, minlength=len(held))
        lists = self._lists(partition, holders, starts)
        pairs = zip(_taken(self.topics, topic), lists, strict=True)
        return [dict(islice(pairs, n)) for n in parts.tolist()]

    def _fresh(self, partition: Ints, starts: Ints) -> Sequence[Sequence[int]]:
        """The ids of each run of partitions that begins at ``starts``."""
        number = self.group.number[partition]
        single = len(starts) == len(number)
        if single and self.alone is not None and self.kind is tuple:
            return _taken(self.alone, number)
        ids = self.kind(number.tolist() if self.ids is None else _taken(self.ids, number))
        if single and self.kind is list:
            return [[n] for n in ids]  # half the time of slices
        return [ids[a:b] for a, b in pairwise([*starts.tolist(), len(ids)])]

    def _lists(self, partition: Ints, holders: Ints, starts: Ints) -> Sequence[Sequence[int]]:
        """The ids of each run; where the run's holder listed just those before, that list."""
        if self.before is None:
            return self._fresh(partition, starts)
        at = self.before.find(partition, holders, starts)
        new = at == NOBODY
        size = np.diff(starts, append=len(partition))
        fresh = self._fresh(partition[np.repeat(new, size)], np.cumsum(size[new]) - size[new])
        if len(fresh) == len(starts):
            return fresh
        first, given = self.before.lists_of(int(holders[0]), int(holders[-1]))
        lists = given.take(at - first, mode="clip")
        lists[new] = np.fromiter(fresh, dtype=object, count=len(fresh))
        named: list[Sequence[int]] = lists.tolist()
        return named


class _Before:
    """The lists that members said they held, and which of them says a run of partitions."""

    def __init__(self, group: Group) -> None:
        self.claims = group.claims
        self.size = self.claims.given_size
        self.begin = np.cumsum(self.size) - self.size
        self.member = self.claims.member[self.begin]
        self.with_partition = np.full(group.P, NOBODY, dtype=np.int64)
        self.with_partition[group.claims.partition] = np.repeat(np.arange(len(self.size)), self.size)

    def lists_of(self, first: int, last: int) -> tuple[int, NDArray[np.object_]]:
        """The lists of the members from ``first`` to ``last``, and the number of the first of them.

        Not those of all members at once: what is counted as held once more must come from memory, and be in the
        processor's cache still when it is handed out.
        """
        low, high = np.searchsorted(self.member, [first, last + 1]).tolist()
        return low, np.fromiter(self.claims.given_lists[low:high], dtype=object, count=high - low)

    def find(self, partition: Ints, holders: Ints, starts: Ints) -> Ints:
        """(S,) the list that says just the run that begins at each of ``starts``, by its holder; -1 where none does."""
        size = np.diff(starts, append=len(partition))
        at = self.with_partition[partition[starts]]
        begin = self.begin[at]
        same = (at != NOBODY) & (self.size[at] == size) & (self.member[at] == holders)
        if len(starts) == len(partition):
            return np.where(same & (self.claims.partition[begin] == partition), at, NOBODY)
        # The n-th partition of each run against the n-th that was said; where sizes differ, whatever stands there.
        position = np.arange(len(partition)) + np.repeat(begin - starts, size)
        differs = self.claims.partition.take(position, mode="clip") != partition
        return np.where(same & ~np.logical_or.reduceat(differs, starts), at, NOBODY)


def _taken(objects: NDArray[np.object_], at: Ints) -> list[Any]:
    """The objects at these places; told to clip, NumPy neither checks the places first nor copies: twice as fast."""
    taken: list[Any] = objects.take(at, mode="clip").tolist()
    return taken


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector: building many small lists makes it look at all of them again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()

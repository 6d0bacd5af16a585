"""Arrays to names: the only door out of a plan.

Nearly all of the time goes into the lists, one for each member and topic, and into fresh memory for them. So the ids in
them are objects that exist already, and members are named some thousand partitions at a time, while the lists are still
in the processor's cache when the dicts take them.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, islice, pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from apportion.arrays import Bools, Ints
from apportion.model.group import Group

Assignment = dict[str, dict[str, list[int]]]
"""Member to topic to ascending partition ids."""
BLOCK: Final = 16_384
"""Partitions that are named at a time: their lists and dicts fit into a megabyte or two."""


def owners_to_names(group: Group, owner: Ints) -> Assignment:
    """Member to topic to ids of an owner array (P,); every member has an entry, if only ``{}``."""
    with collector_paused():
        order, held = by_owner(owner, group.M)
        return dict(zip(group.members, _Naming(group, len(order)).shares(order, owner[order], held), strict=True))


def partitions_to_names(group: Group, chosen: Bools) -> dict[str, list[int]]:
    """Topic to ids of the chosen partitions (P,), topics sorted, ids ascending."""
    partition = np.flatnonzero(chosen)
    one = np.array([len(partition)])
    return next(_Naming(group, len(partition)).shares(partition, partition * 0, one))


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


class _Naming:
    """What stays the same while the members of a group are named, block by block."""

    def __init__(self, group: Group, named: int) -> None:
        self.group = group
        self.topics = np.array(group.topics, dtype=object)
        # Topics have the same ids: an object that is there already is quicker to come by than a new one.
        most = int(group.number.max(initial=0))
        self.ids = np.arange(most + 1).astype(object) if most < named else None

    def shares(self, partition: Ints, holder: Ints, held: Ints) -> Iterator[dict[str, list[int]]]:
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

    def _block(self, partition: Ints, holder: Ints, low: int, held: Ints) -> list[dict[str, list[int]]]:
        """What the holders from ``low`` on get, from topic to ids each; ``held`` as in ``shares``, of these holders."""
        if not len(partition):
            return [{} for _ in held]
        topic = self.group.topic_of[partition]
        begins = np.ones(len(partition), dtype=np.bool_)
        np.not_equal(topic[1:], topic[:-1], out=begins[1:])
        begins[1:] |= holder[1:] != holder[:-1]
        starts, parts = begins.nonzero()[0], held
        if len(starts) < len(partition):
            topic, parts = topic[starts], np.bincount(holder[starts] - low, minlength=len(held))
        lists = self._lists(partition, starts)
        pairs = zip(_taken(self.topics, topic), lists, strict=True)
        return [dict(islice(pairs, n)) for n in parts.tolist()]

    def _lists(self, partition: Ints, starts: Ints) -> list[list[int]]:
        """The ids of each run of partitions that begins at ``starts``."""
        number = self.group.number[partition]
        ids: list[int] = number.tolist() if self.ids is None else _taken(self.ids, number)
        if len(starts) == len(ids):
            return [[n] for n in ids]  # half the time of slices
        return [ids[a:b] for a, b in pairwise([*starts.tolist(), len(ids)])]


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

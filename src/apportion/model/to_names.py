"""Arrays to names: the only door out of a plan."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice, pairwise

import numpy as np

from apportion.arrays import Bools, Ints
from apportion.model.group import Group

Assignment = dict[str, dict[str, list[int]]]
"""Member to topic to ascending partition ids."""


def owners_to_names(group: Group, owner: Ints) -> Assignment:
    """Member to topic to ids of an owner array (P,); every member has an entry, if only ``{}``."""
    with collector_paused():
        order, held = by_owner(owner, group.M)
        return dict(zip(group.members, _shares(group, order, held), strict=True))


def partitions_to_names(group: Group, chosen: Bools) -> dict[str, list[int]]:
    """Topic to ids of the chosen partitions (P,), topics sorted, ids ascending."""
    partition = np.flatnonzero(chosen)
    return _shares(group, partition, np.array([len(partition)]))[0]


def by_owner(owner: Ints, members: int) -> tuple[Ints, Ints]:
    """The owned partitions by member, then ascending, and (M,) how many each holds.

    By counting: 16 bits at a time are sorted without comparing.
    """
    key = owner + 1
    order = key.astype(np.uint16).argsort(kind="stable")
    if members >= 1 << 16:
        order = order[(key >> 16)[order].astype(np.uint16).argsort(kind="stable")]
    held = np.bincount(key, minlength=members + 1)
    return order[held[0] :], held[1:]


def _shares(group: Group, partition: Ints, held: Ints) -> list[dict[str, list[int]]]:
    """Topic to ids for each holder; ``partition`` by holder, then ascending, and ``held`` how many each has."""
    topic, end = group.topic_of[partition], held.cumsum()
    begins = np.ones(len(partition) + 1, dtype=np.bool_)
    begins[1:-1] = topic[1:] != topic[:-1]
    begins[end] = True
    cuts = begins.nonzero()[0]
    ids = group.number[partition].tolist()
    lists = [ids[low:high] for low, high in pairwise(cuts.tolist())]
    pairs = zip([group.topics[t] for t in topic[cuts[:-1]].tolist()], lists, strict=True)
    parts = np.diff(cuts.searchsorted(end), prepend=0)
    return [dict(islice(pairs, n)) for n in parts.tolist()]


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

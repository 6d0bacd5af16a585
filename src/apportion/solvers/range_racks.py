"""Partition and member in the same rack: Kafka's greedy deals of one topic, or of several in step (KIP-881)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from apportion.arrays import NOBODY, UNKNOWN, Bools, Ints, distinct


@dataclass(eq=False)
class TopicDeal:
    """One topic while it is dealt: who may take how many more.

    members, rack
        (S,) subscribers in member order, and their racks; -1 unknown.
    set_of, near
        (P,) which set of racks holds each partition, -1 unknown; (R, S) whether rack r is in set s.
    owner
        (P,) written by the deals: the member of each partition; -1 nobody yet.
    """

    members: Ints
    rack: Ints
    set_of: Ints
    near: Bools
    owner: Ints
    held: list[int] = field(init=False)
    share: int = field(init=False)
    extra: int = field(init=False)

    def __post_init__(self) -> None:
        self.held = [0] * len(self.members)
        self.share, self.extra = divmod(len(self.owner), len(self.members))

    def room(self, s: int) -> int:
        """How many more subscriber s may take: the odd ones go to whom they come to first."""
        return max(0, self.share + (self.extra > 0) - self.held[s])

    def give(self, s: int, partitions: Ints | list[int]) -> None:
        """Hand partitions to subscriber s."""
        self.owner[partitions] = self.members[s]
        self.held[s] += len(partitions)
        self.extra -= self.held[s] > self.share


def needs_racks(cut: TopicDeal) -> bool:
    """Whether racks can make a difference: they meet, and not every partition has a replica in all of them.

    >>> cut = TopicDeal(np.arange(2), np.array([1, 0]), np.array([0, 1]), np.eye(2, dtype=np.bool_), np.array([-1, -1]))
    >>> needs_racks(cut)
    True
    """
    sets = distinct(cut.set_of)
    racks_of = cut.near[:, sets[sets != UNKNOWN]]
    present: Bools = np.any(racks_of, axis=1)
    meet = bool(present[cut.rack[cut.rack != UNKNOWN]].any())
    return meet and (bool((sets == UNKNOWN).any()) or not bool(racks_of[present].all()))


def deal_near(cut: TopicDeal) -> None:
    """Each member in turn takes the first partitions in its rack that are left; one without a rack takes any.

    >>> cut = TopicDeal(np.arange(2), np.array([1, 0]), np.array([0, 1]), np.eye(2, dtype=np.bool_), np.array([-1, -1]))
    >>> deal_near(cut)
    >>> cut.owner
    array([1, 0])
    """
    known = np.flatnonzero(cut.set_of != UNKNOWN)
    racks = distinct(cut.rack[cut.rack != UNKNOWN]).tolist()
    waiting = {rack: deque(known[cut.near[rack, cut.set_of[known]]].tolist()) for rack in racks}
    waiting[UNKNOWN] = deque(range(len(cut.owner)))
    for s, rack in enumerate(cut.rack.tolist()):
        room, queue = cut.room(s), waiting[rack]
        taken: list[int] = []
        while queue and len(taken) < room:
            partition = queue.popleft()
            if cut.owner[partition] == NOBODY:
                taken.append(partition)
        if taken:
            cut.give(s, taken)


def deal_in_step(cuts: list[TopicDeal], numbers: list[Ints]) -> None:
    """Partition 0 of all topics to the first member that is near to them all and has room, then partition 1 ...

    cuts
        Topics with the same subscribers and as many partitions, so that one count of what is held serves them all.
    numbers
        (P,) each topic's partition ids: Kafka walks the ids 0 to P - 1, so one beyond a gap is left for later.

    >>> cut = TopicDeal(np.arange(2), np.array([1, 0]), np.array([0, 1]), np.eye(2, dtype=np.bool_), np.array([-1, -1]))
    >>> deal_in_step([cut], [np.arange(2)])
    >>> cut.owner
    array([1, 0])
    """
    first = cuts[0]
    walked = np.arange(len(first.owner))
    common = np.all([np.isin(walked, ids) for ids in numbers], axis=0)
    places = [np.minimum(np.searchsorted(ids, walked), len(walked) - 1) for ids in numbers]
    set_of = np.array([cut.set_of[places_of] for cut, places_of in zip(cuts, places, strict=True)])
    waiting: dict[int, deque[int]] = {}
    for s, rack in enumerate(first.rack.tolist()):
        waiting.setdefault(rack, deque()).append(s)
    for p in np.flatnonzero(common).tolist():
        sets = set_of[:, p]
        near = first.near[:, sets].all(axis=1) & (sets != UNKNOWN).all()
        taker = _first_with_room(first, waiting, [rack for rack in waiting if rack == UNKNOWN or near[rack]])
        if taker is not None:
            for cut, places_of in zip(cuts, places, strict=True):
                cut.give(taker, [int(places_of[p])])


def _first_with_room(cut: TopicDeal, waiting: dict[int, deque[int]], racks: list[int]) -> int | None:
    """The first member of these racks that may take one more; a member without room never gets any again."""
    best = None
    for rack in racks:
        queue = waiting[rack]
        while queue and not cut.room(queue[0]):
            queue.popleft()
        if queue and (best is None or queue[0] < best):
            best = queue[0]
    return best


def deal_rest(cut: TopicDeal) -> None:
    """Each member in turn takes the first partitions that are left, up to its room.

    >>> cut = TopicDeal(np.arange(2), np.array([1, 0]), np.array([0, 1]), np.eye(2, dtype=np.bool_), np.array([-1, -1]))
    >>> deal_rest(cut)
    >>> cut.owner
    array([0, 1])
    """
    unowned = np.flatnonzero(cut.owner == NOBODY)
    for s in range(len(cut.members)):
        if not len(unowned):
            return
        room = cut.room(s)
        if room:
            cut.give(s, unowned[:room])
            unowned = unowned[room:]

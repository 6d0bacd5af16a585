"""Kafka 4.3's ``UniformAssignor``, on arrays and with every order laid down by the caller.

The problem: as even loads as can be, and few moves. Where all members want the same topics the coordinator walks the
members once. Each keeps of its previous target as much as its quota, floor or ceiling of partitions by members; who
has more than the floor takes one of the extras, and so do the last members once there are only as many of them left as
extras. What nobody holds, topic by topic, and then what was taken away fills the members below their quota, *one
member after the other*. So loads are as even as can be, and no fewer moves give them; but no step looks at a topic, so
that a member may get most of one.

Where subscriptions differ it keeps what the subscription allows, gives what nobody holds to the least loaded
subscribers, topics with most partitions a subscriber first, and then evens out the subscribers of one topic after the
other, in at most 16 rounds. That finds no exchange over two topics.

Only the order of members, of topics and of a member's held partitions is open in this; they come in as arguments.
Cost: O(P + M log M) and O(P log P + 16 T M log M). Source: Apache Kafka 4.3.0, ``UniformHomogeneousAssignmentBuilder``
and ``UniformHeterogeneousAssignmentBuilder``; compared with them on random groups in ``tests/assignors``.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from apportion.arrays import NOBODY, Ints

ROUNDS: Final = 16
"""Rounds over all topics that the coordinator makes at most."""


@dataclass(frozen=True, eq=False)
class UniformProblem:
    """The input of the coordinator's assignor.

    start
        (T + 1,) partitions of topic t are ``start[t]:start[t + 1]``, in the order of their ids.
    wants
        (M,) ascending topics that each member subscribes to, as far as they exist.
    previous
        (P,) the member whose previous target has the partition; -1 nobody.
    equal
        Whether all members name the same topics, those that do not exist included.
    members
        Members in the order of the members' map.
    topics
        The subscribed topics in the order of their set; of all members, since it counts where all want the same.
    rank
        (T,) ascending by ``Uuid.compareTo``; it counts where subscriptions differ.
    held
        A member's previous target in the order of its maps; it counts where all want the same.
    """

    start: Ints
    wants: Sequence[Ints]
    previous: Ints
    equal: bool
    members: Sequence[int]
    topics: Sequence[int]
    rank: Sequence[int]
    held: Callable[[int], Ints]


def uniform(problem: UniformProblem) -> Ints:
    """(P,) the member that each partition goes to; -1 if no member wants the topic."""
    return _share_equally(problem) if problem.equal else _Unequal(problem).solve()


def _share_equally(problem: UniformProblem) -> Ints:
    """All members want the same topics."""
    start, previous = problem.start, problem.previous
    owner = np.full(len(previous), NOBODY, dtype=np.int64)
    parts = [np.arange(start[t], start[t + 1]) for t in problem.topics]
    wanted = np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
    if not len(wanted):
        return owner
    owner[wanted] = previous[wanted]
    load = np.bincount(owner[owner != NOBODY], minlength=len(problem.wants)).tolist()
    waiting = [wanted[previous[wanted] == NOBODY]]
    count, extras = len(problem.members), len(wanted) % len(problem.members)
    room: list[tuple[int, int]] = []
    for i, member in enumerate(problem.members):
        quota, extra = len(wanted) // count + (extras > 0), extras > 0
        if load[member] > quota:
            mine = problem.held(member)
            taken = mine[owner[mine] == member][quota:]
            owner[taken] = NOBODY
            waiting.append(taken)
        owed = max(quota - load[member], 0)
        if owed and extra and count - i > extras:
            # Somebody after it may hold more than the floor already; only the last members have to take an extra.
            owed, extra = owed - 1, False
        if owed:
            room.append((member, owed))
        extras -= extra
    if room:
        who, counts = zip(*room, strict=True)
        owner[np.concatenate(waiting)] = np.repeat(np.array(who), np.array(counts))
    return owner


class _Unequal:
    """The members' subscriptions differ; members go by their place in the members' map."""

    def __init__(self, problem: UniformProblem) -> None:
        self.problem = problem
        self.bounds: list[int] = problem.start.tolist()
        self.subscribers: dict[int, list[int]] = {}
        self.size = [0] * len(problem.members)
        self.owner = [NOBODY] * len(problem.previous)
        index = {member: i for i, member in enumerate(problem.members)}
        wishes = [set(problem.wants[member].tolist()) for member in problem.members]
        for i, member in enumerate(problem.members):
            for topic in problem.wants[member].tolist():
                self.subscribers.setdefault(topic, []).append(i)
        topic_of = np.repeat(np.arange(len(self.bounds) - 1), np.diff(problem.start)).tolist()
        for p, member in enumerate(problem.previous.tolist()):
            if member != NOBODY and topic_of[p] in wishes[index[member]]:
                self.owner[p] = index[member]
                self.size[index[member]] += 1

    def solve(self) -> Ints:
        """(P,) the member that each partition goes to."""
        topics = sorted(self.subscribers, key=self._urgency)
        for topic in topics:
            self._hand_out(topic)
        self._even_out([topic for topic in topics if len(self.subscribers[topic]) > 1])
        member = np.array([*self.problem.members, NOBODY], dtype=np.int64)
        return member[np.array(self.owner, dtype=np.int64)]  # -1 is the last of them: nobody

    def _urgency(self, topic: int) -> tuple[float, int, int]:
        """Most partitions a subscriber first, then fewest subscribers, then by topic id."""
        count = len(self.subscribers[topic])
        return -((self.bounds[topic + 1] - self.bounds[topic]) / count), count, self.problem.rank[topic]

    def _hand_out(self, topic: int) -> None:
        """Partitions without an owner go to the least loaded subscriber; of equals to the one that had least before."""
        by_load = sorted(self.subscribers[topic], key=lambda i: (self.size[i], i))
        queue = [(self.size[i], rank, i) for rank, i in enumerate(by_load)]
        for p in range(self.bounds[topic], self.bounds[topic + 1]):
            if self.owner[p] == NOBODY:
                size, rank, i = queue[0]
                heapq.heapreplace(queue, (size + 1, rank, i))
                self.owner[p] = i
                self.size[i] += 1

    def _even_out(self, topics: Sequence[int]) -> None:
        """Round after round until one whole round changed nothing."""
        last_changed = -1
        for _ in range(ROUNDS):
            for turn, topic in enumerate(topics):
                if turn == last_changed:
                    return
                if self._even_out_topic(topic) or last_changed == -1:
                    last_changed = turn

    def _even_out_topic(self, topic: int) -> bool:
        """Take from the most loaded subscribers the last partition of this topic and give it to the least loaded."""
        ladder = _Ladder(self.size, self.subscribers[topic])
        if ladder.gap <= 1:
            return False
        theirs: dict[int, list[int]] = {}
        for p in range(self.bounds[topic], self.bounds[topic + 1]):
            theirs.setdefault(self.owner[p], []).append(p)
        changed = False
        while not ladder.balanced:
            giver = ladder.next_most()
            while giver is not None and not theirs.get(giver):
                ladder.drop_most()
                giver = ladder.next_most()
            if giver is None:
                break
            partition = theirs[giver].pop()
            taker = ladder.next_least()
            if ladder.balanced:
                break
            self.owner[partition] = taker
            self.size[giver] -= 1
            self.size[taker] += 1
            changed = True
        return changed


class _Ladder:
    """Subscribers by load, climbed from below and from above, a rung at a time.

    The lower range holds those at the least load; each gets one before the rung rises and others join. The upper
    range likewise gives. The rungs, not the members' own loads, say whether all is even: so the coordinator stops.
    """

    def __init__(self, size: list[int], members: Sequence[int]) -> None:
        self.size = size
        self.line = sorted(members, key=lambda i: (size[i], i))
        self.gap = size[self.line[-1]] - size[self.line[0]]
        self.low_end, self.low_rung, self.low_next = 0, size[self.line[0]] - 1, 0
        self.high_start = self.high_end = len(self.line)
        self.high_rung, self.high_next = size[self.line[-1]] + 1, len(self.line) - 1

    @property
    def balanced(self) -> bool:
        """Whether nothing more can be evened out."""
        return self.high_rung - self.low_rung <= 1

    def next_least(self) -> int:
        """The subscriber that gets the next partition."""
        if self.low_next >= self.low_end:
            self.low_rung += 1
            while self.low_end < len(self.line) and self.size[self.line[self.low_end]] == self.low_rung:
                self.low_end += 1
            self.low_next = 0
        self.low_next += 1
        return self.line[self.low_next - 1]

    def next_most(self) -> int | None:
        """The subscriber that gives the next partition; None if none is left."""
        if self.high_next < self.high_start:
            if self.high_end <= self.high_start and self.high_start > 0:
                # All of the range had nothing to give: go on at the load of whoever comes next.
                self.high_rung = self.size[self.line[self.high_start - 1]]
            else:
                self.high_rung -= 1
            while self.high_start > 0 and self.size[self.line[self.high_start - 1]] == self.high_rung:
                self.high_start -= 1
            self.high_next = self.high_end - 1
        if self.high_next < 0:
            return None
        self.high_next -= 1
        return self.line[self.high_next + 1]

    def drop_most(self) -> None:
        """Leave out the subscriber that ``next_most`` gave last: it has nothing of this topic."""
        last, dropped = self.high_end - 1, self.high_next + 1
        self.line[dropped], self.line[last] = self.line[last], self.line[dropped]
        self.high_end -= 1

"""Round robin: all partitions in one line, dealt like cards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from apportion.arrays import NOBODY, Ints
from apportion.model.group import Group
from apportion.strategy.codec import Stateless, UserDataCodec


@dataclass(frozen=True)
class RoundRobin:
    """One deal over all topics, by name and id; a member that does not want the topic is passed over.

    Equal subscriptions share within one partition of each other; unequal ones need not, and nothing is remembered.
    Goals: one deal. Source: Apache Kafka, ``RoundRobinAssignor``; never rack-aware (KIP-881).
    """

    name: ClassVar[str] = "roundrobin"
    memory: ClassVar[UserDataCodec] = Stateless()
    quick: ClassVar[bool] = True
    structural: ClassVar[str] = "order"
    goals: ClassVar[tuple[str, ...]] = ()

    def assign(self, group: Group) -> Ints:
        """Return (P,) the member that owns each partition."""
        if len(group.subscriptions) == 1:
            owner = np.full(group.P, NOBODY, dtype=np.int64)
            owner[group.wanted] = np.arange(int(group.wanted.sum())) % group.M
            return owner
        return _deal(group)


def _deal(group: Group) -> Ints:
    """The cursor goes on from topic to topic; within one it walks the topic's subscribers in a circle."""
    owner = np.full(group.P, NOBODY, dtype=np.int64)
    cursor = 0
    for topic in np.flatnonzero(group.wanted_topic).tolist():
        span = group.partitions(topic)
        count = span.stop - span.start
        if not count:
            continue
        subscribers = group.subscribers(topic)
        first = int(np.searchsorted(subscribers, cursor))
        turns = (first + np.arange(count)) % len(subscribers)
        owner[span] = subscribers[turns]
        cursor = (int(owner[span.stop - 1]) + 1) % group.M
    return owner

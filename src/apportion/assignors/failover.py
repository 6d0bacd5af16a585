"""Failover: one member reads a topic, the others stand by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from apportion.arrays import NOBODY, Ints
from apportion.model.group import Group
from apportion.model.plan import Answer


@dataclass(frozen=True)
class Failover:
    """Each topic goes whole to its subscriber of highest priority; the others wait until that one is gone.

    A member without a priority comes after all that have one, ties go by member order, and nobody gets a topic that
    it does not want. The price is that most members idle.
    Goals: incumbent (``preempt=False`` only) > priority. Source: "Understanding Kafka partition assignment
    strategies", FailoverAssignor; there an unset priority won, ties were open, and the winner got every topic.

    preempt
        False leaves a topic with the member that holds most of it, however low its priority: a primary that comes
        back waits until the stand-in is gone.
    """

    name: ClassVar[str] = "failover"
    goals: ClassVar[tuple[str, ...]] = ("incumbent", "priority")

    preempt: bool = True

    def assign(self, group: Group) -> Answer:
        """Return (P,) the member that owns each partition."""
        # ~x is -x - 1: it turns the order round and cannot overflow as -x does on the unset priority.
        by_rank = np.argsort(~group.priority, kind="stable")
        rank = np.empty(group.M, dtype=np.int64)
        rank[by_rank] = np.arange(group.M)
        first = _first_subscriber(group, rank)
        winner = np.where(first < group.M, by_rank[np.minimum(first, group.M - 1)], NOBODY)
        if self.preempt:
            return Answer(winner[group.topic_of], {"priority": "optimal"})
        topic, incumbent = _incumbents(group, rank)
        winner[topic] = incumbent
        return Answer(winner[group.topic_of], {"incumbent": "optimal", "priority": "optimal"})


def _first_subscriber(group: Group, rank: Ints) -> Ints:
    """(T,) the best rank among the subscribers of each topic; M where nobody subscribes."""
    of_subscription = np.full(len(group.subscriptions), group.M, dtype=np.int64)
    np.minimum.at(of_subscription, group.subscription_of, rank)
    first = np.full(group.T, group.M, dtype=np.int64)
    for topics, best in zip(group.subscriptions, of_subscription.tolist(), strict=True):
        first[topics] = np.minimum(first[topics], best)
    return first


def _incumbents(group: Group, rank: Ints) -> tuple[Ints, Ints]:
    """Topics that somebody holds, and the member that holds most of each; ties by rank."""
    held = np.flatnonzero(group.owner != NOBODY)
    pair, count = np.unique(group.topic_of[held] * group.M + group.owner[held], return_counts=True)
    topic, member = pair // group.M, pair % group.M
    order = np.lexsort((rank[member], -count, topic))
    topic, member = topic[order], member[order]
    first = np.flatnonzero(np.diff(topic, prepend=-1))
    return topic[first], member[first]

"""Failover: one member reads a topic, the others stand by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np

from apportion.arrays import NOBODY, Ints
from apportion.model.facts import PRIORITY, UNSET, Fact
from apportion.model.group import Group
from apportion.model.plan import Answer
from apportion.strategy.user_data import Claim, Holding, UserDataCodec
from apportion.wire.partitions import merged
from apportion.wire.subscription import Subscription
from apportion.wire.userdata import read_failover, write_failover
from apportion.wording import count


class Priority(UserDataCodec):
    """``failover``: a member's priority, and what it owned, for those who do not preempt."""

    carries: ClassVar[frozenset[str]] = frozenset({"priority"})

    def user_data(self, holding: Holding) -> bytes | None:
        """Priority, owned, generation."""
        return write_failover(holding.facts.get("priority"), holding.owned, holding.generation)

    def read(self, subscription: Subscription) -> Claim:
        """Read what ``user_data`` wrote."""
        memory = read_failover(subscription.user_data)
        facts = {} if memory.priority is None else {"priority": memory.priority}
        return Claim(merged(memory.owned), memory.generation, facts=facts, lost=memory.lost)


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
    memory: ClassVar[UserDataCodec] = Priority()
    facts: ClassVar[Mapping[str, Fact]] = {"priority": PRIORITY}
    structural: ClassVar[bool] = True
    on_foreign: ClassVar[str] = "stop"
    goals: ClassVar[tuple[str, ...]] = ("incumbent", "priority")
    kept_whole: ClassVar[str] = "topics"

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
            return Answer(winner[group.topic_of], {"priority": "optimal"}, certificate=_Winners(winner, NOTHING))
        topic, incumbent = _incumbents(group, rank)
        winner[topic] = incumbent
        proof = {"incumbent": "optimal", "priority": "optimal"}
        return Answer(winner[group.topic_of], proof, certificate=_Winners(winner, topic))


class PriorityInFields(Priority):
    """``cooperative-failover``: the same, but what the member still holds is in the subscription's own fields."""

    def user_data(self, holding: Holding) -> bytes | None:
        """Priority and, where the client has given all up, what it would like back."""
        wishes = () if holding.keeps else holding.owned
        return write_failover(holding.facts.get("priority"), wishes, holding.generation)

    def read(self, subscription: Subscription) -> Claim:
        """What it holds counts; what it says in user data where it holds nothing."""
        claim = super().read(subscription)
        if not subscription.owned:
            return claim
        generation = claim.generation if subscription.generation is None else subscription.generation
        return replace(claim, owned=merged(subscription.owned), generation=generation, held=True)


@dataclass(frozen=True)
class CooperativeFailover(Failover):
    """Each topic goes whole to its subscriber of highest priority, who waits one round for what another still reads.

    Goals: incumbent (``preempt=False`` only) > priority. Source: as for ``failover``; KIP-429.

    preempt
        As for ``failover``.
    """

    name: ClassVar[str] = "cooperative-failover"
    form_of: ClassVar[str] = "failover"
    memory: ClassVar[UserDataCodec] = PriorityInFields()
    cooperative: ClassVar[bool] = True


NOTHING: Final = np.empty(0, dtype=np.int64)
MOST_EXPLAINED: Final = 20


@dataclass(frozen=True, eq=False)
class _Winners:
    """Why each topic goes where it goes: (T,) winners, and the topics that stay with a living owner."""

    winner: Ints
    stays: Ints

    def explain(self, group: Group) -> list[str]:
        """A sentence for each of the first topics."""
        won = np.flatnonzero((self.winner != NOBODY) & (np.diff(group.start) > 0)).tolist()
        lines = [self._topic(group, topic) for topic in won[:MOST_EXPLAINED]]
        return lines + ([f"... and {count(len(won) - len(lines), 'more topic')}."] if len(won) > len(lines) else [])

    def _topic(self, group: Group, topic: int) -> str:
        name, winner = group.topics[topic], int(self.winner[topic])
        if topic in self.stays:
            return f"{name}: {group.members[winner]!r} holds most of it and is left alone."
        subscribers, priority = count(len(group.subscribers(topic)), "subscriber"), int(group.priority[winner])
        if priority == UNSET:
            return f"{name}: no priority is set, and {group.members[winner]!r} is the first of {subscribers}."
        return f"{name}: {group.members[winner]!r} has the highest priority of {subscribers}, {priority}."


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
    pair, size = np.unique(group.topic_of[held] * group.M + group.owner[held], return_counts=True)
    topic, member = pair // group.M, pair % group.M
    order = np.lexsort((rank[member], -size, topic))
    topic, member = topic[order], member[order]
    first = np.flatnonzero(np.diff(topic, prepend=-1))
    return topic[first], member[first]

"""Failover: one member reads a topic, the others wait as its standbys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Final, Literal

import numpy as np

from apportion.arrays import NOBODY, Bools, Ints, ints
from apportion.model.facts import PRIORITY, UNSET, Fact
from apportion.model.group import Group
from apportion.model.plan import Answer
from apportion.solvers.solve import best as best_plan
from apportion.strategy.codec import Claim, Holding, UserDataCodec
from apportion.strategy.cooperation import Cooperation
from apportion.tasks.place import Placing, place
from apportion.tasks.place_jointly import place_jointly
from apportion.wire.partitions import in_order, merged, read_held, write_held
from apportion.wire.primitives import Reader
from apportion.wire.subscription import Subscription
from apportion.wire.user_data import OWN_VERSION, known, own_version, read_layout
from apportion.wire.writer import Writer
from apportion.wording import count


class Priority(UserDataCodec):
    """A member's priority, and its past topics if it does not preempt; its present ones are in Kafka's own fields."""

    carries: ClassVar[frozenset[str]] = frozenset({"priority"})

    def user_data(self, holding: Holding) -> bytes | None:
        """int16 version, int8 1 and int64 priority (or int8 0), the topics it wants back, int32 generation or -1."""
        priority = holding.facts.get("priority")
        writer = Writer().int16(OWN_VERSION).int8(priority is not None)
        if priority is not None:
            writer.int64(priority)
        write_held(writer, () if holding.keeps else in_order(holding.owned))
        return writer.int32(-1 if holding.generation is None else holding.generation).done()

    def read(self, subscription: Subscription) -> Claim:
        """The partitions it holds count; its user data count if it holds nothing."""
        memory = read_layout(subscription.user_data, partial(Claim, {}), _claim, "failover")
        if not subscription.owned:
            return memory
        generation = memory.generation if subscription.generation is None else subscription.generation
        return replace(memory, owned=merged(subscription.owned), generation=generation, held=True)


def _claim(reader: Reader) -> Claim:
    """Exactly four bytes are the plain int32 priority that the strategy's first, Java, form sends."""
    if reader.end == 4:
        return Claim({}, facts={"priority": reader.int32()})
    own_version(reader)
    facts = {"priority": reader.int64()} if reader.int8() else {}
    return Claim(merged(read_held(reader)), known(reader.int32()), facts=facts)


Active = Literal["member", "equals", "host"]
HOST: Final = Fact(UNSET)
"""For ``active=host`` where a group does not tell hosts: members of one number are on one host."""


@dataclass(frozen=True)
class Failover(Cooperation):
    """Each topic goes whole to its subscriber of highest priority; the others wait until that one is gone.

    A member without a priority comes after all that have one, ties go by member order, and nobody gets a topic that
    it does not want. The price is that most members idle.
    Goals: incumbent (``preempt=False`` only) > priority > balance > moves (the last two where several share). Source:
    "Understanding Kafka partition assignment strategies", FailoverAssignor; there an unset priority won, ties were
    open, and the winner got every topic.

    preempt
        False leaves a topic with the member that holds most of it, however low its priority: a primary that comes
        back waits until the stand-in is gone.
    active
        Who works at a time. ``equals``: members of one priority share the topics, each topic whole. ``host``: all on
        the host of highest priority, whose consumers share the partitions; a host is as high as its best member. Hosts
        are those that the group tells, else members' fact ``host``, a number; whoever has neither is alone.
    """

    name: ClassVar[str] = "failover"
    memory: ClassVar[UserDataCodec] = Priority()
    facts: ClassVar[Mapping[str, Fact]] = {"priority": PRIORITY, "host": HOST}
    structural: ClassVar[str] = "order"
    on_foreign: ClassVar[str] = "stop"
    goals: ClassVar[tuple[str, ...]] = ("incumbent", "priority", "balance", "moves")
    kept_whole: ClassVar[str] = "topics"
    promise: ClassVar[str] = "one reader a topic"

    preempt: bool = True
    active: Active = "member"

    def __post_init__(self) -> None:
        """Consumers of one host share topics: then brokers need not keep these whole."""
        super().__post_init__()
        if self.active == "host":
            object.__setattr__(self, "kept_whole", "")

    def assign(self, group: Group) -> Answer:
        """Return (P,) the member that owns each partition."""
        # ~x is -x - 1: it turns the order round and cannot overflow as -x does on the unset priority.
        by_rank = np.argsort(~group.priority, kind="stable")
        rank = np.empty(group.M, dtype=np.int64)
        rank[by_rank] = np.arange(group.M)
        host_of = _hosts(group) if self.active == "host" else np.arange(group.M)
        best = np.full(int(host_of.max()) + 1, group.M, dtype=np.int64)
        np.minimum.at(best, host_of, rank)
        # By the rank of its best member: where each is a host of its own, the member's.
        first = _first_subscriber(group, best[host_of])
        winner = np.where(first < group.M, by_rank[np.minimum(first, group.M - 1)], NOBODY)
        stays, proof = NOTHING, {"priority": "optimal"}
        if not self.preempt:
            stays, incumbent = _incumbents(group, rank, host_of)
            winner[stays] = incumbent
            proof = {"incumbent": "optimal", **proof}
        if self.active == "member":
            return Answer(winner[group.topic_of], proof, certificate=_Winners(winner, stays))
        if self.active == "host":
            shared = best_plan(_on_hosts(group, host_of, winner), ("balance", "moves"))
            certificate = _Winners(winner, stays, host_of)
            return Answer(shared.owner, {**proof, **shared.proof}, certificate=certificate)
        owner, exact = _spread(group, winner, stays)
        how = dict.fromkeys(("balance", "moves"), "optimal" if exact else "heuristic")
        return Answer(owner[group.topic_of], {**proof, **how}, certificate=_Winners(owner, stays))


def _hosts(group: Group) -> Ints:
    """(M,) a number for each member's host; one of its own for each member that names none."""
    numbers_sent = group.facts["host"].tolist()
    names = group.hosts or (None,) * group.M
    keys = [
        ("host", names[m]) if names[m] else ("fact", numbers_sent[m]) if numbers_sent[m] != UNSET else ("alone", m)
        for m in range(group.M)
    ]
    numbers: dict[object, int] = {}
    return ints([numbers.setdefault(key, len(numbers)) for key in keys])


def _on_hosts(group: Group, host_of: Ints, winner: Ints) -> Group:
    """The group in which each topic is wanted on its winner's host alone."""
    active = np.where(winner == NOBODY, NOBODY, host_of[winner])
    numbers: dict[bytes, int] = {}
    subscriptions: list[Ints] = []
    which = []
    for m in range(group.M):
        topics = group.subscriptions[int(group.subscription_of[m])]
        topics_here = topics[active[topics] == host_of[m]]
        number = numbers.setdefault(topics_here.tobytes(), len(numbers))
        if number == len(subscriptions):
            subscriptions.append(topics_here)
        which.append(number)
    return replace(group, subscriptions=tuple(subscriptions), subscription_of=ints(which))


def _spread(group: Group, winner: Ints, stays: Ints) -> tuple[Ints, bool]:
    """(T,) the member that gets each topic whole, and whether no other spread is more even, or moves less.

    Members of the winner's priority share as evenly as can be, counted in topics; of those ways the one in which most
    partitions stay. What others claim is dealt last, as a function of all the rest: the next round, in which nobody
    claims it any more, deals it alike.
    """
    topics = np.flatnonzero((winner != NOBODY) & (group.start[1:] > group.start[:-1]))
    if not len(topics):
        return winner, True
    eligible = np.zeros((len(topics), group.M), dtype=np.bool_)
    for row, topic in enumerate(topics.tolist()):
        members = group.subscribers(topic)
        eligible[row, members] = group.priority[members] == group.priority[winner[topic]]
        if topic in stays:
            eligible[row] = np.arange(group.M) == winner[topic]
    row_of = np.full(group.T, NOBODY, dtype=np.int64)
    row_of[topics] = np.arange(len(topics))
    held = np.zeros(eligible.shape, dtype=np.int64)
    owned = np.flatnonzero((group.owner != NOBODY) & (row_of[group.topic_of] != NOBODY))
    np.add.at(held, (row_of[group.topic_of[owned]], group.owner[owned]), 1)
    moved = held.sum(axis=1)[:, None] - held
    claimed = np.zeros(len(topics), dtype=np.bool_)
    if len(group.claims.member):
        claimed_partitions = np.flatnonzero((group.claimed_by != NOBODY) & (row_of[group.topic_of] != NOBODY))
        claimed[row_of[group.topic_of[claimed_partitions]]] = True
    given, exact = _evenly(eligible, moved)
    for fixed in (held[np.arange(len(given)), given] > 0, ~claimed):
        eligible[fixed] = np.arange(group.M) == given[fixed][:, None]
        given, proved = _evenly(eligible, np.zeros_like(moved))
        exact &= proved
    owner = winner.copy()
    owner[topics] = given
    return owner, exact


def _evenly(eligible: Bools, cost: Ints) -> tuple[Ints, bool]:
    """(N,) the column of each row: columns as even as can be, then least cost; and whether that is proved."""
    columns = eligible.shape[1]
    placing = Placing(eligible, cost, np.ones(columns, dtype=np.int64), np.zeros(columns, dtype=np.int64))
    owner, exact = place(placing)
    if exact:
        return owner, True
    jointly = place_jointly(placing, np.ones(len(owner), dtype=np.bool_), owner)  # without OR-tools
    return (owner, False) if jointly is None else (jointly, True)


@dataclass(frozen=True)
class CooperativeFailover(Failover):
    """Each topic goes whole to its subscriber of highest priority, who waits one round for what another still reads.

    Goals: incumbent (``preempt=False`` only) > priority > balance > moves. Source: as for ``failover``; KIP-429.
    """

    name: ClassVar[str] = "cooperative-failover"
    unlisted: ClassVar[bool] = True
    cooperative: ClassVar[bool] = True  # type: ignore[misc]  # its name says so, so it is no setting


NOTHING: Final = np.empty(0, dtype=np.int64)
MOST_EXPLAINED: Final = 20


@dataclass(frozen=True, eq=False)
class _Winners:
    """Why each topic has its owner: (T,) winners, and the topics that stay with a living owner.

    host_of
        (M,) where the consumers of the winner's host share the topic; else None.
    """

    winner: Ints
    stays: Ints
    host_of: Ints | None = None

    def explain(self, group: Group) -> list[str]:
        """A sentence for each of the first topics."""
        won = np.flatnonzero((self.winner != NOBODY) & (np.diff(group.start) > 0)).tolist()
        lines = [self._topic(group, topic) for topic in won[:MOST_EXPLAINED]]
        return lines + ([f"... and {count(len(won) - len(lines), 'more topic')}."] if len(won) > len(lines) else [])

    def _topic(self, group: Group, topic: int) -> str:
        name, winner = group.topics[topic], int(self.winner[topic])
        if self.host_of is not None:
            return self._on_host(group, topic, self.host_of == self.host_of[winner])
        if topic in self.stays:
            return f"{name}: {group.members[winner]!r} holds most of it and is left alone."
        subscribers, priority = count(len(group.subscribers(topic)), "subscriber"), int(group.priority[winner])
        if priority == UNSET:
            return f"{name}: no priority is set, and {group.members[winner]!r} is the first of {subscribers}."
        return f"{name}: {group.members[winner]!r} has the highest priority of {subscribers}, {priority}."

    def _on_host(self, group: Group, topic: int, on_host: Bools) -> str:
        """The sentence for a topic that is on the host; its members (M,)."""
        winner = int(self.winner[topic])
        sharing = count(int(on_host[group.subscribers(topic)].sum()), "consumer")
        name, priority = group.topics[topic], int(group.priority[on_host].max())
        if topic in self.stays:
            return (
                f"{name}: the host of {group.members[winner]!r} holds most of it and is left alone; {sharing} share it."
            )
        first = "first, as no priority is set" if priority == UNSET else f"of the highest priority, {priority}"
        return f"{name}: the host of {group.members[winner]!r} is {first}; {sharing} there share it."


def _first_subscriber(group: Group, rank: Ints) -> Ints:
    """(T,) the best rank among the subscribers of each topic; M if it has none."""
    of_subscription = np.full(len(group.subscriptions), group.M, dtype=np.int64)
    np.minimum.at(of_subscription, group.subscription_of, rank)
    first = np.full(group.T, group.M, dtype=np.int64)
    for topics, best in zip(group.subscriptions, of_subscription.tolist(), strict=True):
        first[topics] = np.minimum(first[topics], best)
    return first


def _incumbents(group: Group, rank: Ints, host_of: Ints) -> tuple[Ints, Ints]:
    """Topics that somebody holds, and of the host that holds most of each the member of best rank; ties by rank."""
    best = np.full(int(host_of.max()) + 1, group.M, dtype=np.int64)
    np.minimum.at(best, host_of, rank)
    by_rank = np.argsort(rank)
    held = np.flatnonzero(group.owner != NOBODY)
    pair, size = np.unique(group.topic_of[held] * len(best) + host_of[group.owner[held]], return_counts=True)
    topic, host = pair // len(best), pair % len(best)
    order = np.lexsort((best[host], -size, topic))
    topic, host = topic[order], host[order]
    first = np.flatnonzero(np.diff(topic, prepend=-1))
    return topic[first], by_rank[best[host[first]]]

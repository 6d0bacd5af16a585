"""Broker uniform: the plan of Kafka's group coordinator for a group of the new protocol by default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Final

import numpy as np

from apportion.arrays import NOBODY, Ints, distinct
from apportion.model.group import Group, java_order
from apportion.model.plan import Answer
from apportion.server_side.java_hash import (
    BinOrder,
    bin_order,
    copied_bins,
    number_order,
    string_hash,
    timeline_rank,
    uuid_hash,
    uuid_words,
)
from apportion.server_side.uniform import UniformProblem, uniform

EXACT: Final = "exact"
LIKELY: Final = "likely"
SHAPE: Final = "shape"


@dataclass(frozen=True)
class BrokerUniform:
    """What the broker's uniform gives: even loads and few moves, one member filled after the other.

    ``owned`` is the previous target; generations play no part, except where several members claim one partition. No
    step looks at a topic, so that one member may get most of it. The broker alone can run it (KIP-848); here it is
    predicted, and the plan's ``prediction`` says how well: ``exact``; ``likely`` where it hinges on the order in which
    entries came into one hash bin; ``shape`` where topic ids are missing.
    Goals: balance > moves; both are reached where all members want the same topics, and not promised elsewhere.
    Source: Apache Kafka 4.3.0, group coordinator, ``UniformAssignor``.
    """

    name: ClassVar[str] = "broker-uniform"
    goals: ClassVar[tuple[str, ...]] = ("balance", "moves")
    server_side: ClassVar[bool] = True
    structural: ClassVar[str] = "names"

    def assign(self, group: Group) -> Answer:
        """Return (P,) the member that owns each partition."""
        tables = _Tables(group)
        answer = self._answer(tables)
        prediction = _prediction(tables, answer.owner)
        certificate = _Prediction(tables.equal, prediction, tables.unknown)
        return replace(answer, extra={"prediction": prediction}, certificate=certificate)

    def summary(self, group: Group) -> Answer:
        """The plan of ``assign`` without the word on how sure it is, which costs as much as some more plans."""
        return self._answer(_Tables(group))

    def _answer(self, tables: _Tables) -> Answer:
        group = tables.group
        owner = uniform(tables.problem(AS_LOADED))
        proof = dict.fromkeys(self.goals, "heuristic")
        if tables.equal and not group.has_capacities:
            fewest = not (group.wanted & (tables.previous != group.owner)).any()
            proof = {"balance": "optimal", "moves": "optimal" if fewest else "heuristic"}
        return Answer(owner, proof)


@dataclass(frozen=True)
class _Filling:
    """One way in which the coordinator's hash tables may have been filled.

    members, topics, held
        Whether the entries of one bin stand the other way round: in the members' map, in the set of subscribed topics,
        in the maps of previous targets.
    since_19
        Whether the broker's Java is 19 or newer, which makes tables smaller where they are just three quarters full.
    """

    members: bool = False
    topics: bool = False
    held: bool = False
    since_19: bool = False


AS_LOADED: Final = _Filling()
"""As a coordinator that has just read its log, on Java 17."""
OTHERS: Final = (
    _Filling(members=True),
    _Filling(topics=True),
    _Filling(held=True),
    _Filling(members=True, topics=True, held=True),
    _Filling(since_19=True),
    _Filling(members=True, topics=True, held=True, since_19=True),
)


def _prediction(tables: _Tables, owner: Ints) -> str:
    """How far the group determines the plan: asked with the tables filled in every other way."""
    if tables.unknown:
        return SHAPE
    if tables.crowded:
        return LIKELY
    tried = {tables.orders(AS_LOADED)}
    for filling in OTHERS:
        orders = tables.orders(filling)
        if orders in tried and not (tables.equal and (filling.held or filling.since_19)):
            continue
        tried.add(orders)
        if not np.array_equal(uniform(tables.problem(filling)), owner):
            return LIKELY
    return EXACT


class _Tables:
    """A group as the coordinator's hash tables hold it.

    previous
        (P,) the member whose previous target has the partition: its only claimant, or of several the one whose claim
        stands.
    equal
        Whether all members name the same topics.
    """

    def __init__(self, group: Group) -> None:
        self.group = group
        self.equal = bool((group.subscription_of == group.subscription_of[:1]).all())
        self.previous = np.full(group.P, NOBODY, dtype=np.int64)
        self.previous[group.claims.partition] = group.claims.member
        if len(group.verdict.newest):  # some partition has several claimants
            self.previous = np.where(self._claimants > 1, group.owner, self.previous)
        self.words = [_words(group, topic) for topic in range(group.T)]
        hashes = [string_hash(member) for member in group.members]
        self._loaded = sorted(range(group.M), key=lambda m: (timeline_rank(hashes[m]), java_order(group.members[m])))
        self._member_hashes = [hashes[m] for m in self._loaded]
        self._topic_hashes = [uuid_hash(*words) for words in self._all_words]

    @property
    def _claimants(self) -> Ints:
        """(P,) how many members claim each partition."""
        return np.bincount(self.group.claims.partition, minlength=self.group.P)

    @cached_property
    def unknown(self) -> str:
        """Why only the plan's shape is known, in words; "" if all is known."""
        group = self.group
        existing = np.flatnonzero(group.wanted_topic & group.described).tolist()
        nameless = [group.topics[t] for t in existing if self.words[t] is None]
        if nameless:
            more = f" and {len(nameless) - 1} more" if len(nameless) > 1 else ""
            return f"the topic id of {nameless[0]}{more} is not known"
        ordinal = np.arange(group.P) - group.start[group.topic_of]
        if not np.array_equal(group.number[group.wanted], ordinal[group.wanted]):
            return "some partitions are not described"
        return "some partition is claimed twice" if (self._claimants > 1).any() else ""

    @cached_property
    def _all_words(self) -> list[tuple[int, int]]:
        """Each topic's id; if it is not known, a stand-in that keeps the order of names."""
        return [(0, t) if words is None else words for t, words in enumerate(self.words)]

    @cached_property
    def crowded(self) -> bool:
        """Whether some bin is a tree, whose order is not modelled."""
        subscribed = self._subscribed(AS_LOADED)
        return bin_order(self._member_hashes).trees or (self.equal and subscribed is not None and subscribed.trees)

    def orders(self, filling: _Filling) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Members and subscribed topics in the coordinator's order."""
        order = bin_order(self._member_hashes, backwards=filling.members)
        return tuple(self._loaded[position] for position in order.positions), self._topics(filling)

    def _names(self, filling: _Filling) -> list[int]:
        """The existing topics that all want, in the order of the set of their names, which was filled in theirs."""
        topics = self.group.subscriptions[int(self.group.subscription_of[0])].tolist() if self.group.M else []
        bins = copied_bins(len(topics), since_19=filling.since_19)
        order = bin_order([string_hash(self.group.topics[t]) for t in topics], bins)
        return [topics[position] for position in order.positions if self.group.described[topics[position]]]

    def _subscribed(self, filling: _Filling) -> BinOrder | None:
        if not self.equal or not self.group.M:
            return None
        return self._order_of_ids(self._names(filling), filling)

    def _order_of_ids(self, names: Sequence[int], filling: _Filling) -> BinOrder:
        """The set of the topics' ids, which gets the size of that of names, topics that do not exist included."""
        count = len(self.group.subscriptions[int(self.group.subscription_of[0])])
        hashes = [self._topic_hashes[t] for t in names]
        return bin_order(hashes, copied_bins(count, since_19=filling.since_19), backwards=filling.topics)

    def _topics(self, filling: _Filling) -> tuple[int, ...]:
        if not self.equal or not self.group.M:
            return ()
        names = self._names(filling)
        return tuple(names[position] for position in self._order_of_ids(names, filling).positions)

    def problem(self, filling: _Filling) -> UniformProblem:
        """The group for the coordinator's assignor."""
        group = self.group
        described = [topics[group.described[topics]] for topics in group.subscriptions]
        members, topics = self.orders(filling)
        by_id = sorted(range(group.T), key=lambda t: self._all_words[t])
        rank = [0] * group.T
        for position, topic in enumerate(by_id):
            rank[topic] = position
        wants = [described[k] for k in group.subscription_of.tolist()]
        held = _Held(self, topics, filling).of
        return UniformProblem(group.start, wants, self.previous, self.equal, members, topics, rank, held)

    @cached_property
    def held_by(self) -> Mapping[int, Ints]:
        """Member to the partitions of its previous target, ascending."""
        held = np.flatnonzero(self.previous != NOBODY)
        order = held[np.argsort(self.previous[held], kind="stable")]
        members, first = np.unique(self.previous[order], return_index=True)
        return dict(zip(members.tolist(), np.split(order, first[1:]), strict=True)) if len(members) else {}

    @cached_property
    def vanished(self) -> Mapping[int, int]:
        """Member to its number of past topics without a description: they are entries of its map all the same."""
        described = {topic for topic, exists in zip(self.group.topics, self.group.described, strict=True) if exists}
        gone: dict[int, set[str]] = {}
        for member, topic, _ in self.group.claims.nonexistent:
            if topic not in described:
                gone.setdefault(member, set()).add(topic)
        return {member: len(topics) for member, topics in gone.items()}

    def hash_of(self, topic: int) -> int:
        """``Uuid.hashCode`` of the topic's id."""
        return self._topic_hashes[topic]


class _Held:
    """Members' previous targets in the order of their maps: put in the order of the topics' set, and grown from 16."""

    def __init__(self, tables: _Tables, topics: Sequence[int], filling: _Filling) -> None:
        self.tables, self.filling = tables, filling
        self.rank_of = {topic: position for position, topic in enumerate(topics)}

    def of(self, member: int) -> Ints:
        """The member's partitions."""
        group, mine = self.tables.group, self.tables.held_by.get(member, np.empty(0, dtype=np.int64))
        topic_of = group.topic_of[mine]
        if len(mine) and topic_of[0] == topic_of[-1]:  # they stand topic by topic: all are of one
            return self._numbers(mine)
        topics = sorted(distinct(topic_of).tolist(), key=lambda t: (self.rank_of.get(t, len(self.rank_of)), t))
        hashes = [self.tables.hash_of(topic) for topic in topics]
        bins = copied_bins(1)
        while len(topics) + self.tables.vanished.get(member, 0) > 0.75 * bins:
            bins *= 2
        order = bin_order(hashes, bins, backwards=self.filling.held)
        return np.concatenate([self._numbers(mine[topic_of == topics[position]]) for position in order.positions])

    def _numbers(self, partitions: Ints) -> Ints:
        """One topic's partitions, ascending, in the order of the set that they were copied into."""
        numbers = self.tables.group.number[partitions]
        order = number_order(numbers, backwards=self.filling.held, since_19=self.filling.since_19)
        return partitions if order is None else partitions[order]


def _words(group: Group, topic: int) -> tuple[int, int] | None:
    """The topic's id as two words; None if it is not known."""
    text = group.topic_ids.get(group.topics[topic])
    return None if text is None else uuid_words(text)


@dataclass(frozen=True)
class _Prediction:
    """How much of the plan is known, and how well."""

    equal: bool
    prediction: str
    unknown: str

    def explain(self, group: Group) -> list[str]:
        """A sentence on the goals, and one on the prediction."""
        if self.equal:
            goals = "All members want the same topics: each gets the floor or the ceiling of an equal share."
        else:
            goals = "Subscriptions differ: the broker evens out one topic after the other and may stop short of even."
        why = {
            EXACT: "nothing that the group does not tell could change it",
            LIKELY: "it hinges on the order in which members, topics or partitions came into one hash bin",
            SHAPE: f"{self.unknown}, so loads and moves are the broker's, but which partition goes where may not be",
        }
        return [goals, f"prediction: {self.prediction}, since {why[self.prediction]}."]

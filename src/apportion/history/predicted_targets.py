"""Each recorded target of a group of the new protocol, computed again from the records before it.

The records tell more than a group.json: in which order members came into the coordinator's table, how far that has
grown, and how the lists of each previous target stand. So the broker's assignor can be followed to the partition. What
the records do not tell are partition counts and what a regular expression stood for; both are taken from the target
itself, which names every partition of every topic that somebody wants.

A target whose member joined by the same request is computed before that member is in the table: it comes last in its
bin. Its key-5 record opens the batch 5, 3, 7 ..., 6. Targets that a conversion wrote are the classic assignment, and
are not counted. Source: Apache Kafka 4.3.0, ``TargetAssignmentBuilder``; seen on recorded brokers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from apportion.arrays import NOBODY, Ints
from apportion.history.consumer_groups import DEFAULT_ASSIGNOR, server_assignor
from apportion.history.records import GroupRecord
from apportion.server_side.java_hash import bin_order, copied_bins, string_hash, uuid_hash, uuid_words
from apportion.server_side.timeline import Timeline
from apportion.server_side.uniform import UniformProblem, uniform
from apportion.wire.coordinator import EpochRecord

_GROUP, _MEMBER, _TARGET, _TARGET_OF, _CURRENT = 3, 5, 6, 7, 8
UNIFORM: Final = DEFAULT_ASSIGNOR
RANGE: Final = "range"
Held = Mapping[str, Sequence[int]]
"""Topic id to partition ids, both in the order of the record."""


@dataclass(frozen=True)
class Score:
    """How many recorded targets were computed again to the partition.

    epochs
        Recorded targets, those of conversions left out.
    """

    epochs: int = 0
    predicted: int = 0

    def __add__(self, other: Score) -> Score:
        return Score(self.epochs + other.epochs, self.predicted + other.predicted)


def score(events: Iterable[GroupRecord], names: Mapping[str, str]) -> Score:
    """The score of one group.

    events
        Its records, ascending by offset.
    names
        Topic id to name.
    """
    replayed = _Replay(names)
    for event in events:
        if isinstance(event.record, EpochRecord) and _GROUP <= event.record.key_type <= _CURRENT:
            replayed.take(event.record)
    return Score(len(replayed.right), sum(replayed.right))


@dataclass
class _Replay:
    """One group's records, taken in order.

    right
        Whether each recorded target was computed again.
    """

    names: Mapping[str, str]
    table: Timeline = field(default_factory=Timeline)
    members: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    targets: dict[str, Held] = field(default_factory=dict)
    fresh: dict[str, Held] = field(default_factory=dict)
    """Targets of the batch at hand."""
    batch: list[int] = field(default_factory=list)
    """Key types since the last record that opens or ends a batch."""
    opener: str | None = None
    """The member that the batch's first key-5 record brought new."""
    right: list[bool] = field(default_factory=list)

    def take(self, record: EpochRecord) -> None:
        """Take one record."""
        member, body = record.member_id or "", record.body
        if record.key_type == _TARGET:
            if body is not None:
                self._complete(body)
            self._end_batch()
        elif record.key_type == _TARGET_OF and body is not None:
            self.fresh[member] = {entry["topicId"]: entry["partitions"] for entry in body["topicPartitions"]}
            self.batch.append(_TARGET_OF)
        elif record.key_type == _GROUP and body is not None:
            self.batch = [*self.batch, _GROUP] if self.batch == [_MEMBER] else [0]
        else:
            self._end_batch()
            self._person(record.key_type, member, body)

    def _person(self, key_type: int, member: str, body: Mapping[str, Any] | None) -> None:
        """A record of one member, or a tombstone."""
        if body is None:
            if key_type == _MEMBER:
                self.table.remove(member)
                self.members.pop(member, None)
            elif key_type == _TARGET_OF:
                self.targets.pop(member, None)
            elif key_type == _GROUP:
                self.table, self.members, self.targets = Timeline(), {}, {}
            return
        if key_type == _MEMBER:
            self.opener, self.batch = (member if member not in self.table else None), [_MEMBER]
            self.members[member] = body
            if self.opener is None:
                self.table.put(member)
        elif key_type == _CURRENT:
            self.table.put(member)

    def _end_batch(self) -> None:
        """The computed rows come into the tables."""
        if self.opener is not None:
            self.table.put(self.opener)
        self.targets.update(self.fresh)
        self.fresh, self.batch, self.opener = {}, [], None

    def _complete(self, body: Mapping[str, Any]) -> None:
        """A target: computed again, and compared, unless a conversion wrote it."""
        if not body.get("assignmentTimestamp") or not self.members:
            return
        together = self.opener is not None and self.batch[:2] == [_MEMBER, _GROUP]
        if self.opener is not None and not together:
            self.table.put(self.opener)
            self.opener = None
        order = [member for member in self.table.members() if member in self.members]
        order += [self.opener] if self.opener is not None else []
        recorded = {m: _sets(self.fresh.get(m, self.targets.get(m, {}))) for m in order}
        self.right.append(_compute(order, self.members, self.targets, recorded, self.names) == recorded)


def _sets(held: Held) -> dict[str, set[int]]:
    return {topic: set(ids) for topic, ids in held.items() if ids}


def _compute(
    order: Sequence[str],
    members: Mapping[str, Mapping[str, Any]],
    targets: Mapping[str, Held],
    recorded: Mapping[str, Mapping[str, set[int]]],
    names: Mapping[str, str],
) -> dict[str, dict[str, set[int]]] | None:
    """The target that the broker's assignor gives; None for an assignor that is not Kafka's, or ids that are none."""
    assignor = server_assignor(members[member] for member in order)
    sizes: dict[str, int] = {}
    for held in recorded.values():
        for topic, ids in held.items():
            sizes[topic] = max(sizes.get(topic, 0), max(ids) + 1)
    words = {topic: uuid_words(topic) for topic in sizes}
    if assignor not in (UNIFORM, RANGE) or sum(sizes.values()) > 2 * sum(
        len(ids) for held in recorded.values() for ids in held.values()
    ):
        return None
    if any(pair is None for pair in words.values()):
        return None
    world = _World(order, members, targets, sizes, {t: pair for t, pair in words.items() if pair}, names)
    owner = uniform(world.problem(recorded)) if assignor == UNIFORM else world.ranges(recorded)
    target: dict[str, dict[str, set[int]]] = {member: {} for member in order}
    for t, topic in enumerate(world.topics):
        for p, m in enumerate(owner[world.start[t] : world.start[t + 1]].tolist()):
            if m != NOBODY:
                target[order[m]].setdefault(topic, set()).add(p)
    return target


class _World:
    """Members by their place in the coordinator's table, topics by id, for one target."""

    def __init__(
        self,
        order: Sequence[str],
        members: Mapping[str, Mapping[str, Any]],
        targets: Mapping[str, Held],
        sizes: Mapping[str, int],
        words: Mapping[str, tuple[int, int]],
        names: Mapping[str, str],
    ) -> None:
        self.order, self.members, self.targets, self.words = order, members, targets, words
        self.topics = sorted(sizes, key=lambda topic: words[topic])
        self.index_of = {topic: t for t, topic in enumerate(self.topics)}
        self.start = np.concatenate([[0], np.cumsum([sizes[topic] for topic in self.topics])]).astype(np.int64)
        self.hashes = [uuid_hash(*words[topic]) for topic in self.topics]
        self.by_name = {names[topic]: t for topic, t in self.index_of.items() if topic in names}

    def names_of(self, member: str, recorded: Mapping[str, Mapping[str, set[int]]]) -> tuple[str, ...]:
        """The names that a member subscribes to; an expression means the topics that those with it are given."""
        body = self.members[member]
        named = set(body.get("subscribedTopicNames") or ())
        expression = body.get("subscribedTopicRegex")
        if expression:
            same_expression = [m for m in self.order if self.members[m].get("subscribedTopicRegex") == expression]
            given = {topic for m in same_expression for topic in recorded[m]}
            named |= {name for name, t in self.by_name.items() if self.topics[t] in given}
        return tuple(sorted(named))

    def wants(self, recorded: Mapping[str, Mapping[str, set[int]]]) -> list[Ints]:
        """(M,) ascending topics that each member wants, as far as they exist."""
        named = [self.names_of(member, recorded) for member in self.order]
        topics_of = [sorted(self.by_name[name] for name in names if name in self.by_name) for names in named]
        return [np.array(topics, dtype=np.int64) for topics in topics_of]

    def problem(self, recorded: Mapping[str, Mapping[str, set[int]]]) -> UniformProblem:
        """The input of ``uniform``: its topics, who wants them, and the previous owners."""
        named = [self.names_of(member, recorded) for member in self.order]
        previous = np.full(int(self.start[-1]), NOBODY, dtype=np.int64)
        for m, member in enumerate(self.order):
            for topic, ids in self.targets.get(member, {}).items():
                if topic in self.index_of:
                    t = self.index_of[topic]
                    previous[[int(self.start[t]) + p for p in ids if 0 <= p < self.start[t + 1] - self.start[t]]] = m
        members = bin_order([string_hash(member) for member in self.order]).positions
        wants = self.wants(recorded)
        rank = list(range(len(self.topics)))
        return UniformProblem(
            self.start, wants, previous, len(set(named)) == 1, members, self._set(named[0]), rank, self._held
        )

    def _set(self, names: Sequence[str]) -> list[int]:
        """Topics in the order of the set of their ids, which was filled in the order of the set of their names."""
        ordered = bin_order([string_hash(name) for name in names], copied_bins(len(names))).positions
        topics = [self.by_name[names[position]] for position in ordered if names[position] in self.by_name]
        ordered = bin_order([self.hashes[t] for t in topics], copied_bins(len(names))).positions
        return [topics[position] for position in ordered]

    def _held(self, m: int) -> Ints:
        """A member's previous target in the order of its maps, which were filled in the order of the record."""
        entries = list(self.targets.get(self.order[m], {}).items())
        words = [uuid_words(topic) or (0, 0) for topic, _ in entries]
        held: list[int] = []
        for position in bin_order([uuid_hash(*pair) for pair in words]).positions:
            topic, ids = entries[position]
            if topic in self.index_of:
                t = self.index_of[topic]
                ordered = bin_order(list(ids), copied_bins(len(ids))).positions
                existing = [ids[i] for i in ordered if 0 <= ids[i] < self.start[t + 1] - self.start[t]]
                held += [int(self.start[t]) + p for p in existing]
        return np.array(held, dtype=np.int64)

    def ranges(self, recorded: Mapping[str, Mapping[str, set[int]]]) -> Ints:
        """The plan of ``range``: static members first, by instance id."""
        wants = self.wants(recorded)
        instances = [self.members[member].get("instanceId") for member in self.order]
        line = sorted(range(len(self.order)), key=lambda m: _range_key(instances[m], self.order[m]))
        owner = np.full(int(self.start[-1]), NOBODY, dtype=np.int64)
        for t in range(len(self.topics)):
            subscribers = [m for m in line if t in wants[m]]
            if subscribers:
                share, extra = divmod(int(self.start[t + 1] - self.start[t]), len(subscribers))
                counts = share + (np.arange(len(subscribers)) < extra)
                owner[self.start[t] : self.start[t + 1]] = np.repeat(np.array(subscribers), counts)
        return owner


def _range_key(instance: str | None, member: str) -> tuple[bool, bytes]:
    return instance is None, (instance or member).encode("utf-16-be", "surrogatepass")

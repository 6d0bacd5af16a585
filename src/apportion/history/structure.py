"""A group but for its names and lags: groups of one structure get the same plans, so one of them is planned.

Why that is right: a ``Group`` orders members and topics by name, and a strategy that looks at arrays sees a name only
through its place in that order. Two groups whose arrays are equal, lags apart, get equal plans from every strategy that
reads no lag. So the key of a group holds all that the arrays are made from, each name replaced by its rank among the
group's names. What the ranks do not tell makes a group a case of its own (``None``): names that Java and Python sort
differently, a member named like one that a scenario adds, offsets that no broker gives.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from apportion.arrays import UNKNOWN, Ints, Longs
from apportion.history.records import Generation, GenerationMember
from apportion.history.steps import TopicEntries
from apportion.model.lag import lag_of
from apportion.model.topic_columns import TopicColumns

_GROUP: Final = frozenset(("version", "group", "topics", "topic_ids", "members"))
_MEMBER: Final = frozenset(("instance_id", "client_id", "host", "rack", "topics", "owned", "generation"))
_ENTRY: Final = frozenset(("partition", "racks", "begin", "end", "committed", "last_stable"))
JOINS: Final = "join-"
"""How members begin that a scenario adds: where they come among the others counts."""
_MEANING: Final = (JOINS, "instance ")
"""Beginnings of member ids that mean something: of members that a scenario adds, of what a static one is known by."""
_WIDE: Final = np.int64(2**32)
"""More than there are partition ids."""


@dataclass(frozen=True)
class Structure:
    """A group's key, and its lags with it.

    key
        Equal for groups that get equal plans.
    places
        Which partition each place of ``lag`` is of.
    lag
        (places,) messages to read, 0 where unknown. Whether they are known is part of the key.
    members, topics
        All names by rank: what a strategy that looks at names itself has to be asked with.
    """

    key: tuple[Any, ...]
    places: Places
    lag: Longs
    members: tuple[str, ...]
    topics: tuple[str, ...]


class Places:
    """Partitions that are described, in a fixed order.

    topics
        Names, each once.
    topic_of, number
        (places,) each partition's topic, by its place among the names, and its id.
    """

    def __init__(self, topics: Sequence[str], topic_of: Ints, number: Ints) -> None:
        """Take names and places; places that are alike are not distinguished."""
        self.topics, self.topic_of, self.number = tuple(topics), topic_of, number
        self._at = {topic: n for n, topic in enumerate(self.topics)}
        keys = topic_of * _WIDE + number
        self._order = np.argsort(keys, kind="stable")
        self._keys = keys[self._order]

    def __len__(self) -> int:
        return len(self.number)

    @property
    def distinct(self) -> bool:
        """Whether no partition has two places."""
        return bool((self._keys[1:] != self._keys[:-1]).all())

    def find(self, topics: Sequence[str], topic_of: Ints, number: Ints) -> Ints:
        """(P,) the place of each partition, whose topic is one of other names; ``len(self)`` if it has none."""
        if not len(self) or not len(number):
            return np.full(len(number), len(self), dtype=np.int64)
        renamed = np.array([self._at.get(topic, -1) for topic in topics], dtype=np.int64)[topic_of]
        keys = renamed * _WIDE + number
        at = np.minimum(np.searchsorted(self._keys, keys), len(self) - 1)
        return np.where((self._keys[at] == keys) & (renamed >= 0), self._order[at], len(self))


def structure(
    generations: Sequence[Generation], present: Mapping[str, Any] | None, topics: TopicEntries
) -> Structure | None:
    """The structure of the input of ``outcomes``; None if names or offsets may matter."""
    ranks = _Ranks.of(generations, present)
    if ranks is None:
        return None
    past = tuple(_generation(generation, before, ranks) for before, generation in _with_before(generations))
    now = _present(present, ranks)
    described = _described(topics, ranks.topics, set(present["topics"]) if present else set())
    if now is None or described is None or any(generation.number < 0 for generation in generations):
        return None
    entries, places, lag = described
    return Structure((past, now, entries), places, lag, tuple(ranks.members), tuple(ranks.topics))


def change_key(before: Generation, now: Generation, counts: Mapping[str, int]) -> tuple[Any, ...] | None:
    """Equal for pairs of generations between which a strategy that sees names by their order alone does the same.

    counts
        Partitions of each topic.
    Returns
        None where an order of names does not tell all that the names do.
    """
    ranks = _Ranks.of((before, now), None)
    if ranks is None or min(before.number, now.number) < 0 or not counts.keys() <= ranks.topics.keys():
        return None
    sizes = tuple([(ranks.topics[topic], n) for topic, n in counts.items()])
    return _generation(before, None, ranks), _generation(now, before, ranks), sizes


def history_key(generations: Sequence[Generation]) -> tuple[Any, ...] | None:
    """Equal for histories that went the same way but for names, numbers and times.

    Returns
        None where an order of names does not tell all that the names do, or where more than the members counts.
    """
    first = generations[0]
    if any(generation.facts or generation.number < 0 or generation.kind != first.kind for generation in generations):
        return None
    ranks = _Ranks.of(generations, None)
    if ranks is None:
        return None
    return first.kind, tuple([_generation(now, before, ranks) for before, now in _with_before(generations)])


def told_by_ranks(members: Collection[str], instances: Collection[str], topics: Iterable[str]) -> bool:
    """Whether the order of a group's names, each kind by itself, says all that plans see of them.

    It does not where Java and Python sort differently, or where a name means something.
    """
    if "" in instances or not "".join([*members, *instances, *topics]).isascii():
        return False
    return not any(name.startswith(_MEANING) for name in members)


@dataclass(frozen=True)
class _Ranks:
    """Names to their ranks, each kind of name by itself."""

    topics: Mapping[str, int]
    members: Mapping[str, int]
    instances: Mapping[str | None, int]
    joins_at: int

    @classmethod
    def of(cls, generations: Sequence[Generation], present: Mapping[str, Any] | None) -> _Ranks | None:
        """All names of a group; None if an order of ranks does not say all that the names do."""
        topics: set[str] = set()
        members: set[str] = set()
        instances: set[str] = set()
        for generation in generations:
            for member in generation.members:
                topics.update(member.topics, member.assigned)
                members.add(member.member_id)
                if member.instance_id is not None:
                    instances.add(member.instance_id)
        if present is not None:
            topics.update(present["topics"])
            for name, fields in present["members"].items():
                topics.update(fields["topics"], fields.get("owned") or ())
                members.add(name)
                if fields.get("instance_id") is not None:
                    instances.add(fields["instance_id"])
        if not told_by_ranks(members, instances, topics):
            return None
        ordered = sorted(members)
        by_instance: dict[str | None, int] = {name: rank for rank, name in enumerate(sorted(instances))}
        by_instance[None] = -1
        return cls(
            {name: rank for rank, name in enumerate(sorted(topics))},
            {name: rank for rank, name in enumerate(ordered)},
            by_instance,
            sum(name < JOINS for name in ordered),
        )

    def held(self, held: Mapping[str, Sequence[int]]) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """Partitions topic by topic."""
        return tuple([(self.topics[topic], tuple(ids)) for topic, ids in held.items()])

    def wants(self, topics: Iterable[str]) -> tuple[int, ...]:
        """A subscription."""
        return tuple([self.topics[topic] for topic in topics])


def _with_before(generations: Sequence[Generation]) -> Iterable[tuple[Generation | None, Generation]]:
    return zip((None, *generations), generations, strict=False)


def _generation(generation: Generation, before: Generation | None, ranks: _Ranks) -> tuple[Any, ...]:
    """One generation; of its number it counts only whether it is that of the one before."""
    repeats = before is not None and generation.number == before.number
    members = tuple([_member(member, ranks) for member in generation.members])
    return generation.fresh, generation.readable, repeats, members


def _member(member: GenerationMember, ranks: _Ranks) -> tuple[Any, ...]:
    return (
        ranks.members[member.member_id],
        ranks.instances[member.instance_id],
        member.rack,
        ranks.wants(member.topics),
        ranks.held(member.assigned),
    )


def _present(present: Mapping[str, Any] | None, ranks: _Ranks) -> tuple[Any, ...] | None:
    """The group as it is now, its topics apart; None if it says more than ``group_json`` does."""
    if present is None:
        return ()
    if not present.keys() <= _GROUP:
        return None
    members = []
    for name, fields in present["members"].items():
        if not fields.keys() <= _MEMBER or (fields.get("generation") or 0) < 0:
            return None
        members.append(
            (
                ranks.members[name],
                ranks.instances[fields.get("instance_id")],
                fields.get("rack"),
                ranks.wants(fields["topics"]),
                ranks.held(fields.get("owned") or {}),
                fields.get("generation") is None,
            )
        )
    # A member that joins comes after so many others; of static ones and of those that are gone the key tells too.
    return tuple(members), ranks.joins_at


def _described(
    topics: TopicEntries, ranks: Mapping[str, int], of_present: set[str]
) -> tuple[tuple[Any, ...], Places, Longs] | None:
    """The topics' partitions as far as a plan sees them, their places, and their lags."""
    names = sorted(ranks.keys() & topics.keys())
    read = [_topic(topics[topic]) for topic in names]
    if None in read:
        return None
    described = [entry for entry in read if entry is not None]
    keys = [(ranks[topic], topic in of_present, *entry[:2]) for topic, entry in zip(names, described, strict=True)]
    topic_of = np.arange(len(names)).repeat([len(topics[topic]) for topic in names])
    nothing = np.empty((0, 4), dtype=np.int64)
    numbers, *logs = np.concatenate([nothing, *(entry[2] for entry in described)]).T
    places = Places(names, topic_of, numbers)
    if not places.distinct:
        return None
    table = np.stack(logs, axis=1)
    if (table < UNKNOWN).any():
        return None
    begin, end, committed = table.T
    known = np.packbits(table != UNKNOWN).tobytes()
    return (tuple(keys), known), places, lag_of(begin, end, committed, "latest")


def _topic(entries: Sequence[Mapping[str, Any]]) -> tuple[Any, Any, Longs] | None:
    """A topic's ids and racks as keys, and (partitions, 4) its ids, begins, ends, commits; None for other fields."""
    if isinstance(entries, TopicColumns):
        table = np.stack([entries.number, entries.begin, entries.end, entries.committed], axis=1)
        lists, racks_of = entries.racks()
        ids: Any = entries.number.tolist()
        return tuple(ids), tuple([lists[n] for n in racks_of.tolist()]) if any(lists) else (), table
    racks, rows = [], []
    for entry in entries:
        if not entry.keys() <= _ENTRY:
            return None
        numbers = [entry.get(name) for name in ("partition", "begin", "end", "committed")]
        rows.append([UNKNOWN if number is None else number for number in numbers])
        listed = entry.get("racks")
        racks.append(tuple(listed) if listed else ())
    table = np.array(rows, dtype=np.int64).reshape(-1, 4)
    return tuple([row[0] for row in rows]), tuple(racks) if any(racks) else (), table

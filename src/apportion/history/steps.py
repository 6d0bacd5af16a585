"""Generations as groups on arrays, each tied to the one before it, so that a past can be carried along."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from apportion.arrays import NOBODY, Ints, ints
from apportion.history.records import Generation, Width, counts_after, member_fields
from apportion.model.build import build, find_partitions
from apportion.model.group import Claims, Group
from apportion.model.topic_columns import OFFSETS, TopicColumns

TopicEntries = Mapping[str, Sequence[Mapping[str, Any]]]
"""Topic to its partitions as entries of group.json: partition, and racks, begin, end, committed where known."""


Described = dict[tuple[str, int, bool], int | Sequence[Mapping[str, Any]]]
"""(topic, partitions, whether offsets count) to the topic as ``build`` takes it."""


@dataclass(frozen=True, eq=False)
class Step:
    """One generation as a group.

    group
        Its claims are what the generation really gave, so that ``group.owner`` (P,) is what happened.
    identities
        (M,) who each member is across restarts.
    follows
        Whether it carries on from the step before it; else its members start with nothing.
    places
        What ``follow`` has worked out of the step before it: that is the same for all strategies. A copy made by
        ``replace`` begins without, for it may have other identities.
    """

    generation: Generation
    group: Group
    identities: tuple[str, ...]
    follows: bool = True
    places: dict[int, tuple[Step, tuple[Ints, Ints, Ints]]] = field(default_factory=dict, init=False)

    @cached_property
    def alone(self) -> Group:
        """The group with nothing behind it."""
        return self.group.without_past()


def steps(
    name: str,
    generations: Iterable[Generation],
    topics: TopicEntries | None = None,
    ids: Mapping[str, str] | None = None,
    offsets: bool = True,
) -> list[Step]:
    """The generations that a strategy can be asked about: members who are consumers, and no static replacements.

    topics
        Partitions as they are today, for their racks; how many there were is told by ``counts_after``. Offsets count
        for the last generation alone, static members that came back in it or not: those of earlier times are not known.
    ids
        Topic to its id, which counts for what the broker gives.
    offsets
        False: not of the last generation either, whose offsets are those of today.
    """
    ordered = list(generations)
    described: Described = {}
    counts = counts_after(ordered, sizes(topics or {}, ordered))
    last = len(ordered) - 1
    while last > 0 and _repeats(ordered, last):
        last -= 1
    walk = []
    follows = False
    for i, generation in enumerate(ordered):
        if generation.fresh or not generation.members:
            follows = False
        if generation.members and generation.readable and not _repeats(ordered, i):
            taken = step(name, generation, counts[i], topics, offsets and i == last, ids, described)
            walk.append(replace(taken, follows=follows))
            follows = True
    return walk


def sizes(topics: TopicEntries, generations: Iterable[Generation]) -> dict[str, Width]:
    """The input of ``counts_after`` for each given topic: log ends of some ids may be unknown."""
    names = {topic for generation in generations for seat in generation.members for topic in seat.assigned}
    return {topic: (len(topics[topic]), _highest(topics[topic]) + 1) for topic in names & topics.keys()}


def _highest(entries: Sequence[Mapping[str, Any]]) -> int:
    if isinstance(entries, TopicColumns):
        return int(entries.number.max(initial=-1))
    return max((entry["partition"] for entry in entries), default=-1)


def _repeats(generations: Sequence[Generation], i: int) -> bool:
    """Whether it is the generation before once more: a static member came back under another id."""
    return i > 0 and not generations[i].fresh and generations[i].number == generations[i - 1].number


def step(
    name: str,
    generation: Generation,
    counts: Mapping[str, int],
    topics: TopicEntries | None = None,
    offsets: bool = False,
    ids: Mapping[str, str] | None = None,
    described: Described | None = None,
) -> Step:
    """One generation as a group of so many partitions a topic.

    described
        Keeps what is known of topics for other generations of the same ``topics``.
    """
    known = {} if described is None else described
    members = {seat.member_id: member_fields(seat, seat.assigned, generation.number) for seat in generation.members}
    for topic, n in counts.items():
        if (topic, n, offsets) not in known:
            known[topic, n, offsets] = _entries((topics or {}).get(topic, ()), n, offsets)
    entries = {topic: known[topic, n, offsets] for topic, n in counts.items()}
    named = {topic: ids[topic] for topic in entries if topic in ids} if ids else {}
    group = build({"group": name, "topics": entries, "topic_ids": named, "members": members})
    who = {seat.member_id: seat.identity for seat in generation.members}
    return Step(generation, group, tuple(who[member] for member in group.members))


def _entries(known: Sequence[Mapping[str, Any]], n: int, offsets: bool) -> int | Sequence[Mapping[str, Any]]:
    """A topic of n partitions, with the facts known about them."""
    if isinstance(known, TopicColumns):
        return known.numbered(n, offsets)
    by_id = {entry["partition"]: entry for entry in known}
    fields = ("racks", *OFFSETS) if offsets else ("racks",)
    if not any(entry.get(field) for entry in by_id.values() for field in fields):
        return n
    nothing: Mapping[str, Any] = {}
    return [
        {"partition": p, **{name: entry.get(name) for name in fields}}
        for p, entry in ((p, by_id.get(p, nothing)) for p in range(n))
    ]


def follow(earlier: Step, owner: Ints, later: Step) -> Group:
    """The later generation's group, its past the partitions that ``owner`` (P of the earlier) gave.

    A member is carried over by its identity, a partition by its topic and id; what went away holds nothing.
    """
    member, position, generation = _carried(earlier, later)
    to_member = member[owner]
    stays = ((to_member != NOBODY) & (position != NOBODY)).nonzero()[0]
    return later.group.with_claims(Claims(to_member[stays], position[stays]), generation)


def _carried(earlier: Step, later: Step) -> tuple[Ints, Ints, Ints]:
    """(M + 1,) the later member, and (P,) the later partition, that each of the earlier step is; -1 nowhere.

    Nobody stands last among the members, where -1 finds it. Beside them (M of the later,) the earlier generation.
    """
    # The step stands beside the answer, so that its place in memory is nobody else's.
    cached = later.places.get(id(earlier))
    if cached is None:
        index = {identity: m for m, identity in enumerate(later.identities)}
        member = ints([*(index.get(identity, NOBODY) for identity in earlier.identities), NOBODY])
        generation = np.full(later.group.M, earlier.generation.number, dtype=np.int64)
        cached = later.places[id(earlier)] = earlier, (member, _places(earlier.group, later.group), generation)
    return cached[1]


def without_past(later: Step) -> Group:
    """The generation's group with nothing behind it: the same for all strategies."""
    return later.alone


def _places(earlier: Group, later: Group) -> Ints:
    """(P of the earlier,) the index of each partition in the later group; -1 for none."""
    index = {topic: t for t, topic in enumerate(later.topics)}
    topic = ints([index.get(name, NOBODY) for name in earlier.topics])[earlier.topic_of]
    position = np.full(earlier.P, NOBODY, dtype=np.int64)
    known = topic != NOBODY
    if known.any() and later.P:
        position[known] = find_partitions(topic[known], earlier.number[known], later.start, later.number)
    return position

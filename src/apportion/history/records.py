"""One group's records as they are in the topic, and their generations.

Within a group the offset is the only order: generation and epoch numbers repeat and collide (an upgrade starts at
the epoch of the classic generation), and all records of a group are in one partition of ``__consumer_offsets``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Final

from apportion.wire.coordinator import EpochRecord, GroupGeneration

Assigned = Mapping[str, tuple[int, ...]]
"""Topic to partition ids."""

SPARE: Final = 64
"""Ids that may be missing below the highest one beyond as many as there are."""


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """One record of a group, with the topic's facts about it.

    offset
        In its partition of ``__consumer_offsets``.
    at
        The record's timestamp, in milliseconds.
    holes
        Offsets that are missing in the partition before this record, counted from the start of what was read.
    """

    offset: int
    at: int
    record: GroupGeneration | EpochRecord
    holes: int = 0


@dataclass(frozen=True, slots=True)
class GenerationMember:
    """One member of a generation.

    topics
        Its subscription. Of a member with a regular expression: its names and all that members with the same
        expression were given.
    owned, owned_generation
        What it said it held when it joined (classic members from subscription version 1 and 2 on).
    assigned
        What the generation gave it; under KIP-848 its target. In a generation of a streams group sub-topologies stand
        for topics, and the active tasks' numbers for partitions.
    process_id, roles
        Of a streams group's member: its process, and its tasks by role (``active``, ``standby``, ``warmup``) and
        sub-topology. Of a share group's: what it shares (``shared``) and is to share (``target``), by topic.
    reads
        Of a streams group's member in a generation: the partitions that its active tasks read, by topic.
    """

    member_id: str
    topics: tuple[str, ...] = ()
    assigned: Assigned = field(default_factory=dict)
    instance_id: str | None = None
    client_id: str | None = None
    host: str | None = None
    rack: str | None = None
    owned: Assigned = field(default_factory=dict)
    owned_generation: int | None = None
    session_timeout_ms: int | None = None
    process_id: str | None = None
    roles: Mapping[str, Assigned] = field(default_factory=dict)
    reads: Assigned = field(default_factory=dict)

    @property
    def identity(self) -> str:
        """Who it is across restarts: a static member is its instance, a dynamic one its member id."""
        return self.member_id if self.instance_id is None else "instance " + self.instance_id


def member_fields(
    seat: GenerationMember, held: Mapping[str, Sequence[int]] | None, generation: int | None
) -> dict[str, Any]:
    """A member as ``build`` takes it."""
    return {
        "instance_id": seat.instance_id, "client_id": seat.client_id, "host": seat.host, "rack": seat.rack,
        "topics": seat.topics, "owned": held, "generation": generation,
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Generation:
    """One generation of a classic group, or one epoch of a KIP-848 or streams group, as it was.

    offset, at
        Of the record that completes it: the key-2 record; the target's record (key 6 or 20), or the group's (key 3 or
        17) where it emptied.
    number
        The generation or epoch.
    started
        Milliseconds; when the members had joined and the leader began (classic), or when the epoch was opened.
    fresh
        Nothing is known before it: it is the first, or a tombstone stands between.
    readable
        Whether the members' bytes are those of consumers, and could be read.
    facts
        What else an epoch of a streams group stood for: ``topology`` (its epoch), ``topics`` (a hash), ``settings``,
        ``stateless`` (sub-topologies without state).
    """

    offset: int
    at: int
    kind: str
    number: int
    members: tuple[GenerationMember, ...]
    protocol: str | None = None
    started: int | None = None
    holes: int = 0
    fresh: bool = False
    readable: bool = True
    facts: Mapping[str, Any] = field(default_factory=dict)

    def owners(self) -> dict[tuple[str, int], str]:
        """Each assigned partition's owner by identity; of two the first."""
        owner_of: dict[tuple[str, int], str] = {}
        assigned = 0
        for seat in self.members:
            identity = seat.identity
            for topic, ids in seat.assigned.items():
                owner_of.update(dict.fromkeys(zip(repeat(topic), ids, strict=False), identity))
                assigned += len(ids)
        if len(owner_of) == assigned:
            return owner_of
        # Some stand twice, and the last one has them now.
        owner_of = {}
        for seat in self.members:
            for topic, ids in seat.assigned.items():
                for p in ids:
                    owner_of.setdefault((topic, p), seat.identity)
        return owner_of

    @property
    def topics(self) -> frozenset[str]:
        """All topics that a member subscribes to."""
        return frozenset(topic for seat in self.members for topic in seat.topics)


Width = tuple[int, int]
"""Of a topic: how many partitions are described, and the highest id and one more."""
_NONE: Final[Width] = (0, 0)


def counts_after(generations: Iterable[Generation], today: Mapping[str, Width] | None = None) -> list[dict[str, int]]:
    """How many partitions each wanted topic had in each generation, as a lower bound: the highest id seen so far + 1.

    The records do not tell partition counts. Kafka's assignors give out every partition, so that the bound is exact
    but where one was withheld or left behind by a downgrade; ids given in earlier generations make up for that. The
    count that a topic has today would be wrong for a generation before it grew.

    today
        How many partitions each topic has today, and its highest id and one more. The former lets ids be believed that
        are far above the number of those given: a hostile record must not make a topic of 2**31 partitions, nor a
        sample of log ends that has such an id. The latter shows a topic that was deleted and made anew with fewer, for
        none ever shrinks: after the last generation that gave an id which is not there today, earlier ids no longer
        count.
    """
    ordered = list(generations)
    highest_of = [_believed(generation, today or {}) for generation in ordered]
    last_of_old = {
        topic: k
        for k, highest in enumerate(highest_of)
        for topic in highest
        if 0 < (today or {}).get(topic, _NONE)[1] <= highest[topic]
    }
    seen: dict[str, int] = {}
    result = []
    for k, (generation, highest) in enumerate(zip(ordered, highest_of, strict=True)):
        for topic, id_ in highest.items():
            seen[topic] = max(seen.get(topic, 0), id_ + 1)
        result.append({topic: seen[topic] for topic in sorted(generation.topics) if topic in seen})
        for topic in highest:
            if last_of_old.get(topic) == k:
                del seen[topic]
    return result


def _believed(generation: Generation, today: Mapping[str, Width]) -> dict[str, int]:
    """Topic to the highest id given; without those that no record of an honest group has."""
    return {
        topic: highest
        for topic, (given, highest) in _given(generation).items()
        if highest < max(2 * given + SPARE, today.get(topic, _NONE)[0])
    }


def _given(generation: Generation) -> dict[str, tuple[int, int]]:
    """Topic to how many partitions were given, and the highest id."""
    sizes: dict[str, tuple[int, int]] = {}
    for seat in generation.members:
        for topic, ids in seat.assigned.items():
            if ids:
                given, highest = sizes.get(topic, (0, -1))
                sizes[topic] = given + len(ids), max(highest, max(ids))
    return sizes

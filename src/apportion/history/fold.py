"""A group's records folded into the generations that they come to, and into what stands at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from apportion.history import patterns
from apportion.history.broker_assigned import BrokerAssigned
from apportion.history.records import CLASSIC, CONSUMER, SHARE, STREAMS, Generation, GenerationMember, GroupRecord
from apportion.history.share_groups import ShareRecords
from apportion.history.streams_groups import ASSIGNOR, StreamsRecords
from apportion.wire.coordinator import EpochRecord, GroupGeneration, Member
from apportion.wire.partitions import Held, merged
from apportion.wire.share_streams import SHARE as SHARE_TYPES
from apportion.wire.share_streams import STREAMS as STREAMS_TYPES

DEFAULT_ASSIGNOR: Final = "uniform"
"""What a broker uses where no KIP-848 member asks for an assignor: the first of ``group.consumer.assignors``."""
_GROUP, _PARTITIONS, _MEMBER, _TARGET, _TARGET_OF, _CURRENT = range(3, 9)


@dataclass(frozen=True, slots=True)
class Present:
    """A group as it stands after its last record.

    type
        ``classic``, ``consumer`` (KIP-848), ``simple`` (only commits), ``share`` or ``streams``.
    generation
        The classic generation or the group's epoch; None for a simple group.
    members
        With what they hold now: of a KIP-848 member its current assignment, not its target.
    sentences
        What of the topics is not known, a sentence each: patterns that the broker resolves.
    """

    type: str
    state: str
    protocol: str | None
    generation: int | None
    members: tuple[GenerationMember, ...]
    readable: bool = True
    sentences: tuple[str, ...] = ()


OTHERS: Final = frozenset({SHARE, STREAMS})
"""Types of groups that no consumer's strategy plans."""


@dataclass
class Folded:
    """What a group's records come to: its generations in order, and the present; None where it is gone."""

    generations: list[Generation]
    present: Present | None


def fold(events: Iterable[GroupRecord], names: Mapping[str, str] | None = None) -> Folded:
    """The generations and the present of one group.

    events
        All its records but commits, ascending by offset.
    names
        Topic id (22 characters) to name, which KIP-848 and share groups' records need; of a KIP-848 group partitions
        of other ids are left out.
    """
    folding = Folding(names or {})
    generations = [generation for event in events if (generation := folding.take(event)) is not None]
    return Folded(generations, folding.present)


class Folding:
    """One group's records folded one by one, for a reader that follows the topic; memory of the present alone.

    names
        Topic id to name; it may grow while records come.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self._classic, self._epochs = _Classic(), _Epochs(names)
        self._share, self._streams = ShareRecords(names=names), StreamsRecords()

    def take(self, event: GroupRecord) -> Generation | None:
        """One more record, in the order of offsets; the generation that it completes, if it does."""
        record = event.record
        if isinstance(record, GroupGeneration):
            return self._classic.take(event)
        if record.key_type in SHARE_TYPES:
            return self._share.take(event)
        if record.key_type in STREAMS_TYPES:
            return self._streams.take(event)
        return self._epochs.take(event)

    @property
    def present(self) -> Present | None:
        """As the group stands; None where it is gone."""
        share, streams = self._share, self._streams
        sides = [
            (self._epochs.touched, self._epochs.present()),
            (self._classic.touched, self._classic.present()),
            (share.touched, _of_broker(SHARE, share, share.present_members())),
            (streams.touched, _of_broker(STREAMS, streams, streams.present_members(), ASSIGNOR)),
        ]
        # Several stand only where the records between were lost; then the latest one is right.
        standing = [(touched, present) for touched, present in sides if present is not None]
        return max(standing, key=lambda side: side[0])[1] if standing else None


def state_of(members: int) -> str:
    """A group's state by its number of members: records tell of no rebalance that is under way."""
    return "Stable" if members else "Empty"


def server_assignor(members: Iterable[Mapping[str, Any]]) -> str:
    """The server's strategy that most KIP-848 members ask for, of equals the first by name; the default if none does.

    members
        Bodies of their key-5 records.
    """
    votes = Counter(name for body in members if (name := body.get("serverAssignor")))
    return min(votes, key=lambda name: (-votes[name], name), default=DEFAULT_ASSIGNOR)


def _of_broker(
    kind: str, records: BrokerAssigned, members: tuple[GenerationMember, ...], protocol: str | None = None
) -> Present | None:
    """A share or streams group as it stands; what share members read is nobody's own, so no strategy can plan it."""
    if not records.stands:
        return None
    state = state_of(len(members))
    notes = patterns.of_topology(records.subtopologies) if isinstance(records, StreamsRecords) else ()
    protocol = protocol if members else None
    return Present(kind, state, protocol, records.epoch, members, readable=kind == STREAMS, sentences=notes)


@dataclass
class _Classic:
    """The classic side: each key-2 record is a whole generation."""

    last: Generation | None = None
    touched: int = -1
    fresh: bool = True

    def take(self, event: GroupRecord) -> Generation | None:
        record = event.record
        assert isinstance(record, GroupGeneration)  # noqa: S101 - for the type checker
        self.touched = event.offset
        if record.tombstone:
            self.last, self.fresh = None, True
            return None
        readable = record.protocol_type in ("consumer", "") and not any(m.unreadable for m in record.members)
        self.last = Generation(
            offset=event.offset,
            at=event.at,
            kind=CLASSIC,
            number=record.generation or 0,
            members=tuple(map(_classic_seat, record.members)),
            protocol=record.protocol if record.members else None,
            started=record.state_time,
            holes=event.holes,
            fresh=self.fresh,
            readable=readable,
        )
        self.fresh = False
        return self.last

    def present(self) -> Present | None:
        last = self.last
        if last is None:
            return None
        state = state_of(len(last.members))
        return Present(CLASSIC, state, last.protocol, last.number, last.members, last.readable)


def _classic_seat(member: Member) -> GenerationMember:
    assigned = _sorted(member.assigned)
    return GenerationMember(
        member.member_id,
        tuple(dict.fromkeys(member.topics)),
        assigned,
        member.instance_id,
        member.client_id,
        member.host,
        member.rack or None,
        # Most members hold what they were given, and are given it again.
        assigned if member.owned == member.assigned else _sorted(member.owned),
        member.owned_generation,
        member.session_timeout_ms,
    )


def _sorted(held: Held) -> dict[str, tuple[int, ...]]:
    """Topics by name, ids ascending: the bytes have them in any order, and may name a topic twice."""
    if len(held) == 1:
        return {topic: tuple(sorted(ids)) for topic, ids in held}
    return {topic: tuple(sorted(ids)) for topic, ids in sorted(merged(held).items())}


@dataclass
class _Epochs:
    """The KIP-848 side: members, targets and current assignments come in records of their own.

    An epoch is opened by key 3 and completed by key 6, which follows the targets (key 7) that changed. Several bumps
    may pass before one target comes, and none comes for a group that emptied: there key 3 completes the epoch itself.
    """

    names: Mapping[str, str]
    epoch: int | None = None
    opened: int | None = None
    members: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    targets: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    current: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    touched: int = -1
    fresh: bool = True

    def take(self, event: GroupRecord) -> Generation | None:
        record = event.record
        assert isinstance(record, EpochRecord)  # noqa: S101 - for the type checker
        self.touched = event.offset
        kind, body = record.key_type, record.body
        table = {_MEMBER: self.members, _TARGET_OF: self.targets, _CURRENT: self.current}.get(kind)
        if table is not None:
            if body is None:
                table.pop(record.member_id or "", None)
            else:
                table[record.member_id or ""] = body
            return None
        if kind == _GROUP:
            return self._bump(event, record)
        if kind == _TARGET and body is not None:
            return self._complete(event, record.epoch or 0)
        return None

    def _bump(self, event: GroupRecord, record: EpochRecord) -> Generation | None:
        if record.tombstone:
            self.epoch, self.opened, self.fresh = None, None, True
            for table in (self.members, self.targets, self.current):
                table.clear()
            return None
        self.epoch = record.epoch
        if self.opened is None:
            self.opened = event.at
        return None if self.members else self._complete(event, record.epoch or 0)

    def _complete(self, event: GroupRecord, number: int) -> Generation:
        generation = Generation(
            offset=event.offset,
            at=event.at,
            kind=CONSUMER,
            number=number,
            members=self._members(self.targets, "topicPartitions"),
            protocol=self._assignor(),
            started=self.opened,
            holes=event.holes,
            fresh=self.fresh,
        )
        self.opened, self.fresh = None, False
        return generation

    def _assignor(self) -> str | None:
        return server_assignor(self.members.values()) if self.members else None

    def _members(self, table: Mapping[str, Mapping[str, Any]], lists: str) -> tuple[GenerationMember, ...]:
        held = {member: self._held(table.get(member, {}).get(lists) or ()) for member in self.members}
        wide = self._by_expression(held)
        return tuple(_epoch_seat(member, self.members[member], held[member], wide) for member in sorted(self.members))

    def _held(self, entries: Iterable[Mapping[str, Any]]) -> dict[str, tuple[int, ...]]:
        """Assigned partitions by topic name, ids ascending: the records have them unsorted."""
        ids_of: dict[str, list[int]] = {}
        for entry in entries:
            name = self.names.get(entry["topicId"])
            if name is not None:
                ids_of.setdefault(name, []).extend(entry["partitions"])
        return {name: tuple(sorted(ids)) for name, ids in sorted(ids_of.items()) if ids}

    def _by_expression(self, held: Mapping[str, Mapping[str, tuple[int, ...]]]) -> dict[str, set[str]]:
        """Regular expression to the topics that members with it hold or are to hold."""
        wide: dict[str, set[str]] = {}
        for member, body in self.members.items():
            if body.get("subscribedTopicRegex"):
                topics = wide.setdefault(body["subscribedTopicRegex"], set())
                topics.update(held[member])
                topics.update(self._held(self.targets.get(member, {}).get("topicPartitions") or ()))
        return wide

    def present(self) -> Present | None:
        if self.epoch is None and not self.members:
            return None
        state = "Stable" if self.members else "Empty"
        seats = self._members(self.current, "assignedPartitions")
        sentences = patterns.of_members(body.get("subscribedTopicRegex") for body in self.members.values())
        return Present(CONSUMER, state, self._assignor(), self.epoch, seats, sentences=sentences)


def _epoch_seat(
    member: str, body: Mapping[str, Any], held: Mapping[str, tuple[int, ...]], wide: Mapping[str, set[str]]
) -> GenerationMember:
    named = body.get("subscribedTopicNames") or ()
    topics = wide.get(body.get("subscribedTopicRegex") or "", set()).union(named)
    classic = body.get("classicMemberMetadata")
    return GenerationMember(
        member,
        tuple(sorted(topics)),
        held,
        body.get("instanceId"),
        body.get("clientId"),
        body.get("clientHost"),
        body.get("rackId") or None,
        session_timeout_ms=classic["sessionTimeoutMs"] if classic else None,
    )

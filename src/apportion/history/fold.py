"""A group's records folded into their generations, and into the state at the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from apportion.history import patterns
from apportion.history.broker_assigned import BrokerAssigned
from apportion.history.consumer_groups import ConsumerRecords
from apportion.history.records import Generation, GenerationMember, GroupRecord
from apportion.history.share_groups import ShareRecords
from apportion.history.streams_groups import ASSIGNOR, StreamsRecords
from apportion.model.protocols import CLASSIC, CONSUMER, SHARE, STREAMS
from apportion.wire.coordinator import GroupGeneration, Member
from apportion.wire.partitions import Held, merged
from apportion.wire.share_streams import SHARE as SHARE_TYPES
from apportion.wire.share_streams import STREAMS as STREAMS_TYPES


@dataclass(frozen=True, slots=True)
class Present:
    """A group as it is after its last record.

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


@dataclass
class Folded:
    """The content of a group's records: its generations in order, and the present; None if it is gone."""

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
        self._classic, self._consumer = _Classic(), ConsumerRecords(names=names)
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
        return self._consumer.take(event)

    @property
    def present(self) -> Present | None:
        """As the group is now; None if it is gone."""
        consumer, share, streams = self._consumer, self._share, self._streams
        sides = [
            (consumer.touched, _of_broker(CONSUMER, consumer, consumer.assignor, consumer.sentences)),
            (self._classic.touched, self._classic.present()),
            (share.touched, _of_broker(SHARE, share, None)),
            (streams.touched, _of_broker(STREAMS, streams, ASSIGNOR, patterns.of_topology(streams.subtopologies))),
        ]
        # Several stand only where the records between were lost; then the latest one is right.
        standing = [(touched, present) for touched, present in sides if present is not None]
        return max(standing, key=lambda side: side[0])[1] if standing else None


def state_of(members: int) -> str:
    """A group's state by its number of members: records do not show a rebalance that is under way."""
    return "Stable" if members else "Empty"


def _of_broker(
    kind: str, records: BrokerAssigned, protocol: str | None, sentences: tuple[str, ...] = ()
) -> Present | None:
    """A group whose broker assigns, as it is now; share members own nothing, so no strategy can plan that kind."""
    if not records.stands:
        return None
    members = records.present_members()
    protocol = protocol if members else None
    state = state_of(len(members))
    return Present(kind, state, protocol, records.epoch, members, readable=kind != SHARE, sentences=sentences)


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

"""A plan as text for a carrier's rack id: the text for the class on the brokers, written and read here.

    apportion-plan:2:NUMBER:BODY[:SIGNATURE]

BODY is base64url (no padding) of zlib's deflated bytes: varint promise, byte salt, 4 bytes of seconds since 1970 (for
people), 8 bytes of the first part's carrier, varint part; varint M and M digests of 4 bytes; varint S static members,
each a varint number and the digest of its member id; varint R and R member numbers, first to take over first; varint
T topics, each an id of 16 bytes, varint N and N runs of (varint length, varint owner's number + 1, 0 for none).
Numbers are places in the list of digests. A digest is the head of SHA-256 over the salt and ``i`` + instance id, or
``m`` + member id where there is none; a carrier's is that over ``c`` + member id. A static member keeps its number over
restarts. A thousand members take 4 kB, static ones 10. SIGNATURE is base64url of HMAC-SHA256 over the text before its
colon. Which plan counts is argued in ``broker/src/main/java/io/apportion/broker/Followed.java``.

This module alone knows how a plan travels: as the rack id of a member that takes nothing.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from apportion.errors import ApportionError, UnreadableBytes
from apportion.wire.primitives import Reader
from apportion.wire.writer import Writer

MARK: Final = "apportion-plan:"
VERSION: Final = "2"
RACK_MAX_BYTES: Final = 32_767
"""A longer rack id makes the broker close the connection (it is a string of Kafka's with a length of 16 bits)."""

BODY_MAX_BYTES: Final = 4 << 20
PARTITIONS_MAX: Final = 1_000_000
"""What one rack id may come to once it is inflated."""

TOPICS_WHOLE: Final = 1
"""Each topic goes to one member as a whole, planned or not (failover)."""

NUMBERS_WHOLE: Final = 2
"""Partitions of equal number go to one member (sticky-stream-join)."""

RELEASE: Final = 4
"""The members that the plan names are let go: the group is uniform's again."""

PROMISES: Final[Mapping[str, int]] = {"topics": TOPICS_WHOLE, "numbers": NUMBERS_WHOLE}
"""A strategy's ``kept_whole`` to the bit of a plan."""

ASSIGNOR: Final = "apportion"
"""What members ask for with ``group.remote.assignor``: the class on the brokers by its name."""


@dataclass(frozen=True)
class MemberKey:
    """A member's identity for a plan: its instance id if it is static, else its member id."""

    member_id: str
    instance_id: str | None = None

    def digest(self, salt: int) -> bytes:
        """Its 4 bytes under a salt from 0 to 255."""
        name = f"m{self.member_id}" if self.instance_id is None else f"i{self.instance_id}"
        return hashlib.sha256(bytes([salt]) + name.encode()).digest()[:4]


@dataclass(frozen=True)
class GovernedPlan:
    """A governor's plan.

    number
        Which of two plans is newer, from 0 to 10**18 - 1: one more than any that the group's members carry.
    promise
        Bits of ``TOPICS_WHOLE``, ``NUMBERS_WHOLE`` and ``RELEASE``.
    members
        All members that the plan knows; the other fields name them by their place here.
    rank
        Places of members, the first to take over first.
    owners
        Topic id (16 bytes) to the place of each partition's owner, -1 where its previous one stays.
    """

    number: int
    promise: int
    members: tuple[MemberKey, ...]
    rank: tuple[int, ...]
    owners: Mapping[bytes, Sequence[int]]

    @property
    def content(self) -> tuple[Any, ...]:
        """The plan without its number: plans with equal content give all members the same partitions."""
        return self.promise, self.members, self.rank, self.owners


def salt_of(members: Sequence[MemberKey]) -> int:
    """The first salt under which all digests differ.

    Raises
        ValueError: there is none, as where one member stands twice.
    """
    for salt in range(256):
        if len({member.digest(salt) for member in members}) == len(members):
            return salt
    raise ValueError(f"no salt tells {len(members)} members apart: is one of them there twice?")


def texts(plan: GovernedPlan, carrier: str, key: bytes | None = None, at_s: float = 0) -> list[str]:
    """The plan as rack ids, one a carrier: as few as hold it, each with some of the topics whole.

    carrier
        The member id of the member that will carry the first: on another member it does not count.
    at_s
        When it is published, in seconds since 1970; for people alone.
    Raises
        ApportionError: one topic alone does not fit a rack id, as with more than about 5,000 members.
    """
    salt = salt_of(plan.members)
    digests = [member.digest(salt) for member in plan.members]
    fixed = [place for place, member in enumerate(plan.members) if member.instance_id is not None]
    names = Writer().uvarint(len(digests)).raw(b"".join(digests)).uvarint(len(fixed))
    for place in fixed:
        names.uvarint(place).raw(MemberKey(plan.members[place].member_id).digest(salt))
    names.uvarint(len(plan.rank))
    for position in plan.rank:
        names.uvarint(position)
    head = Writer().uvarint(plan.promise).raw(bytes([salt]) + int(at_s).to_bytes(4, "big") + carrier_digest(carrier))
    topics = [topic + _runs(owners) for topic, owners in sorted(plan.owners.items())]

    def pack(part: int, topics: Sequence[bytes]) -> str:
        numbered = head.done() + Writer().uvarint(part).done() + names.done() + Writer().uvarint(len(topics)).done()
        text = f"{MARK}{VERSION}:{plan.number}:{base64url(zlib.compress(numbered + b''.join(topics), 9))}"
        return text if key is None else f"{text}:{base64url(hmac.digest(key, text.encode(), 'sha256'))}"

    packed: list[str] = []
    waiting = [topics]
    while waiting:
        part = waiting.pop()
        text = pack(len(packed), part)
        if len(text) <= RACK_MAX_BYTES:
            packed.append(text)
        elif len(part) < 2:
            raise ApportionError(
                f"a plan for {len(plan.members)} members with one topic has {len(text)} bytes as a rack id, which may "
                f"have {RACK_MAX_BYTES}: a group of fewer members, or a topic of fewer partitions, can be governed"
            )
        else:
            waiting += [part[len(part) // 2 :], part[: len(part) // 2]]
    return packed


def _runs(owners: Sequence[int]) -> bytes:
    runs = [(sum(1 for _ in run), owner) for owner, run in groupby(map(int, owners))]
    writer = Writer().uvarint(len(runs))
    for length, owner in runs:
        writer.uvarint(length).uvarint(owner + 1)
    return writer.done()


@dataclass(frozen=True)
class PlanPart:
    """The content of one rack id: digests in place of members, and under which salt.

    at_s
        When it was published, seconds since 1970.
    """

    number: int
    at_s: int
    promise: int
    salt: int
    digests: tuple[bytes, ...]
    rank: tuple[int, ...]
    owners: Mapping[bytes, tuple[int, ...]]


def read(rack: str) -> PlanPart:
    """The content of a carrier's rack id; a signature is not looked at.

    Raises
        UnreadableBytes: it is no plan, or a torn one.
    """
    fields = rack.split(":")
    if not rack.startswith(MARK) or len(fields) not in (4, 5) or fields[1] != VERSION or not fields[2].isdigit():
        raise UnreadableBytes(f"a rack id {MARK}{VERSION}:NUMBER:BODY is needed, found {rack[:40]!r}")
    inflater = zlib.decompressobj()
    try:
        body = inflater.decompress(base64.urlsafe_b64decode(fields[3] + "=="), BODY_MAX_BYTES)
    except (ValueError, zlib.error) as wrong:
        raise UnreadableBytes(f"the body of a plan is not deflated base64url: {wrong}") from None
    if not inflater.eof:
        raise UnreadableBytes(f"the body of a plan is torn, or inflates to more than {BODY_MAX_BYTES} bytes")
    reader = Reader(body)
    promise, salt, at_s = reader.uvarint(), reader.take(1)[0], int.from_bytes(reader.take(4), "big")
    reader.take(8)
    reader.uvarint()
    digests = tuple(reader.take(4) for _ in range(_count(reader, 4)))
    for _ in range(_count(reader, 5)):
        reader.uvarint()
        reader.take(4)
    rank = tuple(reader.uvarint() for _ in range(_count(reader, 1)))
    owners: dict[bytes, tuple[int, ...]] = {}
    room = PARTITIONS_MAX
    for _ in range(_count(reader, 17)):
        topic = reader.take(16)
        runs = [(reader.uvarint(), reader.uvarint() - 1) for _ in range(_count(reader, 2))]
        room -= sum(length for length, _ in runs)
        if room < 0 or any(length < 0 for length, _ in runs):
            raise reader.fail(f"more than {PARTITIONS_MAX} partitions")
        owners[topic] = tuple(owner for length, owner in runs for _ in range(length))
    places = [*rank, *(owner for topic in owners.values() for owner in topic)]
    if places and not -1 <= min(places) <= max(places) < len(digests):
        raise reader.fail(f"member {max(places)} is named and there are {len(digests)}")
    return PlanPart(int(fields[2]), at_s, promise, salt, digests, rank, owners)


def joining(text: str) -> dict[str, str]:
    """The fields of a heartbeat that carries a plan; such a member takes nothing."""
    return {"rack_id": text}


def carried_by(member: Mapping[str, Any]) -> str | None:
    """The plan's text that a described member carries; None for a member that reads."""
    rack = member["rack_id"] or ""
    return rack if rack.startswith(MARK) else None


def readable(members: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], PlanPart]]:
    """The described members that carry a plan; one that cannot be read is the brokers' to refuse, and no plan here."""
    for member in members:
        if text := carried_by(member):
            with suppress(UnreadableBytes):
                yield member, read(text)


def promises(members: Iterable[Mapping[str, Any]]) -> set[int]:
    """The promises of the plans that some described members carry, releases left out."""
    return {part.promise for _, part in readable(members) if not part.promise & RELEASE}


def _count(reader: Reader, least: int) -> int:
    """A number of things of at least some bytes each, believed only if they can be there."""
    count = reader.uvarint()
    if not 0 <= count * least <= reader.end - reader.at:
        raise reader.fail(f"{count} elements claimed, {reader.end - reader.at} bytes left")
    return count


def carrier_digest(member_id: str) -> bytes:
    """The 8 bytes by which a plan names the member that carries its first part."""
    return hashlib.sha256(b"c" + member_id.encode()).digest()[:8]


def topic_id(text: str) -> bytes:
    """The 16 bytes of a topic's id of 22 characters."""
    return base64.urlsafe_b64decode(text + "==")


def base64url(raw: bytes) -> str:
    """Without padding, as Java's decoder takes it."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")

"""The members' memory between rebalances, and how it travels: the base of a codec, and Kafka's own three.

Three places can carry it: the subscription's own fields (owned, generation: since version 2), its user data, and the
user data of the assignment that the leader sends. Kafka's strategies are followed to the byte, so that Java members
read ours and we read theirs. A strategy names its codec by ``memory: ClassVar[UserDataCodec]``, one of these or one of
its own beside it in its file. The facts that a strategy asks for go behind whatever the codec writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from apportion.model.facts import Fact
from apportion.model.plan import Plan
from apportion.wire.partitions import Held, merged
from apportion.wire.subscription import Subscription
from apportion.wire.user_data import (
    StickyData,
    read_cooperative,
    read_sticky,
    write_capacity,
    write_cooperative,
    write_facts,
    write_sticky,
)


@dataclass(frozen=True, slots=True)
class Holding:
    """This member's partitions after the last rebalance that it saw.

    owned
        (topic, ids); empty before the first assignment.
    generation
        Of that rebalance; None before the first, or where the client does not tell.
    keeps
        Whether the client holds on to its partitions while it joins (cooperative), or has given all up (eager).
    epoch
        What the leader sent beside the last assignment, for strategies that count on their own.
    facts
        What this member says of itself, of what its strategy asks for.
    """

    owned: Held = ()
    generation: int | None = None
    keeps: bool = False
    epoch: int | None = None
    facts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Claim:
    """The leader's reading of a member's subscription.

    held
        Whether it still holds what it claims, so that nobody else may have it before it lets go. The leader of a
        cooperative group takes both from the subscription's own field wherever that is not empty.
    facts
        Those that the codec itself carries.
    lost
        Why its memory could not be read, in words for the log; None where it could, or where it sent none.
    """

    owned: Mapping[str, list[int]]
    generation: int | None = None
    held: bool = False
    facts: Mapping[str, int] = field(default_factory=dict)
    lost: str | None = None


class UserDataCodec:
    """How one strategy's memory goes out with a member, is read by the leader, and comes back.

    As it stands it is that of a strategy that starts anew at every rebalance; one of your own overrides what differs.
    What a member still holds is taken as its claim all the same: it costs nothing, and the moves can be counted.

    carries
        Facts that stand in its own bytes; the others that its strategy asks for go behind them.
    """

    carries: ClassVar[frozenset[str]] = frozenset()

    def user_data(self, holding: Holding) -> bytes | None:
        """The strategy's part of the member's subscription; nothing, so that no move to KIP-848 stumbles on it."""
        return None

    def read(self, subscription: Subscription) -> Claim:
        """The leader's reading of a subscription, with any bytes; it never raises. Here its own fields."""
        return Claim(merged(subscription.owned), subscription.generation, held=bool(subscription.owned))

    def assignment_data(self, plan: Plan) -> bytes | None:
        """User data that every member gets with its assignment; here none."""
        return None

    def epoch(self, user_data: bytes | None) -> int | None:
        """The epoch in that user data, which the member brings along next time; here none."""
        return None

    def before_facts(self, user_data: bytes | None) -> bytes:
        """The bytes before the facts: Kafka's readers leave a tail alone, but not a tail without them."""
        return user_data or b""


class Stateless(UserDataCodec):
    """Range and round robin: every rebalance starts from the beginning."""


class InUserData(UserDataCodec):
    """``sticky``: owned partitions and their generation, in the bytes of Java's StickyAssignor (V1)."""

    def user_data(self, holding: Holding) -> bytes | None:
        """V1; null before the first assignment."""
        if not holding.owned and holding.generation is None:
            return None
        return write_sticky(holding.owned, holding.generation)

    def read(self, subscription: Subscription) -> Claim:
        """V1, V0 or kafka-python's own form: Java's eager sticky reads nothing else either."""
        memory = read_sticky(subscription.user_data)
        return Claim(merged(memory.owned), memory.generation, lost=memory.lost)

    def before_facts(self, user_data: bytes | None) -> bytes:
        """A member that remembers nothing says so in Kafka's form."""
        return write_sticky((), None) if user_data is None else user_data


class InSubscription(UserDataCodec):
    """``cooperative-sticky``: the subscription's own fields, and the generation as Java's user data.

    A client that cannot keep partitions through a rebalance has given them up, so it must not list them as owned:
    they would be withheld for a member that never lets go. What it would like back goes behind Java's four bytes,
    where Java does not look.
    """

    def user_data(self, holding: Holding) -> bytes | None:
        """The generation, and behind it the wishes of a member that has given all up."""
        generation = write_cooperative(holding.generation)
        if holding.keeps or not holding.owned:
            return generation
        return generation + write_sticky(holding.owned, holding.generation)

    def read(self, subscription: Subscription) -> Claim:
        """Owned and generation of the subscription; before version 2 the generation of the user data."""
        memory = read_cooperative(subscription.user_data)
        generation = memory.generation if subscription.generation is None else subscription.generation
        if subscription.owned:
            return Claim(merged(subscription.owned), generation, held=True, lost=memory.lost)
        wishes = (
            read_sticky(subscription.user_data[4:])
            if subscription.user_data and len(subscription.user_data) > 4
            else StickyData()
        )
        if wishes.lost is not None:
            return Claim({}, generation, lost=memory.lost or wishes.lost)
        return Claim(merged(wishes.owned), generation, lost=memory.lost)

    def before_facts(self, user_data: bytes | None) -> bytes:
        """Behind the generation alone are no wishes, in their form."""
        sent = user_data or write_cooperative(None)
        return sent + write_sticky((), None) if len(sent) == len(write_cooperative(None)) else sent


def with_facts(
    codec: UserDataCodec, user_data: bytes | None, facts: Mapping[str, int], declared: Mapping[str, Fact]
) -> bytes | None:
    """User data with the facts behind it that the strategy asks for and the codec does not carry.

    A default is said by nothing, so a strategy without facts sends the bytes that it always sent.
    """
    behind = {
        name: value
        for name, value in facts.items()
        if name in declared and name not in codec.carries and value != declared[name].default
    }
    if not behind:
        return user_data
    capacity = behind.pop("capacity", None)
    tail = write_facts(behind) if behind else b""
    return codec.before_facts(user_data) + tail + (b"" if capacity is None else write_capacity(capacity))

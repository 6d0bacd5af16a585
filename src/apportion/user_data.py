"""What members remember between rebalances, and how it travels: the form of a codec, and Kafka's own three.

Three places can carry it: the subscription's own fields (owned, generation: since version 2), its user data, and the
user data of the assignment that the leader sends. Kafka's strategies are followed to the byte, so that Java members
read ours and we read theirs. A strategy names its codec by ``memory: ClassVar[UserDataCodec]``, one of these or one of
its own beside it in its file; without it, a cooperative one remembers as ``cooperative-sticky`` does and any other as
``sticky`` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from apportion.model.plan import Plan
from apportion.wire.partitions import Held, merged
from apportion.wire.subscription import Subscription
from apportion.wire.userdata import (
    StickyData,
    read_cooperative,
    read_sticky,
    write_capacity,
    write_cooperative,
    write_sticky,
)


@dataclass(frozen=True, slots=True)
class Holding:
    """What this member had after the last rebalance that it saw.

    owned
        (topic, ids); empty before the first assignment.
    generation
        Of that rebalance; None before the first, or where the client does not tell.
    keeps
        Whether the client holds on to its partitions while it joins (cooperative), or has given all up (eager).
    epoch
        What the leader sent beside the last assignment, for strategies that count on their own.
    priority
        For ``failover``; None unset.
    """

    owned: Held = ()
    generation: int | None = None
    keeps: bool = False
    epoch: int | None = None
    priority: int | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """What the leader reads from a member's subscription.

    held
        Whether it still holds what it claims, so that nobody else may have it before it lets go.
    lost
        Why its memory could not be read, in words for the log; None where it could, or where it sent none.
    """

    owned: Mapping[str, list[int]]
    generation: int | None = None
    held: bool = False
    priority: int | None = None
    lost: str | None = None


class UserDataCodec(Protocol):
    """How one strategy's memory goes out with a member, is read by the leader, and comes back."""

    def user_data(self, holding: Holding) -> bytes | None:
        """What the member's subscription carries for the strategy."""
        ...

    def read(self, subscription: Subscription) -> Claim:
        """What the leader makes of a subscription, whatever its bytes; it never raises."""
        ...

    def tell(self, plan: Plan) -> bytes | None:
        """User data that every member gets with its assignment."""
        ...

    def told(self, user_data: bytes | None) -> int | None:
        """The epoch in that user data, which the member brings along next time."""
        ...


class Stateless:
    """Range and round robin: every rebalance starts anew.

    What a member still holds is taken as its claim all the same: it costs nothing, and the moves can be counted.
    """

    def user_data(self, holding: Holding) -> bytes | None:
        """No bytes: they would stand in the way of a move to KIP-848."""
        return None

    def read(self, subscription: Subscription) -> Claim:
        """The subscription's own fields."""
        return Claim(merged(subscription.owned), subscription.generation, held=bool(subscription.owned))

    def tell(self, plan: Plan) -> bytes | None:
        """No bytes."""
        return None

    def told(self, user_data: bytes | None) -> int | None:
        """No epoch."""
        return None


class InUserData(Stateless):
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


class InSubscription(Stateless):
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


def with_capacity(codec: UserDataCodec, user_data: bytes | None, capacity: int) -> bytes | None:
    """User data with the member's capacity behind it, where the strategy may ask for it; 1 is said by nothing.

    Kafka's readers leave a tail alone, but not a tail alone: a member that remembers nothing says so in their form.
    """
    if capacity == 1 or (isinstance(codec, Stateless) and not isinstance(codec, InUserData | InSubscription)):
        return user_data
    if isinstance(codec, InUserData) and user_data is None:
        user_data = write_sticky((), None)
    if isinstance(codec, InSubscription) and user_data is not None and len(user_data) == len(write_cooperative(None)):
        user_data += write_sticky((), None)
    return (user_data or b"") + write_capacity(capacity)


def codec_of(strategy: object) -> UserDataCodec:
    """The strategy's own ``memory``; without one a cooperative strategy remembers as Kafka's cooperative one does."""
    own: UserDataCodec | None = getattr(strategy, "memory", None)
    if own is not None:
        return own
    return InSubscription() if getattr(strategy, "cooperative", False) else InUserData()

"""What members remember between rebalances, and how each strategy's memory travels.

Three places can carry it: the subscription's own fields (owned, generation: since version 2), its user data, and the
user data of the assignment that the leader sends. Kafka's strategies are followed to the byte, so that Java members
read ours and we read theirs. A strategy of your own names one of these by ``memory: ClassVar[Memory]``; without it,
a cooperative one remembers as ``cooperative-sticky`` does and any other as ``sticky`` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from apportion.assignors import Assignor
from apportion.model.plan import Plan
from apportion.wire.partitions import Held, merged
from apportion.wire.subscription import Subscription
from apportion.wire.userdata import (
    StickyData,
    read_cooperative,
    read_epoch,
    read_failover,
    read_sticky,
    read_stream_join,
    write_capacity,
    write_cooperative,
    write_epoch,
    write_failover,
    write_sticky,
    write_stream_join,
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
    """What the leader takes a member to have subscription.

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


class StreamJoin(Stateless):
    """``sticky-stream-join``: the numbers a member had in every joined topic, and the epoch that the leader sent."""

    def user_data(self, holding: Holding) -> bytes | None:
        """Numbers and epoch; null before the first assignment."""
        if holding.epoch is None:
            return None
        return write_stream_join(tuple(sorted({n for _, ids in holding.owned for n in ids})), holding.epoch)

    def read(self, subscription: Subscription) -> Claim:
        """The numbers as claims in every topic of the member, the epoch as their generation."""
        memory = read_stream_join(subscription.user_data)
        numbers = list(memory.numbers)
        return Claim({topic: numbers for topic in subscription.topics if numbers}, memory.epoch, lost=memory.lost)

    def tell(self, plan: Plan) -> bytes | None:
        """The plan's epoch."""
        epoch: Any = plan.answer.extra.get("epoch")
        return None if epoch is None else write_epoch(int(epoch))

    def told(self, user_data: bytes | None) -> int | None:
        """The epoch to bring along."""
        return read_epoch(user_data)


class Priority(Stateless):
    """``failover``: a member's priority, and what it owned, for those who do not preempt."""

    def user_data(self, holding: Holding) -> bytes | None:
        """Priority, owned, generation."""
        return write_failover(holding.priority, holding.owned, holding.generation)

    def read(self, subscription: Subscription) -> Claim:
        """The same."""
        memory = read_failover(subscription.user_data)
        return Claim(merged(memory.owned), memory.generation, priority=memory.priority, lost=memory.lost)


CODECS: Final[Mapping[str, UserDataCodec]] = {
    "range": Stateless(),
    "roundrobin": Stateless(),
    "sticky": InUserData(),
    "cooperative-sticky": InSubscription(),
    "sticky-stream-join": StreamJoin(),
    "failover": Priority(),
}
"""Strategy name to its memory; others follow the rule at the head of this file."""


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


def codec_of(strategy: Assignor) -> UserDataCodec:
    """The strategy's own ``memory``, else that of its name, else the one that suits its protocol."""
    own: UserDataCodec | None = getattr(strategy, "memory", None)
    if own is not None:
        return own
    if strategy.name in CODECS:
        return CODECS[strategy.name]
    return InSubscription() if getattr(strategy, "cooperative", False) else InUserData()

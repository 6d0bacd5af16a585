"""Stream join: a member that has partition 7 of one topic has partition 7 of them all, and keeps it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final

import numpy as np

from apportion.arrays import NOBODY, Bools, Ints, distinct
from apportion.model.claims import judge
from apportion.model.group import Group
from apportion.model.plan import Answer, Plan, in_two_rounds
from apportion.solvers.equal_shares import equal_shares, max_kept
from apportion.strategy.codec import Claim, Holding, UserDataCodec
from apportion.strategy.cooperation import Cooperation
from apportion.wire.primitives import Reader
from apportion.wire.subscription import Subscription
from apportion.wire.user_data import OWN_VERSION, known, own_version, read_layout
from apportion.wire.writer import Writer
from apportion.wording import count

MOST_EPOCH: Final = 2**31 - 1
"""That an int32 holds."""
CLAIMS_MAX: Final = 1 << 20
"""Partitions that one member may claim; more than that nobody had, and a few bytes can say thousands of millions."""


class StreamJoin(UserDataCodec):
    """``sticky-stream-join``: the numbers a member had in every joined topic, and the epoch that the leader sent."""

    def user_data(self, holding: Holding) -> bytes | None:
        """int16 version, int32 ids ascending, int32 epoch; null before the first assignment."""
        if holding.epoch is None:
            return None
        numbers = sorted({n for _, ids in holding.owned for n in ids})
        return Writer().int16(OWN_VERSION).int32s(numbers).int32(holding.epoch).done()

    def read(self, subscription: Subscription) -> Claim:
        """The numbers as claims in every topic of the member, held while the fields name any partition."""

        def layout(reader: Reader) -> Claim:
            own_version(reader)
            numbers, epoch, topics = list(reader.int32s()), known(reader.int32()), subscription.topics
            if len(numbers) * len(topics) > CLAIMS_MAX:
                return Claim({}, lost=f"{count(len(numbers), 'number')} in each of {count(len(topics), 'topic')}")
            return Claim({topic: numbers for topic in topics if numbers}, epoch)

        claim = read_layout(subscription.user_data, partial(Claim, {}), layout, "sticky-stream-join")
        return replace(claim, held=bool(subscription.owned))

    def assignment_data(self, plan: Plan) -> bytes | None:
        """int16 version, int32 epoch; the greatest int32 means every later epoch too.

        A member's word alone could carry it there, and no member may make the group's rebalances fail.
        """
        epoch: Any = plan.answer.extra.get("epoch")
        return None if epoch is None else Writer().int16(OWN_VERSION).int32(min(int(epoch), MOST_EPOCH)).done()

    def epoch(self, user_data: bytes | None) -> int | None:
        """The epoch to bring along; None if there is none."""

        def layout(reader: Reader) -> Claim:
            own_version(reader)
            return Claim({}, known(reader.int32()))

        return read_layout(user_data, partial(Claim, {}), layout, "sticky-stream-join").generation


@dataclass(frozen=True)
class StickyStreamJoin(Cooperation):
    """Partition numbers are shared, not partitions: each number has one owner, who reads it in every topic it wants.

    Numbers are the ids that all described, subscribed topics have: a topic that grew ahead of the others waits for
    them, its newer partitions unassigned. ``generation`` is the epoch of a member's memory: for a number claimed
    twice the newer epoch is right, equal ones void each other, so a zombie takes nothing. Stealing begins with the
    longest list. The price: a number's partitions of a topic that its owner does not want stay unassigned.
    cooperative
        A number that changes hands rests whole for one round. Meanwhile its past owner has let go in every topic and
        its new one reads in none, so that nobody begins to read half a number. An owner that keeps a number keeps what
        it has of it, and waits only for partitions that others claim: if it let go, the second round would not know
        whose the number was. The second round keeps what stayed and hands the others out in the same order.

    Goals: co-location > balance of numbers > fewest numbers that move; each by a closed form.
    Source: StickyStreamJoinAssignor proposal, "Assignment Strategy".
    """

    name: ClassVar[str] = "sticky-stream-join"
    memory: ClassVar[UserDataCodec] = StreamJoin()
    on_foreign: ClassVar[str] = "stop"
    assigned_data: ClassVar[bool] = True
    structural: ClassVar[str] = "order"
    goals: ClassVar[tuple[str, ...]] = ("co-location", "balance", "moves")
    kept_whole: ClassVar[str] = "numbers"
    promise: ClassVar[str] = "equal numbers of all topics on one member, and staying there"
    leaves: ClassVar[bool] = True

    def assign(self, group: Group) -> Answer:
        """Return (P,) the member that owns each partition in the end."""
        answer = self._shared(group)
        if not self.cooperative:
            return answer
        together = group.number
        if isinstance(answer.certificate, _SharedNumbers):
            stays = np.isin(together, answer.certificate.stay())
            together = np.where(stays, int(together.max()) + 1 + np.arange(group.P), together)
        target = in_two_rounds(group, answer.owner, lambda left: self._shared(left).owner, together)
        return replace(answer, owner=target, together=together)

    def _shared(self, group: Group) -> Answer:
        joined = group.described & group.wanted_topic
        numbers = _common_numbers(group, joined)
        joins = _members_with(group, joined)
        owner = np.full(group.P, NOBODY, dtype=np.int64)
        proof = dict.fromkeys(self.goals, "optimal")
        extra = {"epoch": int(group.generation.max()) + 1}
        if not len(numbers) or not joins.any():
            return Answer(owner, proof, extra=extra)
        past = _past_owner(group, joined, numbers, joins)
        holder = _share(past, joins)
        _spread(group, joined, numbers, holder, owner)
        reasons = _SharedNumbers(numbers, past, holder, np.flatnonzero(joins))
        return Answer(owner, proof, extra=extra, certificate=reasons)


@dataclass(frozen=True)
class CooperativeStickyStreamJoin(StickyStreamJoin):
    """Partition numbers are shared as in ``sticky-stream-join``; one that changes hands rests whole for one round.

    Goals: co-location > balance of numbers > fewest numbers that move. Source: as there; KIP-429.
    """

    name: ClassVar[str] = "cooperative-sticky-stream-join"
    unlisted: ClassVar[bool] = True
    cooperative: ClassVar[bool] = True  # type: ignore[misc]  # its name says so, so it is no setting


@dataclass(frozen=True, eq=False)
class _SharedNumbers:
    """Why the numbers cannot be shared better: (N,) numbers, past and new owners, and the members that join."""

    numbers: Ints
    past: Ints
    holder: Ints
    members: Ints

    def stay(self) -> Ints:
        """The numbers whose owner keeps them."""
        stay: Ints = self.numbers[self.past == self.holder]
        return stay

    def explain(self, group: Group) -> list[str]:
        """The argument, a sentence a line."""
        share, extra = divmod(len(self.holder), len(self.members))
        position = np.searchsorted(self.members, self.past)
        most = max_kept(np.where(self.past == NOBODY, NOBODY, position), len(self.members))
        retained = int((self.past == self.holder).sum())
        stay = f"{count(retained, 'number')} {'stays' if retained == 1 else 'stay'}"
        numbers = f"{count(len(self.holder), 'number')} for {count(len(self.members), 'member')}"
        are = "is" if len(self.holder) == 1 else "are"
        each = f"{share} or {share + 1}" if extra else f"{share}"
        return [
            "co-location: each number has one owner, who reads it in every topic that it wants.",
            f"balance: {numbers} {are} {each} each, as even as can be.",
            f"moves: {stay}; {share} a member and one more for {extra} of them can leave {most} at most.",
        ]


def _common_numbers(group: Group, joined: Bools) -> Ints:
    """(N,) partition ids that every joined topic has, ascending."""
    if group.T == 1:
        return group.number if joined[0] else group.number[:0]
    ids = group.number[joined[group.topic_of]]
    numbers, topics = np.unique(ids, return_counts=True)
    common: Ints = numbers[topics == int(joined.sum())]
    return common


def _members_with(group: Group, joined: Bools) -> Bools:
    """(M,) members that want at least one joined topic; the others get no numbers and do not count."""
    has = np.array([bool(joined[topics].any()) for topics in group.subscriptions], dtype=np.bool_)
    return has[group.subscription_of]


def _past_owner(group: Group, joined: Bools, numbers: Ints, joins: Bools) -> Ints:
    """(N,) the member whose claim on the number is valid; -1 for none.

    A claim on the number in any joined topic is a claim on the number: one memory, written at one rebalance.
    """
    if group.T == 1:
        return group.owner  # a number is a partition
    partition, member = group.claims.partition, group.claims.member
    position = np.minimum(np.searchsorted(numbers, group.number[partition]), len(numbers) - 1)
    counts = joined[group.topic_of[partition]] & (numbers[position] == group.number[partition])
    pairs = distinct(member[counts] * len(numbers) + position[counts])
    claimant, number = pairs // len(numbers), pairs % len(numbers)
    return judge(claimant, number, group.generation, len(numbers), lambda m, _: joins[m]).owner


def _share(past: Ints, joins: Bools) -> Ints:
    """(N,) the owner of each number: fair, with as many as possible at their past owners."""
    members = np.flatnonzero(joins)
    position = np.full(len(joins) + 1, NOBODY, dtype=np.int64)
    position[members] = np.arange(len(members))
    return members[equal_shares(position[past], len(members))]


def _spread(group: Group, joined: Bools, numbers: Ints, holder: Ints, owner: Ints) -> None:
    """Write the numbers' owners into (P,) ``owner``, for the topics that each of them wants."""
    if group.T == 1:
        owner[:] = holder
        return
    position = np.minimum(np.searchsorted(numbers, group.number), len(numbers) - 1)
    partitions = np.flatnonzero(joined[group.topic_of] & (numbers[position] == group.number))
    member = holder[position[partitions]]
    wants = group.may_own(member, partitions)
    owner[partitions[wants]] = member[wants]

"""A leader's reading of all members' bytes: their names, their wishes, and the claims of the strategy's memory.

The layouts of Kafka's own strategies are read for all members together; a codec of another kind, or of your own, is
asked member by member.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from apportion.arrays import CAPACITY_MAX, NOBODY, Bools, Ints, ints
from apportion.model.build import ClaimColumns, MemberColumns, OwnedLists
from apportion.model.facts import MEMBER_FIELDS, UNSET, Fact
from apportion.strategy.codec import Claim, InSubscription, InUserData, Stateless, UserDataCodec
from apportion.wire.columns import HeldLists, read_held_lists
from apportion.wire.partitions import merged
from apportion.wire.primitives import text
from apportion.wire.subscription import Subscription
from apportion.wire.subscription_columns import SubscriptionColumns, read_subscription_columns
from apportion.wire.user_data import CAPACITY_MARK, CAPACITY_SIZE, read_facts, without_facts

log = logging.getLogger("apportion.clients")


@dataclass(frozen=True, eq=False)
class Memories:
    """The memories of M members, as the leader takes them; the columns of ``Claim``.

    owned
        The claims of each member, as lists in the subscriptions' buffer; or member by member, where a codec was asked.
    lost
        Member to the reason why its memory could not be read.
    facts
        (M,) those that the codec carries; ``UNSET`` where a member does not say.
    """

    owned: HeldLists | Sequence[Mapping[str, Sequence[int]]]
    generation: Ints
    held: Bools
    lost: Mapping[int, str] = field(default_factory=dict)
    facts: Mapping[str, Ints] = field(default_factory=dict)


class JoinedGroup:
    """The members of one JoinGroup answer, in its order, with the bytes they sent.

    A member whose bytes are no subscription is named in the log, and wants nothing. Of a member that is listed twice
    the last entry counts: what the first were given would be read by nobody.
    """

    def __init__(self, ids: Sequence[str], instance_ids: Sequence[str | None], sent: Sequence[bytes]) -> None:
        if len(row_of := {member: m for m, member in enumerate(ids)}) < len(ids):
            log.warning("%d members of %d are listed twice in one JoinGroup answer", len(ids) - len(row_of), len(ids))
            last = list(row_of.values())
            ids, instance_ids, sent = [ids[m] for m in last], [instance_ids[m] for m in last], [sent[m] for m in last]
        self.ids, self.instance_ids, self.sent = ids, instance_ids, sent
        self.topics = self.subscriptions.topics()
        """What anybody wants."""

    @cached_property
    def subscriptions(self) -> SubscriptionColumns:
        """All members' bytes, in columns."""
        subscriptions = read_subscription_columns(self.sent)
        for m, reason in subscriptions.refused.items():
            log.warning(
                "member %r sent no subscription that anyone can read (%s); it gets nothing", self.ids[m], reason
            )
        return subscriptions

    def columns(self, memories: Memories, declared: Mapping[str, Fact] = MEMBER_FIELDS) -> MemberColumns:
        """The members as a group is built of them, with the facts that the strategy asks for."""
        subscriptions = self.subscriptions
        return MemberColumns(
            ids=self.ids,
            instance_ids=self.instance_ids,
            lists=subscriptions.lists,
            list_of=subscriptions.list_of,
            generation=memories.generation,
            facts=_facts(subscriptions, memories, {**MEMBER_FIELDS, **declared}),
            rack=subscriptions.rack,
            claims=lambda index: _claims(subscriptions, memories.owned, index),
        )

    def memories(self, codec: UserDataCodec, *, cooperative: bool = False) -> Memories:
        """The memories that the strategy's codec reads; a member whose memory is unreadable is named in the log.

        cooperative
            What members hold is what their subscriptions own, whatever the codec makes of it: a partition that is not
            withheld from its next owner is read by two.
        """
        read = READERS.get(type(codec))
        memories = _one_by_one(codec, self.subscriptions) if read is None else read(self.subscriptions)
        for m, reason in memories.lost.items():
            log.warning("member %s remembers nothing, since its words are unreadable: %s", self._name(m), reason)
        return _as_held(memories, self.subscriptions) if cooperative else memories

    def hand_over(self) -> Bools:
        """(M,) whether a member holds something and wants nothing: it lets go with this answer, and leaves."""
        sent = self.subscriptions
        wants_nothing = np.array([not topics for topics in sent.lists], dtype=np.bool_)
        return (sent.owned.count > 0) & wants_nothing[sent.list_of]

    def _name(self, m: int) -> str:
        return f"{self.ids[m]!r} (instance {self.instance_ids[m]!r})" if self.instance_ids[m] else repr(self.ids[m])


def _facts(sent: SubscriptionColumns, memories: Memories, declared: Mapping[str, Fact]) -> dict[str, Ints]:
    """Fact to (M,) the members' values, in their memory or behind it; the default if that is nothing, or cannot be."""
    facts = {"capacity": _capacities(sent), **memories.facts}
    foreign = declared.keys() - facts.keys()
    if foreign - MEMBER_FIELDS.keys():
        behind = [read_facts(sent.one(m).user_data) for m in range(len(sent.sent))]
        facts |= {name: ints([facts_sent.get(name, UNSET) for facts_sent in behind]) for name in foreign}
    unset = np.full(len(sent.sent), UNSET)
    return {name: fact.within(facts.get(name, unset)) for name, fact in declared.items()}


def _capacities(sent: SubscriptionColumns) -> Ints:
    """(M,) the capacity at the end of each member's user data; 1 if there is none, or an impossible one."""
    capacity = np.ones(len(sent.data_size), dtype=np.int64)
    if int(sent.data_size.max(initial=0)) < CAPACITY_SIZE:
        return capacity
    end = sent.data_at + sent.data_size
    long = (sent.data_size >= CAPACITY_SIZE).nonzero()[0]
    marked = long[sent.buffer.word[end[long] - CAPACITY_SIZE] == int.from_bytes(CAPACITY_MARK, "little")]
    if len(marked):
        sent_capacity = sent.buffer.int32s(end[marked] - 4)
        capacity[marked] = np.where((sent_capacity >= 1) & (sent_capacity <= CAPACITY_MAX), sent_capacity, 1)
    return capacity


# -- memories ----------------------------------------------------------------------------------------------------------


def _stateless(sent: SubscriptionColumns) -> Memories:
    """``Stateless``, from the subscription's own fields."""
    return Memories(sent.owned, sent.generation, sent.owned.count > 0)


def _in_user_data(sent: SubscriptionColumns) -> Memories:
    """``InUserData``: Java's sticky V1, V0, or kafka-python's own form."""
    owned, generation, lost = _sticky(sent, sent.data_at, sent.data_size)
    held = np.zeros(len(generation), dtype=np.bool_)
    return Memories(owned, generation, held, {m: _reason(InUserData(), sent, m) for m in lost})


def _in_subscription(sent: SubscriptionColumns) -> Memories:
    """``InSubscription``: owned in the subscription, the generation there or in four bytes, wishes behind them."""
    size = sent.data_size
    held = sent.owned.count > 0
    if len(size) and int(size.min()) == 4 == int(size.max()):
        in_data = np.maximum(sent.buffer.int32s(sent.data_at), -1)
        return Memories(sent.owned, np.where(sent.generation < 0, in_data, sent.generation), held)
    lost = {m: _reason(InSubscription(), sent, m) for m in ((size > 0) & (size < 4)).nonzero()[0].tolist()}
    in_data = np.where(size >= 4, np.maximum(sent.buffer.int32s(sent.data_at), -1), -1)
    generation = np.where(sent.generation < 0, in_data, sent.generation)
    wishing = ~held & (size > 4)
    if not wishing.any():
        return Memories(sent.owned, generation, held, lost)
    wishes, _, lost_wishes = _sticky(sent, sent.data_at + 4, np.where(wishing, size - 4, -1))
    lost |= {m: _reason(InSubscription(), sent, m) for m in lost_wishes}
    return Memories(_together(sent.owned, wishes) if held.any() else wishes, generation, held, lost)


def _sticky(sent: SubscriptionColumns, at: Ints, size: Ints) -> tuple[HeldLists, Ints, list[int]]:
    """A sticky memory in ``size`` (M,) bytes at ``at`` (M,): the partitions, their generation, whose bytes are none.

    As ``read_sticky`` does: a list and a generation, else a list alone, each with any tail; else kafka-python's form,
    an int16 version 1 before them, which must explain every byte.
    """
    buffer, written = sent.buffer, size > 0
    end = np.where(written, at + size, buffer.size + 4)
    owned = read_held_lists(buffer, np.where(written, at, buffer.size), end)
    whole = written & (owned.stop >= 0) & (owned.stop + 4 <= end)
    generation = np.where(whole, np.maximum(buffer.int32s(np.where(whole, owned.stop, buffer.size)), -1), -1)
    unlisted = (owned.stop < 0).nonzero()[0]
    if not len(unlisted):
        return owned, generation, []
    begin, last = at[unlisted] + 2, end[unlisted]
    form = (begin <= last) & (buffer.uint16s(at[unlisted]) == 1)
    theirs = read_held_lists(buffer, np.where(form, begin, buffer.size), np.where(form, last, buffer.size + 4))
    form &= (theirs.stop >= 0) & (theirs.stop + 4 == last)
    generation[unlisted[form]] = np.maximum(buffer.int32s(theirs.stop[form]), -1)
    owned = _together(owned, _placed(theirs, form, unlisted, len(at)))
    return owned, generation, unlisted[~form].tolist()


def _as_held(memories: Memories, sent: SubscriptionColumns) -> Memories:
    """Memories in which a member that owns something, by its subscription's own field, claims that and holds it."""
    held = sent.owned.count > 0
    generation = np.where(held & (sent.generation >= 0), sent.generation, memories.generation)
    if isinstance(memories.owned, HeldLists):
        everybody = np.arange(len(held))
        theirs = _placed(memories.owned, ~held, everybody, len(held))
        owned: HeldLists | Sequence[Mapping[str, Sequence[int]]] = _together(sent.owned, theirs)
    else:
        owned = [merged(sent.one(m).owned) if held[m] else claimed for m, claimed in enumerate(memories.owned)]
    return replace(memories, owned=owned, generation=generation, held=held)


def _placed(lists: HeldLists, good: Bools, members: Ints, size: int) -> HeldLists:
    """The good ones of the lists as those of these ``members``, of ``size`` in all."""
    keep = good.repeat(lists.count)
    count = np.zeros(size, dtype=np.int64)
    count[members] = np.where(good, lists.count, 0)
    first = np.concatenate([[0], count.cumsum()])
    return HeldLists(first, lists.name_at[keep], lists.name_size[keep], lists.ids[keep], np.zeros(size, dtype=np.int64))


def _together(first_lists: HeldLists, second_lists: HeldLists) -> HeldLists:
    """The parts of both lists of each member."""
    member = np.concatenate([first_lists.list_of, second_lists.list_of])
    order = np.argsort(member, kind="stable")
    first = np.concatenate([[0], np.cumsum(first_lists.count + second_lists.count)])
    return HeldLists(
        first,
        np.concatenate([first_lists.name_at, second_lists.name_at])[order],
        np.concatenate([first_lists.name_size, second_lists.name_size])[order],
        np.concatenate([first_lists.ids, second_lists.ids])[order],
        np.maximum(first_lists.stop, second_lists.stop),
    )


def _reason(codec: UserDataCodec, sent: SubscriptionColumns, m: int) -> str:
    """In the words of the codec that reads one member."""
    return codec.read(sent.one(m)).lost or "its user data are no memory of this strategy"


def _one_by_one(codec: UserDataCodec, sent: SubscriptionColumns) -> Memories:
    subscriptions = (sent.one(m) for m in range(len(sent.sent)))
    claims: list[Claim] = [_read(codec, replace(s, user_data=without_facts(s.user_data))) for s in subscriptions]
    return Memories(
        owned=[claim.owned for claim in claims],
        generation=ints([-1 if claim.generation is None else claim.generation for claim in claims]),
        held=np.array([claim.held for claim in claims], dtype=np.bool_),
        lost={m: claim.lost for m, claim in enumerate(claims) if claim.lost},
        facts={name: ints([claim.facts.get(name, UNSET) for claim in claims]) for name in sorted(codec.carries)},
    )


def _read(codec: UserDataCodec, subscription: Subscription) -> Claim:
    """The codec's reading of a member; nothing if it raises, or claims numbers that no array can hold."""
    try:
        claim = codec.read(subscription)
        array("i", [-1 if claim.generation is None else claim.generation])
        array("q", claim.facts.values())
        "".join(claim.owned).encode()  # a lone surrogate is no name
        return replace(claim, owned={topic: array("i", ids).tolist() for topic, ids in claim.owned.items()})
    except Exception as error:  # it may be anybody's code, and reads another's bytes
        return Claim({}, lost=f"{type(error).__name__}: {error}")


READERS: Mapping[type[object], Callable[[SubscriptionColumns], Memories]] = {
    Stateless: _stateless,
    InUserData: _in_user_data,
    InSubscription: _in_subscription,
}
"""By the very class: one that inherits may read otherwise."""


# -- claims ------------------------------------------------------------------------------------------------------------


def _claims(
    sent: SubscriptionColumns, owned: HeldLists | Sequence[Mapping[str, Sequence[int]]], index: Mapping[str, int]
) -> ClaimColumns:
    if not isinstance(owned, HeldLists):
        return OwnedLists.of(owned).numbered(index)
    if not len(owned.ids):
        return ClaimColumns(owned.ids, owned.ids, owned.ids, owned.ids)
    owned = _with_ids(owned)
    topic = sent.topic_numbers(owned, index)
    unknown: dict[str, int] = {}
    nowhere = (topic == NOBODY).nonzero()[0]
    if len(nowhere):
        raw = sent.buffer.raw
        places = zip(owned.name_at[nowhere].tolist(), owned.name_size[nowhere].tolist(), strict=True)
        names = [text(raw[at : at + size]) for at, size in places]
        topic[nowhere] = [unknown.setdefault(name, len(index) + len(unknown)) for name in names]
    return ClaimColumns(owned.list_of, topic, owned.ids, owned.numbers(sent.buffer), list(unknown))


def _with_ids(owned: HeldLists) -> HeldLists:
    """Owned lists without parts that claim nothing: a member may send a million of them."""
    known = owned.ids > 0
    if known.all():
        return owned
    first = np.concatenate([[0], known.cumsum()])[owned.first]
    return HeldLists(first, owned.name_at[known], owned.name_size[known], owned.ids[known], owned.stop)

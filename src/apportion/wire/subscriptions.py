"""What all members of a group say when they join, read at once into columns.

Members of a group mostly send the same topics, and nearly all differ in what they own alone. So the head of a
subscription, its version and topics, is looked at once for all that begin with the same bytes; what stands behind the
heads goes into one buffer, and ``columns`` reads it for all members together. Every length is checked before it is
believed. ``subscription.read_subscription`` is the readable reference: what it refuses is refused here, with its words,
and what it accepts says the same here.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass
from operator import methodcaller
from typing import Final, NamedTuple, cast

import numpy as np

from apportion.arrays import Bools, Ints, ints
from apportion.errors import UnreadableBytes
from apportion.wire.columns import Buffer, HeldLists, number_names, read_held_lists
from apportion.wire.primitives import MAX_STRING, text
from apportion.wire.subscription import Subscription, read_subscription

_PREFIX: Final = 40
"""Bytes by which a head that was seen is found again."""
_SHORT: Final = 64
"""Bytes behind the topics up to which members are likely to say the same."""
_FEW_KINDS: Final = 24
"""Different rests that are read sooner one by one."""
_RECENT_BYTES: Final = 1 << 17
"""Bytes of heads that are remembered from one group to the next, four heads of the largest at least."""
_NOTHING: Final = np.zeros(0, dtype=np.int64)
_SAME_PREFIX_MAX: Final = 8
"""Heads that are tried for one prefix; where members have lists of their own, reading is quicker than comparing."""


@dataclass(frozen=True, eq=False)
class Subscriptions:
    """The subscriptions of M members, in the order given.

    lists, list_of
        (K,) distinct lists of topics as sent; (M,) which one each member sent. Who is refused has an empty one.
    data_at, data_size
        (M,) where each member's user data stand in ``buffer``, and how many bytes; -1 where it sent null.
    owned
        What each member still holds: nothing before version 1.
    generation
        (M,) -1 before version 2 and where a negative one was sent.
    rack
        (M,) None before version 3 and where none, or "", was sent.
    refused
        Member to the reason, where the bytes are no subscription; such a member says nothing here.
    names
        The names of all topics that are wanted, as sent, and as text.
    """

    sent: Sequence[bytes]
    buffer: Buffer
    lists: tuple[tuple[str, ...], ...]
    list_of: Ints
    data_at: Ints
    data_size: Ints
    owned: HeldLists
    generation: Ints
    rack: tuple[str | None, ...]
    refused: Mapping[int, str]
    names: Mapping[bytes, str]

    def user_data(self, member: int) -> bytes | None:
        """One member's bytes for the assignor."""
        at, size = int(self.data_at[member]), int(self.data_size[member])
        return None if size < 0 else self.buffer.raw[at : at + size]

    def one(self, member: int) -> Subscription:
        """One member's subscription as an object; an empty one where its bytes are none."""
        return Subscription(()) if member in self.refused else read_subscription(self.sent[member])

    def topics(self) -> list[str]:
        """Every topic that some member wants, once."""
        return list(dict.fromkeys(self.names.values()))

    def wish_for(self, topics: Container[str]) -> bytes:
        """A subscription, version 0, to those of the group's topics that are among these."""
        pieces = [len(name).to_bytes(2, "big") + name for name, topic in self.names.items() if topic in topics]
        return b"".join([b"\0\0", len(pieces).to_bytes(4, "big"), *pieces, b"\xff\xff\xff\xff"])

    def topic_numbers(self, lists: HeldLists, index: Mapping[str, int]) -> Ints:
        """(E,) each part's topic by ``index``; -1 for topics that are not in it."""
        known = {name: index[topic] for name, topic in self.names.items() if topic in index}
        return number_names(self.buffer, lists.name_at, lists.name_size, known)


_NO_HEAD: Final = (b"", 0)


class _SplitHead(NamedTuple):
    """The version and topics of a subscription, and the topics by themselves: their bytes, and each name's text."""

    head: bytes
    topics: bytes
    names: Mapping[bytes, str]
    texts: tuple[str, ...]


class _RecentHeads:
    """Heads that were looked at lately, by their prefix: members want the same at each rebalance.

    What is taken from here is what the bytes say: a head tells its own length, so who begins with it has it. A prefix
    that leads to another head is read anew.
    """

    def __init__(self) -> None:
        self.by_prefix: dict[bytes, _SplitHead] = {}
        self.size = 0

    def split(self, sent: bytes) -> _SplitHead:
        """The head of a subscription.

        Raises
            UnreadableBytes where it is none.
        """
        known = self.by_prefix.get(sent[:_PREFIX])
        if known is not None and sent.startswith(known.head):
            return known
        fresh = _split_head(sent)
        size = len(fresh.head)
        if size <= _RECENT_BYTES // 4:
            if self.size + size > _RECENT_BYTES:
                self.by_prefix, self.size = {}, 0
            self.by_prefix[sent[:_PREFIX]] = fresh
            self.size += size  # what is written over counts until all is forgotten
        return fresh


def _split_head(sent: bytes) -> _SplitHead:
    """The head of a subscription, read; ``UnreadableBytes`` where it is none."""
    names = _names(sent)
    head = sent[: 6 + 2 * len(names) + sum(map(len, names))]
    try:
        texts = tuple(map(bytes.decode, names))
    except UnicodeDecodeError:
        texts = tuple(map(text, names))
    return _SplitHead(head, head[2:], dict(zip(names, texts, strict=True)), texts)


_recent: Final = _RecentHeads()


class _Heads:
    """Versions and lists of topics, each looked at once."""

    def __init__(self) -> None:
        self.by_prefix: dict[bytes, list[tuple[bytes, int]]] = {}
        self.by_topics: dict[bytes, int] = {}
        self.names: dict[bytes, str] = {}
        self.lists: list[tuple[str, ...]] = [()]
        self.heads: list[tuple[int, int]] = [(0, 0)]
        """(version, list) of each head; the first is that of bytes that are no subscription."""

    def split(self, sent: Sequence[bytes]) -> tuple[list[int], list[bytes]]:
        """The number of each one's head, and what stands behind it; nothing behind bytes that are no subscription."""
        head, number = self._find_or_refuse(sent[0]) if sent else (b"", 0)
        begin = len(head)
        if number and all(map(methodcaller("startswith", head), sent)):
            return [number] * len(sent), [one[begin:] for one in sent]
        head_of, rests = [], []
        recent: dict[bytes, tuple[bytes, int]] = {}
        for one in sent:
            if not number or not one.startswith(head):
                head, number = recent.get(one[:_PREFIX], _NO_HEAD)
                if not number or not one.startswith(head):
                    head, number = recent[one[:_PREFIX]] = self._find_or_refuse(one)
            head_of.append(number)
            rests.append(one[len(head) :])
        return head_of, rests

    def _find_or_refuse(self, sent: bytes) -> tuple[bytes, int]:
        try:
            return self.find(sent)
        except UnreadableBytes:
            return sent, 0

    def find(self, sent: bytes) -> tuple[bytes, int]:
        """The head of a subscription and its number.

        Raises
            UnreadableBytes where the head is none.
        """
        known = self.by_prefix.get(sent[:_PREFIX])
        if known is None:
            known = self.by_prefix[sent[:_PREFIX]] = []
        for same in known:
            if sent.startswith(same[0]):
                return same
        head, topics, names, texts = _recent.split(sent)
        which = self.by_topics.get(topics)
        if which is None:
            which = self.by_topics[topics] = len(self.lists)
            self.names.update(names)
            self.lists.append(texts)
        self.heads.append((int.from_bytes(head[:2], "big"), which))
        if len(known) < _SAME_PREFIX_MAX:
            known.append((head, len(self.heads) - 1))
        return head, len(self.heads) - 1


def _names(sent: bytes) -> list[bytes]:
    """The topics at the head of a subscription; the version before them and every length in it fit."""
    end, at, names = len(sent), 6, []
    count = int.from_bytes(sent[2:6], "big", signed=True)
    if end < at or sent[0] > 0x7F or not 0 <= 2 * count <= end - at:
        raise UnreadableBytes("no version and topics", 0)
    try:
        for _ in range(count):
            start = at + 2
            at = start + (sent[at] << 8 | sent[at + 1])
            if at > end or at - start > MAX_STRING:
                raise UnreadableBytes("a name that does not fit", start)
            names.append(sent[start:at])
    except IndexError:
        raise UnreadableBytes("a name is cut off", at) from None
    return names


def read_subscriptions(sent: Sequence[bytes]) -> Subscriptions:
    """Read what every member sent, any version; nothing here raises, whatever the bytes."""
    heads = _Heads()
    head_of, rests = heads.split(sent)
    buffer, size = Buffer(rests), ints(list(map(len, rests)))
    end = size.cumsum()
    begin = end - size
    rest: _Rest | None = None
    if all(head_of):
        versions = {version for version, _ in heads.heads[1:]}
        if len(versions) == 1 and int(size.max()) <= _SHORT:
            rest = _few_kinds(begin, max(versions), rests)
        if rest is None and min(versions, default=0) >= 3:
            rest = _all_fitting(buffer, begin, end, heads.names)
    if rest is None:
        version = ints([heads.heads[number][0] for number in head_of])
        rest = _Fields(buffer, begin, end, version, ints(head_of) > 0).rest
    lists, names = tuple(heads.lists[1:]), cast(Mapping[bytes, str], heads.names)
    lost = _NOTHING if rest.good is None else (~rest.good).nonzero()[0]
    if len(heads.heads) == 2:
        list_of = np.zeros(len(sent), dtype=np.int64)
    else:
        of_head = [which - 1 for _, which in heads.heads]
        list_of = ints(list(map(of_head.__getitem__, head_of)))
    if len(lost):
        lists, list_of, names = _without_lost(lists, list_of, names, lost)
    return Subscriptions(
        sent=sent,
        buffer=buffer,
        lists=lists,
        list_of=list_of,
        data_at=rest.data_at,
        data_size=rest.data_size,
        owned=rest.owned,
        generation=rest.generation,
        rack=rest.rack,
        refused={m: _reason(sent[m]) for m in lost.tolist()},
        names=names,
    )


def _without_lost(
    lists: tuple[tuple[str, ...], ...], list_of: Ints, names: Mapping[bytes, str], lost: Ints
) -> tuple[tuple[tuple[str, ...], ...], Ints, Mapping[bytes, str]]:
    """Lists, whose they are, and names, where some members say nothing."""
    list_of = list_of + 1
    list_of[lost] = 0
    is_used = np.bincount(list_of, minlength=len(lists) + 1) > 0
    lists = tuple([one for one, used in zip([(), *lists], is_used.tolist(), strict=True) if used])
    wanted = set[str]().union(*lists)
    names = {name: topic for name, topic in names.items() if topic in wanted}
    return lists, (is_used.cumsum() - 1)[list_of], names


def _reason(sent: bytes) -> str:
    """In the words of the reference."""
    try:
        read_subscription(sent)
    except UnreadableBytes as error:
        return str(error)
    return "no subscription"


class _Rest(NamedTuple):
    """What stands behind the topics, as in ``Subscriptions``; ``good`` (M,) tells whose bytes fitted, None: all."""

    good: Bools | None
    data_at: Ints
    data_size: Ints
    owned: HeldLists
    generation: Ints
    rack: tuple[str | None, ...]


def _few_kinds(begin: Ints, version: int, rests: Sequence[bytes]) -> _Rest | None:
    """The rests where all members own nothing and say one of few things; None where not."""
    kinds = {rest: number for number, rest in enumerate(dict.fromkeys(rests))}
    if len(kinds) > _FEW_KINDS:
        return None
    read = [_without_owned(rest, version) for rest in kinds]
    if None in read:
        return None
    which = list(map(kinds.__getitem__, rests))
    sizes, generations, racks = zip(*filter(None, read), strict=True)
    size, generation, rack = (list(map(column.__getitem__, which)) for column in (sizes, generations, racks))
    data_at, data_size, first = begin + 4, ints(size), np.zeros(len(begin) + 1, dtype=np.int64)
    owned = HeldLists(first, _NOTHING, _NOTHING, _NOTHING, data_at + 4 + np.maximum(data_size, 0))
    return _Rest(None, data_at, data_size, owned, ints(generation), tuple(rack))


def _without_owned(rest: bytes, version: int) -> tuple[int, int, str | None] | None:
    """The size of the user data, the generation and the rack; None where something is owned, or does not fit."""
    size = int.from_bytes(rest[:4], "big", signed=True)
    at, generation, rack = 4 + max(size, 0), -1, None
    if version >= 1:
        if any(rest[at : at + 4]):
            return None
        at += 4
    if version >= 2:
        generation = max(int.from_bytes(rest[at : at + 4], "big", signed=True), -1)
        at += 4
    if version >= 3:
        named = max(int.from_bytes(rest[at : at + 2], "big", signed=True), 0)
        at += 2
        rack = text(rest[at : at + named]) if named else None
        at += named
    return (max(size, -1), generation, rack) if at <= len(rest) else None


def _all_fitting(buffer: Buffer, begin: Ints, end: Ints, names: Collection[bytes]) -> _Rest | None:
    """The rests of members of version 3 or later; None where the bytes of any do not fit."""
    size = buffer.int32s(begin)
    data_at = begin + 4
    owned_at = data_at + np.maximum(size, 0)
    if (owned_at > end).any():
        return None
    owned = read_held_lists(buffer, owned_at, end, names)
    at = owned.stop
    if int(at.min()) < 0 or (at + 6 > end).any():
        return None
    generation = np.maximum(buffer.int32s(at), -1)
    at = at + 4
    named = buffer.uint16s(at)
    named[named > MAX_STRING] = 0  # a negative length is null
    rack: tuple[str | None, ...] = (None,) * len(at)
    if named.any():
        at += 2
        if (at + named > end).any():
            return None
        rack = _racks(buffer.raw, at, named)
    return _Rest(None, data_at, np.maximum(size, -1), owned, generation, rack)


def _racks(raw: bytes, at: Ints, size: Ints) -> tuple[str | None, ...]:
    """(M,) the texts of ``size`` (M,) bytes at ``at`` (M,), each different one read once; None for no bytes."""
    known: dict[bytes, str | None] = {b"": None}
    racks = [raw[a : a + n] for a, n in zip(at.tolist(), size.tolist(), strict=True)]
    for name in dict.fromkeys(racks):
        known.setdefault(name, text(name))
    return tuple(map(known.__getitem__, racks))


class _Fields:
    """What stands behind the topics, field by field, for all members; ``good`` (M,) tells whose bytes fitted so far."""

    def __init__(self, buffer: Buffer, begin: Ints, end: Ints, version: Ints, good: Bools) -> None:
        self.buffer, self.end, self.version, self.good = buffer, end, version, good
        self.at = self._user_data(begin)
        self.owned = self._owned()
        self.generation = self._generation()
        self.rack = self._rack()
        if not self.good.all():
            self._forget_refused()

    @property
    def rest(self) -> _Rest:
        """All fields."""
        return _Rest(self.good, self.data_at, self.data_size, self.owned, self.generation, self.rack)

    def _user_data(self, begin: Ints) -> Ints:
        """Where the next field begins."""
        size = self.buffer.int32s(begin)
        self.data_at = begin + 4
        self.data_size = np.maximum(size, -1)
        stop = self.data_at + np.maximum(size, 0)
        self._needs(stop <= self.end)
        return np.minimum(stop, self.end)

    def _needs(self, fits: Bools) -> None:
        self.good = self.good & fits

    def _owned(self) -> HeldLists:
        here = self.good & (self.version >= 1)
        if here.all():
            lists = read_held_lists(self.buffer, self.at, self.end)
            stop = lists.stop
        else:
            # The others read an empty list from the padding behind the buffer.
            nothing = self.buffer.size
            lists = read_held_lists(
                self.buffer, np.where(here, self.at, nothing), np.where(here, self.end, nothing + 4)
            )
            stop = np.where(here, lists.stop, self.at)
        self._needs(stop >= 0)
        self.at = np.where(stop >= 0, stop, self.end)
        return lists

    def _generation(self) -> Ints:
        here = self.version >= 2
        self._needs(~here | (self.at + 4 <= self.end))
        generation = np.where(here & self.good, np.maximum(self.buffer.int32s(self.at), -1), -1)
        self.at = np.minimum(np.where(here, self.at + 4, self.at), self.end)
        return generation

    def _rack(self) -> tuple[str | None, ...]:
        here = self.version >= 3
        self._needs(~here | (self.at + 2 <= self.end))
        size = np.where(here & self.good, self.buffer.uint16s(self.at), 0)
        size[size > MAX_STRING] = 0  # a negative length is null
        self._needs(~here | (self.at + 2 + size <= self.end))
        return _racks(self.buffer.raw, self.at + 2, np.where(self.good, size, 0))

    def _forget_refused(self) -> None:
        """A member whose bytes are no subscription said nothing."""
        lost = ~self.good
        self.data_size[lost] = -1
        self.generation[lost] = -1
        self.rack = tuple(rack if good else None for rack, good in zip(self.rack, self.good.tolist(), strict=True))
        kept = self.good.repeat(self.owned.count)
        counts = np.where(self.good, self.owned.count, 0)
        first = np.concatenate([[0], counts.cumsum()])
        owned = self.owned
        stop = np.where(self.good, owned.stop, -1)
        self.owned = HeldLists(first, owned.name_at[kept], owned.name_size[kept], owned.ids[kept], stop)

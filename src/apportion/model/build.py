"""Names to arrays: the only doors into a group; ``to_names`` is the way out.

``build`` takes the form of group.json, ``build_columns`` what a leader's reader of bytes has in arrays already.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import Any, Final, NamedTuple, cast

import numpy as np

from apportion.arrays import NOBODY, UNKNOWN, Bools, Floats, Ints, distinct, ints
from apportion.model.facts import MEMBER_FIELDS, fact_columns
from apportion.model.group import (
    NO_CLAIMS,
    Claims,
    Group,
    MemberState,
    NonexistentClaims,
    Offsets,
    Racks,
    java_order,
)
from apportion.model.to_names import collector_paused
from apportion.model.topic_columns import FIELDS, TopicColumns
from apportion.wire.primitives import MAX_TOPIC

Raw = Mapping[str, Any]
"""A group as group.json gives it, known to be well-formed."""
_STATE: Final = frozenset(("tags", "standby", "recovery_lag"))
_partition_of: Final = itemgetter("partition")
_ALONE: Final = np.ones(1, dtype=np.int64)
_LISTS_KEPT_TOPICS: Final = 4_096
"""Topics in lists up to which what they come to is kept for the next group."""
_SIZES_KEPT_TOPICS: Final = 4_096
"""Topics up to which their places are kept for the next group, if they have no more than ``PACKED_MAX`` partitions."""
PACKED_MAX: Final = 1 << 17
"""Numbers up to which a tuple of them beside is no matter of memory."""


class OwnedLists(NamedTuple):
    """What M members say they hold: R lists of partition ids, member by member.

    of_member
        (R,) whose list it is: a place among the members.
    topics, size
        (R,) its topic, and how many ids it has.
    ids
        (C,) the ids, list by list.
    """

    of_member: Ints
    topics: Sequence[str]
    size: Ints
    ids: Ints


def build(raw: Raw, *, reuse_lists: bool = False, owned: OwnedLists | None = None) -> Group:
    """Make a group from the form of group.json, which the caller vouches for.

    Foreign input goes through ``read_group`` first. The consumers' adapters come here directly: what they hand in was
    decoded by code of ours.

    reuse_lists
        Plans may hand the lists of ``owned`` on where nothing changed; they are lists, and the caller leaves ``raw``
        alone from now on.
    owned
        What stands in ``raw`` as ``owned``, by the places of ``raw``'s members, where that was read already; plans
        then hand no lists on.
    """
    with collector_paused():
        ids, rows, fields = _in_member_order(raw["members"])
        wishes = _Wishes(rows)
        topics, described = _topics(raw["topics"], wishes.distinct)
        start, number, entries = _partitions(raw["topics"], topics)
        index = {topic: t for t, topic in enumerate(topics)}
        subscriptions, subscription_of = wishes.numbered(index)
        claims = NO_CLAIMS
        if owned is not None:
            claims = _claims(_ranked(owned, raw["members"], ids), index, start, number, entries is _NO_ENTRIES)[0]
        elif "owned" in fields:
            columns = _column(rows, fields, "owned"), index, start, number
            claims = _claims_of_rows(*columns, entries is _NO_ENTRIES, reuse_lists)
        return Group(
            name=raw.get("group") or "",
            topics=topics,
            start=start,
            number=number,
            described=described,
            members=tuple(ids),
            instance_ids=tuple(_column(rows, fields, "instance_id")),
            subscriptions=subscriptions,
            subscription_of=subscription_of,
            generation=_whole(rows, fields, "generation", -1),
            claims=claims,
            facts=_facts(rows, fields),
            offsets=_offsets(entries, len(number)),
            racks=_racks(entries, len(number), _column(rows, fields, "rack")),
            auto_offset_reset=raw.get("auto_offset_reset") or "latest",
            client_ids=tuple(_column(rows, fields, "client_id")),
            hosts=tuple(_column(rows, fields, "host")),
            weight=_weights(entries, len(number)),
            topic_ids={topic: id_ for topic, id_ in (raw.get("topic_ids") or {}).items() if id_ is not None},
            state=_state(rows) if fields & _STATE else None,
        )


@dataclass(frozen=True, eq=False)
class MemberColumns:
    """M members in any order, a column each.

    lists, list_of
        Distinct lists of topics, and which one each member has (M,).
    generation, facts
        (M,) as in ``Group``; of facts at least those that are fields of a member.
    claims
        From topic names with their numbers to the claims on them: see ``ClaimColumns``.
    """

    ids: Sequence[str]
    instance_ids: Sequence[str | None]
    lists: Sequence[Sequence[str]]
    list_of: Ints
    generation: Ints
    facts: Mapping[str, Ints]
    rack: Sequence[str | None]
    claims: Callable[[Mapping[str, int]], ClaimColumns]


class ClaimColumns(NamedTuple):
    """C claims in R lists, one after the other.

    member, topic, size
        (R,) of each list a member by its place in ``MemberColumns``, a topic's number, and how many ids it has.
    number
        (C,) partition ids.
    unknown
        Names of topics that are not in the group: the first one has the number T, and so on.
    """

    member: Ints
    topic: Ints
    size: Ints
    number: Ints
    unknown: Sequence[str] = ()


class ReplicaRacks(NamedTuple):
    """Racks of the replicas of some topics: ``lists`` are the distinct ones, ``of_topic`` has a number a partition.

    Numbers that come as bytes, a byte each, are arrays already.
    """

    lists: Sequence[Sequence[str]]
    of_topic: Mapping[str, Sequence[int]]


def build_columns(
    name: str,
    members: MemberColumns,
    described: Raw,
    replicas: ReplicaRacks | None = None,
    auto_offset_reset: str = "latest",
) -> tuple[Group, Ints]:
    """The same group as ``build`` makes of the same words, and (M,) the place in ``members`` of each of its members.

    described
        Topics as in group.json.
    replicas
        Racks of topics that ``described`` gives a number of partitions; in place of entries with racks.
    """
    order = member_order(members.ids, members.instance_ids)
    rank = ints(order)
    wishes = _numbered(members.lists, described)
    topics, index, described_of = wishes.topics, wishes.index, wishes.described(described)
    start, number, entries = _partitions(described, topics)
    group = Group(
        name=name,
        topics=topics,
        start=start,
        number=number,
        described=described_of,
        members=tuple([members.ids[m] for m in order]),
        instance_ids=tuple([members.instance_ids[m] for m in order]),
        subscriptions=wishes.subscriptions,
        subscription_of=wishes.subscription_of_list[members.list_of[rank]],
        generation=members.generation[rank],
        claims=_claims_of_columns(members.claims(index), rank, topics, start, number, entries is _NO_ENTRIES),
        facts={name: values[rank] for name, values in members.facts.items()},
        offsets=_offsets(entries, len(number)),
        racks=_racks_of_columns(entries, replicas, index, start, [members.rack[m] for m in order]),
        auto_offset_reset=auto_offset_reset,
        client_ids=(None,) * len(order),
        hosts=(None,) * len(order),
        weight=_weights(entries, len(number)),
    )
    return group, rank


def member_order(ids: Sequence[str], instance_ids: Sequence[str | None]) -> list[int]:
    """The places of the members in member order."""
    plain = all(map(str.isascii, ids))
    order = sorted(range(len(ids)), key=ids.__getitem__ if plain else lambda m: java_order(ids[m]))
    if any(instance_ids):
        static = sorted((m for m in order if instance_ids[m]), key=lambda m: java_order(str(instance_ids[m])))
        order = static + [m for m in order if not instance_ids[m]]
    return order


class _NumberedLists:
    """Lists of topics in numbers.

    topics, index
        (T,) in Java's order, others beside those of the lists among them; and each one's place.
    subscriptions, subscription_of_list
        The distinct sets of topics, each ascending, and which one each list is.
    """

    def __init__(self, lists: Sequence[Sequence[str]], others: Iterable[str]) -> None:
        self.topics = topic_order(set(others).union(*lists))
        self.index: Mapping[str, int] = {topic: t for t, topic in enumerate(self.topics)}
        self.subscriptions, self.subscription_of_list = _distinct_subscriptions(lists, self.index)

    def described(self, described: Raw) -> Bools:
        """(T,) whether each topic is described; others than these are not."""
        if len(described) == len(self.topics):
            return np.ones(len(self.topics), dtype=np.bool_)
        return np.array([topic in described for topic in self.topics], dtype=np.bool_)


def _numbered(lists: Sequence[Sequence[str]], described: Raw) -> _NumberedLists:
    """Lists of topics and described topics in numbers."""
    if (
        isinstance(lists, tuple)
        and sum(map(len, lists)) <= _LISTS_KEPT_TOPICS
        and max(map(len, chain.from_iterable(lists)), default=0) <= MAX_TOPIC
    ):
        kept = _kept_lists(lists)
        if described.keys() <= kept.index.keys():
            return kept
    return _NumberedLists(lists, described)


@lru_cache(maxsize=2)
def _kept_lists(lists: tuple[tuple[str, ...], ...]) -> _NumberedLists:
    """These lists and no other topics: most groups want what they wanted the last time."""
    numbered = _NumberedLists(lists, ())
    for array in (*numbered.subscriptions, numbered.subscription_of_list):
        array.flags.writeable = False
    return numbered


def _distinct_subscriptions(lists: Sequence[Sequence[str]], index: Mapping[str, int]) -> tuple[tuple[Ints, ...], Ints]:
    """Distinct sets of topics (K,), each ascending, and which one each list is."""
    known: dict[tuple[int, ...], int] = {}
    which = [known.setdefault(tuple(sorted({index[topic] for topic in topics})), len(known)) for topics in lists]
    return tuple(ints(list(key)) for key in known), ints(which)


def _claims_of_columns(
    given: ClaimColumns, order: Ints, topics: Sequence[str], start: Ints, number: Ints, dense: bool
) -> Claims:
    if not len(given.number):
        return NO_CLAIMS
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    lists = rank[given.member], given.topic, given.size
    return _existing(*lists, given.number, [*topics, *given.unknown], start, number, dense=dense)[0]


def _in_member_order(members: Mapping[str, Raw]) -> tuple[list[str], list[Raw], set[str]]:
    """Ids and fields (M,): static members by instance id, then dynamic ones by id; and the fields that occur.

    Source: Kafka, ``MemberInfo.compareTo``.
    """
    fields: set[str] = set().union(*members.values())
    ids = sorted(members) if all(map(str.isascii, members)) else sorted(members, key=java_order)
    if "instance_id" in fields:
        instance = {member: members[member].get("instance_id") for member in ids}
        static = sorted((m for m in ids if instance[m]), key=lambda m: java_order(str(instance[m])))
        ids = static + [m for m in ids if not instance[m]]
    return ids, list(map(members.__getitem__, ids)), fields


def _column(rows: list[Raw], fields: set[str], field: str) -> list[Any]:
    """(M,) one field of all members; None where it is missing."""
    if field not in fields:
        return [None] * len(rows)
    try:
        return list(map(itemgetter(field), rows))  # faster, where every member has the field
    except KeyError:
        return [row.get(field) for row in rows]


def _whole(rows: list[Raw], fields: set[str], field: str, otherwise: int) -> Ints:
    """(M,) one field of all members that holds whole numbers."""
    if field not in fields:
        return np.full(len(rows), otherwise, dtype=np.int64)
    column = _column(rows, fields, field)
    if None in column:
        column = [otherwise if value is None else value for value in column]
    return _numbers(column, len(column))


def _facts(rows: list[Raw], fields: set[str]) -> dict[str, Ints]:
    """(M,) each fact that some member has, and those that are fields of their own."""
    facts = {name: _whole(rows, fields, name, fact.default) for name, fact in MEMBER_FIELDS.items()}
    return facts | fact_columns(rows) if "facts" in fields else facts


def _state(rows: list[Raw]) -> MemberState:
    """What the members (M,) tell of tags, copies and how far they are restored."""
    return MemberState(
        tuple([row.get("tags") or {} for row in rows]),
        tuple([row.get("standby") or {} for row in rows]),
        tuple(
            [
                {
                    (topic, entry["partition"]): entry["lag"]
                    for topic, entries in (row.get("recovery_lag") or {}).items()
                    for entry in entries
                }
                for row in rows
            ]
        ),
    )


class _Wishes:
    """The members' lists of topics, each distinct list looked at once."""

    def __init__(self, rows: list[Raw]) -> None:
        lists = list(map(itemgetter("topics"), rows))
        self.of_list: dict[int, tuple[str, ...]] = {}
        if lists and lists[0] is lists[-1] and lists.count(lists[0]) == len(lists):  # what is identical is not compared
            self.distinct, self.which = [tuple(lists[0])], [0] * len(lists)
            return
        self.which = list(map(id, lists))
        alike: dict[tuple[str, ...], tuple[str, ...]] = {}
        seen: Sequence[str] | None = None
        key: tuple[str, ...] = ()
        for position, topics in dict(zip(self.which, lists, strict=True)).items():
            if topics != seen:
                seen, key = topics, tuple(topics)
                key = alike.setdefault(key, key)
            self.of_list[position] = key
        self.distinct = list(alike)

    def numbered(self, index: dict[str, int]) -> tuple[tuple[Ints, ...], Ints]:
        """Distinct subscriptions (K,) and which one each member has (M,)."""
        known: dict[tuple[int, ...], int] = {}
        by_topics = {
            topics: known.setdefault(tuple(sorted({index[topic] for topic in topics})), len(known))
            for topics in self.distinct
        }
        subscriptions = tuple(ints(list(key)) for key in known)
        if len(self.distinct) == 1:
            return subscriptions, np.zeros(len(self.which), dtype=np.int64)
        by_list = {position: by_topics[topics] for position, topics in self.of_list.items()}
        return subscriptions, ints(list(map(by_list.__getitem__, self.which)))


def topic_order(names: Collection[str]) -> tuple[str, ...]:
    """The names in Java's order."""
    return tuple(sorted(names) if all(map(str.isascii, names)) else sorted(names, key=java_order))


def _topics(described: Raw, wanted: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], Bools]:
    """Names (T,) of described and of wanted topics in Java's order, and which are described."""
    ordered = topic_order(set(described).union(*wanted))
    return ordered, np.array([topic in described for topic in ordered], dtype=np.bool_)


class _Entries(NamedTuple):
    """What was told of single partitions: their places in the (P,) arrays, a row each, and the fields that occur.

    columns
        The fields that were read already, whole.
    """

    at: Ints
    rows: list[Raw]
    fields: AbstractSet[str]
    columns: Mapping[str, list[Any]]

    @classmethod
    def of(cls, at: Ints, rows: list[Raw]) -> _Entries:
        """Entries that all have ``partition``."""
        if set(map(len, rows)) == {len(rows[0])}:
            # As many fields as the first has, and just those: no more need be looked at than will be read.
            try:
                others = [field for field in rows[0] if field != "partition"]
                return cls(at, rows, rows[0].keys(), {field: list(map(itemgetter(field), rows)) for field in others})
            except KeyError:
                pass
        return cls(at, rows, set().union(*rows), {})

    def column(self, field: str) -> list[Any]:
        """One field of all rows; None where it is missing."""
        if field in self.columns:
            return self.columns[field]
        try:
            return list(map(itemgetter(field), self.rows))  # faster, where every entry has the field
        except KeyError:
            return [row.get(field) for row in self.rows]


class _Columns(NamedTuple):
    """Entries of partitions in columns: as many partitions as there are places."""

    at: Ints
    columns: TopicColumns
    fields: AbstractSet[str] = frozenset(FIELDS)


_NO_ENTRIES: Final = _Entries(ints([]), [], set(), {})


def _partitions(described: Raw, topics: tuple[str, ...]) -> tuple[Ints, Ints, _Entries | _Columns]:
    """Where each topic's partitions begin (T + 1,), all ids (P,), and what was told of them."""
    descriptions = [described.get(topic, 0) for topic in topics]
    counted = set(map(type, descriptions)) <= {int}
    if counted:
        kept = len(topics) <= _SIZES_KEPT_TOPICS and sum(descriptions) <= PACKED_MAX
        return *(_kept_places(tuple(descriptions)) if kept else _places(descriptions)), _NO_ENTRIES
    start, number = _places([one if isinstance(one, int) else len(one) for one in descriptions])
    if all(isinstance(one, int | TopicColumns) for one in descriptions):
        return start, number, _in_columns(descriptions, start, number)
    rows: list[Raw] = []
    at: list[Ints] = []
    for description, first in zip(descriptions, start.tolist(), strict=False):
        if not isinstance(description, int) and description:
            ids = list(map(_partition_of, description))
            if ids != list(range(len(ids))):
                description = sorted(description, key=_partition_of)
                number[first : first + len(ids)] = sorted(ids)
            rows += description
            at.append(np.arange(first, first + len(ids)))
    return start, number, _Entries.of(np.concatenate(at), rows) if rows else _NO_ENTRIES


def _places(sizes: Sequence[int]) -> tuple[Ints, Ints]:
    """Where the partitions of topics of these sizes begin (T + 1,), and their ids (P,), which are 0 and so on."""
    start = np.zeros(len(sizes) + 1, dtype=np.int64)
    of_topic = ints(sizes)
    of_topic.cumsum(out=start[1:])
    number = np.arange(start[-1])
    number -= start[:-1].repeat(of_topic)
    return start, number


@lru_cache(maxsize=2)
def _kept_places(sizes: tuple[int, ...]) -> tuple[Ints, Ints]:
    """``_places``: most topics have as many partitions as they had the last time."""
    start, number = _places(sizes)
    start.flags.writeable = number.flags.writeable = False
    return start, number


def _in_columns(descriptions: Sequence[int | TopicColumns], start: Ints, number: Ints) -> _Columns:
    """What columns tell of partitions, by ascending id in each topic; ids that have gaps are put into ``number``."""
    topics: list[TopicColumns] = []
    at: list[Ints] = []
    for one, first in zip(descriptions, start.tolist(), strict=False):
        if not isinstance(one, int):
            there = np.arange(first, first + len(one))
            if not np.array_equal(one.number, number[there]):
                one = one.take(np.argsort(one.number, kind="stable"))
                number[there] = one.number
            topics.append(one)
            at.append(there)
    return _Columns(np.concatenate(at), TopicColumns.together(topics))


def _claims_of_rows(
    owned: list[Any], index: Mapping[str, int], start: Ints, number: Ints, dense: bool, reuse_lists: bool
) -> Claims:
    """The claims of what each of M members says it holds: topic to ids, or nothing."""
    rows = [held for held in owned if held]
    topics = list(chain.from_iterable(rows))
    lists = list(chain.from_iterable([held.values() for held in rows]))
    of_member = np.arange(len(owned)).repeat([len(held) if held else 0 for held in owned])
    size = _numbers(map(len, lists), len(lists))
    total = int(size.sum())
    # One id each, as where members are many: to unpack a list is quicker than to walk over it.
    alone = total == len(lists) <= PACKED_MAX and int(size.max(initial=1)) == 1
    claimed = _numbers([n for (n,) in lists] if alone else chain.from_iterable(lists), total)
    claims, exact = _claims(OwnedLists(of_member, topics, size, claimed), index, start, number, dense)
    # Only lists that say exactly what stands in the arrays may be handed on.
    if not (reuse_lists and lists and exact and size.all()):
        return claims
    return replace(claims, as_given=tuple(owned), given_lists=lists, given_size=size)


def _numbers(values: Iterable[int], count: int) -> Ints:
    """(count,) whole numbers as an array, which is not to be written into."""
    if count > PACKED_MAX:
        return np.fromiter(values, np.int64, count)
    return np.frombuffer(struct.pack(f"{count}q", *values), np.int64)  # half the time of np.fromiter


def _ranked(owned: OwnedLists, members: Mapping[str, Raw], ids: Sequence[str]) -> OwnedLists:
    """The lists by the members' places among ``ids``."""
    rank_of = dict(zip(ids, range(len(ids)), strict=True))
    return owned._replace(of_member=ints(list(map(rank_of.__getitem__, members)))[owned.of_member])


def _claims(owned: OwnedLists, index: Mapping[str, int], start: Ints, number: Ints, dense: bool) -> tuple[Claims, bool]:
    """All claims as (member, partition) pairs, those on nothing apart; and whether they are just what was given."""
    unknown: dict[str, int] = {}
    try:
        of_topic = _numbers(map(index.__getitem__, owned.topics), len(owned.topics))
    except KeyError:
        for topic in owned.topics:
            if topic not in index:
                unknown.setdefault(topic, len(index) + len(unknown))
        of_topic = ints([unknown[topic] if topic in unknown else index[topic] for topic in owned.topics])
    return _existing(owned.of_member, of_topic, owned.size, owned.ids, [*index, *unknown], start, number, dense=dense)


def _existing(
    member: Ints,
    topic: Ints,
    size: Ints,
    claimed: Ints,
    topics: Sequence[str],
    start: Ints,
    number: Ints,
    *,
    dense: bool,
) -> tuple[Claims, bool]:
    """The claims, those on partitions that do not exist apart, none twice; and whether they are just what was given.

    member, topic, size
        (R,) whose each list of ids is, of which topic, and how many it has. claimed (C,) the ids, list by list.
    topics
        The group's, and behind them others that are claimed.
    dense
        Whether it is known that the ids of each topic are 0 and so on.
    """
    known = len(start) - 1
    of_list = member, topic
    if int(size.max(initial=0)) > 1 or len(size) > len(claimed):
        member = member.repeat(size)
    else:
        size = _ALONE
    if dense and len(topics) == known:
        # Nearly always all of them exist, and where a topic's partitions begin is looked up once a list.
        first, count = start[:-1][topic], (start[1:] - start[:-1])[topic]
        ids = claimed.view(np.uint64)  # without its sign a negative id is huge
        exist = len(ids) > 0 and int(ids.max()) < int(count.min())
        if size is not _ALONE:
            first = first.repeat(size)
            count = count if exist else count.repeat(size)
        if exist or (ids < count.view(np.uint64)).all():
            first += claimed
            return _distinct(member, first, of_list, len(number))
    topic = topic if size is _ALONE else topic.repeat(size)
    if len(topics) > known:
        there = topic < known
        partition = np.full(len(topic), NOBODY, dtype=np.int64)
        partition[there] = find_partitions(topic[there], claimed[there], start, number)
    else:
        partition = find_partitions(topic, claimed, start, number)
    lost = partition == NOBODY
    if not lost.any():
        return _distinct(member, partition, of_list if len(topics) == known else None, len(number))
    nonexistent = NonexistentClaims(member[lost], topic[lost], claimed[lost], topics)
    claims, _ = _distinct(member[~lost], partition[~lost], None, len(number))
    return replace(claims, nonexistent=nonexistent), False


def _distinct(member: Ints, partition: Ints, of_list: tuple[Ints, Ints] | None, partitions: int) -> tuple[Claims, bool]:
    """The claims without repetition, as one that is said twice counts once; and whether they are just these pairs."""
    if not len(partition) or np.bincount(partition).max() == 1:
        return Claims(member, partition, single=True, lists=of_list), True
    key = distinct(member * partitions + partition)
    if len(key) == len(partition):  # several claim one partition, but nobody twice: what was said keeps its order
        return Claims(member, partition, lists=of_list), True
    return Claims(key // partitions, key % partitions), False


def find_partitions(topic: Ints, number: Ints, start: Ints, numbers: Ints) -> Ints:
    """The place of each (topic, id) in the (P,) arrays; -1 where no such partition exists."""
    at = start[topic]
    at += number
    fits = number >= 0
    fits &= at < start[1:][topic]
    if not fits.all():
        at = np.where(fits, at, 0)
    if len(numbers):
        fits &= numbers[at] == number
    if fits.all():
        return at
    # A topic with gaps in its ids: look the others up by (topic, id).
    wide = np.int64(1) << 32
    keys = np.arange(len(start) - 1).repeat(start[1:] - start[:-1]) * wide + numbers
    sought = topic * wide + number
    position = np.searchsorted(keys, sought)
    position[position == len(keys)] = 0
    there = (number >= 0) & (keys[position] == sought) if len(keys) else np.zeros(len(number), dtype=np.bool_)
    return np.where(fits, at, np.where(there, position, NOBODY))


def _offsets(entries: _Entries | _Columns, partitions: int) -> Offsets | None:
    """What the entries tell of the logs; None where they tell nothing."""
    fields = ("begin", "end", "committed", "lag")
    if isinstance(entries, _Columns):
        logs = [getattr(entries.columns, name) for name in fields[:3]]
        if not any((column != UNKNOWN).any() for column in logs):
            return None
        whole = [np.full(partitions, UNKNOWN, dtype=np.int64) for _ in fields]
        for log, column in zip(whole, logs, strict=False):
            log[entries.at] = column
        return Offsets(*whole)
    if entries.fields.isdisjoint(fields):
        return None
    table = {name: np.full(partitions, UNKNOWN, dtype=np.int64) for name in fields}
    any_known = False
    for name in entries.fields & set(table):
        values = entries.column(name)
        any_known = any_known or any(value is not None for value in values)
        table[name][entries.at] = [UNKNOWN if value is None else value for value in values]
    return Offsets(**table) if any_known else None


def _weights(entries: _Entries | _Columns, partitions: int) -> Floats | None:
    """(P,) the work that each partition brings; None where no entry tells any."""
    if isinstance(entries, _Columns) or "weight" not in entries.fields:
        return None
    weight = np.full(partitions, np.nan)
    weight[entries.at] = [np.nan if value is None else value for value in entries.column("weight")]
    return None if np.isnan(weight).all() else weight


def _racks(entries: _Entries | _Columns, partitions: int, of_member: list[Any]) -> Racks | None:
    """Racks of members and of partitions; None where nobody names one."""
    if isinstance(entries, _Columns):
        held, racks_of = entries.columns.racks()
        return _rack_sets(held, racks_of, entries.at, partitions, of_member)
    # Each distinct list as given is looked at once, and every entry hashed once.
    lists: defaultdict[tuple[str, ...], int] = defaultdict()
    lists.default_factory = lists.__len__
    listed = entries.column("racks") if "racks" in entries.fields else []
    try:
        which = list(map(lists.__getitem__, map(tuple, listed)))
    except TypeError:  # some entry has none
        lists.clear()
        which = [lists[tuple(racks or ())] for racks in listed]
    return _rack_sets(list(lists), _numbers(which, len(which)), entries.at, partitions, of_member)


def _racks_of_columns(
    entries: _Entries | _Columns,
    replicas: ReplicaRacks | None,
    index: Mapping[str, int],
    start: Ints,
    of_member: list[Any],
) -> Racks | None:
    """The racks of members and partitions, from topics whose racks are numbered already."""
    if replicas is None:
        return _racks(entries, int(start[-1]), of_member) if "racks" in entries.fields or any(of_member) else None
    lists = [()] if not replicas.lists else replicas.lists
    numbers_of = [replicas.of_topic.get(topic) for topic in index]
    if all(type(numbers) is bytes for numbers in numbers_of):
        together = np.frombuffer(b"".join(cast(list[bytes], numbers_of)), np.uint8).astype(np.int64)
        if len(together) == start[-1]:
            return _rack_sets(lists, together, np.arange(len(together)), len(together), of_member)
    which = np.zeros(int(start[-1]), dtype=np.int64)
    known = np.zeros(len(which), dtype=np.bool_)
    for topic, numbers in replicas.of_topic.items():
        first = int(start[index[topic]])
        which[first : first + len(numbers)] = list(numbers)
        known[first : first + len(numbers)] = True
    return _rack_sets(lists, which[known], known.nonzero()[0], len(which), of_member)


def _rack_sets(
    lists: Sequence[Sequence[str]], which: Ints, at: Ints, partitions: int, of_member: list[Any]
) -> Racks | None:
    """The distinct sets among the distinct lists; partition ``at[i]`` has the list ``which[i]``."""
    held = [frozenset(rack for rack in racks if rack) for racks in lists]
    different = set(held) - {frozenset()}
    names: set[str] = set().union(*different, filter(None, set(of_member)))
    if not names:
        return None
    number = {rack: r for r, rack in enumerate(sorted(names, key=java_order))}
    sets = sorted(tuple(sorted(number[rack] for rack in racks)) for racks in different)
    index = {key: s for s, key in enumerate(sets)}
    set_of = np.full(partitions, UNKNOWN, dtype=np.int64)
    if len(which):
        set_of_list = ints([index.get(tuple(sorted(number[rack] for rack in racks)), UNKNOWN) for racks in held])
        set_of[at] = set_of_list[which]
    return Racks(
        names=tuple(number),
        of_member=ints([number[rack] if rack else UNKNOWN for rack in of_member]),
        set_of=set_of,
        sets=tuple(sets),
    )

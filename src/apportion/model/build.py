"""Names to arrays, the one door into a group: members, topics and claims become columns, and columns a ``Group``.

``build`` takes the form of group.json; a leader's reader of bytes has its columns already, and comes to
``build_columns``. ``to_names`` is the way out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np

from apportion.arrays import NOBODY, UNKNOWN, Floats, Ints, distinct, ints
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
from apportion.model.topic_columns import TopicColumns, column_of

Raw = Mapping[str, Any]
"""A group as group.json gives it, known to be well-formed."""
_STATE: Final = frozenset(("tags", "standby", "recovery_lag"))


class OwnedLists(NamedTuple):
    """The partitions that M members say they hold: R lists of partition ids, member by member.

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

    @classmethod
    def of(cls, owned: Sequence[Mapping[str, Sequence[int]] | None]) -> OwnedLists:
        """Each member's words: topic to ids, or nothing."""
        rows = [held for held in owned if held]
        lists = list(chain.from_iterable([held.values() for held in rows]))
        of_member = np.arange(len(owned)).repeat([len(held) if held else 0 for held in owned])
        size = np.fromiter(map(len, lists), np.int64, len(lists))
        ids = np.fromiter(chain.from_iterable(lists), np.int64, int(size.sum()))
        return cls(of_member, list(chain.from_iterable(rows)), size, ids)

    def numbered(self, index: Mapping[str, int]) -> ClaimColumns:
        """The claims with topics in numbers; those of topics without one get the next."""
        try:
            topic = ints([index[topic] for topic in self.topics])
            return ClaimColumns(self.of_member, topic, self.size, self.ids)
        except KeyError:
            unknown: dict[str, int] = {}
            topics = [index[t] if t in index else unknown.setdefault(t, len(index) + len(unknown)) for t in self.topics]
            return ClaimColumns(self.of_member, ints(topics), self.size, self.ids, list(unknown))


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


@dataclass(frozen=True, eq=False)
class MemberColumns:
    """M members in any order, a column each.

    lists, list_of
        Distinct lists of topics, and which one each member has (M,).
    generation, facts
        (M,) as in ``Group``; of facts at least those that are fields of a member.
    claims
        From topic names with their numbers to the claims on them: see ``ClaimColumns``.
    client_ids, hosts
        (M,), or empty where none is known.
    state
        None where no member tells of any.
    """

    ids: Sequence[str]
    instance_ids: Sequence[str | None]
    lists: Sequence[Sequence[str]]
    list_of: Ints
    generation: Ints
    facts: Mapping[str, Ints]
    rack: Sequence[str | None]
    claims: Callable[[Mapping[str, int]], ClaimColumns]
    client_ids: Sequence[str | None] = ()
    hosts: Sequence[str | None] = ()
    state: MemberState | None = None


class ReplicaRacks(NamedTuple):
    """Racks of the replicas of some topics: ``lists`` are the distinct ones, ``of_topic`` has a number a partition."""

    lists: Sequence[Sequence[str]]
    of_topic: Mapping[str, Sequence[int]]


def build(raw: Raw) -> Group:
    """Make a group from the form of group.json, which the caller vouches for.

    Foreign input goes through ``read_group`` first.
    """
    with collector_paused():
        topic_ids = {topic: id_ for topic, id_ in (raw.get("topic_ids") or {}).items() if id_ is not None}
        reset = raw.get("auto_offset_reset") or "latest"
        columns = member_columns(raw["members"])
        group, _ = build_columns(raw.get("group") or "", columns, raw["topics"], None, reset)
        return replace(group, topic_ids=topic_ids) if topic_ids else group


def member_columns(members: Mapping[str, Raw]) -> MemberColumns:
    """The columns of members in the form of group.json."""
    rows = list(members.values())
    fields: set[str] = set().union(*rows)
    lists, list_of = _distinct_lists(column_of(rows, fields, "topics"))
    facts = {name: _whole(rows, fields, name, fact.default) for name, fact in MEMBER_FIELDS.items()}

    def claims(index: Mapping[str, int]) -> ClaimColumns:
        return OwnedLists.of(column_of(rows, fields, "owned")).numbered(index)

    return MemberColumns(
        ids=list(members),
        instance_ids=column_of(rows, fields, "instance_id"),
        lists=lists,
        list_of=list_of,
        generation=_whole(rows, fields, "generation", -1),
        facts=facts | fact_columns(rows) if "facts" in fields else facts,
        rack=column_of(rows, fields, "rack"),
        claims=claims,
        client_ids=column_of(rows, fields, "client_id"),
        hosts=column_of(rows, fields, "host"),
        state=_state(rows) if fields & _STATE else None,
    )


def _state(rows: list[Raw]) -> MemberState:
    """The members' (M,) words about tags, copies and how far they are restored."""
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


def _distinct_lists(lists: Sequence[Sequence[str]]) -> tuple[tuple[tuple[str, ...], ...], Ints]:
    """The distinct lists, and which one each is; a list that is the same object is looked at once."""
    number_of: dict[tuple[str, ...], int] = {}
    seen: dict[int, int] = {}
    for names in lists:
        if id(names) not in seen:
            seen[id(names)] = number_of.setdefault(tuple(names), len(number_of))
    which = [seen[id(names)] for names in lists]
    return tuple(number_of), ints(which)


def _whole(rows: Sequence[Raw], fields: set[str], field: str, otherwise: int) -> Ints:
    """(M,) one field of all members that holds whole numbers."""
    if field not in fields:
        return np.full(len(rows), otherwise)
    column = column_of(rows, fields, field)
    if None in column:
        column = [otherwise if value is None else value for value in column]
    return ints(column)


def build_columns(
    name: str,
    members: MemberColumns,
    described: Raw,
    replicas: ReplicaRacks | None = None,
    auto_offset_reset: str = "latest",
) -> tuple[Group, Ints]:
    """A group, and (M,) the place in ``members`` of each of its members.

    described
        Topics as in group.json.
    replicas
        Racks of topics that ``described`` gives a number of partitions; in place of entries with racks.
    """
    order = member_order(members.ids, members.instance_ids)
    rank = ints(order)
    topics = topic_order(set(described).union(*members.lists))
    index = {topic: t for t, topic in enumerate(topics)}
    distinct_subscriptions, subscription_of_list = _distinct_subscriptions(members.lists, index)
    subscriptions, subscription_of = by_first_member(
        distinct_subscriptions, subscription_of_list[members.list_of[rank]]
    )
    start, number, at, columns = _partitions(described, topics)

    def ordered(names: Sequence[str | None]) -> tuple[str | None, ...]:
        return tuple([names[m] for m in order]) if names else (None,) * len(order)

    group = Group(
        name=name,
        topics=topics,
        start=start,
        number=number,
        described=np.array([topic in described for topic in topics], dtype=np.bool_),
        members=tuple([members.ids[m] for m in order]),
        instance_ids=ordered(members.instance_ids),
        subscriptions=subscriptions,
        subscription_of=subscription_of,
        generation=members.generation[rank],
        claims=_claims(members.claims(index), rank, topics, start, number),
        facts={name: values[rank] for name, values in members.facts.items()},
        offsets=_offsets(at, columns, len(number)),
        racks=_racks(at, columns, replicas, index, start, ordered(members.rack)),
        auto_offset_reset=auto_offset_reset,
        client_ids=ordered(members.client_ids),
        hosts=ordered(members.hosts),
        weight=_weights(at, columns, len(number)),
        state=members.state and members.state.of(order),
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


def _distinct_subscriptions(lists: Sequence[Sequence[str]], index: Mapping[str, int]) -> tuple[tuple[Ints, ...], Ints]:
    """Distinct sets of topics (K,), each ascending, and which one each list is."""
    known: dict[tuple[int, ...], int] = {}
    which = [known.setdefault(tuple(sorted({index[topic] for topic in topics})), len(known)) for topics in lists]
    return tuple(ints(list(key)) for key in known), ints(which)


def by_first_member(subscriptions: Sequence[Ints], which: Ints) -> tuple[tuple[Ints, ...], Ints]:
    """The subscriptions that members have, numbered in the order in which members come, and which one each has (M,)."""
    if len(subscriptions) == 1 and len(which):
        return tuple(subscriptions), which
    first = {k: n for n, k in enumerate(dict.fromkeys(which.tolist()))}
    return tuple([subscriptions[k] for k in first]), ints([first[k] for k in which.tolist()])


def topic_order(names: Collection[str]) -> tuple[str, ...]:
    """The names in Java's order."""
    return tuple(sorted(names) if all(map(str.isascii, names)) else sorted(names, key=java_order))


def _partitions(described: Raw, topics: tuple[str, ...]) -> tuple[Ints, Ints, Ints, TopicColumns | None]:
    """Where each topic's partitions begin (T + 1,), all ids (P,), and the partitions with known facts, and those facts.

    The last is None where nothing is: then the ids of each topic are 0 and so on.
    """
    descriptions = [described.get(topic, 0) for topic in topics]
    if set(map(type, descriptions)) <= {int}:
        return *_places(descriptions), ints([]), None
    start, number = _places(
        [description if isinstance(description, int) else len(description) for description in descriptions]
    )
    rows: list[Raw] = []
    of_rows: list[Ints] = []
    columns: list[TopicColumns] = []
    of_columns: list[Ints] = []
    for description, first in zip(descriptions, start.tolist(), strict=False):
        if isinstance(description, int) or not len(description):
            continue
        entries = np.arange(first, first + len(description))
        if isinstance(description, TopicColumns):
            of_columns.append(entries)
            columns.append(_ascending(description, number[entries]))
        else:
            of_rows.append(entries)
            rows += description
    if rows:
        at, described_rows = np.concatenate(of_rows), TopicColumns.of(rows)
        if not np.array_equal(described_rows.number, number[at]):
            described_rows = described_rows.take(
                np.lexsort((described_rows.number, np.searchsorted(start, at, side="right")))
            )
        of_columns.append(at)
        columns.append(described_rows)
    if not columns:
        return start, number, ints([]), None
    at, whole = np.concatenate(of_columns), TopicColumns.together(columns)
    number[at] = whole.number
    return start, number, at, whole


def _ascending(topic: TopicColumns, ids: Ints) -> TopicColumns:
    """The topic's partitions by id; ``ids`` are those it has if there are no gaps."""
    return topic if np.array_equal(topic.number, ids) else topic.take(np.argsort(topic.number, kind="stable"))


def _places(sizes: Sequence[int]) -> tuple[Ints, Ints]:
    """Where the partitions of topics of these sizes begin (T + 1,), and their ids (P,), which are 0 and so on."""
    start = np.zeros(len(sizes) + 1, dtype=np.int64)
    of_topic = ints(sizes)
    of_topic.cumsum(out=start[1:])
    number = np.arange(start[-1])
    number -= start[:-1].repeat(of_topic)
    return start, number


def _claims(given: ClaimColumns, order: Ints, topics: Sequence[str], start: Ints, number: Ints) -> Claims:
    """The members' claims in numbers of the group, those on partitions that do not exist apart, none twice.

    order
        (M,) the members' places by rank.
    """
    if not len(given.number):
        return NO_CLAIMS
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    member, topic = rank[given.member].repeat(given.size), given.topic.repeat(given.size)
    exists = topic < len(topics)
    partition = np.full(len(topic), NOBODY)
    partition[exists] = find_partitions(topic[exists], given.number[exists], start, number)
    lost = partition == NOBODY
    if not lost.any():
        return _distinct(member, partition, len(number))
    nonexistent = NonexistentClaims(member[lost], topic[lost], given.number[lost], [*topics, *given.unknown])
    return replace(_distinct(member[~lost], partition[~lost], len(number)), nonexistent=nonexistent)


def _distinct(member: Ints, partition: Ints, partitions: int) -> Claims:
    """The claims without repetition, as one that is said twice counts once; else they keep their order."""
    if len(partition) and np.bincount(partition).max() == 1:
        return Claims(member, partition)
    key = distinct(member * partitions + partition)
    return Claims(member, partition) if len(key) == len(member) else Claims(key // partitions, key % partitions)


def find_partitions(topic: Ints, number: Ints, start: Ints, numbers: Ints) -> Ints:
    """The place of each (topic, id) in the (P,) arrays; -1 if no such partition exists."""
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
    listed = (number >= 0) & (keys[position] == sought) if len(keys) else np.zeros(len(number), dtype=np.bool_)
    return np.where(fits, at, np.where(listed, position, NOBODY))


def _offsets(at: Ints, columns: TopicColumns | None, partitions: int) -> Offsets | None:
    """The known facts about the logs; None if there are none."""
    if columns is None:
        return None
    logs = {"begin": columns.begin, "end": columns.end, "committed": columns.committed, "lag": columns.lag}
    if not any(column is not None and (column != UNKNOWN).any() for column in logs.values()):
        return None
    whole = {name: np.full(partitions, UNKNOWN) for name in logs}
    for name, column in logs.items():
        if column is not None:
            whole[name][at] = column
    return Offsets(**whole)


def _weights(at: Ints, columns: TopicColumns | None, partitions: int) -> Floats | None:
    """(P,) the work that each partition brings; None if no weight is known."""
    if columns is None or columns.weight is None or np.isnan(columns.weight).all():
        return None
    weight = np.full(partitions, np.nan)
    weight[at] = columns.weight
    return weight


def _racks(
    at: Ints,
    columns: TopicColumns | None,
    replicas: ReplicaRacks | None,
    index: Mapping[str, int],
    start: Ints,
    of_member: Sequence[str | None],
) -> Racks | None:
    """Racks of members and of partitions, which ``replicas`` or the columns know; None if none is named."""
    partitions = int(start[-1])
    if replicas is None:
        held, racks_of = ([], ints([])) if columns is None else columns.racks()
        return _rack_sets(held, racks_of, at, partitions, of_member) if any(held) or any(of_member) else None
    lists = [()] if not replicas.lists else replicas.lists
    which = np.zeros(partitions, dtype=np.int64)
    known = np.zeros(partitions, dtype=np.bool_)
    for topic, numbers in replicas.of_topic.items():
        first = int(start[index[topic]])
        which[first : first + len(numbers)] = list(numbers)
        known[first : first + len(numbers)] = True
    return _rack_sets(lists, which[known], known.nonzero()[0], partitions, of_member)


def _rack_sets(
    lists: Sequence[Sequence[str]], which: Ints, at: Ints, partitions: int, of_member: Sequence[str | None]
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
    set_of = np.full(partitions, UNKNOWN)
    if len(which):
        set_of_list = ints([index.get(tuple(sorted(number[rack] for rack in racks)), UNKNOWN) for racks in held])
        set_of[at] = set_of_list[which]
    return Racks(
        names=tuple(number),
        of_member=ints([number[rack] if rack else UNKNOWN for rack in of_member]),
        set_of=set_of,
        sets=tuple(sets),
    )

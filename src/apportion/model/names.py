"""Names to arrays and back: the only door into a group and out of a plan."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from apportion.arrays import NOBODY, UNKNOWN, Bools, Ints, ints
from apportion.model.group import NO_PRIORITY, Claims, Group, Offsets, Racks, java_order

Assignment = dict[str, dict[str, list[int]]]
"""Member to topic to ascending partition ids."""
Raw = Mapping[str, Any]
"""A group as group.json gives it, known to be well-formed."""


def build(raw: Raw) -> Group:
    """Make a group from the form of group.json, which the caller vouches for.

    Foreign input goes through ``read_group`` first. The consumers' adapters come here directly: what they hand in was
    decoded by code of ours.
    """
    with _collector_paused():
        members = in_member_order(raw["members"])
        topics, described = _topics(raw["topics"], members)
        start, number = _partitions(raw["topics"], topics)
        index = {topic: t for t, topic in enumerate(topics)}
        subscriptions, subscription_of = _subscriptions(members, index)
        generations = [member.get("generation") for _, member in members]
        priorities = [member.get("priority") for _, member in members]
        return Group(
            name=raw.get("group") or "",
            topics=topics,
            start=start,
            number=number,
            described=described,
            members=tuple(member_id for member_id, _ in members),
            instance_ids=tuple(member.get("instance_id") for _, member in members),
            subscriptions=subscriptions,
            subscription_of=subscription_of,
            generation=ints([-1 if g is None else g for g in generations]),
            claims=_claims(members, index, start, number),
            priority=ints([NO_PRIORITY if p is None else p for p in priorities]),
            offsets=_offsets(raw["topics"], topics, start),
            racks=_racks(raw["topics"], topics, start, members),
            auto_offset_reset=raw.get("auto_offset_reset") or "latest",
            client_ids=tuple(member.get("client_id") for _, member in members),
            hosts=tuple(member.get("host") for _, member in members),
        )


def in_member_order(members: Mapping[str, Raw]) -> list[tuple[str, Raw]]:
    """Static members by instance id, then dynamic ones by member id (Kafka, ``MemberInfo.compareTo``)."""
    static = [(member.get("instance_id"), item) for item in members.items() if (member := item[1]).get("instance_id")]
    if not static:
        return sorted(members.items(), key=_by_id) if _beyond_bmp(members) else sorted(members.items(), key=_id)
    dynamic = [item for item in members.items() if not item[1].get("instance_id")]
    static.sort(key=lambda pair: java_order(str(pair[0])))
    return [item for _, item in static] + sorted(dynamic, key=_by_id)


def _id(item: tuple[str, Raw]) -> str:
    return item[0]


def _by_id(item: tuple[str, Raw]) -> bytes:
    return java_order(item[0])


def _beyond_bmp(names: Mapping[str, Any]) -> bool:
    """Whether Java's order of these names can differ from Python's."""
    return not all(map(str.isascii, names))


def _topics(described: Raw, members: list[tuple[str, Raw]]) -> tuple[tuple[str, ...], Bools]:
    """Names (T,) of described and of wanted topics in Java's order, and which are described."""
    wanted: set[str] = set()
    seen: Sequence[str] | None = None
    for _, member in members:
        if member["topics"] != seen:
            seen = member["topics"]
            wanted.update(seen)
    names = wanted.union(described)
    plain = all(map(str.isascii, names))
    ordered = tuple(sorted(names) if plain else sorted(names, key=java_order))
    return ordered, np.array([topic in described for topic in ordered], dtype=np.bool_)


def _partitions(described: Raw, topics: tuple[str, ...]) -> tuple[Ints, Ints]:
    """Where each topic's partitions begin (T + 1,) and all ids (P,)."""
    sizes, ids = [], []
    for topic in topics:
        what = described.get(topic, 0)
        if isinstance(what, int):
            sizes.append(what)
            ids.append(np.arange(what))
        else:
            sizes.append(len(what))
            ids.append(np.sort(ints([entry["partition"] for entry in what])))
    start = np.zeros(len(topics) + 1, dtype=np.int64)
    np.cumsum(sizes, out=start[1:])
    return start, np.concatenate(ids) if ids else ints([])


def _subscriptions(members: list[tuple[str, Raw]], index: dict[str, int]) -> tuple[tuple[Ints, ...], Ints]:
    """Distinct subscriptions (K,) and which one each member has (M,), each distinct list looked at once."""
    known: dict[tuple[int, ...], int] = {}
    by_list: dict[tuple[str, ...], int] = {}
    of_member: list[int] = []
    seen: Sequence[str] | None = None
    k = -1
    for _, member in members:
        topics = member["topics"]
        if topics != seen:
            seen = topics
            key = tuple(topics)
            if key not in by_list:
                by_list[key] = known.setdefault(tuple(sorted({index[topic] for topic in key})), len(known))
            k = by_list[key]
        of_member.append(k)
    return tuple(ints(list(key)) for key in known), ints(of_member)


def _claims(members: list[tuple[str, Raw]], index: dict[str, int], start: Ints, number: Ints) -> Claims:
    """All claims as (member, partition) pairs, those on nothing apart."""
    of_member: list[int] = []
    of_topic: list[int] = []
    counts: list[int] = []
    ids: list[int] = []
    unknown: list[tuple[int, str, int]] = []
    for m, (_, member) in enumerate(members):
        for topic, partitions in (member.get("owned") or {}).items():
            t = index.get(topic)
            if t is None:
                unknown.extend((m, topic, p) for p in partitions)
            else:
                of_member.append(m)
                of_topic.append(t)
                counts.append(len(partitions))
                ids.extend(partitions)
    if not ids:
        return Claims(ints([]), ints([]), tuple(set(unknown)))
    topic = np.repeat(ints(of_topic), counts)
    member_of = np.repeat(ints(of_member), counts)
    claimed = ints(ids)
    partition = find_partitions(topic, claimed, start, number)
    lost = partition == NOBODY
    if lost.any():
        names = list(index)
        rows = zip(member_of[lost].tolist(), topic[lost].tolist(), claimed[lost].tolist(), strict=True)
        unknown.extend((m, names[t], p) for m, t, p in rows)
        member_of, partition = member_of[~lost], partition[~lost]
    member_of, partition = _once(member_of, partition, len(number))
    return Claims(member_of, partition, tuple(sorted(set(unknown))))


def _once(member: Ints, partition: Ints, partitions: int) -> tuple[Ints, Ints]:
    """The pairs without repetition: a claim said twice counts once."""
    if not len(partition) or np.bincount(partition).max() == 1:
        return member, partition
    key = np.unique(member * partitions + partition)
    return key // partitions, key % partitions


def find_partitions(topic: Ints, number: Ints, start: Ints, numbers: Ints) -> Ints:
    """The place of each (topic, id) in the (P,) arrays; -1 where no such partition exists."""
    first, stop = start[topic], start[topic + 1]
    at = first + number
    fits = (number >= 0) & (at < stop)
    at = np.where(fits, at, 0)
    if len(numbers):
        fits &= numbers[at] == number
    if fits.all():
        return at
    # A topic with gaps in its ids: look the others up by (topic, id).
    wide = np.int64(1) << 32
    keys = np.repeat(np.arange(len(start) - 1), np.diff(start)) * wide + numbers
    sought = topic * wide + number
    found = np.searchsorted(keys, sought)
    found[found == len(keys)] = 0
    there = (number >= 0) & (keys[found] == sought) if len(keys) else np.zeros(len(number), dtype=np.bool_)
    return np.where(fits, at, np.where(there, found, NOBODY))


def _entries(described: Raw, topics: tuple[str, ...], start: Ints) -> Iterator[tuple[int, Raw]]:
    """Each partition that is described by an entry, with its place in the (P,) arrays."""
    for t, topic in enumerate(topics):
        what = described.get(topic, 0)
        if not isinstance(what, int):
            first = int(start[t])
            for p, entry in enumerate(sorted(what, key=lambda entry: int(entry["partition"]))):
                yield first + p, entry


def _offsets(described: Raw, topics: tuple[str, ...], start: Ints) -> Offsets | None:
    """What the entries tell of the logs; None where they tell nothing."""
    table = {name: np.full(int(start[-1]), UNKNOWN, dtype=np.int64) for name in ("begin", "end", "committed", "lag")}
    told = False
    for p, entry in _entries(described, topics, start):
        for name, column in table.items():
            value = entry.get(name)
            if value is not None:
                column[p] = value
                told = True
    return Offsets(**table) if told else None


def _racks(described: Raw, topics: tuple[str, ...], start: Ints, members: list[tuple[str, Raw]]) -> Racks | None:
    """Racks of members and of partitions; None where nobody names one."""
    of_member = [member.get("rack") or None for _, member in members]
    of_partition: dict[int, frozenset[str]] = {}
    for p, entry in _entries(described, topics, start):
        racks = frozenset(rack for rack in entry.get("racks") or () if rack)
        if racks:
            of_partition[p] = racks
    distinct = set(of_partition.values())
    names = set().union(*distinct) | {rack for rack in of_member if rack}
    if not names:
        return None
    number = {rack: r for r, rack in enumerate(sorted(names, key=java_order))}
    sets = sorted(tuple(sorted(number[rack] for rack in racks)) for racks in distinct)
    place = {key: s for s, key in enumerate(sets)}
    by_racks = {racks: place[tuple(sorted(number[rack] for rack in racks))] for racks in distinct}
    set_of = np.full(int(start[-1]), UNKNOWN, dtype=np.int64)
    for p, racks in of_partition.items():
        set_of[p] = by_racks[racks]
    return Racks(
        names=tuple(number),
        of_member=ints([number[rack] if rack else UNKNOWN for rack in of_member]),
        set_of=set_of,
        sets=tuple(sets),
    )


def owners_to_names(group: Group, owner: Ints) -> Assignment:
    """Member to topic to ids of an owner array (P,); every member has an entry, if only ``{}``."""
    with _collector_paused():
        result: Assignment = {member: {} for member in group.members}
        order = np.argsort(owner, kind="stable")
        order = order[np.searchsorted(owner[order], 0) :]
        if not len(order):
            return result
        member, topic, number = owner[order], group.topic_of[order], group.number[order].tolist()
        cuts = np.flatnonzero((member[1:] != member[:-1]) | (topic[1:] != topic[:-1])) + 1
        starts = [0, *cuts.tolist()]
        stops = [*cuts.tolist(), len(number)]
        holders = [result[name] for name in group.members]
        names = group.topics
        for m, t, a, b in zip(member[starts].tolist(), topic[starts].tolist(), starts, stops, strict=True):
            holders[m][names[t]] = number[a:b]
        return result


def partitions_to_names(group: Group, chosen: Bools) -> dict[str, list[int]]:
    """Topic to ids of the chosen partitions (P,), topics sorted, ids ascending."""
    result: dict[str, list[int]] = {}
    for p in np.flatnonzero(chosen).tolist():
        topic, number = group.name_of(p)
        result.setdefault(topic, []).append(number)
    return result


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Pause the garbage collector: building many small lists makes it look at all of them again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()

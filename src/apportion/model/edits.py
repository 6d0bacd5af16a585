"""A group with one member more or less, or a topic with more partitions, made on the group's own arrays.

What is given is what ``build`` makes of the group's group.json with the same change in it, array for array; that way
takes a dictionary for each partition, and a scenario for each of a cluster's groups takes it three times. A group whose
arrays are not those that ``build`` would make of it, or whose topics or racks may vanish with a member, is refused
(``None``) and has to go that way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from apportion.arrays import NOBODY, UNKNOWN, Ints, Longs, ints
from apportion.model.build import by_first_member
from apportion.model.facts import MEMBER_FIELDS, UNSET
from apportion.model.group import Claims, Group, Offsets, Racks, java_order


def with_members(given: Group, names: Sequence[str], subscription: int) -> Group | None:
    """The group with dynamic members more, of one of its subscriptions, without a past and without a rack.

    names
        None of them a member's.
    """
    group = _as_built(given)
    if group is None:
        return None
    ids = [*group.members, *names]
    static = sum(map(bool, group.instance_ids))
    # Static members come first, which new ones never are; then all others by id.
    order = ints([*range(static), *sorted(range(static, len(ids)), key=lambda m: java_order(ids[m]))])
    return _of_members(group, order, names, subscription)


def without_member(given: Group, member: int) -> Group | None:
    """The group without a member, and without its claims; somebody has to be left."""
    group = _as_built(given)
    if group is None or group.M < 2:
        return None
    left = _of_members(group, np.delete(np.arange(group.M), member))
    return left if left.racks is None or _all_used(left.racks) else None


def with_partitions(given: Group, topic: int, numbers: Ints) -> Group | None:
    """The group with partitions more of a topic, that nobody holds and no rack is known of.

    topic
        Its place among the group's topics.
    numbers
        Ids above all that the topic has, ascending. Where the lag of one of the topic's partitions is known, the new
        ones' logs are known to be empty.
    """
    group = _as_built(given)
    if group is None:
        return None
    at, more = int(group.start[topic + 1]), len(numbers)
    start = group.start.copy()
    start[topic + 1 :] += more
    offsets, weight = group.offsets, group.weight
    if offsets is not None:
        log = 0 if group.lag_known[group.partitions(topic)].any() else UNKNOWN
        offsets = Offsets(
            _inserted(offsets.begin, at, log, more), _inserted(offsets.end, at, log, more),
            _inserted(offsets.committed, at, UNKNOWN, more), _inserted(offsets.lag, at, UNKNOWN, more),
        )  # fmt: skip
    racks, claims = group.racks, group.claims
    return replace(
        group,
        start=start,
        number=np.concatenate([group.number[:at], numbers, group.number[at:]]),
        claims=replace(
            claims,
            partition=np.where(claims.partition < at, claims.partition, claims.partition + more),
        ),
        racks=racks and replace(racks, set_of=_inserted(racks.set_of, at, UNKNOWN, more)),
        offsets=offsets,
        weight=weight if weight is None else np.insert(weight, at, np.full(more, np.nan)),
    )


def _of_members(group: Group, order: Ints, names: Sequence[str] = (), subscription: int = 0) -> Group:
    """The group with some of its own members and of new ones, whose numbers follow, in this order; see above."""
    ids, more, claims, racks = [*group.members, *names], len(names), group.claims, group.racks
    rank = np.full(len(ids), NOBODY, dtype=np.int64)
    rank[order] = np.arange(len(order))
    stays = rank[claims.member] != NOBODY
    subscriptions, subscription_of = by_first_member(
        group.subscriptions, _behind(group.subscription_of, subscription, more)[order]
    )
    return replace(
        group,
        members=tuple([ids[m] for m in order.tolist()]),
        instance_ids=_ordered(group.instance_ids, order),
        client_ids=_ordered(group.client_ids, order),
        hosts=_ordered(group.hosts, order),
        subscriptions=subscriptions,
        subscription_of=subscription_of,
        generation=_behind(group.generation, UNKNOWN, more)[order],
        facts={
            name: _behind(values, MEMBER_FIELDS[name].default if name in MEMBER_FIELDS else UNSET, more)[order]
            for name, values in group.facts.items()
        },
        claims=Claims(rank[claims.member[stays]], claims.partition[stays]),
        racks=racks and replace(racks, of_member=_behind(racks.of_member, UNKNOWN, more)[order]),
        state=group.state and group.state.of(order.tolist()),
    )


def _as_built(group: Group) -> Group | None:
    """The group as ``build`` would make it of its group.json; None where that may be other arrays, or topics less."""
    claims = group.claims
    if not group.described.all() or len(claims.nonexistent):
        return None
    if group.racks is not None and not _all_used(group.racks):
        return None
    weight = group.weight
    order = np.lexsort((claims.partition, claims.member))
    return replace(
        group,
        claims=Claims(claims.member[order], claims.partition[order]),
        offsets=_some(group.offsets),
        weight=None if weight is None or np.isnan(weight).all() else weight,
        auto_offset_reset=group.auto_offset_reset or "latest",
        topic_ids=dict(sorted(group.topic_ids.items())),
    )


def _all_used(racks: Racks) -> bool:
    """Whether each set of racks is some partition's, and each rack a member's or in a set."""
    sets = np.bincount(racks.set_of + 1, minlength=len(racks.sets) + 1)[1:]
    named = set(racks.of_member.tolist()).union(*racks.sets)
    return bool(sets.all()) and len(named - {UNKNOWN}) == len(racks.names)


def _some(offsets: Offsets | None) -> Offsets | None:
    """The offsets; None where none is known."""
    if offsets is None:
        return None
    columns = (offsets.begin, offsets.end, offsets.committed, offsets.lag)
    return offsets if any((column != UNKNOWN).any() for column in columns) else None


def _ordered(names: Sequence[str | None], order: Ints) -> tuple[str | None, ...]:
    """The names in this order, of which there may be fewer than places: nobody has one behind them."""
    there = len(names)
    return tuple([names[m] if m < there else None for m in order.tolist()])


def _behind(column: Longs, value: int, count: int) -> Longs:
    return np.concatenate([column, np.full(count, value, dtype=np.int64)])


def _inserted(column: Longs, at: int, value: int, count: int) -> Longs:
    return np.concatenate([column[:at], np.full(count, value, dtype=np.int64), column[at:]])

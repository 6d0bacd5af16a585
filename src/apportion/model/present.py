"""A group's present as a person must see it: the readers, two if there are two, and which lag is known."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from apportion.arrays import NOBODY, UNKNOWN, Bools, Ints, Longs
from apportion.model.claims import STANDS, TWICE
from apportion.model.group import Group
from apportion.model.measures import lag_held, measure, summable

LEAST_SHARED: Final = 2
"""Partitions that a topic has at least for its share on one member to mean anything."""


def contested(group: Group) -> Bools:
    """(P,) whether several members claim the partition in its newest generation: for a plan no member owns it, and each
    of them reads it.
    """
    twice = np.zeros(group.P, dtype=np.bool_)
    if not group.verdict.undisputed:
        twice[group.claims.partition[group.verdict.code == TWICE]] = True
    return twice


def owed(group: Group, assumed: bool = False) -> Bools:
    """(P,) whether the group still has to read the partition: it left those that no living member wants any more.

    assumed
        Whether subscriptions are guessed: then all counts.
    """
    return group.wanted if group.M and not assumed else np.ones(group.P, dtype=np.bool_)


def readers(group: Group) -> tuple[Ints, Ints]:
    """(N,) members and (N,) the partitions that they read, by partition: one each, or several if it is contested."""
    code = group.verdict.code
    now = np.flatnonzero((code == STANDS) | (code == TWICE)) if not group.verdict.undisputed else slice(None)
    member, partition = group.claims.member[now], group.claims.partition[now]
    order = np.lexsort((member, partition))
    return member[order], partition[order]


def loads_now(group: Group) -> Ints:
    """(M,) partitions that each member reads."""
    return np.bincount(readers(group)[0], minlength=group.M)


def lag_now(group: Group) -> Longs:
    """(M,) messages that each member has to read, of contested partitions too."""
    twice = contested(group)
    if not twice.any():
        return lag_held(group, group.owner)
    member, partition = readers(group)
    lag = summable(group.lag[partition])
    held = np.zeros(group.M, dtype=lag.dtype)
    np.add.at(held, member, lag)
    return held


def measure_now(group: Group) -> dict[str, Any]:
    """The measures of the present owners; if partitions are read by several members, each of these counts them, and
    ``double_readers`` says how many partitions that is.
    """
    measures = measure(group, group.owner)
    twice = int(np.count_nonzero(contested(group)))
    if twice:
        held = loads_now(group)
        measures |= {"load_min": int(held.min()), "load_max": int(held.max()), "load_squares": int(held @ held)}
        if "lag_max" in measures:
            measures["lag_max"] = max(lag_now(group).tolist(), default=0)
        measures["double_readers"] = twice
    return measures


def unowned(group: Group, owner: Ints) -> int:
    """Wanted partitions that no member is to read; of the present owners those with several readers are not counted."""
    nobody = group.wanted & (owner == NOBODY)
    return int(np.count_nonzero(nobody & ~contested(group) if owner is group.owner else nobody))


def observed_lag(group: Group) -> Longs:
    """(P,) messages left to read; -1 if unknown.

    Unlike a plan, a person must see what is not known: without a commit reading starts where ``auto.offset.reset``
    says, which by default is the end, so that a plan counts 0; in an empty log that is right for a person too.
    """
    if group.offsets is None:
        return np.full(group.P, UNKNOWN)
    o = group.offsets
    empty = (o.end == 0) | ((o.end == o.begin) & (o.end != UNKNOWN))
    start_known = (o.committed != UNKNOWN) | (group.auto_offset_reset != "latest") | empty
    known = (o.lag != UNKNOWN) | (group.lag_known & start_known)
    return np.where(known, group.lag, UNKNOWN)


def observed_lag_known(group: Group) -> bool:
    """Whether the lag of some wanted partition is known."""
    return bool((group.wanted & (observed_lag(group) != UNKNOWN)).any())


def topic_shares(group: Group, owner: Ints) -> list[tuple[int, float]]:
    """Of each wanted topic with two partitions and more, the greatest share of them on one member."""
    largest = []
    for topic in np.flatnonzero(group.wanted_topic & (np.diff(group.start) >= LEAST_SHARED)).tolist():
        held = owner[group.partitions(topic)]
        counts = np.bincount(held[held != NOBODY], minlength=1)
        largest.append((topic, int(counts.max()) / len(held)))
    return largest

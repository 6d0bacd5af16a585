"""From a round's answers about a group to its state: arrays, lag in time, distance to the best plan, concentration.

What depends on members and owners alone is worked out when they change, not at every round: of a cluster of thousands
of groups few change in ten seconds, while all commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np

from apportion.arrays import NOBODY, UNKNOWN, Bools, Longs
from apportion.history.lag_time import Age, LagTime, LagTimes, Samples, lag_times, of_groups
from apportion.history.rebalance_rows import fairest
from apportion.history.time_window import unread_of
from apportion.model.build import build
from apportion.model.group import Group
from apportion.model.lag import WINDOW_S
from apportion.model.measures import measure
from apportion.model.protocols import CLASSIC, OTHERS
from apportion.serve.end_times import AllEnds, Commits
from apportion.serve.faults import Faults
from apportion.serve.names import nameless, nameless_sighting, shown_ids
from apportion.serve.past import GroupPast
from apportion.serve.pauses import Pauses
from apportion.serve.settings import ServerSettings
from apportion.serve.snapshot import Distance, GroupState
from apportion.serve.tails import ReadUpTo, Tails
from apportion.sighting.sighting import Sighting
from apportion.sources import live
from apportion.sources.cluster_round import DescribedGroup, TopicLog

NO_COMMITS: Final[Mapping[tuple[str, int], int]] = MappingProxyType({})
SIDES: Final = ("begin", "end", "committed", "lag")


class RoundGroup(NamedTuple):
    """A group of a round: as arrays, its source, its members' shown ids, up to which offset all is read."""

    group: Group
    key: Any
    ids: Mapping[str, str]
    read: ReadUpTo


def group_with_offsets(
    described: DescribedGroup, logs: Mapping[str, TopicLog], old: GroupState | None, tails: Tails | None = None,
    stale: Mapping[tuple[str, int], int] = NO_COMMITS,
) -> RoundGroup:  # fmt: skip
    """The group as arrays.

    A group whose members, owners and partitions are those of the round before is that group with new offsets.

    tails
        What is known of logs' ends behind commits.
    stale
        Commits on topics that were made anew since: their lag is not known.
    """
    topics, committed = tuple(sorted(described.topics)), described.committed
    known = [logs.get(topic) for topic in topics]
    shapes = tuple((log.topic_id, log.number.tobytes(), log.racks) if log is not None else None for log in known)
    key = (described.facts["members"], topics, shapes, frozenset(committed))
    if old is not None and old.key is not None and old.key[0] == key and not old.gone:
        # The same object again, so that whoever compares it later is done at once.
        key, shape, ids = old.key
    else:
        shape, ids = live.shape_of(described, logs), shown_ids(described.facts["members"])
    offsets = live.offsets_of(shape, committed, logs)
    if stale.items() & committed.items():
        foreign = np.array([committed.get(place := shape.name_of(p), -2) == stale.get(place) for p in range(shape.P)])
        begin, end = (np.where(foreign, UNKNOWN, side) for side in (offsets.begin, offsets.end))
        offsets = replace(offsets, begin=begin, end=end)
    group = shape.with_offsets(offsets)
    read = ReadUpTo.of_commits(group) if tails is None else tails.of(group)
    if read.looked.any():
        group = group.with_offsets(replace(offsets, lag=read.lag(offsets.committed, offsets.begin, offsets.end)))
    return RoundGroup(group, key, ids, read)


def group_state(
    described: DescribedGroup,
    built: RoundGroup,
    logs: Mapping[str, TopicLog],
    at: float,
    past: GroupPast,
    old: GroupState | None,
    times: tuple[LagTimes, LagTime],
    commits: Commits,
    settings: ServerSettings,
    noted: tuple[str, ...],
    faults: Faults | None = None,
) -> GroupState:
    """One group as it was just seen.

    faults
        Where it says what of it cannot be worked out.
    """
    faults = Faults() if faults is None else faults
    group, key, ids, read = built
    same = old if old is not None and old.key is not None and old.key[0] == key else None
    shown = _shown_group(group, ids, same, settings)
    sighting = live.seen_with(described, shown, logs)
    if sighting.generation is None and past.generations and sighting.protocol == CLASSIC:
        sighting = replace(sighting, generation=past.read_generation)
    if not settings.personal:
        sighting = nameless_sighting(sighting, ids)
    # How fair it is, a consumer's strategy cannot tell of tasks that move whole, nor of what is shared.
    judged = sighting.protocol not in OTHERS
    far, concentrated = (None, None) if same is None else (same.distance, same.concentration)
    if same is None or faults.sentences(group.name):
        far = faults.guard(group.name, "distance to the fairest sharing", partial(distance, group)) if judged else None
        concentrated = faults.guard(group.name, "concentration", partial(concentration, group))
    return GroupState(
        # The same object where all is as before: what was worked out of it holds.
        sighting=same.sighting if same is not None and _as_before(same.sighting, sighting) else sighting,
        times=times[0],
        whole=times[1],
        seen=at,
        past=past,
        distance=far,
        concentration=concentrated,
        key=(key, group, ids),
        noted=noted,
        commits=commits,
        pauses=pauses_then(group, times[0], at, old),
        read=read,
        source=settings.source,
        manned=group if group.M else old.manned if old is not None else None,
    )


def _shown_group(group: Group, ids: Mapping[str, str], same: GroupState | None, settings: ServerSettings) -> Group:
    """The group as it may be shown.

    same
        Its state of before, where it had the same members and partitions.
    """
    if settings.personal:
        return group
    if same is not None and group.offsets is not None:
        return same.group.with_offsets(group.offsets)
    return nameless(group, ids)


def _as_before(old: Sighting, new: Sighting) -> bool:
    """Whether nothing has changed of a group with the same members and partitions."""
    before, after = old.group.offsets, new.group.offsets
    if before is None or after is None or replace(new, group=old.group) != old:
        return False
    return all(np.array_equal(getattr(before, side), getattr(after, side)) for side in SIDES)


def renewed(name: str, past: GroupPast, at: float) -> GroupState:
    """A group of which nothing is known but that it is listed."""
    empty = build({"group": name, "topics": {}, "members": {}})
    no_floats, no_longs = np.empty(0), np.empty(0, dtype=np.int64)
    times = LagTimes(no_floats, no_floats, no_floats, no_longs, no_longs, no_floats, no_floats, no_floats)
    unknown = LagTime(Age(None, None, None))
    return GroupState(sighting=Sighting(empty), times=times, whole=unknown, seen=at, past=past)


ROWS_AT_ONCE: Final = 2_500
"""Partitions whose samples are laid side by side at one time: some megabytes."""


Timed = tuple[Group, Commits, Bools | None]
"""A group, what it had committed, and (P,) where what is unread is known to be messages."""


def lag_times_of(groups: Sequence[Timed], ends: AllEnds, now: float) -> Iterator[tuple[LagTimes, LagTime]]:
    """Lag in time of each group's partitions, and of each as a whole, by the one rule; many groups in one pass."""
    batch: list[Timed] = []
    rows = 0
    for timed in groups:
        batch.append(timed)
        rows += timed[0].P
        if rows >= ROWS_AT_ONCE:
            yield from _lag_times_of(batch, ends, now * 1000)
            batch, rows = [], 0
    if batch:
        yield from _lag_times_of(batch, ends, now * 1000)


def _lag_times_of(groups: Sequence[Timed], ends: AllEnds, now_ms: float) -> Iterator[tuple[LagTimes, LagTime]]:
    start = np.cumsum([0, *(group.P for group, *_ in groups)])
    columns = np.concatenate([ends.columns(group) for group, *_ in groups])
    committed = Samples.joined([Samples.of_table(commits.at, commits.offsets) for _, commits, _ in groups])
    sides = [unread_of(group) for group, *_ in groups]
    unread, lag = (np.concatenate([side[i] for side in sides]) for i in range(2))
    messages = np.concatenate([np.zeros(group.P, dtype=np.bool_) if m is None else m for group, _, m in groups])
    since_ms = now_ms - WINDOW_S * 1000
    times = lag_times(ends.samples.of_columns(columns), committed, unread, lag, now_ms, since_ms, messages)
    owner = np.concatenate([group.owner for group, *_ in groups])
    whole = of_groups(times, owner, np.array([group.M for group, *_ in groups]), start)
    for i, (first, behind) in enumerate(pairwise(start.tolist())):
        yield times.part(first, behind), whole.row(i)


def pauses_then(group: Group, times: LagTimes, at: float, old: GroupState | None) -> Pauses:
    """For how long the group's commits have not moved, this round included."""
    committed = np.full(group.P, UNKNOWN) if group.offsets is None else group.offsets.committed
    if old is None or not old.group.same_partitions(group) or len(old.pauses.committed) != group.P:
        return Pauses.begin(committed, at)
    return old.pauses.then(committed, times.to_read, times.written, at)


def commits_then(group: Group, at: float, old: GroupState | None) -> Commits:
    """The group's commits at the last rounds, this one included."""
    known = old is not None and old.group.same_partitions(group)
    commits = old.commits if known and old is not None else Commits.none(group.P)
    return commits if group.offsets is None else commits.then(at, np.maximum(group.offsets.committed, UNKNOWN))


def distance(group: Group) -> Distance | None:
    """How far the group is from the fairest sharing; None if no members live, a member's share is not given out
    just now, or the best is not proved.
    """
    if not group.M or not group.P or bool((group.wanted & (group.owner == NOBODY)).any()):
        return None
    best = fairest(group)
    if best is None:
        return None
    now = measure(group, group.owner)
    return Distance(best.measures["moves"], now["load_squares"] - best.measures["load_squares"])


def concentration(group: Group) -> float | None:
    """The greatest share of one topic's partitions, of topics of two and more, on one member; None without any."""
    held = group.owner != NOBODY
    if not held.any():
        return None
    sizes = np.diff(group.start)
    cells: Longs = group.topic_of[held] * group.M + group.owner[held]
    pairs, count = np.unique(cells, return_counts=True)
    size = sizes[pairs // group.M]
    wide = size > 1
    return float((count[wide] / size[wide]).max()) if wide.any() else None

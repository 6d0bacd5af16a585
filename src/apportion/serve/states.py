"""From what a round saw of a group to its state: arrays, lag in time, distance to the best plan, concentration.

What depends on members and owners alone is worked out when they change, not at every round: of a cluster of thousands
of groups few change in ten seconds, while all commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

import numpy as np

from apportion.arrays import NOBODY, UNKNOWN, Floats, Longs
from apportion.assignors import Assignor, find
from apportion.errors import ApportionError
from apportion.history.fold import OTHERS
from apportion.history.rebalances import LEAST
from apportion.inputs import live
from apportion.inputs.cluster_round import SeenGroup, TopicLog
from apportion.model.build import build
from apportion.model.group import Group, Offsets
from apportion.model.measures import loads, measure
from apportion.planning import plan
from apportion.report.describing import ShownGroup
from apportion.serve.end_times import EndTimes
from apportion.serve.names import nameless, nameless_seats, nameless_text, shown_ids
from apportion.serve.past import GroupPast
from apportion.serve.settings import Settings
from apportion.serve.state import Distance, GroupState
from apportion.sizing.size import size

PACE_ROUNDS: Final = 12
"""Rounds over which the pace of reading and writing is taken."""


@dataclass(frozen=True)
class Entries:
    """Every topic in two forms: as a round saw it, and as entries of group.json without offsets of a group."""

    logs: Mapping[str, TopicLog]
    of_topic: Mapping[str, list[dict[str, Any]]]
    by_number: Mapping[str, Mapping[int, dict[str, Any]]]
    ids: Mapping[str, str]


def entries_of(logs: Mapping[str, TopicLog]) -> Entries:
    """The topics of a round."""
    of_topic = {}
    for name, log in logs.items():
        rows = []
        for number, begin, end, racks in zip(
            log.number.tolist(), log.begin.tolist(), log.end.tolist(), log.racks, strict=True
        ):
            entry: dict[str, Any] = {"partition": number}
            if racks:
                entry["racks"] = list(racks)
            if begin != UNKNOWN:
                entry["begin"] = begin
            if end != UNKNOWN:
                entry["end"] = end
            rows.append(entry)
        of_topic[name] = rows
    by_number = {name: {e["partition"]: e for e in rows} for name, rows in of_topic.items()}
    return Entries(logs, of_topic, by_number, {name: log.topic_id for name, log in logs.items() if log.topic_id})


def group_with_offsets(
    one: SeenGroup, entries: Entries, old: GroupState | None
) -> tuple[Group, Any, Mapping[str, str]]:
    """The group as arrays, what it was made of, and its members' shown ids.

    A group whose members, owners and partitions are those of the round before is that group with new offsets.
    """
    topics = tuple(sorted({*one.description["wanted"], *(topic for topic, _ in one.committed)}))
    logs = [entries.logs.get(topic) for topic in topics]
    shapes = tuple((log.topic_id, log.number.tobytes(), log.racks) if log is not None else None for log in logs)
    key = (one.description["members"], topics, shapes, frozenset(one.committed))
    if old is not None and old.key is not None and old.key[0] == key and not old.gone:
        _, real, ids = old.key
        return replace(real, offsets=_offsets(real, one.committed, entries.logs)), key, ids
    observed = live.observed_group(one.name, one.description, one.committed, entries.by_number, entries.ids)
    return build(observed.raw), key, shown_ids(one.description["members"])


def _offsets(group: Group, committed: Mapping[tuple[str, int], int], logs: Mapping[str, TopicLog]) -> Offsets:
    begin, end = (np.full(group.P, UNKNOWN, dtype=np.int64) for _ in range(2))
    commits = np.full(group.P, UNKNOWN, dtype=np.int64)
    number = group.number.tolist()
    for t, topic in enumerate(group.topics):
        mine = group.partitions(t)
        log = logs.get(topic)
        if log is not None:
            rows = np.searchsorted(log.number, group.number[mine])
            rows = np.minimum(rows, len(log.number) - 1)
            there = log.number[rows] == group.number[mine]
            begin[mine], end[mine] = np.where(there, log.begin[rows], UNKNOWN), np.where(there, log.end[rows], UNKNOWN)
        commits[mine] = [committed.get((topic, p), UNKNOWN) for p in number[mine]]
    return Offsets(begin, end, commits, np.full(group.P, UNKNOWN, dtype=np.int64))


def group_state(
    one: SeenGroup,
    group: Group,
    key: Any,
    ids: Mapping[str, str],
    at: float,
    past: GroupPast,
    old: GroupState | None,
    ends: Mapping[str, EndTimes],
    settings: Settings,
    says: tuple[str, ...],
) -> GroupState:
    """One group as it was just seen."""
    description = one.description
    spoken = [text if settings.personal else nameless_text(text, ids) for text in description["says"]]
    facts = {name: description[name] for name in ("state", "protocol", "kind", "generation")}
    if facts["generation"] is None and past.generations and description["kind"] == "classic":
        facts["generation"] = past.read_generation
    seats = description.get("seats", ())
    shown = ShownGroup(
        group if settings.personal else nameless(group, ids),
        {**facts, "coordinator": one.coordinator},
        spoken,
        seats if settings.personal else nameless_seats(seats, ids),
    )
    # How fair it is, a consumer's strategy cannot tell of tasks that move whole, nor of what is shared.
    judged = description["kind"] not in OTHERS
    same = old is not None and old.key is not None and old.key[0] == key
    seconds = lag_seconds(group, ends, at)
    commits = old.commits if same and old is not None else ()
    if group.offsets is not None:
        commits = (*commits, (at, group.offsets.committed))[-PACE_ROUNDS:]
    return GroupState(
        shown=shown,
        seconds=seconds,
        seen=at,
        past=past,
        distance=(old.distance if same and old is not None else distance(group)) if judged else None,
        concentration=old.concentration if same and old is not None else concentration(group),
        catch_up_s=catch_up(group, seconds, commits, ends, settings.caught_up_s),
        advised_members=old.advised_members if old is not None else None,
        key=(key, group, ids),
        says=says,
        commits=commits,
    )


def renewed(name: str, past: GroupPast, at: float) -> GroupState:
    """A group of which nothing is known but that it is listed."""
    empty = build({"group": name, "topics": {}, "members": {}})
    return GroupState(ShownGroup(empty, {}, ()), np.empty(0), at, past)


def lag_seconds(group: Group, ends: Mapping[str, EndTimes], now: float) -> Floats:
    """(P,) how long ago each partition's first unread message was written; NaN unknown."""
    seconds = np.full(group.P, np.nan)
    if group.offsets is None:
        return seconds
    for t, topic in enumerate(group.topics):
        table, mine = ends.get(topic), group.partitions(t)
        if table is None:
            continue
        rows = np.searchsorted(table.number, group.number[mine])
        if len(rows) and (rows < len(table.number)).all() and (table.number[rows] == group.number[mine]).all():
            seconds[mine] = table.lag_seconds(rows, group.offsets.committed[mine], now)
    return seconds


def paces(group: Group, ends: Mapping[str, EndTimes], since: float) -> Floats:
    """(P,) messages written a second since a moment; NaN unknown."""
    pace = np.full(group.P, np.nan)
    for t, topic in enumerate(group.topics):
        table, mine = ends.get(topic), group.partitions(t)
        if table is not None and len(table.number):
            rows = np.minimum(np.searchsorted(table.number, group.number[mine]), len(table.number) - 1)
            pace[mine] = np.where(table.number[rows] == group.number[mine], table.rate(rows, since), np.nan)
    return pace


def catch_up(
    group: Group,
    seconds: Floats,
    commits: tuple[tuple[float, Longs], ...],
    ends: Mapping[str, EndTimes],
    caught_up_s: float,
) -> float | None:
    """Seconds until the slowest member has read what it is behind; see ``GroupState.catch_up_s``.

    caught_up_s
        A partition whose first unread message is not older is not behind: a reader commits now and then.

    A member reads its partitions with one pace: what all of them together are read faster than written.
    """
    behind = (group.lag > 0) & (seconds > caught_up_s) & group.lag_known
    if not group.P or np.isnan(seconds).all():
        return None
    if not behind.any():
        return 0.0
    if (behind & (group.owner == NOBODY)).any():
        return float("inf")
    if len(commits) < 2:
        return None
    (first_at, first), (last_at, last) = commits[0], commits[-1]
    written = paces(group, ends, first_at)
    known = (first != UNKNOWN) & (last != UNKNOWN) & ~np.isnan(written)
    read = np.where(known, (last - first) / max(last_at - first_at, 1e-3), 0.0)
    gain = np.where(known, read - np.nan_to_num(written), 0.0)
    mine = group.owner != NOBODY
    members = np.bincount(group.owner[mine], weights=gain[mine], minlength=group.M)
    left = np.bincount(group.owner[behind], weights=group.lag[behind].astype(np.float64), minlength=group.M)
    late = left > 0
    if (members[late] <= 0).any():
        return float("inf")
    return float((left[late] / members[late]).max())


def advised(state: GroupState, ends: Mapping[str, EndTimes], capacity: float) -> int | None:
    """Members that the group's work needs, where a member takes so many messages a second; None where it is unknown."""
    if not state.group.M or len(state.commits) < 2:
        return None
    written = paces(state.group, ends, state.commits[0][0])
    if np.isnan(written).all() or not loads(state.group.owner, state.group.M).any():
        return None
    try:
        return size(replace(state.group, weight=written), capacity, by="weight").advised.members
    except ApportionError:
        return None


@cache
def _least() -> Assignor:
    return find("sticky", LEAST)


def distance(group: Group) -> Distance | None:
    """How far the group is from the fairest sharing; None where no members live, somebody's share is not given out
    just now, or the best is not proved.
    """
    if not group.M or not group.P or bool((group.wanted & (group.owner == NOBODY)).any()):
        return None
    try:
        best = plan(group, _least())
    except ApportionError:
        return None
    if any(best.proof.get(goal) != "optimal" for goal in ("balance", "moves")):
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

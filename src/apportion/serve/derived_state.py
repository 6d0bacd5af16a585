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
from apportion.history.fold import OTHERS
from apportion.history.lag_time import WINDOW_S, Age, LagTime, LagTimes, Samples, lag_times, of_groups
from apportion.history.rebalance_rows import fairest
from apportion.history.time_window import unread_of
from apportion.model.build import build
from apportion.model.group import Group, Offsets
from apportion.model.measures import measure
from apportion.report.describing import ShownGroup
from apportion.serve.end_times import AllEnds, Commits
from apportion.serve.faults import Faults
from apportion.serve.names import nameless, nameless_seats, nameless_text, shown_ids
from apportion.serve.past import GroupPast
from apportion.serve.pauses import Pauses
from apportion.serve.settings import ServerSettings
from apportion.serve.snapshot import Distance, GroupState
from apportion.serve.tails import ReadUpTo, Tails
from apportion.sources import live
from apportion.sources.cluster_round import DescribedGroup, Entries, TopicLog, held_back
from apportion.sources.described_group import Observed

NO_COMMITS: Final[Mapping[tuple[str, int], int]] = MappingProxyType({})
SIDES: Final = ("begin", "end", "committed", "lag")


class RoundGroup(NamedTuple):
    """A group of a round: as arrays, what it was made of, its members' shown ids, up to where nothing is unread, and
    the last stable offsets where transactions are open.
    """

    group: Group
    key: Any
    ids: Mapping[str, str]
    read: ReadUpTo
    stable: Mapping[tuple[str, int], int] = MappingProxyType({})


def group_with_offsets(
    described: DescribedGroup, entries: Entries, old: GroupState | None, tails: Tails | None = None,
    stale: Mapping[tuple[str, int], int] = NO_COMMITS,
) -> RoundGroup:  # fmt: skip
    """The group as arrays.

    A group whose members, owners and partitions are those of the round before is that group with new offsets.

    tails
        What is known of logs' ends behind commits.
    stale
        Commits on topics that were made anew since: their lag is not known.
    """
    topics = tuple(sorted(described.topics))
    logs = [entries.logs.get(topic) for topic in topics]
    shapes = tuple((log.topic_id, log.number.tobytes(), log.racks) if log is not None else None for log in logs)
    key = (described.description["members"], topics, shapes, frozenset(described.committed))
    if old is not None and old.key is not None and old.key[0] == key and not old.gone:
        # The same object again, so that whoever compares it later is done at once.
        key, real, ids = old.key
    else:
        observed = live.observed_group(
            described.name, described.description, described.committed, entries.by_number, entries.ids
        )
        real, ids = build(observed.raw), shown_ids(described.description["members"])
    current = {pair: offset for pair, offset in described.committed.items() if stale.get(pair) != offset}
    group = real.with_offsets(_offsets(real, described.committed, entries.logs))
    if len(current) < len(described.committed):
        group = _without_ends(group, current)
    read = ReadUpTo.of_commits(group) if tails is None else tails.of(group)
    if read.looked.any() and group.offsets is not None:
        offsets = group.offsets
        lag = read.lag(offsets.committed, offsets.begin, offsets.end)
        group = group.with_offsets(replace(offsets, lag=lag))
    return RoundGroup(group, key, ids, read, held_back(described, entries.logs))


def _without_ends(group: Group, current: Mapping[tuple[str, int], int]) -> Group:
    """The group without the log ends of commits that are of another topic of the same name."""
    assert group.offsets is not None  # noqa: S101 - it was just given some
    of_now = np.array([group.name_of(p) in current for p in range(group.P)], dtype=np.bool_)
    foreign = (group.offsets.committed != UNKNOWN) & ~of_now
    begin, end = (np.where(foreign, UNKNOWN, side) for side in (group.offsets.begin, group.offsets.end))
    return group.with_offsets(replace(group.offsets, begin=begin, end=end))


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
            known = log.number[rows] == group.number[mine]
            begin[mine], end[mine] = np.where(known, log.begin[rows], UNKNOWN), np.where(known, log.end[rows], UNKNOWN)
        commits[mine] = [committed.get((topic, p), UNKNOWN) for p in number[mine]]
    return Offsets(begin, end, commits, np.full(group.P, UNKNOWN, dtype=np.int64))


def group_state(
    described: DescribedGroup,
    built: RoundGroup,
    at: float,
    past: GroupPast,
    old: GroupState | None,
    times: tuple[LagTimes, LagTime],
    commits: Commits,
    settings: ServerSettings,
    sentences: tuple[str, ...],
    faults: Faults | None = None,
) -> GroupState:
    """One group as it was just seen.

    faults
        Where it says what of it cannot be worked out.
    """
    faults = Faults() if faults is None else faults
    group, key, ids, read, _ = built
    description = described.description
    spoken = [text if settings.personal else nameless_text(text, ids) for text in description["sentences"]]
    facts = {name: description[name] for name in ("state", "protocol", "kind", "generation")}
    if facts["generation"] is None and past.generations and description["kind"] == "classic":
        facts["generation"] = past.read_generation
    seats, carriers = description.get("seats", ()), description.get("assigned_data")
    names: Mapping[str, str] = {} if settings.personal else ids
    same = old is not None and old.key is not None and old.key[0] == key
    seats = seats if settings.personal else nameless_seats(seats, ids)
    under = description.get("governed")
    seen = Observed(
        {"group": group.name}, **facts, coordinator=described.coordinator, sentences=spoken, members=seats,
        governed=under, stable=built.stable,
    )  # fmt: skip
    shown = ShownGroup(_shown_group(group, ids, old if same else None, settings), seen)
    # How fair it is, a consumer's strategy cannot tell of tasks that move whole, nor of what is shared.
    judged = description["kind"] not in OTHERS
    far, concentrated = (old.distance, old.concentration) if same and old is not None else (None, None)
    if not same or faults.sentences(group.name):
        far = faults.guard(group.name, "distance to the fairest sharing", partial(distance, group)) if judged else None
        concentrated = faults.guard(group.name, "concentration", partial(concentration, group))
    return GroupState(
        # The same object where all is as before: what was worked out of it holds.
        shown=old.shown if same and old is not None and _as_before(old.shown, shown) else shown,
        times=times[0],
        whole=times[1],
        seen=at,
        past=past,
        distance=far,
        concentration=concentrated,
        key=(key, group, ids),
        sentences=sentences,
        commits=commits,
        pauses=pauses_then(group, times[0], at, old),
        assigned_data=None if carriers is None else tuple(names.get(member, member) for member in carriers),
        read=read,
        plan=(under.published_s, len(under.differs)) if under else None,
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


def _as_before(old: ShownGroup, new: ShownGroup) -> bool:
    """Whether nothing has changed of a group with the same members and partitions."""
    before, after = old.group.offsets, new.group.offsets
    if before is None or after is None:
        return False
    return all(np.array_equal(getattr(before, side), getattr(after, side)) for side in SIDES) and old.seen == new.seen


def renewed(name: str, past: GroupPast, at: float) -> GroupState:
    """A group of which nothing is known but that it is listed."""
    empty = build({"group": name, "topics": {}, "members": {}})
    no_floats, no_longs = np.empty(0), np.empty(0, dtype=np.int64)
    times = LagTimes(no_floats, no_floats, no_floats, no_longs, no_longs, no_floats, no_floats, no_floats)
    unknown = LagTime(Age(None, None, None))
    return GroupState(ShownGroup(empty, Observed({"group": name})), times, unknown, at, past)


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


def lag_times_of_one(group: Timed, ends: AllEnds, now: float) -> tuple[LagTimes, LagTime]:
    """The same of one group."""
    (times,) = lag_times_of([group], ends, now)
    return times


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
    """For how long the group's commits have stood still, this round included."""
    committed = np.full(group.P, UNKNOWN) if group.offsets is None else group.offsets.committed
    if old is None or not old.group.same_partitions(group) or len(old.pauses.committed) != group.P:
        return Pauses.begin(committed, at)
    return old.pauses.then(committed, times.to_read, times.written, at)


def commits_then(group: Group, at: float, old: GroupState | None) -> Commits:
    """What the group had committed at the last rounds, this one included."""
    known = old is not None and old.group.same_partitions(group)
    commits = old.commits if known and old is not None else Commits.none(group.P)
    return commits if group.offsets is None else commits.then(at, np.maximum(group.offsets.committed, UNKNOWN))


def distance(group: Group) -> Distance | None:
    """How far the group is from the fairest sharing; None where no members live, somebody's share is not given out
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

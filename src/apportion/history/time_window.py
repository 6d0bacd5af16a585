"""The measures of a group over a window: rates and how they were found, lag in time, members' speeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from apportion.arrays import NOBODY, UNKNOWN, Floats, Longs
from apportion.history import lag_time
from apportion.history.lag_time import LagTime, LagTimes, Samples, Series
from apportion.history.member_speeds import Speed, speed_of
from apportion.model.group import Group, Offsets
from apportion.wording import count

AllSeries = Mapping[tuple[str, int], Series]


@dataclass(frozen=True, eq=False)
class Rates:
    """weight: (P,) messages a second, NaN unknown; how: sentences for people."""

    weight: Floats
    how: list[str]


def newest(series: AllSeries) -> int:
    """The last moment (ms) with a known log end, else a commit; 0 if there is none."""
    for side in ("ends", "commits"):
        last = max((samples[-1][0] for known in series.values() if (samples := getattr(known, side))), default=0)
        if last:
            return last
    return 0


def rates(group: Group, series: AllSeries, window_s: float) -> Rates:
    """Each wanted partition's rate over the last seconds: written, by its log's ends, else read, by its commits."""
    since = round(newest(series) - window_s * 1000)
    ends, commits = samples_of(group, series)
    written, read = lag_time.rates(ends, since), lag_time.rates(commits, since)
    by_end = group.wanted & ~np.isnan(written)
    by_commit = group.wanted & ~by_end & ~np.isnan(read)
    weight = np.where(by_end, written, np.where(by_commit, read, np.nan)).round(3)
    unknown = int((group.wanted & ~by_end & ~by_commit).sum())
    ends_n, commits_n = int(by_end.sum()), int(by_commit.sum())
    parts = [
        *([f"of {count(ends_n, 'partition')} by what was written to their logs"] if ends_n else []),
        *([f"of {count(commits_n, 'partition')} by their commits, as fast as they are read"] if commits_n else []),
        *([f"of {count(unknown, 'partition')} not at all"] if unknown else []),
    ]
    return Rates(
        weight, [f"Weights are messages a second over {window_s:g} s, measured {', '.join(parts)}."] if parts else []
    )


def samples_of(group: Group, series: AllSeries) -> tuple[Samples, Samples]:
    """The log ends and the commits of all partitions of a group."""
    rows = [series.get(group.name_of(p), Series()) for p in range(group.P)]
    return Samples.of([row.ends for row in rows]), Samples.of([row.commits for row in rows])


def unread_of(group: Group) -> tuple[Longs, Longs]:
    """(P,) the first offset that is still to be read, and the messages left; -1 unknown.

    Both are unknown without a commit, and of a topic that no living member wants: what it left, a group owes nothing.
    Where nothing is left, the first unread offset is the log's end, though markers may stand behind the commit.
    """
    offsets = group.offsets
    if offsets is None:
        nothing = np.full(group.P, UNKNOWN, dtype=np.int64)
        return nothing, nothing
    committed = offsets.committed != UNKNOWN
    # What retention deleted is not read any more: the first message that can be is the log's first.
    unread = np.where(committed, np.maximum(offsets.committed, offsets.begin), UNKNOWN)
    known = group.lag_known & (committed | (offsets.lag != UNKNOWN))
    unread = np.where(known & (group.lag == 0), np.maximum(unread, offsets.end), unread)
    owed = group.wanted if group.M else np.ones(group.P, dtype=np.bool_)
    return np.where(owed, unread, UNKNOWN), np.where(known & owed, group.lag, UNKNOWN)


def as_of_last_look(group: Group, series: AllSeries) -> Group:
    """The group with the newest offsets of the series, if these are newer than the group: of a live cluster."""
    if group.offsets is None:
        return group
    end, committed = group.offsets.end.copy(), group.offsets.committed.copy()
    for p in range(group.P):
        known = series.get(group.name_of(p), Series())
        end[p] = known.ends[-1][1] if known.ends else end[p]
        committed[p] = known.commits[-1][1] if known.commits else committed[p]
    return replace(group, offsets=Offsets(group.offsets.begin, end, committed, group.offsets.lag))


@dataclass(frozen=True, eq=False)
class GroupTime:
    """Lag in time of a group: of its partitions (P,), of its members (M,), and of the whole; members' speeds.

    seen
        (P,) whether anything is known of a partition over time.
    """

    partitions: LagTimes
    members: LagTimes
    whole: LagTime
    speeds: Mapping[str, Speed]
    seen: list[bool]


def group_time(
    group: Group, series: AllSeries, window_s: float, held_since_ms: int | None = None, now_ms: int | None = None,
    with_speeds: bool = True,
) -> GroupTime:  # fmt: skip
    """The lag in time at a moment.

    held_since_ms
        Since when members have held what they hold: their speeds count from then on.
    now_ms
        The moment; by default the last that anything is known of.
    """
    now = newest(series) if now_ms is None else now_ms
    since = round(now - window_s * 1000)
    unread, lag = unread_of(group)
    times = lag_time.lag_times(*samples_of(group, series), unread, lag, now, since)
    return GroupTime(
        times,
        lag_time.of_readers(times, group.owner, group.M),
        lag_time.of_group(times, group.owner, group.M).row(0),
        speeds(group, series, max(since, since if held_since_ms is None else held_since_ms), now)
        if with_speeds
        else {},
        [group.name_of(p) in series for p in range(group.P)],
    )


def speeds(group: Group, series: AllSeries, since_ms: int, until_ms: int) -> dict[str, Speed]:
    """Each member's speed on its partitions, while it had something to read."""
    held: list[list[Series]] = [[] for _ in range(group.M)]
    for p, owner in enumerate(group.owner.tolist()):
        known = series.get(group.name_of(p))
        if owner != NOBODY and known is not None:
            held[owner].append(known)
    return {name: speed_of(mine, since_ms, until_ms) for name, mine in zip(group.members, held, strict=True)}


def learned_capacity(member_speeds: Mapping[str, Speed]) -> tuple[float | None, str]:
    """A member's capacity, by the members' own speeds: the median of their medians; and a sentence that says how."""
    known = {name: s for name, s in member_speeds.items() if s.median and round(s.median, 3)}
    if not known:
        if any(s.median is not None for s in member_speeds.values()):
            return None, "the members that had lag read nothing meanwhile"
        most = max((s.intervals for s in member_speeds.values()), default=0)
        return None, f"no member had lag in enough intervals for a speed: {most} at most"
    medians = sorted(float(s.median or 0) for s in known.values())
    middle = round(medians[len(medians) // 2], 3)
    low = min(float(s.low or 0) for s in known.values())
    high = max(float(s.high or 0) for s in known.values())
    spread = f"quartiles from {low:,.4g} to {high:,.4g}"
    fewest = min(s.measured for s in known.values())
    if not all(s.spread_known for s in known.values()):
        times = "once" if fewest == 1 else f"{fewest} times"
        spread = f"measured {times}, between two commits, so that its spread is not known"
    return middle, (
        f"A member takes {middle:,.4g} messages a second, as {count(len(known), 'member')} of {len(member_speeds)} did "
        f"while they had lag ({spread})."
    )

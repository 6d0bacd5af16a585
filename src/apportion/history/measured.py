"""What was measured of a group over a window: rates and how they were come by, lag in time, members' speeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from apportion.arrays import NOBODY, Floats
from apportion.history.lag_time import LagTime, Series, Speed, SpeedSamples, busy_rates, lag_time, rate, together
from apportion.model.group import Group
from apportion.wording import count

AllSeries = Mapping[tuple[str, int], Series]


@dataclass(frozen=True, eq=False)
class Rates:
    """weight: (P,) messages a second, NaN unknown; how: sentences for people."""

    weight: Floats
    how: list[str]


def newest(series: AllSeries) -> int:
    """The last moment (ms) of which anything is known; 0 where nothing is."""
    return max((samples[-1][0] for one in series.values() for samples in (one.ends, one.commits) if samples), default=0)


def rates(group: Group, series: AllSeries, window_s: float) -> Rates:
    """Each wanted partition's rate over the last seconds: written, by its log's ends, else read, by its commits."""
    now = newest(series)
    since = round(now - window_s * 1000)
    weight = np.full(group.P, np.nan)
    by_end = by_commit = unknown = 0
    for p in np.flatnonzero(group.wanted).tolist():
        one = series.get(group.name_of(p), Series())
        written = rate(one.ends, since)
        value = written if written is not None else rate(one.commits, since)
        by_end += written is not None
        by_commit += written is None and value is not None
        unknown += value is None
        if value is not None:
            weight[p] = round(value, 3)
    parts = [
        *([f"of {count(by_end, 'partition')} by what was written to their logs"] if by_end else []),
        *([f"of {count(by_commit, 'partition')} by their commits, as fast as they are read"] if by_commit else []),
        *([f"of {count(unknown, 'partition')} not at all"] if unknown else []),
    ]
    return Rates(
        weight, [f"Weights are messages a second over {window_s:g} s, measured {', '.join(parts)}."] if parts else []
    )


@dataclass(frozen=True)
class GroupTime:
    """Lag in time of a group: of each partition (topic, id), of each member, and of the whole; members' speeds."""

    partitions: Mapping[tuple[str, int], LagTime]
    members: Mapping[str, LagTime]
    whole: LagTime
    speeds: Mapping[str, Speed]


def group_time(group: Group, series: AllSeries, window_s: float, held_since_ms: int | None = None) -> GroupTime:
    """The lag in time at the last moment that anything is known of.

    held_since_ms
        Since when members have held what they hold: their speeds count from then on.
    """
    now = newest(series)
    since = round(now - window_s * 1000)
    places = [group.name_of(p) for p in range(group.P)]
    each = {key: lag_time(series[key], now, since) for key in places if key in series}
    members, speeds = {}, {}
    for m, name in enumerate(group.members):
        mine = [places[p] for p in np.flatnonzero(group.owner == m).tolist()]
        known = [each[key] for key in mine if key in each]
        members[name] = together(known, one_reader=True)
        held = [series[key] for key in mine if key in series]
        start = max(since, held_since_ms if held_since_ms is not None else since)
        speeds[name] = SpeedSamples(busy_rates(held, start, now)).speed()
    nobody = [each[key] for p, key in enumerate(places) if key in each and group.owner[p] == NOBODY]
    whole = together([*(t for t in members.values() if t.lag is not None), *nobody])
    return GroupTime(each, members, whole, speeds)


def learned_capacity(times: GroupTime) -> tuple[float | None, str]:
    """What a member takes, by the members' own speeds: the median of their medians; and a sentence that says how."""
    known = {name: s for name, s in times.speeds.items() if s.median}
    if not known:
        most = max((s.intervals for s in times.speeds.values()), default=0)
        return None, f"no member had lag in enough intervals to tell its speed: {most} at most"
    medians = sorted(float(s.median or 0) for s in known.values())
    middle = round(medians[len(medians) // 2], 3)
    low = min(float(s.low or 0) for s in known.values())
    high = max(float(s.high or 0) for s in known.values())
    return middle, (
        f"A member takes {middle:,.4g} messages a second, as {count(len(known), 'member')} of {len(times.speeds)} did "
        f"while they had lag (quartiles from {low:,.4g} to {high:,.4g})."
    )

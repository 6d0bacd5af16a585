"""Lag in time as tables: a row a partition, a row a member, and the group in a sentence."""

from __future__ import annotations

from apportion.arrays import NOBODY
from apportion.history.lag_time import Age, LagTime
from apportion.history.measured import GroupTime
from apportion.model.group import Group
from apportion.report.text import Cell, Table

_TIME = ("LAG", "SECONDS", "TREND", "IN-WORDS", "CATCH-UP-S")


def partitions(group: Group, times: GroupTime) -> Table:
    """A row a partition of which anything is known over time."""
    rows: list[tuple[Cell, ...]] = []
    for p in range(group.P):
        topic_partition = group.name_of(p)
        if topic_partition in times.partitions:
            one = times.partitions[topic_partition]
            owner = int(group.owner[p])
            rates = (_rounded(one.written), _rounded(one.read))
            rows.append(
                (group.name, *topic_partition, *_time(one), *rates, None if owner == NOBODY else group.members[owner])
            )
    return Table(("GROUP", "TOPIC", "PARTITION", *_TIME, "WRITTEN", "READ", "CONSUMER-ID"), rows,
                 extra=frozenset({"GROUP"}))  # fmt: skip


def members(group: Group, times: GroupTime) -> Table:
    """A row a member: its lag in time, and how fast it was while it had lag."""
    rows: list[tuple[Cell, ...]] = []
    for name in group.members:
        speed = times.speeds[name]
        spread = None if speed.low is None else f"{_rounded(speed.low)}-{_rounded(speed.high)}"
        rows.append((group.name, name, *_time(times.members[name]), _rounded(speed.median), spread, speed.intervals))
    columns = ("GROUP", "CONSUMER-ID", *_TIME, "SPEED", "SPEED-QUARTILES", "INTERVALS")
    return Table(columns, rows, f"{group.name or 'group'}: lag in time\n", frozenset({"GROUP"}))


def notes(times: GroupTime, window_s: float) -> list[str]:
    """The group, and what the columns say."""
    whole = times.whole
    if whole.lag is None:
        return ["No commit and log end of this group are known together, so that its lag has no age."]
    oldest = "" if whole.age.at_least is None else f"; the oldest unread message is {age_in_words(whole.age)} old"
    ends = "" if whole.catch_up_s is None or not whole.lag else f", gone in {whole.catch_up_s:,.0f} s at this pace"
    lines = [f"{whole.lag:,} messages behind, {whole.in_words}{ends}{oldest}."]
    if any(speed.median is None for speed in times.speeds.values()) and times.speeds:
        lines.append("SPEED is left out where a member had lag in too few intervals to tell.")
    lines.append(f"TREND, WRITTEN and READ are messages a second over the last {window_s:g} s that are known.")
    return lines


def age_in_words(age: Age) -> str:
    """``12 s``, ``between 3 and 9 s`` where the samples leave it open, ``at least 40 s`` beyond the first of them."""
    if age.at_least is None:
        return "unknown"
    if age.seconds is None or age.at_most is None:
        return f"at least {age.at_least:,.0f} s"
    if age.at_most - age.at_least > 1:
        return f"about {age.seconds:,.0f} s ({age.at_least:,.0f} to {age.at_most:,.0f})"
    return f"{age.seconds:,.0f} s"


def _time(one: LagTime) -> tuple[Cell, ...]:
    age = one.age
    seconds: Cell = _rounded(age.seconds)
    if age.seconds is None and age.at_least is not None:
        seconds = f">= {_rounded(age.at_least)}"
    return one.lag, seconds, _rounded(one.trend), one.in_words, _rounded(one.catch_up_s)


def _rounded(value: float | None) -> Cell:
    if value is None:
        return None
    return int(value) if float(value).is_integer() else round(value, 1)

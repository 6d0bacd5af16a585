"""Lag in time as tables: a row a partition, a row a member, and the group in a sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from apportion.arrays import NOBODY
from apportion.history.lag_time import MARKER, SHRINKING, Age, LagTime, LagTimes
from apportion.history.member_speeds import ENOUGH, Speed
from apportion.history.time_window import GroupTime
from apportion.model.group import Group
from apportion.model.lag import MARKERS_MAX
from apportion.report.text import Cell, TextTable
from apportion.wording import count

_TIME = ("LAG", "SECONDS", "TREND", "IN-WORDS", "CATCH-UP-S")


def partitions(group: Group, times: GroupTime) -> TextTable:
    """A row a partition of which anything is known over time."""
    rows: list[tuple[Cell, ...]] = []
    for p in range(group.P):
        if times.seen[p]:
            lag_time = times.partitions.row(p)
            owner = int(group.owner[p])
            rates = (_rounded(lag_time.written), _rounded(lag_time.read))
            reader = None if owner == NOBODY else group.members[owner]
            rows.append((group.name, *group.name_of(p), *_time(lag_time), *rates, reader))
    return TextTable(("GROUP", "TOPIC", "PARTITION", *_TIME, "WRITTEN", "READ", "CONSUMER-ID"), rows,
                 extra=frozenset({"GROUP"}))  # fmt: skip


def members(group: Group, times: GroupTime) -> TextTable:
    """A row a member: its lag in time, and how fast it was while it had lag."""
    rows: list[tuple[Cell, ...]] = []
    for m, name in enumerate(group.members):
        speed = times.speeds[name]
        spread = f"{_rounded(speed.low)}-{_rounded(speed.high)}" if speed.spread_known else None
        rows.append((group.name, name, *_time(times.members.row(m)), _rounded(speed.median), spread, speed.measured))
    columns = ("GROUP", "CONSUMER-ID", *_TIME, "SPEED", "SPEED-QUARTILES", "INTERVALS")
    return TextTable(columns, rows, f"{group.name or 'group'}: lag in time\n", frozenset({"GROUP"}))


def speeds(group: Group, speed_of: Mapping[str, Speed]) -> TextTable:
    """A row a member: how fast it was while it had something to read, with its spread."""
    rows: list[tuple[Cell, ...]] = []
    for name in group.members:
        speed = speed_of[name]
        spread = (_rounded(speed.low), _rounded(speed.high)) if speed.spread_known else (None, None)
        rows.append((name, _rounded(speed.median), *spread, speed.measured))
    title = "Speed of members, messages a second while they had lag\n"
    return TextTable(("CONSUMER-ID", "SPEED", "LOW-QUARTILE", "HIGH-QUARTILE", "INTERVALS"), rows, title)


def speed_notes(speed_of: Mapping[str, Speed], window_s: float) -> list[str]:
    """Whether members differ, and which of them are known too little to judge."""
    known = {name: s for name, s in speed_of.items() if s.median is not None and s.low is not None}
    lines = []
    if len(known) < len(speed_of):
        lines.append(
            f"Of {count(len(speed_of) - len(known), 'member')} of {len(speed_of)} too little is known to tell a speed: "
            f"{ENOUGH} intervals with lag are needed in the {window_s:g} s that were looked at."
        )
    if len(known) > 1:
        slow, fast = (pick(known, key=lambda name: known[name].median or 0) for pick in (min, max))
        apart = (known[fast].low or 0) > (known[slow].high or 0)
        if not apart:
            lines.append(f"No member is surely faster than another: the spreads of {fast} and {slow} overlap.")
        elif not known[slow].median:
            lines.append(f"{slow} mostly read nothing while it had lag, and {fast} did: check what is blocking it.")
        else:
            ratio = f"{(known[fast].median or 0) / (known[slow].median or 1):.3g} times as fast as {slow}"
            if known[fast].spread_known and known[slow].spread_known:
                lines.append(f"{fast} was {ratio}: set their capacities so, and strategies share by them.")
            else:
                lines.append(
                    f"{fast} was {ratio}, {_by_few(known[fast], known[slow])}: look longer before you rely on it."
                )
    return lines


def _by_few(*speeds: Speed) -> str:
    fewest = min(speed.measured for speed in speeds)
    return f"measured between two commits {'once' if fewest == 1 else f'{fewest} times'}"


def notes(times: GroupTime, window_s: float) -> list[str]:
    """The group, and the meaning of the columns."""
    whole = times.whole
    if whole.lag is None:
        return ["No commit and log end of this group are known together, so that its lag has no age."]
    lines = [in_a_sentence(whole)]
    if any(speed.median is None for speed in times.speeds.values()) and times.speeds:
        lines.append("A member with lag in too few intervals has no SPEED.")
    lines.append(f"TREND, WRITTEN and READ are messages a second over the last {window_s:g} s that are known.")
    return lines


def page_data(labels: Sequence[str], members: LagTimes, whole: LagTime) -> dict[str, Any]:
    """The lag in time as data for the page; nothing if only one moment is known.

    labels
        (M,) what the page calls each member.
    """
    if whole.lag is None or (whole.catch_up_s is None and whole.age.at_least is None):
        return {}
    rows = []
    for m, label in enumerate(labels):
        times = members.row(m)
        gone_in = (
            "never" if times.catch_up_s is not None and math.isinf(times.catch_up_s) else _rounded(times.catch_up_s)
        )
        rows.append([label, times.lag, age_in_words(times.age), _rounded(times.trend), times.in_words, gone_in])
    head = ["Member", "Lag", "Oldest unread message", "Trend, messages/s", "It is", "Caught up in, s"]
    table = {"title": "Lag in time", "head": head, "rows": rows}
    never = whole.catch_up_s is None or math.isinf(whole.catch_up_s)
    ends = {} if whole.catch_up_s is None else {"catch_up_s": None if never else round(whole.catch_up_s or 0, 1)}
    return {**ends, "lag_in_time": in_a_sentence(whole), "times": table if rows else None}


def in_a_sentence(whole: LagTime) -> str:
    """A group's lag in time as people say it; its lag is known."""
    if whole.in_words == MARKER:
        return (
            f"{count(whole.lag or 0, 'message')} unread for {age_in_words(whole.age)}, at most {MARKERS_MAX} of a "
            "partition: these may be markers of transactions, which nobody reads."
        )
    oldest = "" if whole.age.at_least is None else f"; the oldest unread message is {age_in_words(whole.age)} old"
    ends = ""
    if whole.catch_up_s is not None and whole.to_read:
        never = ", but some member never catches up" if whole.in_words == SHRINKING else ", never gone"
        ends = never if math.isinf(whole.catch_up_s) else f", gone in {whole.catch_up_s:,.0f} s"
        ends += " at this pace"
    return f"{count(whole.lag or 0, 'message')} behind, {whole.in_words}{ends}{oldest if whole.lag else ''}."


def age_in_words(age: Age) -> str:
    """``12 s``, ``between 3 and 9 s`` if the samples leave it open, ``at least 40 s`` beyond the first of them."""
    if age.at_least is None:
        return "unknown"
    if age.seconds is None or age.at_most is None:
        return f"at least {age.at_least:,.0f} s"
    if age.at_most - age.at_least > 1:
        return f"about {age.seconds:,.0f} s ({age.at_least:,.0f} to {age.at_most:,.0f})"
    return f"{age.seconds:,.0f} s"


def _time(lag_time: LagTime) -> tuple[Cell, ...]:
    age = lag_time.age
    seconds: Cell = _rounded(age.seconds)
    if age.seconds is None and age.at_least is not None:
        seconds = f">= {_rounded(age.at_least)}"
    return lag_time.lag, seconds, _rounded(lag_time.trend), lag_time.in_words, _rounded(lag_time.catch_up_s)


def _rounded(value: float | None) -> Cell:
    if value is None or math.isinf(value):
        return None
    return int(value) if float(value).is_integer() else round(value, 1)

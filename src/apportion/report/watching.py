"""A group over time: lag bars per member, and every change of members or owners since the first look."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from textwrap import wrap
from typing import Final

from apportion.arrays import NOBODY
from apportion.model.measures import lag_held, loads
from apportion.report.describing import heading
from apportion.report.text import cell_width, cut, printable
from apportion.sighting.judged import Judged
from apportion.sighting.oddities import member_labels
from apportion.sighting.sighting import Sighting
from apportion.wording import count, some_of

BAR: Final = 30
MOST_CHANGES: Final = 8
Owners = dict[tuple[str, int], str]


@dataclass
class View:
    """The last look, and the changes until then."""

    standing: Sighting | None = None
    at: float = 0.0
    lag_before: int | None = None
    changes: list[str] = field(default_factory=list)

    def take(self, standing: Sighting, at: float) -> None:
        """One more look, at that moment (seconds since 1970)."""
        if self.standing is not None:
            change = difference(self.standing, standing)
            if change:
                self.changes.append(f"{_clock(at)}  {change}")
                del self.changes[:-MOST_CHANGES]
            self.lag_before = self.standing.total_lag
        self.standing, self.at = standing, at

    def text(self, width: int = 100, height: int | None = None) -> str:
        """The picture, at most so many places wide and lines high."""
        if self.standing is None:
            return ""
        lines = [f"{_clock(self.at)} UTC  {heading(self.standing)}{self._trend()}", "", *bars(self.standing, width)]
        odd = [
            line
            for sentence in Judged(self.standing).why
            for line in wrap(printable(f"! {sentence}"), width, subsequent_indent="  ")
        ]
        lines += ["", *odd] if odd else []
        lines += ["", "Changes since the first look:", *(self.changes or ["none"])]
        if height is not None and len(lines) > height - 1:
            lines = [*lines[: height - 2], f"... {len(lines) - height + 2} more lines"]
        return "".join(cut(printable(line), width) + "\n" for line in lines)

    def _trend(self) -> str:
        now = self.standing.total_lag if self.standing is not None else None
        if now is None or self.lag_before is None:
            return ""
        return f" ({now - self.lag_before:+,})"


def bars(standing: Sighting, width: int) -> list[str]:
    """A line a member: its lag as a bar against the heaviest, its partitions."""
    group = standing.group
    if not group.M:
        return []
    lag, held = lag_held(group, group.owner).tolist(), loads(group.owner, group.M).tolist()
    most = max(max(lag), 1)
    names = [printable(label) for label in member_labels(group)]
    room = min(max(map(cell_width, names)), max(width - BAR - 32, 12))
    lines = []
    for m, name in enumerate(names):
        filled = round(BAR * lag[m] / most) if lag[m] else 0
        bar = "#" * max(filled, 1 if lag[m] else 0)
        short = cut(name, room)
        pad = " " * (room - cell_width(short))
        lines.append(f"{short}{pad}  {bar:<{BAR}}  {lag[m]:>13,}  {count(held[m], 'partition')}")
    return lines


def difference(before: Sighting, now: Sighting) -> str:
    """The changes between two looks, in a sentence; "" if owners, members and state are as before."""
    changes = []
    joined = _labels(now, set(now.group.members) - set(before.group.members))
    left = _labels(before, set(before.group.members) - set(now.group.members))
    if joined:
        changes.append(f"joined: {some_of(joined)}")
    if left:
        changes.append(f"left: {some_of(left)}")
    old, new = _owners(before), _owners(now)
    moved = sum(1 for topic_partition, who in new.items() if topic_partition in old and old[topic_partition] != who)
    given = sum(1 for topic_partition in new if topic_partition not in old)
    lost = sum(1 for topic_partition in old if topic_partition not in new)
    for n, change in ((moved, "moved"), (given, "given"), (lost, "without an owner now")):
        if n:
            changes.append(f"{count(n, 'partition')} {change}")
    if before.state != now.state:
        changes.append(f"{before.state} -> {now.state}")
    return "; ".join(changes)


def _owners(standing: Sighting) -> Owners:
    group = standing.group
    names = [instance or member for instance, member in zip(group.instance_ids, group.members, strict=True)]
    return {group.name_of(p): names[m] for p, m in enumerate(group.owner.tolist()) if m != NOBODY}


def _labels(standing: Sighting, members: set[str]) -> list[str]:
    group = standing.group
    return sorted(member_labels(group, [m for m, member in enumerate(group.members) if member in members]))


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")

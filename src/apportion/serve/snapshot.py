"""The facts known about a cluster at one moment: an immutable snapshot that every answer is read from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from apportion.arrays import UNKNOWN, Bools, Floats, Longs
from apportion.history import cause
from apportion.history.lag_time import CAUGHT_UP_S, LagTime, LagTimes, maybe_markers
from apportion.model.group import Group
from apportion.model.lag import MARKERS_MAX
from apportion.model.present import owed
from apportion.serve.end_times import Commits, EndTimes
from apportion.serve.past import GroupPast
from apportion.serve.pauses import Pauses
from apportion.serve.tails import ReadUpTo
from apportion.sighting.diagnosing import Evidence
from apportion.sighting.judged import Judged
from apportion.sighting.measures import in_last_hour
from apportion.sources.cluster_round import Round

CAUSES: Final = (cause.JOIN, cause.LEAVE, cause.CRASH, cause.STATIC, cause.SUBSCRIPTION, cause.GREW, cause.HAND_OVER,
                 cause.GONE, cause.UNKNOWN)  # fmt: skip


@dataclass(frozen=True)
class Distance:
    """How far a group's present plan is from the fairest one, as far as that is proved.

    moves
        Fewest partitions that must move to reach the fairest sharing.
    squares
        Sum of squared loads now, less the least there is.
    """

    moves: int
    squares: int


@dataclass(frozen=True, kw_only=True)
class GroupState(Judged):
    """One group when it was last seen: judged by the rounds, with the state from which the next round goes on.

    sighting
        The same object where nothing of the group has changed; client ids and hosts only where they may be shown.
    evidence
        With lag in time of each partition, and of the whole group; what is committed at each round tells the paces.
    seen
        Seconds since 1970, when it was last looked at.
    advised_members
        Members that the group's work needs; None where nobody told what a member takes.
    commits
        What it had committed at the last rounds with the same partitions.
    gone
        It was not listed any more since ``unknown_since``.
    read
        Up to where nothing of its partitions is unread, as far as logs' ends were looked at; None: its commits.
    manned
        The group as described when it last had members.
    pauses
        For how long its commits have stood still.
    """

    evidence: Evidence = field(init=False, repr=False)
    times: LagTimes
    whole: LagTime
    seen: float
    past: GroupPast
    distance: Distance | None = None
    concentration: float | None = None
    advised_members: int | None = None
    unknown_since: float | None = None
    key: Any = None
    commits: Commits = field(default_factory=lambda: Commits.none(0))
    read: ReadUpTo | None = None
    manned: Group | None = None
    source: str = ""
    pauses: Pauses = field(default_factory=lambda: Pauses.begin(np.zeros(0, dtype=np.int64), 0.0))

    @property
    def group(self) -> Group:
        """As arrays."""
        return self.sighting.group

    @property
    def as_described(self) -> Group:
        """The same group under the ids that its members have, which not everybody may see."""
        real: Group = self.key[1] if self.key is not None else self.group
        return real

    @property
    def name(self) -> str:
        """The group's name."""
        return self.sighting.name

    @cached_property
    def maybe_markers(self) -> Bools:
        """(P,) whether unread records are old, and may be markers of transactions alone."""
        message = None if self.read is None else self.read.message
        read_up = maybe_markers(self.times.lag, message) & (self.times.to_read == 0)
        old: Bools = read_up & ~(self.times.seconds <= CAUGHT_UP_S)
        return old

    @cached_property
    def seconds(self) -> Floats:
        """(P,) the least age of each first unread message; NaN unknown, as is whether there is any."""
        return np.where(self.maybe_markers, np.nan, self.times.at_least)

    @cached_property
    def counted(self) -> Bools:
        """(P,) partitions that count in sums and alarms: if members live, those that one of them wants."""
        return owed(self.group)

    @cached_property
    def expired(self) -> Bools:
        """(P,) whether retention has deleted messages that the group had not read, as far as that is known."""
        offsets = self.group.offsets
        if offsets is None:
            return np.zeros(self.group.P, dtype=np.bool_)
        read = ReadUpTo.of_commits(self.group) if self.read is None else self.read
        # Of one or two offsets behind a commit nobody can tell any more whether they were messages.
        lost = offsets.begin - read.first > np.where(read.looked, 0, MARKERS_MAX)
        known: Bools = (read.first != UNKNOWN) & (offsets.begin != UNKNOWN) & self.counted & lost
        return known

    @cached_property
    def still(self) -> Bools:
        """(P,) whether commits pause for longer than they ever did, while members are there and messages wait."""
        if len(self.pauses.committed) != self.group.P:
            return np.zeros(self.group.P, dtype=np.bool_)
        answer: Bools = self.pauses.stuck(self.group.owner) & self.counted & (self.times.to_read > 0)
        return answer

    @property
    def stuck_seconds(self) -> Floats:
        """(P,) for how long, if members are up and no open transaction holds it up; NaN elsewhere."""
        stuck = self.still & ~self.sighting.held_back & bool(self.group.M)
        return np.where(stuck, self.pauses.seconds, np.nan) if stuck.any() else np.full(self.group.P, np.nan)

    def __post_init__(self) -> None:
        rows = list(self.past.rebalances)
        evidence = Evidence(
            self.times, self.whole, rebalanced_at=[row.at for row in rows],
            now_ms=int(self.seen * 1000), expired=self.expired, still=self.still, source=self.source, live=True,
            window_s=float(self.commits.at[-1] - self.commits.at[0]) / 1000 if len(self.commits.at) else 0.0,
            last_hour=in_last_hour((row.at for row in rows), self.seen * 1000),
            past=(len(rows), sum(row.moved for row in rows), sum(row.needless or 0 for row in rows)),
        )  # fmt: skip
        object.__setattr__(self, "evidence", evidence)

    @property
    def causes(self) -> dict[str, int]:
        """Rebalances by their cause; with zeros, so that the first of a cause is an increase too."""
        return dict(sorted({**dict.fromkeys(CAUSES if self.group.M else (), 0), **self.past.causes}.items()))

    @cached_property
    def owed(self) -> Longs:
        """(P,) messages left of topics that the group still wants; -1 unknown."""
        return np.where(self.counted, self.sighting.lag, UNKNOWN)

    def unknown(self, since: float, why: str, gone: bool = False) -> GroupState:
        """The same group, of which nothing newer is known; the first reason's time stays."""
        if self.unknown_since is not None and self.gone == gone:
            since = self.unknown_since
        clock = clock_text(since)
        sentence = f"The group is gone since {clock}." if gone else f"Nothing is known since {clock}: {why}."
        return replace(self, unknown_since=since, gone=gone, noted=(sentence,))


@dataclass(frozen=True)
class Snapshot:
    """The cluster as it was at the end of one round.

    number
        Rounds so far; 0 before the first.
    round
        The last good one; its groups are in ``groups``.
    ends
        Each topic's log ends at the last rounds.
    trouble, trouble_since
        Why the last round gave nothing, "" where it did, and since when.
    tail_trouble, tail_since
        Why the tail of ``__consumer_offsets`` is not read, and since when.
    round_s, asked_s
        How long the last good round took, and how much of it the cluster.
    """

    number: int = 0
    round: Round = field(default_factory=Round)
    groups: Mapping[str, GroupState] = field(default_factory=dict)
    ends: Mapping[str, EndTimes] = field(default_factory=dict)
    trouble: str = "no round has ended yet"
    trouble_since: float = 0.0
    tail_trouble: str = ""
    tail_since: float = 0.0
    round_s: float = 0.0
    asked_s: float = 0.0
    rounds_failed: int = 0

    @cached_property
    def living(self) -> list[GroupState]:
        """Groups that are not gone, by name."""
        return [state for _, state in sorted(self.groups.items()) if not state.gone]

    def notes(self) -> list[str]:
        """The page's notice above everything: the unknown facts, and since when they are unknown."""
        notes = []
        if self.trouble:
            notes.append(f"Nothing is known since {clock_text(self.trouble_since)}: {self.trouble}.")
        notes += self.round.troubles
        if self.tail_trouble:
            since = clock_text(self.tail_since)
            notes.append(
                f"Rebalances are seen at each round alone, not as they are written, since {since}: {self.tail_trouble}."
            )
        return notes


def clock_text(at: float) -> str:
    """A moment as people write it, in UTC."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")

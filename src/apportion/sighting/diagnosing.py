"""Why a group is behind: one of eight kinds, from rates if there are any; else which figures are missing.

The order in which the kinds are tried is the argument. Whether anybody reads comes first, then whether anything is
late at all. Of what is late, a partition whose commits stand still while its member reads others is one record's
matter, and a partition that gets more than the fastest member reads is beyond any sharing. Only then members are
compared: one that is behind while the others keep up has too much for its speed; where all are behind, more are needed.

A lag alone tells none of this: it swings with every commit, and advice that goes by its shares swings with it. Rates
are taken over the whole window, so that the diagnosis stays while nothing changes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from apportion.arrays import NOBODY, UNKNOWN, Bools, Floats
from apportion.model.lag import WINDOW_S
from apportion.model.present import contested
from apportion.model.protocols import SIMPLE
from apportion.sighting.oddities import ONE_MEMBER, REBALANCING, WARN, Finding, named
from apportion.sighting.sighting import Sighting
from apportion.wording import count

if TYPE_CHECKING:
    from apportion.history.lag_time import LagTime, LagTimes
    from apportion.history.time_window import GroupTime

HOT, STUCK, SLOW, FEW, NOBODY_READS, MOVING, CAUGHT_UP, NOT_KNOWN = KINDS = (
    "hot_partition", "stuck_record", "slow_member", "too_few_members", "nobody_reads", "rebalancing", "caught_up",
    "unknown",
)  # fmt: skip
BEHIND_S: Final = 60.0
"""How late the oldest unread message is before a lag that grows, or that nobody reads, is a fault."""
LATE_S: Final = 6 * 3600.0
"""A lag that takes longer to be worked off is a fault, though it shrinks: the alert NeverCaughtUp waits as long."""
LARGE: Final = 1_000_000
"""Messages of one member, or that nobody owns, from which on a lag of which nothing else is known is a fault."""
COMMITS_APART_S: Final = 10.0
"""Seconds that commits are apart where nothing tells: a window sees one more or one less."""
LEAST_MARGIN: Final = 0.1
STORM: Final = 6
"""Rebalances within ``STORM_MS`` that are no rollout but a storm."""
STORM_MS: Final = 60_000
RECENT_MS: Final = 3_600_000
"""How long after a storm it still warns."""


@dataclass(frozen=True)
class Evidence:
    """The facts known about a group in addition to one look at it.

    times, whole
        Lag in time of its partitions (P,) and of all of it; None: only one moment is known.
    window_s
        Seconds over which the rates are taken; ``timed`` False where only their relations are known: two listings.
    rebalanced_at, now_ms
        When it rebalanced, ascending; the present, None the last of these (ms).
    expired
        (P,) where unread messages are known to be lost; None: by the offsets.
    still
        (P,) where commits stand still for longer than they ever did while there was something to read; None: by rates.
    source
        How a command names where the group comes from, as in ``apportion size SOURCE``; "" where no command can.
    pair
        The two listings that it comes from; "" where it does not.
    live, recorded
        Whether that is a cluster; or a dump or tables, which hold the past as far as it was sampled.
    last_hour
        Rebalances in the last hour, in records before the newest; None unknown.
    past
        Remembered rebalances, partitions that moved in them, and needlessly; None where none is remembered.
    """

    times: LagTimes | None = None
    whole: LagTime | None = None
    window_s: float = WINDOW_S
    timed: bool = True
    rebalanced_at: Sequence[int] = ()
    now_ms: int | None = None
    expired: Bools | None = None
    still: Bools | None = None
    source: str = ""
    pair: str = ""
    live: bool = False
    recorded: bool = False
    last_hour: int | None = None
    past: tuple[int, int, int] | None = None

    @classmethod
    def of(cls, time: GroupTime | None, **more: Any) -> Evidence:
        """The findings of a window, if there was one."""
        return cls(**more) if time is None else cls(time.partitions, time.whole, **more)

    def pace(self, per_s: float) -> str:
        """A rate in words: messages a second, or between the two listings."""
        if not self.timed:
            return f"{per_s * self.window_s:,.0f}"
        return f"{per_s:,.0f}" if per_s >= 10 or not per_s else f"{per_s:.2g}"

    @property
    def margin(self) -> float:
        """The share of the written messages by which reading must stay behind to count: one commit does not."""
        return max(LEAST_MARGIN, COMMITS_APART_S / max(self.window_s, 1.0))

    @cached_property
    def late(self) -> Bools:
        """(P,) see ``behind``; nothing if only one moment is known."""
        return np.zeros(0, dtype=np.bool_) if self.times is None else behind(self.times, self)

    @property
    def unit(self) -> str:
        """The counts of ``pace``."""
        return "messages a second" if self.timed else "messages between the two listings"


@dataclass(frozen=True)
class Diagnosis:
    """The blocker of a group: one of ``KINDS``, in a sentence, and the command that goes on from there; "" none."""

    kind: str
    sentence: str
    next: str = ""

    def to_dict(self) -> dict[str, str]:
        """For JSON; ``next`` is absent if there is none."""
        document = {"kind": self.kind, "sentence": self.sentence, "next": self.next}
        return {name: text for name, text in document.items() if text}


def storm(evidence: Evidence) -> str:
    """The newest run of rebalances that follow each other too quickly, unless it is long ago; "" none."""
    at = list(evidence.rebalanced_at)
    last = (at[-1] if at else 0) if evidence.now_ms is None else evidence.now_ms
    for i in range(len(at) - STORM, -1, -1):
        if last - at[i + STORM - 1] > RECENT_MS:
            return ""
        if at[i + STORM - 1] - at[i] <= STORM_MS:
            first = i
            while first and at[i + STORM - 1] - at[first - 1] <= STORM_MS:
                first -= 1
            n, took = i + STORM - first, at[i + STORM - 1] - at[first]
            return f"It rebalanced {n} times in {took / 1000:,.0f} s."
    return ""


def over_time(seen: Sighting, evidence: Evidence) -> Iterator[Finding]:
    """The verdict of a group's rates, or of a lag without any, on how well it is."""
    if sentence := storm(evidence):
        yield Finding(sentence, WARN)
    times, whole = evidence.times, evidence.whole
    if times is None or whole is None or whole.lag is None or whole.trend is None:
        yield from _large(seen)
    elif whole.to_read and seen.state not in REBALANCING:
        yield from _paces(seen, evidence, times, whole)


def _paces(seen: Sighting, evidence: Evidence, times: LagTimes, whole: LagTime) -> Iterator[Finding]:
    """A lag that is late, by how it changes."""
    late = evidence.late
    still = late & (times.read == 0)
    held = still & seen.held_back
    if held.any():
        text = f"An open transaction holds back what can be read: {named(seen.group, held)}."
        yield Finding(text, WARN)
    if (still & ~held).any():
        waiting = count(sum(times.lag[still & ~held].tolist()), "message waits", "messages wait")
        yield Finding(f"Nothing is read of {named(seen.group, still & ~held)}, though {waiting}.", WARN)
    elif not late.any():
        if not whole.read:  # a window without a commit tells as little as one look
            yield from _large(seen)
    elif (whole.written or 0) - (whole.read or 0) > evidence.margin * (whole.written or 0):
        paces = (
            f"{evidence.pace(whole.written or 0)} {evidence.unit} are written, {evidence.pace(whole.read or 0)} read"
        )
        yield Finding(f"The lag grows: {paces}, and {count(whole.lag or 0, 'message')} wait.", WARN)
    elif whole.catch_up_s is not None and whole.catch_up_s > LATE_S:
        ends = "never" if math.isinf(whole.catch_up_s) else f"in {whole.catch_up_s / 3600:,.0f} hours"
        yield Finding(f"At this pace it has read everything {ends}; {count(whole.lag or 0, 'message')} wait.", WARN)


def behind(times: LagTimes, evidence: Evidence) -> Bools:
    """(P,) whether something is late, or more is written than is read."""
    answer: Bools = (late_s(times) >= BEHIND_S) | ((times.to_read > 0) & slower(times.written, times.read, evidence))
    if evidence.still is None:
        return answer
    between: Bools = (times.read == 0) & ~evidence.still  # commits that are far apart, of which the window has none
    answer &= ~between
    return answer


def slower(written: Floats, read: Floats, evidence: Evidence) -> Bools:
    """Whether less is read than written, by more than regular commits can explain."""
    with np.errstate(invalid="ignore"):
        answer: Bools = written - read > evidence.margin * written
    return answer


def late_s(times: LagTimes) -> Floats:
    """(P,) how late each first unread message is, at least: by samples, or by later writes; 0 if in time."""
    by_samples = np.nan_to_num(times.at_least)
    with np.errstate(divide="ignore", invalid="ignore"):
        by_rate = np.nan_to_num(times.lag / times.written, nan=0.0)
    answer: Floats = np.where(times.to_read > 0, np.maximum(by_samples, by_rate), 0.0)
    return answer


def _large(seen: Sighting) -> Iterator[Finding]:
    """A lag so large that no rate can make it nothing, if no rate is known."""
    most = max([*seen.lags, *([seen.total_lag or 0] if not seen.group.M else [])], default=0)
    known = any(finding.about == ONE_MEMBER for finding in seen.findings)
    if most >= LARGE and seen.owners_told and not known:
        most_of_one = f"; one member alone has {most:,} of them to read" if seen.group.M > 1 else ""
        yield Finding(f"{count(seen.total_lag or 0, 'message waits', 'messages wait')}{most_of_one}.", WARN)


def diagnose(seen: Sighting, evidence: Evidence) -> Diagnosis:
    """Why the group is behind, or that it is not."""
    group = seen.group
    if seen.state in REBALANCING:
        sentence = "The group is rebalancing, so that owners and lag are about to change: look again."
        return Diagnosis(MOVING, sentence, command(seen, evidence, "describe") if evidence.live else "")
    if sentence := storm(evidence):
        return Diagnosis(
            MOVING,
            f"{sentence} Members that come and go read little meanwhile.",
            command(seen, evidence, "watch") if evidence.live else "",
        )
    if seen.total_lag is None:
        return unknown(seen, evidence, "how far it has read (committed offsets and log ends)")
    if (nobody := _nobody_reads(seen, evidence)) is not None:
        return nobody
    whole = evidence.whole
    if seen.total_lag == 0 and not (seen.lag[group.wanted] == UNKNOWN).any():
        return Diagnosis(CAUGHT_UP, "It has read everything.")
    if evidence.times is None or whole is None or whole.lag is None:
        return unknown(seen, evidence, "how much is written and read")
    times = evidence.times
    if not whole.to_read:
        return Diagnosis(CAUGHT_UP, f"It keeps up: {count(seen.total_lag, 'message')} unread, none of them old.")
    if not evidence.late.any():
        without_pace = not whole.read and any(_large(seen))
        unclear = (times.to_read > 0) & (np.isnan(times.written) | np.isnan(times.read) | without_pace)
        if unclear.any():
            return unknown(seen, evidence, f"how fast {named(group, unclear)} is written and read")
        return Diagnosis(CAUGHT_UP, f"It keeps up: {count(seen.total_lag, 'message')} unread, none of them old.")
    if not seen.owners_told:
        return unknown(seen, evidence, "who reads what")
    # What has rates has a history, of which one look needs nothing.
    from apportion.sighting.rates import ByRates

    return ByRates(seen, evidence, times, whole).diagnosis()


def _nobody_reads(seen: Sighting, evidence: Evidence) -> Diagnosis | None:
    """Messages wait without a member that reads, and no commit moves without one."""
    group = seen.group
    if not seen.total_lag or not seen.owners_told:
        return None
    if not group.M:
        timed = evidence.whole is not None and evidence.whole.trend is not None
        if (timed and evidence.whole is not None and evidence.whole.read) or (seen.protocol == SIMPLE and not timed):
            return None  # a job that joins no group
        since = ", and no commit moved" if timed else ""
        return Diagnosis(
            NOBODY_READS,
            f"The group has no members{since}: {count(seen.total_lag, 'message waits', 'messages wait')}.",
        )
    lost = group.wanted & (group.owner == NOBODY) & ~contested(group) & (seen.lag > 0)
    if not lost.any() or not len(group.claims.partition):
        return None
    waiting = count(sum(seen.lag[lost].tolist()), "message waits", "messages wait")
    return Diagnosis(
        NOBODY_READS, f"{waiting} in partitions that no member owns: {named(group, lost)}.",
        command(seen, evidence, "plan"),
    )  # fmt: skip


UNCLEAR: Final = "not show whether the group keeps up, or why not"


def unknown(seen: Sighting, evidence: Evidence, missing: str) -> Diagnosis:
    """The missing facts, and how to get them."""
    if evidence.recorded:
        return Diagnosis(NOT_KNOWN, f"Its records do {UNCLEAR}. Missing: how much is written and read.")
    if evidence.times is not None:
        return Diagnosis(NOT_KNOWN, f"These figures do {UNCLEAR}. Missing: {missing}. Look for longer.")
    if evidence.live:
        tells, proposed = "Look for a minute", command(seen, evidence, "describe", "--window 60")
    else:
        tells = "Take the same listing again a minute later, and give both files"
        proposed = command(seen, evidence, "describe", "later.txt", group=False)
    return Diagnosis(NOT_KNOWN, f"One look does {UNCLEAR}. Missing: {missing}. {tells}.", proposed)


def command(seen: Sighting, evidence: Evidence, name: str, *more: str, group: bool = True) -> str:
    """A command line that goes on with the group; "" if its source is unknown."""
    import shlex

    if not evidence.source:
        return ""
    chosen = [f"--group {shlex.quote(seen.group.name)}"] if group and seen.group.name else []
    return " ".join(["apportion", name, evidence.source, *chosen, *more])

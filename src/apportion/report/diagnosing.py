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
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from apportion.arrays import NOBODY, UNKNOWN, Bools, Floats, Ints
from apportion.history.lag_time import WINDOW_S, LagTime, LagTimes, of_readers
from apportion.history.time_window import GroupTime
from apportion.model.group import Group
from apportion.model.present import contested
from apportion.report.describing import ShownGroup
from apportion.report.oddities import ONE_MEMBER, REBALANCING, WARN, Finding, member_label, named
from apportion.strategy.registry import advised_by
from apportion.wording import count

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
SLOWER: Final = 0.7
"""A member at less than this part of the speed that another one showed is slow."""
STORM: Final = 6
"""Rebalances within ``STORM_MS`` that are no rollout but a storm."""
STORM_MS: Final = 60_000
RECENT_MS: Final = 3_600_000
"""How long after a storm it still warns."""


@dataclass(frozen=True)
class Evidence:
    """What is known of a group besides one look at it.

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

    @classmethod
    def of(cls, time: GroupTime | None, **more: Any) -> Evidence:
        """What a window showed, where there was one."""
        return cls(**more) if time is None else cls(time.partitions, time.whole, **more)

    def pace(self, per_s: float) -> str:
        """A rate in words: messages a second, or between the two listings."""
        if not self.timed:
            return f"{per_s * self.window_s:,.0f}"
        return f"{per_s:,.0f}" if per_s >= 10 or not per_s else f"{per_s:.2g}"

    @property
    def margin(self) -> float:
        """The share of what is written by which reading must stay behind to tell: a commit more or less is none."""
        return max(LEAST_MARGIN, COMMITS_APART_S / max(self.window_s, 1.0))

    @cached_property
    def late(self) -> Bools:
        """(P,) see ``behind``; nothing where only one moment is known."""
        return np.zeros(0, dtype=np.bool_) if self.times is None else behind(self.times, self)

    @property
    def unit(self) -> str:
        """What ``pace`` counts."""
        return "messages a second" if self.timed else "messages between the two listings"


@dataclass(frozen=True)
class Diagnosis:
    """What holds a group up: one of ``KINDS``, in a sentence, and the command that goes on from there; "" none."""

    kind: str
    sentence: str
    next: str = ""

    def to_dict(self) -> dict[str, str]:
        """For JSON; ``next`` is absent where there is none."""
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


def over_time(shown: ShownGroup, evidence: Evidence) -> Iterator[Finding]:
    """What a group's rates, or a lag without any, say of how well it is."""
    if sentence := storm(evidence):
        yield Finding(sentence, WARN)
    times, whole = evidence.times, evidence.whole
    if times is None or whole is None or whole.lag is None or whole.trend is None:
        yield from _large(shown)
    elif whole.to_read and shown.seen.state not in REBALANCING:
        yield from _paces(shown, evidence, times, whole)


def _paces(shown: ShownGroup, evidence: Evidence, times: LagTimes, whole: LagTime) -> Iterator[Finding]:
    """A lag that is late, by how it changes."""
    late = evidence.late
    still = late & (times.read == 0)
    held = still & shown.held_back
    if held.any():
        text = f"An open transaction holds back what can be read: {named(shown.group, held)}."
        yield Finding(text, WARN)
    if (still & ~held).any():
        waiting = count(sum(times.lag[still & ~held].tolist()), "message waits", "messages wait")
        yield Finding(f"Nothing is read of {named(shown.group, still & ~held)}, though {waiting}.", WARN)
    elif not late.any():
        return
    elif _slower_than(whole.written, whole.read, evidence):
        paces = (
            f"{evidence.pace(whole.written or 0)} {evidence.unit} are written, {evidence.pace(whole.read or 0)} read"
        )
        yield Finding(f"The lag grows: {paces}, and {count(whole.lag or 0, 'message')} wait.", WARN)
    elif whole.catch_up_s is not None and whole.catch_up_s > LATE_S:
        ends = "never" if math.isinf(whole.catch_up_s) else f"in {whole.catch_up_s / 3600:,.0f} hours"
        yield Finding(f"At this pace it has read everything {ends}; {count(whole.lag or 0, 'message')} wait.", WARN)


def behind(times: LagTimes, evidence: Evidence) -> Bools:
    """(P,) where something is late, or more is written than is read."""
    answer: Bools = (late_s(times) >= BEHIND_S) | ((times.to_read > 0) & _slower(times.written, times.read, evidence))
    if evidence.still is None:
        return answer
    between: Bools = (times.read == 0) & ~evidence.still  # commits that are far apart, of which the window has none
    answer &= ~between
    return answer


def _slower(written: Floats, read: Floats, evidence: Evidence) -> Bools:
    """Where less is read than written, by more than commits that come when they come can make of it."""
    with np.errstate(invalid="ignore"):
        answer: Bools = written - read > evidence.margin * written
    return answer


def _slower_than(written: float | None, read: float | None, evidence: Evidence) -> bool:
    return written is not None and read is not None and written - read > evidence.margin * written


def late_s(times: LagTimes) -> Floats:
    """(P,) how late each first unread message is, at least: by samples, or by what was written since; 0 if in time."""
    by_samples = np.nan_to_num(times.at_least)
    with np.errstate(divide="ignore", invalid="ignore"):
        by_rate = np.nan_to_num(times.lag / times.written, nan=0.0)
    answer: Floats = np.where(times.to_read > 0, np.maximum(by_samples, by_rate), 0.0)
    return answer


def _large(shown: ShownGroup) -> Iterator[Finding]:
    """A lag so large that no rate can make it nothing, where no rate is known."""
    most = max([*shown.lags, *([shown.total_lag or 0] if not shown.group.M else [])], default=0)
    known = any(finding.about == ONE_MEMBER for finding in shown.findings)
    if most >= LARGE and shown.seen.owners_told and not known:
        most_of_one = f"; one member alone has {most:,} of them to read" if shown.group.M > 1 else ""
        yield Finding(f"{count(shown.total_lag or 0, 'message waits', 'messages wait')}{most_of_one}.", WARN)


def diagnose(shown: ShownGroup, evidence: Evidence) -> Diagnosis:
    """Why the group is behind, or that it is not."""
    group, seen = shown.group, shown.seen
    if seen.state in REBALANCING:
        sentence = "The group is rebalancing, so that owners and lag are about to change: look again."
        return Diagnosis(MOVING, sentence, _command(shown, evidence, "describe") if evidence.live else "")
    if sentence := storm(evidence):
        return Diagnosis(
            MOVING,
            f"{sentence} Members that come and go read little meanwhile.",
            _command(shown, evidence, "watch") if evidence.live else "",
        )
    if shown.total_lag is None:
        return _unknown(shown, evidence, "how far it has read (committed offsets and log ends)")
    if (nobody := _nobody_reads(shown, evidence)) is not None:
        return nobody
    whole = evidence.whole
    if shown.total_lag == 0 and not (shown.lag[group.wanted] == UNKNOWN).any():
        return Diagnosis(CAUGHT_UP, "It has read everything.")
    if evidence.times is None or whole is None or whole.lag is None:
        return _unknown(shown, evidence, "how much is written and read")
    times = evidence.times
    if not whole.to_read:
        return Diagnosis(CAUGHT_UP, f"It keeps up: {count(shown.total_lag, 'message')} unread, none of them old.")
    if not evidence.late.any():
        unclear = (times.to_read > 0) & (np.isnan(times.written) | np.isnan(times.read))
        if unclear.any():
            return _unknown(shown, evidence, f"how fast {named(group, unclear)} is written and read")
        return Diagnosis(CAUGHT_UP, f"It keeps up: {count(shown.total_lag, 'message')} unread, none of them old.")
    if not seen.owners_told:
        return _unknown(shown, evidence, "who reads what")
    return _Rates(shown, evidence, times, whole).diagnosis()


def _nobody_reads(shown: ShownGroup, evidence: Evidence) -> Diagnosis | None:
    """Messages wait where no member reads, and no commit moves without one."""
    group, seen = shown.group, shown.seen
    if not shown.total_lag or not seen.owners_told:
        return None
    if not group.M:
        timed = evidence.whole is not None and evidence.whole.trend is not None
        if (timed and evidence.whole is not None and evidence.whole.read) or (seen.kind == "simple" and not timed):
            return None  # a job that joins no group
        since = ", and no commit moved" if timed else ""
        return Diagnosis(
            NOBODY_READS,
            f"The group has no members{since}: {count(shown.total_lag, 'message waits', 'messages wait')}.",
        )
    lost = group.wanted & (group.owner == NOBODY) & ~contested(group) & (shown.lag > 0)
    if not lost.any() or not len(group.claims.partition):
        return None
    waiting = count(sum(shown.lag[lost].tolist()), "message waits", "messages wait")
    return Diagnosis(
        NOBODY_READS, f"{waiting} in partitions that no member owns: {named(group, lost)}.",
        _command(shown, evidence, "plan"),
    )  # fmt: skip


UNCLEAR: Final = "not show whether the group keeps up, or why not"


def _unknown(shown: ShownGroup, evidence: Evidence, missing: str) -> Diagnosis:
    """What is missing, and how to get it."""
    if evidence.recorded:
        return Diagnosis(NOT_KNOWN, f"Its records do {UNCLEAR}. Missing: how much is written and read.")
    if evidence.times is not None:
        return Diagnosis(NOT_KNOWN, f"These figures do {UNCLEAR}. Missing: {missing}. Look for longer.")
    if evidence.live:
        tells, command = "Look for a minute", _command(shown, evidence, "describe", "--window 60")
    else:
        tells = "Take the same listing again a minute later, and give both files"
        command = _command(shown, evidence, "describe", "later.txt", group=False)
    return Diagnosis(NOT_KNOWN, f"One look does {UNCLEAR}. Missing: {missing}. {tells}.", command)


def _command(shown: ShownGroup, evidence: Evidence, name: str, *more: str, group: bool = True) -> str:
    """A command line that goes on with the group; "" where nobody knows where it comes from."""
    import shlex

    if not evidence.source:
        return ""
    chosen = [f"--group {shlex.quote(shown.group.name)}"] if group and shown.group.name else []
    return " ".join(["apportion", name, evidence.source, *chosen, *more])


@dataclass(frozen=True, eq=False)
class _Rates:
    """One group that is behind, with its rates.

    late
        (P,) what is behind: unread, and more than a few seconds old.
    reader
        (P,) who reads each; where a job joins no group, it is one reader.
    readers
        Lag in time of each reader.
    """

    shown: ShownGroup
    evidence: Evidence
    times: LagTimes
    whole: LagTime
    late: Bools = field(init=False)
    readers: LagTimes = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "late", self.evidence.late)
        object.__setattr__(self, "readers", of_readers(self.times, self._reader, max(self.group.M, 1)))

    @property
    def group(self) -> Group:
        """As arrays."""
        return self.shown.group

    @property
    def _reader(self) -> Ints:
        return self.group.owner if self.group.M else np.zeros(self.group.P, dtype=np.int64)

    def diagnosis(self) -> Diagnosis:
        """The first kind that holds."""
        if np.isnan(self.times.written[self.late]).any() or np.isnan(self.times.read[self.late]).any():
            unclear = self.late & (np.isnan(self.times.written) | np.isnan(self.times.read))
            return _unknown(self.shown, self.evidence, f"how fast {named(self.group, unclear)} is written and read")
        return self._still() or self._grows() or self._shrinks()

    # -- what stands still --------------------------------------------------------------------------------------------

    def _still(self) -> Diagnosis | None:
        """Commits that stand still: of everybody, of a member, of single partitions."""
        still = self.late & (self.times.read == 0)
        if (held := still & self.shown.held_back).any():
            return Diagnosis(
                STUCK, f"An open transaction holds back what can be read of {named(self.group, held)}: its producer "
                "has neither committed nor aborted it.", self._transactions(held),
            )  # fmt: skip
        if not still.any():
            return None
        waiting = count(sum(self.times.lag[still].tolist()), "message waits", "messages wait")
        if not self.whole.read and self.group.M > 1 and int(still.sum()) > 1:
            return Diagnosis(
                NOBODY_READS, f"{count(self.group.M, 'member')} hold the partitions, but none reads: {waiting}."
            )
        for m in np.unique(self._reader[still]).tolist():
            mine = self.late & (self._reader == m)
            if m != NOBODY and not self.readers.read[m] and int(mine.sum()) > 1:
                return Diagnosis(
                    SLOW, f"{self._called(m)} reads nothing, though it has {count(int(mine.sum()), 'partition')} "
                    "with unread messages: it hangs, or has died without leaving.",
                )  # fmt: skip
        worst = int(np.where(still, self.times.lag, 0).argmax())
        return Diagnosis(
            STUCK, f"Nothing is committed on {named(self.group, still)}, though {waiting}, and others are read: "
            "look for a record that cannot be processed.", self._record(worst),
        )  # fmt: skip

    def _record(self, p: int) -> str:
        """The command that shows the record at a commit."""
        bootstrap = self.evidence.source.removeprefix("--bootstrap-server ") if self.evidence.live else ""
        if not bootstrap.strip() or " " in bootstrap or self.group.offsets is None:
            return ""
        topic, number = self.group.name_of(p)
        return (
            f"kafka-console-consumer --bootstrap-server {bootstrap} --topic {topic} --partition {number} "
            f"--offset {int(self.group.offsets.committed[p])} --max-messages 1"
        )

    def _transactions(self, held: Bools) -> str:
        bootstrap = self.evidence.source.removeprefix("--bootstrap-server ") if self.evidence.live else ""
        if not bootstrap.strip() or " " in bootstrap:
            return ""
        topic, number = self.group.name_of(int(held.argmax()))
        return (
            f"kafka-transactions --bootstrap-server {bootstrap} describe-producers --topic {topic} --partition {number}"
        )

    # -- what grows ---------------------------------------------------------------------------------------------------

    def _grows(self) -> Diagnosis | None:
        """Readers to which more is written than they read, though they have work all the time."""
        written, read = self.readers.written, self.readers.read
        behind = self._behind()
        if not behind.any():
            return None
        fastest = float(np.nanmax(read))
        hot = self.late & behind[self._reader] & (self._reader != NOBODY)
        hot &= _slower(self.times.written, np.full(self.group.P, fastest), self.evidence)
        if hot.any():
            return self._hot(hot, fastest)
        busy = np.flatnonzero(behind)
        working = self.readers.lag != UNKNOWN
        if not behind[working].all():
            return self._slow(busy.tolist(), written, read)
        return self._few(float(np.nansum(written)), float(np.nanmean(read[busy])))

    def _behind(self) -> Bools:
        """(M,) readers whose lag grows, or is late and not worked off in time."""
        late = np.zeros(len(self.readers), dtype=np.bool_)
        late[self._reader[self.late & (late_s(self.times) >= BEHIND_S) & (self._reader != NOBODY)]] = True
        grows = (self.readers.to_read > 0) & _slower(self.readers.written, self.readers.read, self.evidence)
        answer: Bools = grows | (late & (self.readers.catch_up_s > LATE_S))
        return answer

    def _hot(self, hot: Bools, fastest: float) -> Diagnosis:
        most = int(np.where(hot, self.times.written, 0).argmax())
        pace = self.evidence.pace
        return Diagnosis(
            HOT, f"{named(self.group, hot)}: {pace(float(self.times.written[most]))} {self.evidence.unit} are written "
            f"to one partition, and the fastest member reads {pace(fastest)}. More members cannot help: spread its "
            "key, or make reading faster.", self._size(fastest),
        )  # fmt: skip

    def _slow(self, behind: list[int], written: Floats, read: Floats) -> Diagnosis:
        """Some are behind and the others keep up."""
        m = max(behind, key=lambda i: written[i] - read[i])
        others = [float(read[i]) for i in range(len(read)) if i not in behind and not np.isnan(read[i])]
        pace, unit = self.evidence.pace, self.evidence.unit
        its = f"{self._called(m)} gets {pace(float(written[m]))} and reads {pace(float(read[m]))} {unit}"
        more = f" (so are {len(behind) - 1} more)" if len(behind) > 1 else ""
        by_lag = advised_by("lag")
        if read[m] < SLOWER * max(others, default=0.0):
            why = f"another one reads {pace(max(others))}, and the others keep up"
        else:
            why = f"the others keep up with less: {by_lag} would take work from it"
        command = _command(self.shown, self.evidence, "plan", f"--assignor {by_lag}")
        return Diagnosis(SLOW, f"{its}{more}; {why}.", command)

    def _few(self, written: float, speed: float) -> Diagnosis:
        """All are behind."""
        pace, unit = self.evidence.pace, self.evidence.unit
        whole = f"{pace(written)} {unit} are written and {pace(self.whole.read or 0)} read"
        if not self.group.M:
            return Diagnosis(
                FEW, f"{whole}, by a job that joins no group (Flink, Spark, assign()): give it more parallelism."
            )
        needed = math.ceil(written / speed) if speed > 0 else 0
        partitions = int(self.group.wanted.sum())
        if needed > partitions:
            advice = (
                f"{needed:,} members of this speed are needed, and there are {count(partitions, 'partition')} for them"
            )
        elif needed > self.group.M:
            advice = f"at least {needed:,} members of this speed are needed, and there are {self.group.M:,}"
        else:
            advice = "one member more is needed, or a faster one"
        return Diagnosis(FEW, f"{whole}, though all members have something to read: {advice}.", self._size(speed))

    def _shrinks(self) -> Diagnosis:
        """It works its lag off; if that takes too long, more members would shorten it."""
        ends = self.whole.catch_up_s
        lag = count(self.whole.lag or 0, "message")
        if ends is not None and ends > LATE_S and self.evidence.timed and not math.isinf(ends):
            hours = f"{ends / 3600:,.0f} hours"
            return Diagnosis(FEW, f"It works off {lag}, but needs {hours} at this pace: more members would shorten it.")
        when = (
            f", and is done in {ends:,.0f} s at this pace"
            if ends and not math.isinf(ends) and self.evidence.timed
            else ""
        )
        return Diagnosis(CAUGHT_UP, f"It catches up: it works off {lag}{when}.")

    def _size(self, speed: float) -> str:
        if not self.evidence.timed or speed <= 0 or not self.evidence.source:
            return ""
        sized = f"--capacity {speed:.4g}"
        if not self.evidence.pair:
            return _command(self.shown, self.evidence, "size", sized)
        measured = _command(self.shown, replace(self.evidence, source=self.evidence.pair), "describe", "-o json")
        return f"{measured} | apportion size - --by weight {sized}"

    def _called(self, m: int) -> str:
        return member_label(self.group, m) if self.group.M else "The job"

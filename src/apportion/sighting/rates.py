"""Why a group whose rates are known is behind: which lags do not move, grow, or shrink too slowly."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from apportion.arrays import NOBODY, UNKNOWN, Bools, Floats, Ints
from apportion.history.lag_time import LagTime, LagTimes, of_readers
from apportion.model.group import Group
from apportion.sighting.diagnosing import (
    BEHIND_S,
    CAUGHT_UP,
    FEW,
    HOT,
    LATE_S,
    NOBODY_READS,
    SLOW,
    STUCK,
    Diagnosis,
    Evidence,
    command,
    late_s,
    slower,
    unknown,
)
from apportion.sighting.oddities import member_label, named
from apportion.sighting.sighting import Sighting
from apportion.strategy.registry import advised_by
from apportion.wording import count

SLOWER: Final = 0.7
"""A member at less than this part of the speed that another one showed is slow."""


@dataclass(frozen=True, eq=False)
class ByRates:
    """One group that is behind, with its rates.

    late
        (P,) what is behind: unread, and more than a few seconds old.
    reader
        (P,) who reads each; where a job joins no group, it is one reader.
    readers
        Lag in time of each reader.
    """

    seen: Sighting
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
        return self.seen.group

    @property
    def _reader(self) -> Ints:
        return self.group.owner if self.group.M else np.zeros(self.group.P, dtype=np.int64)

    def diagnosis(self) -> Diagnosis:
        """The first kind that holds."""
        if np.isnan(self.times.written[self.late]).any() or np.isnan(self.times.read[self.late]).any():
            unclear = self.late & (np.isnan(self.times.written) | np.isnan(self.times.read))
            return unknown(self.seen, self.evidence, f"how fast {named(self.group, unclear)} is written and read")
        return self._still() or self._grows() or self._shrinks()

    # -- what stands still --------------------------------------------------------------------------------------------

    def _still(self) -> Diagnosis | None:
        """Commits that do not move: of all members, of one, of single partitions."""
        still = self.late & (self.times.read == 0)
        if (held := still & self.seen.held_back).any():
            producers = self._at_broker("kafka-transactions describe-producers", int(held.argmax()))
            return Diagnosis(
                STUCK, f"An open transaction holds back what can be read of {named(self.group, held)}: its producer "
                "has neither committed nor aborted it.", producers,
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

    def _at_broker(self, tool: str, p: int, options: str = "") -> str:
        """A command of Kafka's about a partition; "" if no one address leads to the cluster."""
        bootstrap = self.evidence.source.removeprefix("--bootstrap-server ") if self.evidence.live else ""
        if not bootstrap.strip() or " " in bootstrap:
            return ""
        name, _, action = tool.partition(" ")
        topic, number = self.group.name_of(p)
        words = [name, f"--bootstrap-server {bootstrap}", action, f"--topic {topic} --partition {number}", options]
        return " ".join(filter(None, words))

    def _record(self, p: int) -> str:
        """The command that shows the record at a commit."""
        if self.group.offsets is None:
            return ""
        options = f"--offset {int(self.group.offsets.committed[p])} --max-messages 1"
        return self._at_broker("kafka-console-consumer", p, options)

    # -- what grows ---------------------------------------------------------------------------------------------------

    def _grows(self) -> Diagnosis | None:
        """Readers to which more is written than they read, though they have work all the time."""
        written, read = self.readers.written, self.readers.read
        behind = self._behind()
        if not behind.any():
            return None
        fastest = float(np.nanmax(read))
        hot = self.late & behind[self._reader] & (self._reader != NOBODY)
        hot &= slower(self.times.written, np.full(self.group.P, fastest), self.evidence)
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
        grows = (self.readers.to_read > 0) & slower(self.readers.written, self.readers.read, self.evidence)
        answer: Bools = grows | (late & (self.readers.catch_up_s > LATE_S))
        return answer

    def _hot(self, hot: Bools, fastest: float) -> Diagnosis:
        most = int(np.where(hot, self.times.written, 0).argmax())
        pace, readers = self.evidence.pace, "the fastest member reads" if self.group.M else "all its readers read"
        return Diagnosis(
            HOT, f"{named(self.group, hot)}: {pace(float(self.times.written[most]))} {self.evidence.unit} are written "
            f"to one partition, and {readers} {pace(fastest)}. More members cannot help: spread its "
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
        lag_aware = command(self.seen, self.evidence, "plan", f"--assignor {by_lag}")
        return Diagnosis(SLOW, f"{its}{more}; {why}.", lag_aware)

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
        if not self.evidence.timed or speed <= 0 or not self.evidence.source or not self.group.M:
            return ""
        sized = f"--capacity {speed:.4g}"
        if not self.evidence.pair:
            return command(self.seen, self.evidence, "size", sized)
        measured = command(self.seen, replace(self.evidence, source=self.evidence.pair), "describe", "-o json")
        return f"{measured} | apportion size - --by weight {sized}"

    def _called(self, m: int) -> str:
        return member_label(self.group, m) if self.group.M else "The job"

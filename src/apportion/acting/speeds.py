"""How much comes in, how fast members read, and which partitions no member can read, from samples of offsets.

What a speed is says ``history.member_speeds``. Here samples come one by one, owners change between them, and a member
that holds nothing now is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from apportion.arrays import CAPACITY_MAX, Bools, Floats, Ints, Longs
from apportion.history.lag_time import Samples, rates
from apportion.history.member_speeds import ReadingStretches, Speed, SpeedSample

SAMPLES_MAX: Final = 64
"""Samples that tell what comes in: of more in the window those of about equal distances stay."""
STUCK_S: Final = 40.0
"""Seconds for which a partition with something to read must stand still before it counts as stuck."""
STEPS: Final = 20
"""Steps in which speeds are told beside the fastest: finer ones would move partitions for noise."""
NOTHING: Final = Speed(None, None, None, 0)


@dataclass(frozen=True, eq=False)
class Sample:
    """A group's offsets at a moment.

    at_s
        Seconds by any clock that only goes on.
    end, committed
        (P,) log ends and committed offsets; -1 unknown, never committed.
    """

    at_s: float
    end: Longs
    committed: Longs


class OffsetHistory:
    """The newest samples of one group, and the speeds of its members.

    stretch_s
        Least seconds of a stretch on which speeds are measured.
    window_s
        Seconds over which what comes in is measured.

    Partitions must be the same from sample to sample; ``restart`` tells of other ones, ``given`` of new owners.
    """

    def __init__(self, stretch_s: float, window_s: float) -> None:
        self.stretch_s, self.window_s = stretch_s, window_s
        self._samples: list[Sample] = []
        self._owner: Ints = np.empty(0, dtype=np.int64)
        self._members: tuple[str, ...] = ()
        self._partitions: list[Ints] = []
        self._stretches: dict[str, ReadingStretches] = {}
        self._stood_since: Floats = np.empty(0)

    def __len__(self) -> int:
        """How many samples are kept."""
        return len(self._samples)

    def restart(self) -> None:
        """The partitions are other ones now: their samples do not compare; speeds stay known."""
        self._samples.clear()
        self._stood_since = np.empty(0)

    def given(self, owner: Ints, members: Sequence[str]) -> None:
        """From now on ``owner`` (P,) reads, by place among ``members``; members that are gone are forgotten."""
        if len(self._stood_since) == len(owner) == len(self._owner) and self._samples:
            names, before = np.array([*members, ""]), np.array([*self._members, ""])
            self._stood_since[names[owner] != before[self._owner]] = self._samples[-1].at_s  # the new one may read it
        self._owner, self._members = owner, tuple(members)
        self._partitions = [np.flatnonzero(owner == m) for m in range(len(members))]
        self._stretches = {name: self._stretches.get(name) or ReadingStretches(self.stretch_s) for name in members}
        for stretches in self._stretches.values():
            stretches.restart()

    def add(self, sample: Sample) -> None:
        """Take one sample, newer than those before."""
        last = self._samples[-1] if self._samples else None
        if last is None or len(self._stood_since) != len(sample.end):
            self._stood_since = np.full(len(sample.end), sample.at_s)
        else:
            reads = (sample.committed > last.committed) | (sample.committed >= sample.end)
            self._stood_since[reads] = sample.at_s
        self._keep(sample)
        for name, mine in zip(self._members, self._partitions, strict=True):
            self._stretches[name].add(SpeedSample(sample.at_s, sample.committed[mine], sample.end[mine]))

    def _keep(self, sample: Sample) -> None:
        """Add a sample; if samples are nearer to each other than the window needs, the newer ones go."""
        samples, apart_s = self._samples, self.window_s / (SAMPLES_MAX // 2)
        if len(samples) > 1 and samples[-1].at_s - samples[-2].at_s < apart_s:
            samples.pop()
        samples.append(sample)
        del samples[:-SAMPLES_MAX]

    def incoming(self) -> Floats:
        """(P,) messages a second that came in over the newest ``window_s`` seconds; NaN unknown."""
        at = np.array([sample.at_s * 1000 for sample in self._samples])
        ends = Samples.of_table(at, np.array([sample.end for sample in self._samples]))
        return np.maximum(rates(ends, at[-1] - self.window_s * 1000), 0.0)

    def stuck(self) -> Bools:
        """(P,) partitions that do not advance, with messages to read, though their owner has time: no plan reads them.

        An owner that is busy elsewhere, or stands still itself, may just not have come to them.
        """
        answer = np.zeros(len(self._stood_since), dtype=np.bool_)
        if not self._samples:
            return answer
        now_s = self._samples[-1].at_s
        for name, mine in zip(self._members, self._partitions, strict=True):
            had_time_s = self._stretches[name].keeps_up_since_s
            if had_time_s is not None and not self._stretches[name].stands_still:
                since = self._stood_since[mine]
                answer[mine] = (now_s - since > STUCK_S) & (since < had_time_s)
        return answer

    def stands_still(self) -> list[str]:
        """Members that commit nothing for much longer than they ever took, though they have something to read."""
        return [name for name, stretches in self._stretches.items() if stretches.stands_still]

    def uncommitted_s(self) -> Floats:
        """(P,) the longest time between the owner's newest commits: newer messages may be read already."""
        answer = np.zeros(len(self._owner))
        for name, mine in zip(self._members, self._partitions, strict=True):
            answer[mine] = self._stretches[name].longest_silence_s
        return answer

    def is_behind(self, member: str) -> bool:
        """Whether a member was busy on its newest stretch, or made no progress."""
        stretches = self._stretches[member]
        return stretches.stands_still or stretches.is_behind

    def speed(self, member: str) -> Speed:
        """Its speed with its spread; nothing if the samples are too few, or the member holds nothing."""
        return self._stretches[member].speed() if self._holds(member) else NOTHING

    def at_least(self, member: str) -> float:
        """Messages a second that it was seen to read while it kept up; 0 if it never did."""
        return self._stretches[member].at_least() if self._holds(member) else 0.0

    def _holds(self, member: str) -> bool:
        return member in self._members and len(self._partitions[self._members.index(member)]) > 0


def paces(capacity: Ints, speeds: Sequence[Speed | None], at_least: Sequence[float]) -> tuple[Floats, Ints, bool]:
    """Every member's pace, the same in whole numbers, and whether it is in messages a second.

    capacity
        (M,) as members gave it; 1 is what a member counts that gave none.
    speeds
        What was learned of each; None where nothing is to be learned.
    at_least
        (M,) what each reads while it keeps up.

    A member's own number wins: it counts so many times what a member of capacity 1 does. One of which too little is
    known counts as the median of those that are known, or as fast as any of its like was seen to keep up, if that is
    more: who never had much to read may be as fast.
    """
    median = np.array([np.nan if s is None or s.median is None else s.median for s in speeds], dtype=np.float64)
    own = capacity != 1
    paced = ~np.isnan(median)
    learned = paced & ~own
    if not learned.any():
        return capacity.astype(np.float64), capacity, False
    per_unit = float(np.median(median[paced] / capacity[paced])) if own.any() else float(np.median(median[learned]))
    kept_up = max((seen for seen, known in zip(at_least, paced.tolist(), strict=True) if not known), default=0.0)
    pace = np.where(own, capacity * per_unit, np.where(learned, median, max(per_unit, kept_up)))
    fastest = float(pace.max())
    if fastest <= 0:  # everybody stands still: nobody is faster than another
        return capacity.astype(np.float64), capacity, False
    steps = np.clip(np.rint(pace / fastest * STEPS), 1, CAPACITY_MAX).astype(np.int64)
    return steps * np.float64(fastest / STEPS), steps // int(np.gcd.reduce(steps)), True

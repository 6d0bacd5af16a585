"""How much comes in and how fast members read, from samples of a group's offsets.

A member's speed counts in stretches of time on which it had something to read from end to end: at both ends of the
stretch it had not yet read what was there a stretch before, so that a reader who merely commits now and then does not
pass for a slow one. Its speed is the median of its newest stretches; too few tell none. What a member reads while it
keeps up is no speed, but shows that it is at least so fast.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from apportion.arrays import CAPACITY_MAX, NOBODY, UNKNOWN, Floats, Ints, Longs
from apportion.history.lag_time import Samples, rates
from apportion.history.member_speeds import Speed, SpeedSamples

STRETCHES: Final = 20
"""The newest stretches of a member that count."""
SAMPLES_MAX: Final = 64
"""Samples of offsets that are kept."""
STEPS: Final = 20
"""Steps in which speeds are told beside the fastest: finer ones would move partitions for noise."""


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
        Seconds of one stretch; members commit more often than that.

    Partitions must be the same from sample to sample; ``restart`` tells of other ones, ``given`` of new owners.
    """

    def __init__(self, stretch_s: float) -> None:
        self.stretch_s = stretch_s
        self._samples: deque[Sample] = deque(maxlen=SAMPLES_MAX)
        self._began: Sample | None = None
        self._owner: Ints = np.empty(0, dtype=np.int64)
        self._members: tuple[str, ...] = ()
        self._busy: dict[str, deque[float]] = {}
        self._idle: dict[str, deque[float]] = {}

    def __len__(self) -> int:
        """How many samples are kept."""
        return len(self._samples)

    def restart(self) -> None:
        """The partitions are other ones now: their samples do not compare; speeds stay known."""
        self._samples.clear()
        self._began = None

    def given(self, owner: Ints, members: Sequence[str]) -> None:
        """From now on ``owner`` (P,) reads, by place among ``members``; members that are gone are forgotten."""
        self._owner, self._members, self._began = owner, tuple(members), None
        for rates_of in (self._busy, self._idle):
            for gone in rates_of.keys() - set(members):
                del rates_of[gone]

    def add(self, sample: Sample) -> None:
        """Take one sample, newer than those before."""
        self._samples.append(sample)
        began = self._began
        if began is None:
            self._began = sample
            return
        if sample.at_s - began.at_s < self.stretch_s:
            return
        self._began = sample
        busy = self._behind(began) & self._behind(sample)
        known = (began.committed != UNKNOWN) & (sample.committed != UNKNOWN) & (self._owner != NOBODY)
        read = np.where(known, np.maximum(sample.committed - began.committed, 0), 0)
        by_member = np.bincount(self._owner[known], weights=read[known], minlength=len(self._members))
        is_busy = np.zeros(len(self._members), dtype=np.bool_)
        is_busy[self._owner[known & busy]] = True
        for member, read_msgs, busy_all_along in zip(self._members, by_member.tolist(), is_busy.tolist(), strict=True):
            rates_of = self._busy if busy_all_along else self._idle
            newest = rates_of.setdefault(member, deque(maxlen=STRETCHES))
            newest.append(read_msgs / (sample.at_s - began.at_s))

    def _behind(self, sample: Sample) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """(P,) whether what was there a stretch before is not read yet; False where that is not known."""
        before = [s for s in self._samples if s.at_s <= sample.at_s - self.stretch_s]
        if not before:
            return np.zeros(len(sample.end), dtype=np.bool_)
        then = before[-1].end
        answer = (then != UNKNOWN) & (sample.committed != UNKNOWN) & (sample.committed < then)
        return np.asarray(answer, dtype=np.bool_)

    def incoming(self, window_s: float) -> Floats:
        """(P,) messages a second that came in over the newest ``window_s`` seconds; NaN unknown."""
        samples = list(self._samples)
        at = np.array([sample.at_s * 1000 for sample in samples])
        written = rates(Samples.of_table(at, np.array([sample.end for sample in samples])), at[-1] - window_s * 1000)
        return np.maximum(written, 0.0)

    def speed(self, member: str) -> Speed:
        """Its speed with its spread; nothing where too little tells."""
        return SpeedSamples(list(self._busy.get(member, ()))).speed()

    def at_least(self, member: str) -> float:
        """Messages a second that it was seen to read, however few stretches tell it; 0 where none does."""
        seen = (rates_of.get(member) for rates_of in (self._busy, self._idle))
        return max((float(np.median(newest)) for newest in seen if newest), default=0.0)


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

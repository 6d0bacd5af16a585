"""The loop around the rule: generations and samples in, decisions out; it lives as long as a leader does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from apportion.acting.forecast import Load, forecast, labels
from apportion.acting.rule import Acting, Decision, Outlook, decide, is_resting, resting
from apportion.acting.speeds import OffsetHistory, Sample, paces
from apportion.arrays import NOBODY, UNKNOWN, Bools, Ints, Longs
from apportion.assignors import Assignor
from apportion.model.group import Group
from apportion.strategy.traits import traits_of
from apportion.wording import count

STRETCHES_A_HOLD: Final = 2
"""Stretches on which speeds are learned, in the time that a plan must hold."""


@dataclass(frozen=True, eq=False)
class Planned:
    """A decision, with what it looked at.

    outlook
        None where the group rests or something is not known.
    owner
        (P,) the plan that is to be handed over; None where the decision is not to act.
    """

    decision: Decision
    outlook: Outlook | None = None
    owner: Ints | None = None
    load: Load | None = None


class Loop:
    """One leader's view of its group.

    strategy
        What plans.
    learned
        Whether speeds are learned; else members count by their capacities alone.
    """

    def __init__(self, acting: Acting, strategy: Assignor, *, learned: bool = False) -> None:
        self.acting, self.strategy, self.learned = acting, strategy, learned
        self.history = OffsetHistory(max(acting.hold_s / STRETCHES_A_HOLD, 0.5))
        self._group: Group | None = None
        self._owner: Ints = np.empty(0, dtype=np.int64)
        self._generation_s = 0.0
        self._since_s: float | None = None

    def generation(self, at_s: float, group: Group, owner: Ints) -> None:
        """A rebalance ended: this group, and (P,) who owns what since; -1 nobody."""
        before = self._group
        if before is None or not _same_partitions(before, group):
            self.history.restart()
        self.history.given(owner, labels(group.members, group.instance_ids))
        self._group, self._owner, self._generation_s, self._since_s = group, owner, at_s, None

    def look(self, sample: Sample, lag: Longs, known: Bools) -> Planned:
        """Whether to act, by a new sample of this group's offsets.

        lag
            (P,) messages left to read.
        known
            (P,) whether it is known.
        """
        self.history.add(sample)
        group = self._group
        if group is None:
            return self._no("this member has planned nothing yet")
        if is_resting(self.acting, sample.at_s, self._generation_s):
            return self._no(resting(self.acting, sample.at_s, self._generation_s).why)
        if (self._owner == NOBODY)[group.wanted].any() and not traits_of(self.strategy).leaves:
            return self._no("a hand-over is under way")
        owned = self._owner != NOBODY
        if missing := int(np.count_nonzero(owned & ~known)):
            return self._no(f"the lag of {count(missing, 'partition')} is not known")
        incoming = self.history.incoming(max(self.acting.hold_s, 1.0) * 2)
        if missing := int(np.count_nonzero(owned & np.isnan(incoming))):
            return self._no(f"what comes into {count(missing, 'partition')} is not known yet")
        load = self._load(group, np.where(owned, lag + np.nan_to_num(incoming) * self.acting.rest_s, 0.0))
        outlook, target = forecast(group, self._owner, self.strategy, load, self.acting)
        decision = decide(self.acting, sample.at_s, self._generation_s, self._since_s, outlook)
        self._since_s = decision.since_s
        return Planned(decision, outlook, target if decision.act else None, load)

    def _load(self, group: Group, work: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Load:
        names = labels(group.members, group.instance_ids)
        speeds = [self.history.speed(name) if self.learned else None for name in names]
        return Load(work, *paces(group.capacity, speeds, [self.history.at_least(name) for name in names]))

    def _no(self, why: str) -> Planned:
        self._since_s = None
        return Planned(Decision(False, why))


def _same_partitions(before: Group, now: Group) -> bool:
    return (
        before.topics == now.topics
        and np.array_equal(before.start, now.start)
        and np.array_equal(before.number, now.number)
    )


def sample_of(at_s: float, group: Group) -> Sample:
    """What a group tells of its offsets, as a sample; -1 where it tells nothing."""
    if group.offsets is None:
        unknown = np.full(group.P, UNKNOWN, dtype=np.int64)
        return Sample(at_s, unknown, unknown)
    return Sample(at_s, group.offsets.end, group.offsets.committed)

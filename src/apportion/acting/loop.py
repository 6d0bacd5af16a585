"""The loop around the rule: generations and samples in, decisions out; it lives as long as a leader does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from apportion.acting.forecast import Load, forecast, labels
from apportion.acting.rule import Acting, Decision, Outlook, decide, is_resting, resting
from apportion.acting.speeds import OffsetHistory, Sample, paces
from apportion.arrays import NOBODY, Bools, Floats, Ints, Longs
from apportion.assignors import Assignor
from apportion.history.member_speeds import Speed
from apportion.model.group import Group
from apportion.strategy.settings import changed_settings, settings_of
from apportion.strategy.traits import traits_of
from apportion.wording import count

FREE: Final = 2_147_483_647
"""Partitions by which counts may differ: more than a group has."""
STUCK_NAMED: Final = 5
"""Stuck partitions that are named."""
STRETCHES_A_HOLD: Final = 2
"""Stretches on which speeds are learned, in the time that a plan must hold."""


@dataclass(frozen=True, eq=False)
class Planned:
    """A decision, with the figures that it rests on.

    outlook
        None where the group rests or something is not known.
    owner
        (P,) the plan that is to be handed over; None where the decision is not to act.
    """

    decision: Decision
    outlook: Outlook | None = None
    owner: Ints | None = None
    load: Load | None = None


@dataclass(frozen=True, eq=False)
class KnownLoad:
    """A group's load at a moment, as far as it is known.

    group
        Whose partitions, and in which order.
    incoming
        (P,) messages a second that come in; NaN unknown.
    speeds, at_least
        Of each member by its label; none where nothing is to be learned.
    uncommitted_s
        (P,) seconds of what comes in that may be read already and is not committed yet.
    stuck
        (P,) partitions that no plan gets read: neither their lag nor what comes in is work.
    horizon_s
        Seconds of what comes in that count as work ahead.
    """

    group: Group
    incoming: Floats
    speeds: Mapping[str, Speed]
    at_least: Mapping[str, float]
    uncommitted_s: Floats
    stuck: Bools
    horizon_s: float

    def load(self, group: Group, lag: Longs, known: Bools) -> Load | None:
        """The work ahead of the members of a group; None if it is not known, or the group's partitions are other ones.

        lag, known
            (P,) messages left to read, and whether that is known.
        """
        if not self.group.same_partitions(group):
            return None
        if not (known & ~np.isnan(self.incoming))[group.wanted].all():
            return None
        read = group.wanted & ~self.stuck
        incoming = np.where(read, np.nan_to_num(self.incoming), 0.0)
        names = labels(group.members, group.instance_ids)
        speeds, at_least = [self.speeds.get(name) for name in names], [self.at_least.get(name, 0.0) for name in names]
        unread = np.maximum(np.where(read, lag, 0.0) - incoming * self.uncommitted_s, 0.0)
        work = unread + incoming * self.horizon_s
        return Load(work, *paces(group.capacity, speeds, at_least))


def with_free_counts(strategy: Assignor) -> Assignor:
    """The strategy without a limit on how uneven counts may be, if its ``max_skew`` is the default; else itself."""
    if "max_skew" not in settings_of(type(strategy)) or "max_skew" in changed_settings(strategy):
        return strategy
    return replace(strategy, max_skew=FREE)  # type: ignore[type-var]  # whose settings are those of a dataclass


class Loop:
    """One leader's view of its group.

    strategy
        What plans.
    learned
        Whether speeds are learned; else members count by their capacities alone.
    """

    def __init__(self, acting: Acting, strategy: Assignor, *, learned: bool = False) -> None:
        self.acting, self.strategy, self.learned = acting, strategy, learned
        self.history = OffsetHistory(max(acting.hold_s / STRETCHES_A_HOLD, 0.5), max(acting.hold_s, 1.0) * 2)
        self.group: Group | None = None
        self._owner: Ints = np.empty(0, dtype=np.int64)
        self._generation_s = 0.0
        self._since_s: float | None = None

    def generation(self, at_s: float, group: Group, owner: Ints) -> None:
        """A rebalance ended: this group, and (P,) the owners since; -1 for none."""
        before = self.group
        if before is None or not before.same_partitions(group):
            self.history.restart()
        self.history.given(owner, labels(group.members, group.instance_ids))
        self.group, self._owner, self._generation_s, self._since_s = group, owner, at_s, None

    def look(self, sample: Sample, lag: Longs, known: Bools) -> Planned:
        """Whether to act, by a new sample of this group's offsets.

        lag
            (P,) messages left to read.
        known
            (P,) whether it is known.
        """
        group = self.group
        if group is not None and sample.at_s < self._generation_s:  # what others owned then tells nothing of these
            return self._no("the newest offsets are older than the last rebalance")
        self.history.add(sample)
        if group is None:
            return self._no("this member has planned nothing yet")
        if is_resting(self.acting, sample.at_s, self._generation_s):
            return self._no(resting(self.acting, sample.at_s, self._generation_s).why)
        if (self._owner == NOBODY)[group.wanted].any() and not traits_of(self.strategy).leaves:
            return self._no("a hand-over is under way")
        owned = self._owner != NOBODY
        if missing := int(np.count_nonzero(owned & ~known)):
            return self._no(f"the lag of {count(missing, 'partition')} is not known")
        seen = self.seen()
        unknown = group.P if seen is None else int(np.count_nonzero(owned & np.isnan(seen.incoming)))
        load = None if seen is None else seen.load(group, lag, known | ~owned)
        if load is None:
            return self._no(f"what comes into {count(unknown, 'partition')} is not known yet")
        if self.learned and not load.in_seconds and not self._heaviest_is_behind(group, load):
            return self._no("every member keeps up, as far as its commits show")
        outlook, target = forecast(group, self._owner, self.strategy, load, self.acting)
        decision = decide(self.acting, sample.at_s, self._generation_s, self._since_s, outlook)
        self._since_s = decision.since_s
        return Planned(decision, outlook, target if decision.act else None, load)

    def stuck(self) -> tuple[str, ...]:
        """A sentence for the partitions that no member gets on with, and one for each member that makes no progress."""
        group, stuck = self.group, np.flatnonzero(self.history.stuck())
        if group is None:
            return ()
        names = ", ".join(f"{topic}-{number}" for topic, number in map(group.name_of, stuck[:STUCK_NAMED].tolist()))
        more = f" and {len(stuck) - STUCK_NAMED} more" if len(stuck) > STUCK_NAMED else ""
        partitions = (
            f"{names}{more}: unread, although the owner keeps up with the rest. Look for a record that nobody can "
            "process, or a paused partition; no other owner is tried for it"
        )
        members = (
            f"member {name} is stuck: it has committed nothing for much longer than usual, and several of its "
            "partitions have something to read"
            for name in self.history.stands_still()
        )
        return (*([partitions] if len(stuck) else []), *members)

    def _heaviest_is_behind(self, group: Group, load: Load) -> bool:
        heaviest = int(load.times(self._owner).argmax())
        return self.history.is_behind(labels(group.members, group.instance_ids)[heaviest])

    def holding(self, group: Group) -> Group:
        """The group with the owners since the last generation as its past."""
        return group.holding(self._owner)

    def seen(self) -> KnownLoad | None:
        """The group's load as known by now; None before the first generation or sample."""
        group = self.group
        if group is None or not len(self.history):
            return None
        names = labels(group.members, group.instance_ids)
        learned = {name: self.history.speed(name) for name in names} if self.learned else {}
        at_least = {name: self.history.at_least(name) for name in names}
        stuck, horizon_s = self.history.stuck(), self.acting.horizon_s
        return KnownLoad(
            group, self.history.incoming(), learned, at_least, self.history.uncommitted_s(), stuck, horizon_s
        )

    def _no(self, why: str) -> Planned:
        self._since_s = None
        return Planned(Decision(False, why))

"""The changes that a new plan would bring: work ahead of each member, over its speed, now and under the plan.

A partition's work is its lag and what comes in within ``horizon_s``. A member's time to catch up is the work of its
partitions over its speed: if it is more than the horizon, the member gets more than it works off in that time. A member
that has no lag yet and gets more than it can read is so found by what comes in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from apportion.acting.rule import Acting, Outlook
from apportion.arrays import NOBODY, UNKNOWN, Floats, Ints
from apportion.assignors import Assignor
from apportion.model.group import Group, Offsets
from apportion.planning import checked

WORK_MAX = float(2**53)
"""Messages ahead of one partition that count: up to here floats hold every whole number."""


@dataclass(frozen=True, eq=False)
class Load:
    """The work that members have ahead of them.

    work
        (P,) messages: lag, and what comes in within the horizon.
    pace
        (M,) messages a second, or capacities where no speed is known; above 0.
    capacity
        (M,) the same in whole numbers, as plans take them.
    in_seconds
        Whether ``pace`` is in messages a second.
    """

    work: Floats
    pace: Floats
    capacity: Ints
    in_seconds: bool

    def times(self, owner: Ints) -> Floats:
        """(M,) seconds until each member has done its work; partitions without an owner count for no member."""
        owned = owner != NOBODY
        return np.bincount(owner[owned], weights=self.work[owned], minlength=len(self.pace)) / self.pace

    def least(self, wanted: Floats | None = None) -> float:
        """The heaviest member's need under any plan: all at work to the end, or the heaviest partition alone."""
        work = self.work if wanted is None else wanted
        if not len(work) or not len(self.pace):
            return 0.0
        return max(float(work.sum() / self.pace.sum()), float(work.max() / self.pace.max()))


def forecast(group: Group, owner: Ints, strategy: Assignor, load: Load, acting: Acting) -> tuple[Outlook, Ints]:
    """The outlook, and (P,) the future owners; the present owner if no plan is worth a try.

    group
        Its members and partitions; what it says of the past does not count.
    owner
        (P,) who owns what now; -1 nobody.
    """
    times = load.times(owner)
    heaviest = int(times.argmax())
    before, least = float(times[heaviest]), load.least(np.where(owner != NOBODY, load.work, 0.0))
    member = group.instance_ids[heaviest] or group.members[heaviest]
    no_plan = Outlook(before, before, least, member, 0, load.in_seconds)
    goal = max(before * (1 - acting.gain), acting.horizon_s if load.in_seconds else 0.0)
    if least > goal or (load.in_seconds and before <= acting.horizon_s):
        return no_plan, owner
    target = checked(loaded(group, load).holding(owner), strategy).owner
    target = np.where((owner != NOBODY) & (target != NOBODY), target, owner)
    if acting.moves is not None:
        target = limited(owner, target, load, acting.moves)
    moves = int(np.count_nonzero(target != owner))
    after = float(load.times(target).max())
    return replace(no_plan, after=after, moves=moves), target


def loaded(group: Group, load: Load) -> Group:
    """The group as the strategy is asked: work ahead is lag and weight, and learned speeds are capacities."""
    work = np.rint(np.minimum(load.work, WORK_MAX)).astype(np.int64)
    unknown = np.full(group.P, UNKNOWN, dtype=np.int64)
    return replace(
        group,
        facts={**group.facts, "capacity": load.capacity},
        offsets=Offsets(unknown, unknown, unknown, work),
        weight=work.astype(np.float64),
    )


def limited(owner: Ints, target: Ints, load: Load, moves: int | float) -> Ints:
    """(P,) as near to the target as so many moves go, each time the move that leaves the heaviest member least.

    moves
        How many; below 1 the share of all work that may move.
    """
    best = now = owner.copy()
    held = load.times(owner)
    least = float(held.max())
    room = moves * float(load.work.sum()) if moves < 1 else np.inf
    waiting = np.flatnonzero(owner != target).tolist()
    for _ in range(min(len(waiting), int(moves)) if moves >= 1 else len(waiting)):
        fits = [p for p in waiting if load.work[p] <= room]
        if not fits:
            break
        after = {p: _moved(held, load, p, int(now[p]), int(target[p])) for p in fits}
        p = min(fits, key=lambda p: (float(after[p].max()), float((after[p] ** 2).sum()), p))
        held, room = after[p], room - float(load.work[p])
        now = now.copy()
        now[p] = target[p]
        waiting.remove(p)
        if float(held.max()) < least:
            best, least = now, float(held.max())
    return best


def _moved(held: Floats, load: Load, p: int, giver: int, taker: int) -> Floats:
    after = held.copy()
    after[giver] -= load.work[p] / load.pace[giver]
    after[taker] += load.work[p] / load.pace[taker]
    return after


def labels(members: Sequence[str], instance_ids: Sequence[str | None]) -> tuple[str, ...]:
    """(M,) the name that a member keeps over a restart: its instance id, else its member id."""
    return tuple(i or m for i, m in zip(instance_ids, members, strict=True))

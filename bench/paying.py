"""A rule that pays for its acts, to compare with the product's: ski rental with one measured number.

A rebalance costs as much waiting as if all that comes in within ``tau_s`` seconds had waited half as long, and each
partition that moves its standstill and what is read again. An act is due once the plan would have spared a quarter of
its cost since the last act, and that together with what it spares if things go on comes to the whole. So all acts
together cost at most four times the waiting that was avoidable. Source: the ski-rental problem; CUSUM.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from apportion.acting.forecast import loaded
from apportion.acting.loop import Loop, Planned
from apportion.acting.rule import Acting, Decision
from apportion.acting.speeds import Sample
from apportion.arrays import Bools, Floats, Ints, Longs
from apportion.assignors import Assignor
from apportion.model.group import Group
from apportion.planning import checked

AHEAD_S: Final = 60.0
"""Seconds of what comes in that a plan shares beside the lag."""
FAR_S: Final = 300.0
"""Seconds ahead that waiting is foreseen for at most."""
LOG_MAX: Final = 31
"""Looks since the last act that are remembered."""


class Paying:
    """The product's loop for what it knows; its own decision."""

    def __init__(self, strategy: Assignor, tau_s: float = 10.0, pause_s: float = 3.0, again_s: float = 2.5) -> None:
        self._known = Loop(Acting(horizon_s=AHEAD_S), strategy, learned=True)
        self._strategy, self._tau_s, self._pause_s, self._again_s = strategy, tau_s, pause_s, again_s
        self._log: list[tuple[float, Floats, Floats]] = []
        self._since_s = 0.0

    def generation(self, at_s: float, group: Group, owner: Ints) -> None:
        """A rebalance ended: the log begins anew."""
        self._known.generation(at_s, group, owner)
        self._group, self._owner, self._since_s, self._log = group, owner.copy(), at_s, []

    def look(self, sample: Sample, lag: Longs, known: Bools) -> Planned:
        """Act if what the plan spared since the last act pays for it."""
        self._known.history.add(sample)
        stuck = self._known.history.stuck()
        self._log.append((sample.at_s, sample.end.astype(np.float64), lag.astype(np.float64)))
        self._log = self._log[-LOG_MAX:]
        seen, no = self._known.seen(), Planned(Decision(False, ""))
        load = None if seen is None else seen.load(self._group, lag, known)
        if load is None or len(self._log) < 3 or sample.at_s - self._since_s < 3 * LOOK_GAP_S:
            return no
        members = self._group.M
        kept_up = max(seen.at_least.values(), default=0.0) if seen is not None else 0.0
        speed = load.pace if load.in_seconds else np.full(members, kept_up)
        at, ends, lags = (np.array(column) for column in zip(*self._log, strict=True))
        ends, lags = np.where(stuck, 0.0, ends), np.where(stuck, 0.0, lags)
        first = max(0, len(at) - 7)
        rate = (ends[-1] - ends[first]) / (at[-1] - at[first])
        fixed = float(rate.sum()) * self._tau_s**2 / 2
        if not speed.any() or _wait(self._owner, lags[-1], rate, speed, FAR_S) < fixed / 4:
            return no
        target = checked(loaded(self._group, replace(load)).holding(self._owner), self._strategy).owner
        moves = target != self._owner
        each = self._pause_s * (lags[-1] + rate * self._pause_s / 2) + self._again_s * rate * 5
        cost = fixed + float(each[moves].sum())
        spared, since_s = self._spared(target, at, ends, lags, speed)
        ahead_s = min(max(at[-1] - since_s, 20.0), FAR_S)
        now, then = (_wait(owner, lags[-1], rate, speed, ahead_s) for owner in (self._owner, target))
        if not moves.any() or spared < cost / 4 or spared + now - then < cost:
            return no
        return Planned(
            Decision(True, f"spared {spared:,.0f}, {now - then:,.0f} to come, cost {cost:,.0f}"), None, target
        )

    def _spared(self, target: Ints, at: Floats, ends: Floats, lags: Floats, speed: Floats) -> tuple[float, float]:
        """Message-seconds that the target would have spared on what came in, and since when; the best beginning."""
        reads = np.zeros((len(speed), len(target)))
        reads[target, np.arange(len(target))] = 1
        came, real = np.diff(ends, axis=0) @ reads.T, lags.sum(axis=1)
        spared, since_s, unread = 0.0, float(at[0]), lags[0] @ reads.T
        for k in range(len(at) - 1):
            if spared <= 0:
                spared, since_s, unread = 0.0, float(at[k]), lags[k] @ reads.T
            seconds = at[k + 1] - at[k]
            after = np.maximum(0.0, unread + came[k] - speed * seconds)
            spared += seconds * ((real[k] + real[k + 1]) / 2 - (unread.sum() + after.sum()) / 2)
            unread = after
        return spared, since_s


def _wait(owner: Ints, lag: Floats, rate: Floats, speed: Floats, ahead_s: float) -> float:
    """Message-seconds of waiting within a time, if members go on as fast and as much comes in."""
    unread, comes = (np.bincount(owner, weights=of, minlength=len(speed)) for of in (lag, rate))
    grows = comes - speed
    until_s = np.where(grows < 0, np.minimum(unread / np.maximum(-grows, 1e-9), ahead_s), ahead_s)
    return float((unread * until_s + grows * until_s**2 / 2).sum())


LOOK_GAP_S: Final = 10.0
"""Three times this must have passed since the last act."""

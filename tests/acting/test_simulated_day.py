"""The simulation that the docs' tables come from: acting relieves by its defaults, does no harm, and does not flap."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from apportion.acting.loop import Loop
from apportion.acting.rule import Acting
from apportion.assignors import find
from bench.acting import LOOK_S, NEVER, RULE, TRACES, Course, Slow, Trace, picture, row, run

STRATEGY = find("cooperative-lag-aware", {"max_skew": 40})
HELPED = (
    "a hot key that wanders",
    "unequal partitions",
    "drifting shares",
    "a member half as fast",
    "a member that stalls",
)


def courses(name: str, hours: float) -> list[Course]:
    """Never acting, and by the rule's defaults."""
    return [run(TRACES[name](1), loop, STRATEGY, hours) for loop in (None, Loop(Acting(), STRATEGY, learned=True))]


@pytest.mark.slow
@pytest.mark.parametrize("name", TRACES)
def test_acting_by_its_defaults_helps_where_a_plan_can_and_harms_nowhere(name: str) -> None:
    never, rule = courses(name, 1.5)
    # A key that wanders each three minutes leaves a look, a hold and a rest not much of its time.
    waits, would_wait = np.mean(rule.unread), np.mean(never.unread)
    assert waits <= (would_wait / 3 if name in HELPED else 1.02 * would_wait + 1), (waits, would_wait)
    acts = [0, *rule.acts]
    assert all(b - a >= Acting().rest_s for a, b in pairwise(acts))


@pytest.mark.parametrize("name", ["even", "a member that commits each minute", "a partition that nobody can read"])
def test_a_group_that_keeps_up_is_left_alone(name: str) -> None:
    """Also if a member commits rarely, and if a partition's lag grows because nobody can read it."""
    _, rule = courses(name, 1.5)
    assert rule.acts == []


def test_a_member_that_stalled_gets_partitions_again() -> None:
    _, rule = courses("a member that stalls", 2.5)
    assert np.bincount(rule.owner, minlength=8)[0] > 0
    assert rule.heaviest[-1] < 1_000


@pytest.mark.slow
def test_where_the_load_stands_still_acting_ends() -> None:
    class Steady(Slow):
        """Without noise."""

        def rate(self, second: int) -> np.ndarray:  # type: ignore[type-arg]
            return np.asarray(self.shares(second) * self.total(second))

    course = run(Steady(0), Loop(Acting(), STRATEGY, learned=True), STRATEGY, 2)
    assert 1 <= len(course.acts) <= 4, course.reasons
    assert course.heaviest[-1] < 1_000


class Adversary(Trace):
    """Hurts the rule: just after it may have acted, another partition gets more than any member can read."""

    def rate(self, second: int) -> np.ndarray:  # type: ignore[type-arg]
        """A fifth of all comes to one partition, drawn anew as soon as the group has rested."""
        if second % (Acting().rest_s + 2 * LOOK_S) == 0:
            self.hot = int(self.rng.integers(self.world.partitions))
        shares = np.full(self.world.partitions, 0.8 / self.world.partitions)
        shares[self.hot] += 0.2
        return np.asarray(shares * self.total(second) * self.rng.uniform(0.5, 1.5))


@pytest.mark.parametrize("seed", range(3))
def test_a_trace_that_is_made_to_hurt_stays_within_the_bound(seed: int) -> None:
    """At most 3600 / rest_s acts an hour, each two rebalances for a cooperative group."""
    course = run(Adversary(seed), Loop(Acting(), STRATEGY, learned=True), STRATEGY, 1)
    assert 2 * len(course.acts) <= 2 * 3600 / Acting().rest_s


def test_the_table_and_the_picture_tell_all_ways() -> None:
    course = run(TRACES["even"](1), None, STRATEGY, 0.1)
    cells = row("even", NEVER, course, 0.1).split("|")
    assert cells[1:4] == [" even ", " never ", " 0.00 "]
    drawn = picture({"even": {NEVER: course.heaviest, RULE: course.heaviest}}, 0.1)
    assert drawn.count("<path") >= 2
    assert "NaN" not in drawn

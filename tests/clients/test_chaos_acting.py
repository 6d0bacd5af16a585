"""A group that acts on its lag, under fire: it acts, nothing is doubled or lost, and it does not flap.

The leader is a kafka-python member that joins first and lives to the end; the others join, leave, freeze and die, and
the broker is killed. After each of these events four records of five go to the partitions of one member, and the group
has time for its rest and its hold, as no group has in ``test_chaos.py``.
"""

from __future__ import annotations

import os
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.support.member import PythonMember

from .chaos import SESSION_MS, Arena
from .judge import Life, backwards, two_owners, unread
from .script import Event, Script

pytestmark = [pytest.mark.broker, pytest.mark.thorough]  # for make chaos: test_chaos.py has the short run
GROUP = "cooperative-lag-aware"
ACTING = {"gain": 0.1, "hold_s": 1.0, "rest_s": 5.0, "horizon_s": 1.0}
FOLLOWERS = ("java", "confluent", "aiokafka")
FROZEN_S = SESSION_MS / 1000 + 2
LONG = os.environ.get("APPORTION_CHAOS") == "long"
EVENTS = (
    Event(0, "joined", 4, "kafka-python"), Event(0, "killed", 3), Event(0, "froze", 2), Event(FROZEN_S, "thawed", 2),
    Event(0, "broker_killed"),
    *((Event(0, "left", 1), Event(0, "joined", 5, "java"), Event(0, "killed", 4)) if LONG else ()),
)  # fmt: skip
"""Each takes as long as the group rests and holds; the last ones are for ``make chaos``."""


@pytest.mark.timeout(900)
def test_a_group_that_acts_loses_and_doubles_nothing_under_fire(
    jars: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    began = time.time()
    with Arena(tmp_path, Script(0, FROZEN_S, len(EVENTS)), {GROUP: GROUP}, ["kafka-python"], ACTING) as arena:
        [ones] = arena.groups.values()
        leader = ones[0].member
        for slot, kind in enumerate(FOLLOWERS, 1):
            arena.settle()
            arena.befall(Event(0, "joined", slot, kind))
        arena.settle()
        for event in EVENTS:
            arena.befall(event)
            if event.what != "froze":
                arena.settle()
                slow = [one for one in arena.living() if isinstance(one.member, PythonMember)]
                loaded = max(slow, key=lambda one: len(one.owned))
                arena.producer.hot = frozenset(loaded.owned)
                wait_for_an_act(leader, 4 * (ACTING["rest_s"] + ACTING["hold_s"]))
        arena.settle()
        arena.caught_up()
        ended = time.time()
        lives = [life_of(one) for one in ones]
        doubled, missing = list(two_owners(lives)), unread(lives, arena.ends)
        back, generations = backwards(arena.broker.bootstrap, [GROUP]), arena.generation(GROUP)
        records = sum(arena.ends.values())
    acts = sorted(plan["at"] for one in ones for plan in one.member.events if is_act(plan))
    with capsys.disabled():
        print(
            f"\nchaos with acting: {ended - began:.0f} s, {len(EVENTS)} events, {records} records, {generations} "
            f"rebalances, of which the leader asked for {len(acts)}"
        )
    assert len(acts) >= 2, "the group never acted, and nothing was tried"
    assert all(b - a >= ACTING["rest_s"] - 0.5 for a, b in pairwise(acts)), acts
    assert len(acts) <= (ended - began) / ACTING["rest_s"]
    assert not doubled
    assert not missing
    assert not back


def is_act(event: dict[str, Any]) -> bool:
    """Whether a leader planned a rebalance that it had asked for because of the lag."""
    return event["event"] == "planned" and event.get("cause") == "lag"


def wait_for_an_act(leader: Any, patience_s: float) -> None:
    """Until it acts; a group that is even as it is may let this pass."""
    before, until = sum(map(is_act, list(leader.events))), time.monotonic() + patience_s
    while time.monotonic() < until and sum(map(is_act, list(leader.events))) == before:
        time.sleep(0.1)


def life_of(one: Any) -> Life:
    """A member's events; aiokafka gives up all at each join."""
    return Life(one.name, one.kind != "aiokafka", list(one.member.events), one.ended, one.kind, tuple(one.fell)).live()

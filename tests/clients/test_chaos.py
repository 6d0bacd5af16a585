"""Chaos on a real broker: whoever joins, leaves, freezes or dies, no partition has two owners and no record is lost.

``APPORTION_CHAOS=long`` goes on until both groups together saw 300 rebalances; ``APPORTION_CHAOS_SEED`` chooses the
events.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from .chaos import Arena
from .judge import Life, backwards, read_again, two_owners, unread

pytestmark = [pytest.mark.broker, pytest.mark.slow]
LONG = os.environ.get("APPORTION_CHAOS") == "long"
SEED = int(os.environ.get("APPORTION_CHAOS_SEED", "7"))
EVENTS = ("joined", "left", "killed", "froze", "resubscribed", "grown")
REBALANCES = 300


@pytest.mark.timeout(3600 if LONG else 280)
def test_nothing_is_doubled_or_lost_in_chaos(jars: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Two groups, Java, kafka-python and aiokafka in each, under the same random events and a killed broker."""
    began = time.monotonic()
    with Arena(tmp_path, SEED) as arena:
        arena.settle(60)
        shake(arena)
        arena.settle(60)
        rounds = last_leaves(arena)
        arena.caught_up()
        generations = {group: arena.generation(group) for group in arena.groups}
        lives = {group: [lived(arena, group, one) for one in ones] for group, ones in arena.groups.items()}
        doubled = {group: list(two_owners(of_group)) for group, of_group in lives.items()}
        missing = {group: unread(of_group, arena.ends) for group, of_group in lives.items()}
        twice = {group: read_again(of_group) for group, of_group in lives.items()}
        back = backwards(arena.broker.bootstrap, arena.groups)
        records = sum(arena.ends.values())
    with capsys.disabled():
        print(
            f"\nchaos: seed {SEED}, {time.monotonic() - began:.0f} s, {len(arena.told)} events, {records} records, "
            f"rebalances {generations}, read again {twice}, rounds to settle after the last event {rounds}"
        )
    assert not any(doubled.values()), doubled
    assert not any(missing.values()), missing
    assert not back
    assert all(1 <= count <= 2 for count in rounds.values()), rounds


def shake(arena: Arena) -> None:
    """Events with little time between them; the broker dies once in a while."""
    bag: list[str] = []
    n = 0
    while True:
        if not bag:
            bag = list(EVENTS)
            arena.random.shuffle(bag)
        arena.befall(bag.pop())
        n += 1
        time.sleep(arena.random.uniform(0.5, 3))
        if n % (30 if LONG else 8) == 0:
            arena.befall("broker_killed")
        done = sum(map(arena.generation, arena.groups)) >= REBALANCES if LONG else n >= 14
        if done:
            return


def last_leaves(arena: Arena) -> dict[str, int]:
    """The last event of all, and how many generations each group needed to settle after it."""
    for group in arena.groups:
        while len(arena.living(group)) < 3:
            arena.join(group, "kafka-python")
    arena.settle(60)
    before = {group: arena.generation(group) for group in arena.groups}
    arena.befall("left")
    time.sleep(1)
    arena.settle(60)
    return {group: arena.generation(group) - before[group] for group in arena.groups}


def lived(arena: Arena, group: str, one) -> Life:
    """A member's events; the listener's clean-up at the end of the test is no part of its life."""
    keeps = group == "cooperative-sticky" and one.kind != "aiokafka"
    return Life(one.name, keeps, list(one.member.events), one.ended).live()

"""Chaos on a real broker: whoever joins, leaves, freezes or dies, no partition has two owners and no record is lost.

``APPORTION_CHAOS=long`` goes on until the groups together saw 300 rebalances; ``APPORTION_CHAOS_SEED`` chooses the
events. A group that acts on its lag has a test of its own, where events come less often than it rests.
"""

from __future__ import annotations

import os
import time
from itertools import islice
from pathlib import Path

import pytest

from .chaos import SESSION_MS, STRATEGY, Arena, One
from .judge import Life, backwards, of_the_living, read_again, two_owners, unread
from .script import Script

pytestmark = [pytest.mark.broker, pytest.mark.slow]
LONG = os.environ.get("APPORTION_CHAOS") == "long"
SEED = int(os.environ.get("APPORTION_CHAOS_SEED", "7"))
REBALANCES, EVENTS = 300, 9


@pytest.mark.timeout(3600 if LONG else 900)
def test_nothing_is_doubled_or_lost_in_chaos(jars: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Three groups, Java, kafka-python, confluent-kafka and aiokafka, under the same events and a killed broker.

    Over many events (``make chaos``) a rebalance of the cooperative one of two groups of the same members makes the
    living read fewer records twice, and all of its rebalances together do. What the fallen had not committed is printed
    beside it but not compared: it depends on how long ago each happened to have committed.
    """
    began = time.monotonic()
    script = Script(SEED, frozen_s=SESSION_MS / 1000 + 2, broker_every=30 if LONG else 8)
    with Arena(tmp_path, script) as arena:
        arena.settle()
        shake(arena)
        arena.settle()
        rounds = last_leaves(arena)
        arena.caught_up()
        generations = {group: arena.generation(group) for group in arena.groups}
        lives = {group: [lived(group, one) for one in ones] for group, ones in arena.groups.items()}
        doubled = {group: list(two_owners(of_group)) for group, of_group in lives.items()}
        missing = {group: unread(of_group, arena.ends) for group, of_group in lives.items()}
        twice = {group: read_again(of_group) for group, of_group in lives.items()}
        back = backwards(arena.broker.bootstrap, arena.groups)
        records = sum(arena.ends.values())
    living = {group: of_the_living(by_kind) for group, by_kind in twice.items()}
    with capsys.disabled():
        print(
            f"\nchaos: seed {SEED}, {time.monotonic() - began:.0f} s, {len(arena.told)} events, {records} records, "
            f"rebalances {generations}, rounds to settle after the last event {rounds}"
        )
        for group, by_kind in twice.items():
            print(f"read again, {group}: {sum(by_kind.values())}, {living[group]} of them of the living: {by_kind}")
    assert not any(doubled.values()), doubled
    assert not any(missing.values()), missing
    assert not back
    assert all(1 <= count <= 2 for count in rounds.values()), rounds
    if LONG:  # over few events it is a matter of chance
        a_rebalance = {group: living[group] / generations[group] for group in ("cooperative", "eager")}
        assert a_rebalance["cooperative"] < a_rebalance["eager"], (twice, generations)
        assert living["cooperative"] < living["eager"], twice


def shake(arena: Arena) -> None:
    """The script's events with little time between them; the broker dies once in a while."""
    for event in arena.script if LONG else islice(arena.script, EVENTS):
        arena.befall(event)
        if LONG and sum(map(arena.generation, arena.groups)) >= REBALANCES:
            break
    for event in arena.script.end():
        arena.befall(event)


def last_leaves(arena: Arena) -> dict[str, int]:
    """The last event of all, and how many generations each group needed to settle after it."""
    for event in arena.script.joins_up_to(3):
        arena.befall(event)
    arena.settle()
    before = {group: arena.generation(group) for group in arena.groups}
    arena.befall(arena.script.last())
    time.sleep(1)  # else the group may still be called settled
    arena.settle()
    return {group: arena.generation(group) - before[group] for group in arena.groups}


def lived(group: str, one: One) -> Life:
    """A member's events; the listener's clean-up at the end of the test is no part of its life."""
    keeps = STRATEGY[group].startswith("cooperative") and one.kind != "aiokafka"
    return Life(one.name, keeps, list(one.member.events), one.ended, one.kind, tuple(one.fell)).live()

"""Forty members of one group and 400 partitions settle, and one that leaves moves nobody else's partitions.

``bench/big_group.py`` does the same with hundreds of members and thousands of partitions.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from apportion.clients.rebalance import PlannedRebalance
from apportion.testing.broker import Broker

from .groups import new_name

pytestmark = [pytest.mark.broker, pytest.mark.slow]
MEMBERS, PARTITIONS, PATIENCE_S = 40, 400, 240


def test_forty_members_settle_and_keep_what_they_have(broker: Broker, capsys: pytest.CaptureFixture[str]):
    topic = new_name("big")
    broker.create_topic(topic, PARTITIONS)
    plans: list[PlannedRebalance] = []
    told = asyncio.run(live(broker.bootstrap, topic, plans))
    largest = max(plans, key=lambda plan: plan.members)
    with capsys.disabled():
        print(
            f"\n{MEMBERS} members, {PARTITIONS} partitions: settled in {told['settled_s']:.1f} s, {len(plans)} plans, "
            f"{largest.ms:.1f} ms for all members, {plans[-1].ms:.1f} ms after one had left"
        )
    assert largest.members == MEMBERS
    assert sorted(map(len, told["before"].values())) == [PARTITIONS // MEMBERS] * MEMBERS
    for name, held in told["after"].items():
        assert told["before"][name] <= held, name
    assert plans[-1].moved == 0
    assert plans[-1].kept >= PARTITIONS - PARTITIONS // MEMBERS


async def live(bootstrap: str, topic: str, plans: list[PlannedRebalance]) -> dict[str, Any]:
    """Start all at once, wait, let one leave, wait again; what each held before and after."""
    members = {f"m{n:02}": member(bootstrap, topic, f"m{n:02}", plans) for n in range(MEMBERS)}
    began = time.monotonic()
    try:
        await asyncio.gather(*(one.start() for one in members.values()))
        before = await settled(members)
        settled_s = time.monotonic() - began
        await members.pop("m00").stop()
        return {"settled_s": settled_s, "before": before, "after": await settled(members)}
    finally:
        await asyncio.gather(*(one.stop() for one in members.values()))


def member(bootstrap: str, topic: str, name: str, plans: list[PlannedRebalance]) -> Any:
    """An aiokafka consumer, since many of them share one thread."""
    from aiokafka import AIOKafkaConsumer

    from apportion.clients.aio_kafka import assignor

    return AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=topic,
        client_id=name,
        session_timeout_ms=30_000,  # forty members of one process must not be expelled while they start
        heartbeat_interval_ms=500,
        enable_auto_commit=False,
        fetch_max_wait_ms=5_000,
        partition_assignment_strategy=[assignor("sticky", on_plan=plans.append)],
    )


async def settled(members: dict[str, Any]) -> dict[str, set[int]]:
    """What each holds as soon as every partition has one owner and all are of one generation."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        held = {name: {part.partition for part in one.assignment()} for name, one in members.items()}
        generations = {one._coordinator.generation for one in members.values()}
        if len(generations) == 1 and sorted(p for ids in held.values() for p in ids) == list(range(PARTITIONS)):
            return held
        await asyncio.sleep(0.1)
    raise AssertionError(
        f"not settled after {PATIENCE_S} s: generations {generations}, {list(map(len, held.values()))}"
    )

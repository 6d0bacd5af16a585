"""Stream join and failover in real groups: what moves, and how soon."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from tests.support.examples import thorough
from tests.support.member import PythonMember

from apportion.clients.aio_kafka import assignor
from apportion.testing.broker import Broker

from .groups import SHORT_MS, Members, new_name, owned, settle

pytestmark = pytest.mark.broker


@pytest.mark.parametrize("client", ["kafka-python", thorough("aiokafka")])
def test_when_a_member_of_a_stream_join_leaves_only_its_two_numbers_move(broker: Broker, client: str, tmp_path: Path):
    """Ten impressions, ten clicks, four members: equal numbers of both topics go together and stay put."""
    impressions, clicks = new_name("impressions"), new_name("clicks")
    for topic in (impressions, clicks):
        broker.create_topic(topic, 10)
    sizes = {impressions: 10, clicks: 10}
    with Members(broker, new_name("join"), list(sizes), tmp_path) as group:
        members = [group.python(client, "sticky-stream-join") for _ in range(4)]
        settle(members, sizes)
        before = [numbers(member, impressions, clicks) for member in members]
        assert sorted(map(len, before)) == [2, 2, 3, 3]
        leaver = next(m for m in range(4) if len(before[m]) == 2)
        members[leaver].leave()
        rest = [m for m in range(4) if m != leaver]
        settle([members[m] for m in rest], sizes)
        after = {m: numbers(members[m], impressions, clicks) for m in rest}
        assert all(before[m] <= after[m] for m in rest)
        assert set().union(*(after[m] - before[m] for m in rest)) == before[leaver]


def numbers(member: PythonMember, *topics: str) -> set[int]:
    """The member's numbers, which are the same in every topic."""
    per_topic = [set(owned(member).get(topic, [])) for topic in topics]
    assert all(each == per_topic[0] for each in per_topic)
    return per_topic[0]


@pytest.mark.parametrize("client", ["kafka-python", thorough("aiokafka")])
@pytest.mark.parametrize("preempt", [thorough(True), False])  # both in examples/failover
def test_a_standby_takes_over_within_the_session(broker: Broker, client: str, preempt: bool, tmp_path: Path):
    """kill -9 the active member: the next takes all within the session time-out; back, it preempts or waits, as set."""
    topic = new_name("failover")
    broker.create_topic(topic, 3)
    everything = {topic: [0, 1, 2]}
    with Members(broker, new_name("failover"), [topic], tmp_path) as group:

        def member(priority: int, **session: int) -> PythonMember:
            settings = {"settings": {"preempt": preempt}, "rebalance_ms": 300_000}
            return group.python(client, "failover", priority=priority, **settings, **session)

        active = member(10, session_ms=SHORT_MS)
        settle([active], {topic: 3}, calm_s=0.2)
        standby, last = member(5), member(1)
        settle([active, standby, last], {topic: 3})
        assert owned(active) == everything
        before, killed = standby.generation, time.monotonic()
        active.kill()
        settle([standby, last], {topic: 3}, calm_s=0)
        took = time.monotonic() - killed
        assert owned(standby) == everything
        assert standby.generation == before + 1, "the one rebalance that the broker calls when the session is over"
        # The broker waits the session out, then at most a heartbeat until the others hear of it: it waits for nobody's
        # rebalance time-out, which is five minutes.
        assert took < 60, took
        back = member(10)
        settle([back, standby, last], {topic: 3})
        assert owned(back if preempt else standby) == everything


def test_an_aiokafka_standby_that_asks_for_no_records_takes_over(broker: Broker) -> None:
    """It holds nothing, so there is nothing to ask for; the client by itself leaves such a member out for good."""
    topic, group = new_name("idle"), new_name("idle")
    broker.create_topic(topic, 2)

    def member(priority: int) -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            topic, bootstrap_servers=broker.bootstrap, group_id=group, heartbeat_interval_ms=500,
            max_poll_interval_ms=3000, partition_assignment_strategy=[assignor("failover", priority=priority)],
        )  # fmt: skip

    async def run() -> float:
        owner, standby = member(10), member(5)
        await owner.start()
        await owner.getmany(timeout_ms=100)
        await standby.start()
        end = time.monotonic() + 10  # several times as long as a member may ask for nothing
        while time.monotonic() < end:
            await owner.getmany(timeout_ms=100)
        assert (len(owner.assignment()), len(standby.assignment())) == (2, 0)
        await owner.stop()
        went = time.monotonic()
        while len(standby.assignment()) < 2 and time.monotonic() < went + 20:
            await asyncio.sleep(0.1)
        took = time.monotonic() - went
        await standby.stop()
        return took

    assert asyncio.run(run()) < 20

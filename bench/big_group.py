"""One group of hundreds of members and thousands of partitions on a real broker: how long until it settles.

    python bench/big_group.py [members] [partitions] [strategy] [processes]

The members are aiokafka consumers in a few processes. Reported: seconds until every partition has one owner and all
members are of one generation, after all have started and again after one has left, and the leader's own time for its
plans (milliseconds, from the members' words to the answer).
"""

from __future__ import annotations

import asyncio
import json
import logging
import multiprocessing
import queue
import sys
import time
from typing import Any

from apportion.testing.broker import Broker

PATIENCE_S = 600


async def worker(bootstrap: str, strategy: str, first: int, count: int, told: Any, orders: Any) -> None:
    """Run some members, and tell of every assignment and plan."""
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener

    from apportion.clients.aio_kafka import assignor

    class Watch(ConsumerRebalanceListener):  # type: ignore[misc]
        def __init__(self, number: int) -> None:
            self.number = number

        def on_partitions_revoked(self, revoked: Any) -> None:
            """Nothing to do."""

        def on_partitions_assigned(self, assigned: Any) -> None:
            generation = members[self.number]._coordinator.generation
            told.put(("assigned", self.number, generation, len(assigned), time.time()))

    def planned(rebalance: Any) -> None:
        told.put(("planned", rebalance.members, rebalance.partitions, rebalance.ms, rebalance.moved, rebalance.kept))

    members: dict[int, Any] = {}

    async def start(number: int) -> None:
        members[number] = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id="big",
            client_id=f"m{number:04}",
            session_timeout_ms=60_000,
            rebalance_timeout_ms=60_000,
            heartbeat_interval_ms=2_000,
            enable_auto_commit=False,
            fetch_max_wait_ms=5_000,
            partition_assignment_strategy=[assignor(strategy, on_plan=planned)],
        )
        members[number].subscribe(topics=["t"], listener=Watch(number))
        await members[number].start()

    await asyncio.gather(*(start(first + i) for i in range(count)))
    while (order := await asyncio.to_thread(orders.get)) != "end":
        await members.pop(order).stop()
    await asyncio.gather(*(member.stop() for member in members.values()))


def run(*args: Any) -> None:
    """One process."""
    logging.basicConfig(level="ERROR")
    asyncio.run(worker(*args))


def settled(told: Any, members: int, partitions: int, plans: list[Any]) -> float:
    """Wait until all members of one generation hold all partitions; the time of the last assignment."""
    newest: dict[int, tuple[int, int]] = {}
    until, last = time.monotonic() + PATIENCE_S, 0.0
    while time.monotonic() < until:
        try:
            event = told.get(timeout=1)
        except queue.Empty:
            continue
        if event[0] == "planned":
            plans.append(event[1:])
            continue
        _, number, generation, count, at = event
        newest[number], last = (generation, count), at
        current = [held for g, held in newest.values() if g == generation]
        if len(current) == members and sum(current) == partitions:
            return last
    raise TimeoutError(f"not settled after {PATIENCE_S} s")


def main() -> None:
    """Start, settle, let one leave, settle again."""
    words = [*sys.argv[1:], *["300", "3000", "sticky", "2"][len(sys.argv) - 1 :]]
    members, partitions, strategy, processes = int(words[0]), int(words[1]), words[2], int(words[3])
    context = multiprocessing.get_context("spawn")
    told, orders = context.Queue(), [context.Queue() for _ in range(processes)]
    with Broker(properties={"group.initial.rebalance.delay.ms": "3000"}, jvm=("-Xmx1g",)) as broker:
        broker.create_topic("t", partitions)
        share = -(-members // processes)
        began, children = time.time(), []
        for n in range(processes):
            count = min(share, members - n * share)
            args = (broker.bootstrap, strategy, n * share, count, told, orders[n])
            children.append(context.Process(target=run, args=args))
            children[-1].start()
        plans: list[Any] = []
        report: dict[str, Any] = {"members": members, "partitions": partitions, "strategy": strategy}
        report["settled_s"] = round(settled(told, members, partitions, plans) - began, 1)
        report["plans"] = [[n, p, round(ms, 1)] for n, p, ms, *_ in plans]
        plans.clear()
        left = time.time()
        orders[-1].put(members - 1)
        report["settled_after_one_left_s"] = round(settled(told, members - 1, partitions, plans) - left, 1)
        report["plan_after_one_left_ms"], report["moved"], report["kept"] = [round(v, 1) for v in plans[-1][2:5]]
        for order in orders:
            order.put("end")
        for child in children:
            child.join(60)
            child.kill()
    print(json.dumps(report))


if __name__ == "__main__":
    main()

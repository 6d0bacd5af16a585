"""One active reader and two that stand by: who reads when the first dies, and when it comes back.

    python -m examples.failover.main

Once with ``preempt`` (the primary takes over as soon as it is back) and once without (nothing moves needlessly).
"""

from __future__ import annotations

import sys
import time
from itertools import pairwise

from apportion.testing.broker import Broker
from examples.running import Worker, tell, told_to_leave, until

PRIORITIES = {"primary": 10, "second": 5, "third": 1}
PARTITIONS = 3


def main() -> None:
    """Both ways, one after the other."""
    with Broker() as broker:
        broker.create_topic("orders", PARTITIONS)
        for preempt in (True, False):
            run(broker, preempt)


def run(broker: Broker, preempt: bool) -> None:
    """Kill the primary, bring it back, and tell who reads after each step and how often the topic changed hands."""
    group = f"failover-{preempt}"

    def start(name: str) -> Worker:
        return Worker("examples.failover.main", "read", broker.bootstrap, group, name, str(preempt))

    print(f"preempt={str(preempt).lower()}:")
    workers = {"primary": start("primary")}
    settle(workers, "primary")
    workers |= {name: start(name) for name in ("second", "third")}
    until("all three are in", lambda: all(worker.of("owns") for worker in workers.values()))
    settle(workers, "primary")
    killed = time.monotonic()
    workers.pop("primary").kill()
    settle(workers, "second", calm_s=0)
    print(f"  primary killed: second reads {PARTITIONS} of {PARTITIONS} after {time.monotonic() - killed:.1f} s")
    before = changes(workers)
    workers["primary"] = start("primary")
    until("the primary is back", lambda: bool(workers["primary"].of("owns")))
    reader = "primary" if preempt else "second"
    settle(workers, reader)
    print(
        f"  primary back: {reader} reads {PARTITIONS} of {PARTITIONS}; third never read: {not ever(workers['third'])}"
    )
    print(f"  hand-overs since it came back: {changes(workers) - before}", flush=True)
    for worker in workers.values():
        worker.leave()


def settle(workers: dict[str, Worker], reader: str, calm_s: float = 1.0) -> None:
    """Wait until ``reader`` has every partition and the others none, for some time."""
    since = [0.0]

    def calm() -> bool:
        owns = {name: worker.newest("owns").get("partitions", 0) for name, worker in workers.items()}
        right = owns == {name: PARTITIONS * (name == reader) for name in workers}
        since[0] = (since[0] or time.monotonic()) if right else 0.0
        return right and time.monotonic() - since[0] >= calm_s

    until(f"{reader} reads everything", calm)


def changes(workers: dict[str, Worker]) -> int:
    """How often anybody began to read the topic."""
    total = 0
    for worker in workers.values():
        counts = [0, *(line["partitions"] for line in worker.of("owns"))]
        total += sum(a == 0 and b > 0 for a, b in pairwise(counts))
    return total


def ever(worker: Worker) -> bool:
    """Whether it ever had a partition."""
    return any(line["partitions"] for line in worker.of("owns"))


def read(bootstrap: str, group: str, name: str, preempt: str) -> None:
    """A consumer with a priority; it tells how many partitions it has after each rebalance."""
    from kafka import KafkaConsumer

    from apportion.clients.kafka_python import assignor

    over = told_to_leave()
    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers=bootstrap,
        group_id=group,
        session_timeout_ms=2000,
        heartbeat_interval_ms=300,
        partition_assignment_strategy=[assignor("failover", priority=PRIORITIES[name], preempt=preempt == "True")],
    )
    seen = -1
    while not over.is_set():
        consumer.poll(timeout_ms=50)
        generation = consumer._coordinator._generation.generation_id
        if generation != seen and not consumer._coordinator.rejoining and generation >= 0:
            seen = generation
            tell("owns", partitions=len(consumer.assignment()), generation=generation)
    consumer.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["read"]:
        read(*sys.argv[2:])
    else:
        main()

"""The oldest message that anybody reads in a deploy by ``leave()``: python -m bench.leaving_deploy

12 pods, each a process with three workers that take 500 ms for each record, and 120 partitions with 24 records a second
over all of them. One pod after the other hands over, is away for a second, and comes back; the next one goes once the
group has settled for half a second. All settings are the clients' defaults; ``done()`` says what is finished.

    --kind WORD      kafka-python or GroupConsumer alone
    --members N, --partitions N, --per-s RATE
"""

from __future__ import annotations

import argparse
import multiprocessing
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

from bench.live_group import close_all, settle, start_all
from bench.rolling_deploy import AWAY_S, CALM_S, ProcessPod, Read, Writer

RECORD_S: Final = 0.5
WORKERS: Final = 3
DRAIN_S: Final = 20.0
KINDS: Final = ("kafka-python", "GroupConsumer")


class LeavingPod(ProcessPod):
    """A pod that hands its partitions over before it goes."""

    def __init__(self, kind: str, slot: int, reads: list[Read], bootstrap: str, topic: str) -> None:
        self.slot, self.owned, self.generation, self._reads = slot, list[int](), -1, reads
        self._pipe, theirs = multiprocessing.get_context("spawn").Pipe()
        self._process = multiprocessing.get_context("spawn").Process(
            target=run_pod, args=(kind, slot, bootstrap, topic, theirs), daemon=True
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)


def run_pod(kind: str, slot: int, bootstrap: str, topic: str, pipe: Any) -> None:
    """Read, have workers work, and tell what was read and is owned, until told to go."""
    from apportion.clients import done, leave

    consumer = consumer_of(kind, bootstrap, topic)

    def work(record: Any) -> None:
        time.sleep(RECORD_S)
        done(consumer, [record])

    with ThreadPoolExecutor(WORKERS) as workers:
        goes = False
        while not (goes and leave(consumer)):
            goes = goes or pipe.poll(0)
            records = records_of(kind, consumer)
            for record in records:
                workers.submit(work, record)
            reads = [(time.time(), slot, p, offset, offset) for p, offset in places(kind, records)]
            pipe.send((reads, owned(kind, consumer), 0, False))
        consumer.close()
    pipe.send(([], [], 0, True))


def consumer_of(kind: str, bootstrap: str, topic: str) -> Any:
    """A member with the client's default settings."""
    if kind == "GroupConsumer":
        from apportion.clients.confluent import GroupConsumer

        config = {"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
        return GroupConsumer(config, [topic], drain_s=DRAIN_S)
    from kafka import KafkaConsumer

    from apportion.clients.kafka_python import assignor

    return KafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest",
        partition_assignment_strategy=[assignor("cooperative-sticky", drain_s=DRAIN_S)],
    )  # fmt: skip


def records_of(kind: str, consumer: Any) -> list[Any]:
    """What has come within 50 ms."""
    if kind == "GroupConsumer":
        return [message for message in consumer.consume(100, 0.05) if message.error() is None]
    return [record for batch in consumer.poll(timeout_ms=50).values() for record in batch]


def places(kind: str, records: list[Any]) -> list[tuple[int, int]]:
    """Partition and offset of each."""
    if kind == "GroupConsumer":
        return [(message.partition(), message.offset()) for message in records]
    return [(record.partition, record.offset) for record in records]


def owned(kind: str, consumer: Any) -> list[int]:
    """The member's partitions."""
    if kind == "GroupConsumer":
        return sorted(p for ids in consumer.assignment().values() for p in ids)
    return sorted(part.partition for part in consumer.assignment())


@dataclass
class Figures:
    """Of one deploy: the age of the oldest message when it was read, how many were older than 1 s, read twice, lost."""

    records: int
    oldest_s: float
    late: int
    twice: int
    lost: int
    took_s: float


def deploy(kind: str, bootstrap: str, topic: str, members: int, partitions: int, per_s: float) -> Figures:
    """Restart each pod once."""
    reads: list[Read] = []
    with ExitStack() as stack:
        writer = Writer(bootstrap, topic, partitions, per_s / partitions)
        pods = [LeavingPod(kind, slot, reads, bootstrap, topic) for slot in range(members)]
        stack.callback(lambda: close_all(pods))
        start_all(pods, partitions, CALM_S)
        writer.start()
        stack.callback(writer.close)
        time.sleep(10)  # behind the quick heartbeats that follow a join
        began = time.time()
        for slot in range(members):
            pods[slot].close()
            time.sleep(AWAY_S)
            pods[slot] = LeavingPod(kind, slot, reads, bootstrap, topic)
            pods[slot].start()
            settle(pods, partitions, CALM_S)
        ended = time.time()
        writer.close()
        time.sleep(3)
        written = [(p, offset) for p, moments in enumerate(writer.written) for offset in range(len(moments))]
    ages: dict[tuple[int, int], float] = {}
    for at, _, p, offset, _ in sorted(reads):
        ages.setdefault((p, offset), at - writer.written[p][offset])
    during = [age for (p, offset), age in ages.items() if began <= writer.written[p][offset] <= ended]
    late = sum(age > 1 for age in during)
    return Figures(len(during), max(during), late, len(reads) - len(ages), len(set(written) - set(ages)), ended - began)


def main() -> None:
    """Deploy each kind, print a table."""
    from apportion.testing.broker import Broker

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--members", type=int, default=12)
    parser.add_argument("--partitions", type=int, default=120)
    parser.add_argument("--per-s", type=float, default=24.0)
    args = parser.parse_args()
    print("| member | records | oldest when it was read | older than 1 s | read twice | lost | took |")
    print("|---|---:|---:|---:|---:|---:|---:|", flush=True)
    with Broker() as broker:
        for kind in [args.kind] if args.kind else KINDS:
            topic = f"leaving-{kind}"
            broker.create_topic(topic, args.partitions)
            seen = deploy(kind, broker.bootstrap, topic, args.members, args.partitions, args.per_s)
            cells = (f"{seen.records:,}", f"{seen.oldest_s:.2f} s", seen.late, seen.twice, seen.lost)
            print(f"| {kind} | {' | '.join(map(str, cells))} | {seen.took_s:.0f} s |", flush=True)


if __name__ == "__main__":
    main()

"""A rolling deploy of twelve members on a real broker, under eleven ways to assign: python -m bench.rolling_deploy

120 partitions, four messages a second into each. One member after the other leaves in good order, is away for a second,
and comes back; the next one goes once the group has settled for half a second. All clients send a heartbeat each second
and commit every five seconds, when partitions are revoked and when they leave; the rest are their defaults. Told of
each:

- seconds that partitions stood still (a message waited for more than 0.25 s): the sum, and the longest of one;
- partitions that another member read than before, messages read twice, rebalances;
- the same as ``what-if --rolling`` says beforehand, from the group as it stood, with a heartbeat as the time of a
  rebalance.

    --only WORD      ways with that word in their names; may come again
    --processes      each Python member in a process of its own, as pods are
    --defaults       the clients' own session (45 s) and heartbeats (3 s)
    --runs N         the same N times over; then the table has the medians, and the most that was read twice
    --members N, --partitions N
    --to PAGE        put the table into this page too, way by way
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from typing import Any, Final

from bench.live_group import close_all, settle, start_all
from bench.page_table import put_table

AWAY_S, CALM_S, STILL_S, COMMIT_MS, PER_S = 1.0, 0.5, 0.25, 5000, 4
HEARTBEAT_MS, SESSION_MS = 1000, 10_000
QUIET_S: Final = 5.0
"""Before each deploy: what stands still meanwhile is the machine's doing."""
Read = tuple[float, int, int, int, int]
"""At which moment who read which partition, from which offset to which."""


class Writer(threading.Thread):
    """Writes evenly to all partitions; knows when it wrote what."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, per_s: float = PER_S) -> None:
        from confluent_kafka import Producer

        super().__init__(daemon=True)
        self._client, self._topic = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1}), topic
        self.written: list[list[float]] = [[] for _ in range(partitions)]
        self._per_s = per_s
        self._over = threading.Event()

    def run(self) -> None:
        """A message to each partition in turn."""
        began, n = time.monotonic(), 0
        while not self._over.wait(0.01):
            due = int((time.monotonic() - began) * self._per_s * len(self.written))
            for n_ in range(n, due):
                partition = n_ % len(self.written)
                self.written[partition].append(time.time())
                self._client.produce(self._topic, b"x", partition=partition)
            n = due
            self._client.poll(0)

    def close(self) -> None:
        """Stop."""
        self._over.set()
        self.join()
        self._client.flush(30)


class Pod(threading.Thread):
    """One member from its start to its end, in a thread.

    reads
        Where it says what it read.
    """

    def __init__(self, slot: int, reads: list[Read], settings: dict[str, Any]) -> None:
        super().__init__(daemon=True)
        self.slot, self.reads, self.settings = slot, reads, settings
        self.over = threading.Event()
        self.owned: list[int] = []
        self.generation = -1

    def batch(self, partition: int, first: int, last: int) -> None:
        """It read these."""
        self.reads.append((time.time(), self.slot, partition, first, last))

    def close(self) -> None:
        """Leave in good order."""
        self.over.set()
        self.join(30)


class KafkaPythonPod(Pod):
    """kafka-python."""

    def run(self) -> None:
        """Poll until it is over."""
        from kafka import KafkaConsumer

        consumer = KafkaConsumer(self.settings.pop("topic"), **self.settings)
        while not self.over.is_set():
            for part, records in consumer.poll(timeout_ms=100).items():
                self.batch(part.partition, records[0].offset, records[-1].offset)
            self.owned = sorted(part.partition for part in consumer.assignment())
            self.generation = consumer._coordinator._generation.generation_id
        consumer.close()


class AioKafkaPod(Pod):
    """aiokafka, in a loop of its own."""

    def run(self) -> None:
        """Poll until it is over."""
        asyncio.run(self._consume())

    async def _consume(self) -> None:
        from aiokafka import AIOKafkaConsumer

        consumer = AIOKafkaConsumer(self.settings.pop("topic"), **self.settings)
        await consumer.start()
        while not self.over.is_set():
            for part, records in (await consumer.getmany(timeout_ms=100)).items():
                self.batch(part.partition, records[0].offset, records[-1].offset)
            self.owned = sorted(part.partition for part in consumer.assignment())
            self.generation = consumer._coordinator.generation
        await consumer.stop()


class ConfluentPod(Pod):
    """confluent-kafka under KIP-848, where the broker knows the generation."""

    def open(self) -> Any:
        """The consumer, which has subscribed."""
        from confluent_kafka import Consumer

        consumer = Consumer(self.settings["client"])
        consumer.subscribe([self.settings["topic"]])
        return consumer

    def look(self, consumer: Any) -> None:
        """What it has now."""
        self.owned = sorted(part.partition for part in consumer.assignment())

    def run(self) -> None:
        """Poll until it is over."""
        consumer = self.open()
        while not self.over.is_set():
            offsets: dict[int, list[int]] = {}
            for message in consumer.consume(500, 0.1):
                if message.error() is None:
                    offsets.setdefault(message.partition(), []).append(message.offset())
            for partition, those in offsets.items():
                self.batch(partition, those[0], those[-1])
            self.look(consumer)
        consumer.close()


class GroupConsumerPod(ConfluentPod):
    """Our strategy beside confluent-kafka."""

    def open(self) -> Any:
        """The consumer."""
        from apportion.clients.confluent import GroupConsumer

        return GroupConsumer(self.settings["client"], [self.settings["topic"]], "cooperative-sticky")

    def look(self, consumer: Any) -> None:
        """What it has now, and since which generation."""
        self.owned = sorted(p for ids in consumer.assignment().values() for p in ids)
        self.generation = consumer._member._coordinator._generation.generation_id


class ProcessPod:
    """A pod in a process of its own, which tells by a pipe what it reads and owns."""

    def __init__(self, number: int, slot: int, reads: list[Read], bootstrap: str, group: str, defaults: bool) -> None:
        self.slot, self.owned, self.generation = slot, list[int](), -1
        self._reads = reads
        ours, theirs = multiprocessing.get_context("spawn").Pipe()
        self._pipe = ours
        arguments = (number, slot, bootstrap, group, theirs, defaults)
        self._process = multiprocessing.get_context("spawn").Process(target=run_pod, args=arguments, daemon=True)
        self._listener = threading.Thread(target=self._listen, daemon=True)

    def start(self) -> None:
        """Start the process."""
        self._process.start()
        self._listener.start()

    def _listen(self) -> None:
        with suppress(EOFError):
            while True:
                batch, self.owned, self.generation, over = self._pipe.recv()
                self._reads.extend(batch)
                if over:
                    return

    def close(self) -> None:
        """Leave in good order."""
        self._pipe.send("close")
        self._listener.join(40)
        self._process.join(10)
        self.owned = []


def run_pod(number: int, slot: int, bootstrap: str, group: str, pipe: Any, defaults: bool) -> None:
    """The process of one pod."""
    if defaults:
        use_defaults()
    reads: list[Read] = []
    pod = ways()[number].make(slot, reads, bootstrap, group)
    pod.start()
    while not pipe.poll(0.05):
        count = len(reads)
        pipe.send((reads[:count], pod.owned, pod.generation, False))
        del reads[:count]
    pod.close()
    pipe.send((reads, [], pod.generation, True))


def use_defaults() -> None:
    """The clients' own time-outs in place of short ones."""
    global HEARTBEAT_MS, SESSION_MS
    HEARTBEAT_MS, SESSION_MS = 3000, 45_000


class JavaPod:
    """A Java consumer in a process."""

    def __init__(self, slot: int, reads: list[Read], settings: dict[str, Any]) -> None:
        self.slot, self.reads, self.settings = slot, reads, settings

    def start(self) -> None:
        """Start the process."""
        from apportion.testing.peers import JavaMember

        self._member = JavaMember(**self.settings)

    @property
    def generation(self) -> int:
        """Of its last join."""
        return self._member.generation

    @property
    def owned(self) -> list[int]:
        """Its partitions."""
        return sorted(p for ids in self._member.assignment.values() for p in ids)

    def close(self) -> None:
        """Leave in good order, and hand in what it read."""
        self._member.close()
        for event in self._member.events:
            if event["event"] == "records":
                for topic, firsts in event["firsts"].items():
                    for p, first in firsts.items():
                        last = event["positions"][topic][p] - 1
                        self.reads.append((event["at"], self.slot, int(p), first, last))


@dataclass(frozen=True)
class Way:
    """How a group assigns.

    make
        A pod from its slot, the reads, the broker, and the group with its topic.
    protocol, assignor
        What ``what-if`` is asked about; None where it has no such strategy.
    """

    name: str
    make: Callable[[int, list[Read], str, str], Any]
    protocol: Any
    assignor: str | None
    static: bool = False


def common(bootstrap: str, group: str) -> dict[str, Any]:
    """Settings by the names that kafka-python and aiokafka share."""
    return {
        "topic": group, "bootstrap_servers": bootstrap, "group_id": group, "auto_offset_reset": "earliest",
        "session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": HEARTBEAT_MS, "auto_commit_interval_ms": COMMIT_MS,
    }  # fmt: skip


def kafka_python(strategy: Callable[[], list[Any]], *, static: bool = False) -> Callable[..., Any]:
    """A maker of kafka-python members."""

    def make(slot: int, reads: list[Read], bootstrap: str, group: str) -> Any:
        more = {"group_instance_id": f"pod-{slot}"} if static else {}
        chosen = {"partition_assignment_strategy": strategy()}
        return KafkaPythonPod(slot, reads, common(bootstrap, group) | chosen | more)

    return make


def aio_kafka(strategy: Callable[[], list[Any]]) -> Callable[..., Any]:
    """A maker of aiokafka members."""

    def make(slot: int, reads: list[Read], bootstrap: str, group: str) -> Any:
        chosen = {"partition_assignment_strategy": strategy()}
        return AioKafkaPod(slot, reads, common(bootstrap, group) | chosen)

    return make


def java(slot: int, reads: list[Read], bootstrap: str, group: str) -> Any:
    """Java's cooperative members."""
    properties = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS}
    settings = {"bootstrap": bootstrap, "group": group, "topics": [group], "properties": properties}
    return JavaPod(slot, reads, settings | {"strategy": "cooperative-sticky", "commit_ms": COMMIT_MS})


def broker_uniform(slot: int, reads: list[Read], bootstrap: str, group: str) -> Any:
    """confluent-kafka under KIP-848."""
    client = {
        "bootstrap.servers": bootstrap, "group.id": group, "group.protocol": "consumer",
        "group.remote.assignor": "uniform", "auto.offset.reset": "earliest", "auto.commit.interval.ms": COMMIT_MS,
        "log_level": 2,
    }  # fmt: skip
    return ConfluentPod(slot, reads, {"topic": group, "client": client})


def group_consumer(slot: int, reads: list[Read], bootstrap: str, group: str) -> Any:
    """``GroupConsumer`` with a cooperative strategy of ours."""
    client = {
        "bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": COMMIT_MS, "heartbeat.interval.ms": HEARTBEAT_MS, "session.timeout.ms": SESSION_MS,
    }  # fmt: skip
    return GroupConsumerPod(slot, reads, {"topic": group, "client": client})


def ways() -> list[Way]:
    """All, the clients' own first, but those last that a run cut short can miss most easily."""
    import aiokafka.coordinator.assignors.roundrobin as aio_round
    import aiokafka.coordinator.assignors.sticky.sticky_assignor as aio_sticky
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor

    from apportion.clients import aio_kafka as in_aio_kafka
    from apportion.clients import kafka_python as in_kafka_python

    def ours(name: str) -> Callable[[], list[Any]]:
        return lambda: [in_kafka_python.assignor(name)]

    def own(kind: Any) -> Callable[[], list[Any]]:
        return lambda: [kind]

    sticky, theirs = "sticky", "cooperative-sticky"
    static = kafka_python(ours(theirs), static=True)
    aio_roundrobin, aio_own_sticky = aio_round.RoundRobinPartitionAssignor, aio_sticky.StickyPartitionAssignor
    return [
        Way(f"kafka-python, its {theirs}", kafka_python(own(CooperativeStickyAssignor)), "cooperative", theirs),
        Way("aiokafka, its sticky", aio_kafka(own(aio_own_sticky)), "eager", sticky),
        Way("Java, CooperativeStickyAssignor", java, "cooperative", theirs),
        Way("confluent-kafka, KIP-848, the broker's uniform", broker_uniform, "consumer", "broker-uniform"),
        Way("ours in aiokafka: sticky", aio_kafka(lambda: [in_aio_kafka.assignor(sticky)]), "eager", sticky),
        Way("ours in kafka-python: sticky", kafka_python(ours(sticky)), "eager", sticky),
        Way(f"ours in kafka-python: {theirs}", kafka_python(ours(theirs)), "cooperative", theirs),
        Way(f"ours in GroupConsumer: {theirs}", group_consumer, "cooperative", theirs),
        Way(f"ours in kafka-python: {theirs}, static ids", static, "cooperative", theirs, static=True),
        Way("kafka-python, its range (default)", kafka_python(own(RangePartitionAssignor)), "eager", "range"),
        Way("aiokafka, its roundrobin (default)", aio_kafka(own(aio_roundrobin)), "eager", "roundrobin"),
    ]  # fmt: skip


@dataclass
class Figures:
    """What a deploy came to, or is said to come to."""

    still_s: float
    longest_s: float
    moved: int
    rebalances: int
    twice: int | None = None
    base_s: float = 0.0
    took_s: float = field(default=0.0)


HEAD: Final = (
    "| way | stood still, partition-seconds | what-if said | longest of one partition | what-if said "
    "| partitions that changed readers | what-if said | read twice | rebalances | what-if said | took |\n"
    "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
)


def medians(runs: list[Figures]) -> Figures:
    """Of each figure by itself, but the most that was read twice: one record is one too many."""
    middle = {
        key.name: statistics.median(getattr(run, key.name) for run in runs)
        for key in fields(Figures)
        if key.name != "twice"
    }
    return Figures(**middle, twice=max((run.twice or 0) for run in runs))


def row(name: str, seen: Figures, foretold: Figures) -> str:
    """A line of the table."""
    cells = [
        name, f"{seen.still_s:,.0f}", f"{foretold.still_s:,.0f}", f"{seen.longest_s:.1f} s",
        f"{foretold.longest_s:.0f} s", f"{seen.moved:.0f}", f"{foretold.moved:.0f}", f"{seen.twice:,}",
        f"{seen.rebalances:.0f}", f"{foretold.rebalances:.0f}", f"{seen.took_s:.0f} s",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def foretell(way: Way, pods: list[Any], group: str, partitions: int) -> Figures:
    """What ``what-if --rolling`` says of the group as it stands."""
    from apportion.rollouts import Times, rollout

    members = {f"pod-{pod.slot:02}": {"topics": [group], "owned": {group: pod.owned}, "generation": 1} for pod in pods}
    times = Times(restart_s=AWAY_S, session_s=SESSION_MS / 1000, rebalance_s=HEARTBEAT_MS / 1000)
    raw = {"topics": {group: partitions}, "members": members}
    stages = rollout(raw, ["rolling 1"], way.protocol, way.assignor, static=way.static, times=times)
    return Figures(
        sum(stage.standstill_s for stage in stages),
        max(stage.longest_s for stage in stages),
        sum(stage.read_anew for stage in stages),
        sum(stage.generations for stage in stages),
    )


def judge(reads: list[Read], written: list[list[float]], began: float, ended: float) -> Figures:
    """From what was read: a partition stands still while a message of it waits, if for more than ``STILL_S``."""
    still, moved, twice = [0.0], 0, 0
    by_partition: dict[int, list[Read]] = {}
    for read in sorted(reads):
        by_partition.setdefault(read[2], []).append(read)
    for partition, its in by_partition.items():
        for before, after in pairwise(its):
            if not began <= after[0] <= ended:
                continue
            moved += before[1] != after[1]
            waits = after[0] - max(before[0], written[partition][after[3]])
            still += [waits] if waits > STILL_S else []
        top = -1
        for _, _, _, first, last in its:
            twice += max(0, min(top, last) - first + 1)
            top = max(top, last)
    return Figures(sum(still), max(still), moved, 0, twice)


def generation_of(bootstrap: str, group: str, pods: list[Any]) -> int:
    """The group's generation; of a KIP-848 group its epoch, which the broker tells."""
    if type(pods[0]) is not ConfluentPod:
        return max(int(pod.generation) for pod in pods)
    from apportion.sources import live
    from apportion.sources.config import connection

    return int(live.groups(connection(bootstrap, None, None), [group])[0].generation or 0)


def deploy(
    way: Way, bootstrap: str, group: str, size: int, partitions: int, alone: Callable[..., Any] | None = None
) -> tuple[Figures, Figures]:
    """What one way came to, and what was said of it beforehand; ``alone`` makes its pods processes."""
    reads: list[Read] = []
    make = alone or way.make
    with ExitStack() as stack:
        writer = Writer(bootstrap, group, partitions)
        pods: list[Any] = [make(slot, reads, bootstrap, group) for slot in range(size)]
        stack.callback(lambda: close_all(pods))
        start_all(pods, partitions, CALM_S)
        writer.start()
        stack.callback(writer.close)
        time.sleep(2)
        foretold, quiet = foretell(way, pods, group, partitions), time.time()
        time.sleep(QUIET_S)
        first, began = generation_of(bootstrap, group, pods), time.time()
        for slot in range(size):
            pods[slot].close()
            time.sleep(AWAY_S)
            pods[slot] = make(slot, reads, bootstrap, group)
            pods[slot].start()
            settle(pods, partitions, CALM_S)
        rebalances, ended = generation_of(bootstrap, group, pods) - first, time.time()
        time.sleep(1)
    seen = judge(reads, writer.written, began, ended)
    seen.rebalances, seen.took_s = rebalances, ended - began
    seen.base_s = judge(reads, writer.written, quiet, began).still_s
    return seen, foretold


def lines(args: argparse.Namespace) -> Iterator[str]:
    """The table, way by way; a way that fails says so and the others go on."""
    from apportion.testing.broker import Broker

    # Of the new protocol the broker sets the heartbeat.
    settings = {"group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS)}
    runs: dict[str, list[tuple[Figures, Figures]]] = {}
    with Broker(properties=settings) as broker:
        for run, (n, way) in product(range(args.runs), enumerate(ways())):
            if args.only and not any(word in way.name for word in args.only):
                continue
            group = f"deploy-{n}-{run}"
            broker.create_topic(group, args.partitions)
            alone = partial(ProcessPod, n, defaults=args.defaults) if args.processes else None
            try:
                seen, foretold = deploy(way, broker.bootstrap, group, args.members, args.partitions, alone)
            except TimeoutError as late:
                yield f"{way.name}: {late}"
                continue
            runs.setdefault(way.name, []).append((seen, foretold))
            if args.runs > 1:
                yield f"run {run + 1}: {row(way.name, seen, foretold)}"
            if seen.base_s:
                yield f"{way.name}: {seen.base_s:.1f} partition-seconds stood still in {QUIET_S:.0f} s before"
    yield HEAD
    for name, pairs in runs.items():
        seen, foretold = (medians([pair[side] for pair in pairs]) for side in (0, 1))
        yield row(name, seen, foretold)


def main() -> None:
    """Deploy under each way, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--members", type=int, default=12)
    parser.add_argument("--partitions", type=int, default=120)
    parser.add_argument("--to", type=Path)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--processes", action="store_true")
    parser.add_argument("--defaults", action="store_true")
    args = parser.parse_args()
    if args.defaults:
        use_defaults()
    table = []
    for line in lines(args):
        print(line, flush=True)
        table += line.splitlines() if line.startswith("|") else []
        if args.to:
            put_table(args.to, "rolling_deploy", table)


if __name__ == "__main__":
    main()

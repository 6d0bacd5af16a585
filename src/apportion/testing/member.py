"""A Python member of a group in a process of its own; it tells what happens to it in JSON lines.

    python -m apportion.testing.member '{"client": "kafka-python", "bootstrap": "127.0.0.1:9092", "group": "g",
                                         "topics": ["clicks"], "strategies": ["cooperative-sticky"]}'

Fields besides these: ``name``, ``instance`` (static id), ``rack``, ``priority``, ``settings`` (of the strategy),
``session_ms`` (6000), ``commit_ms`` (0: commit after each batch; -1: never), ``poll_ms`` (100), ``pause_ms`` (between
polls), ``client`` ("kafka-python", "aiokafka", "confluent"), ``plain`` (true: the client's own strategies of those
names), ``consumer`` (more of the client's own arguments), ``lag`` (true: a lag feed), ``admin`` (the feed's arguments).

Lines out: ``{"at": seconds, "event": ..., "member": name, ...}`` with the events

    joined      the first assignment: member_id
    assigned    generation, partitions (all that it has now)
    revoked     partitions, before it gives them up; lost: the same, after it was expelled
    read        topic, partition, first, last: offsets of one batch
    committed   offsets {"clicks-0": 5}; or refused: why
    planned     what a leader's ``on_plan`` hook got
    error       what went wrong; left: it said good-bye

Lines in: ``leave``, ``topics a,b``. ``PythonMember`` starts one and collects its lines.
"""

from __future__ import annotations

import asyncio
import json
import logging
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from apportion.testing import processes

Config = Mapping[str, Any]


AWAY = ("KafkaTimeoutError", "KafkaConnectionError", "NoBrokersAvailable")
"""What a client raises while no broker answers."""


class PythonMember:
    """A member process: its events so far, and what it owns."""

    def __init__(self, log: Path | None = None, **config: Any) -> None:
        self.config = config
        self.name = str(config.get("name", config.get("client", "kafka-python")))
        self.events: list[dict[str, Any]] = []
        self.log = log
        self._log = log.open("ab") if log else None
        command = [sys.executable, "-m", "apportion.testing.member", json.dumps(config)]
        self.process: subprocess.Popen[Any] = processes.start(
            command, log=self._log or subprocess.DEVNULL, stdout=subprocess.PIPE
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None  # noqa: S101 - we asked for a pipe
        for line in self.process.stdout:
            self.events.append(json.loads(line))

    def of(self, event: str) -> list[dict[str, Any]]:
        """All events of a kind so far."""
        return [e for e in list(self.events) if e["event"] == event]

    @property
    def owned(self) -> dict[str, list[int]]:
        """What it owns by its own word."""
        for event in reversed(list(self.events)):
            if event["event"] == "assigned":
                return {topic: sorted(ids) for topic, ids in event["partitions"].items()}
            if event["event"] in ("lost", "left"):
                return {}
        return {}

    @property
    def generation(self) -> int:
        """Of its newest assignment; -1 before."""
        seen = self.of("assigned")
        return int(seen[-1]["generation"]) if seen else -1

    @property
    def member_id(self) -> str:
        """As the broker named it last."""
        seen = self.of("assigned")
        return str(seen[-1]["member_id"]) if seen else ""

    def say(self, line: str) -> None:
        """Send a line to the process."""
        assert self.process.stdin is not None  # noqa: S101
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def leave(self, patience_s: float = 15) -> None:
        """Close the consumer in good order and end."""
        try:
            self.say("leave")
            self.process.wait(patience_s)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            pass
        self.close()

    def kill(self) -> None:
        """Kill -9: it says nothing to anybody."""
        self.close()

    def signal(self, number: int) -> None:
        """SIGSTOP, SIGCONT."""
        self.process.send_signal(number)

    def close(self) -> None:
        """End the process if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._reader.join(5)
        processes.end(self.process)
        if self._log:
            self._log.close()


class Teller:
    """Writes events; one line each, at once."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.Lock()

    def __call__(self, event: str, **fields: Any) -> None:
        """One line."""
        line = json.dumps({"at": time.time(), "event": event, "member": self.name, **fields})
        with self._lock:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()


class Done:
    """What was read and not yet committed; what is revoked is no longer ours to commit."""

    def __init__(self, config: Config, tell: Teller) -> None:
        self._every_s = config.get("commit_ms", 0) / 1000
        self._tell = tell
        self._next = 0.0
        self._offsets: dict[Any, int] = {}

    def read(self, partition: Any, records: list[Any]) -> None:
        """Note one batch."""
        fields = {"first": records[0].offset, "last": records[-1].offset}
        self._tell("read", topic=partition.topic, partition=partition.partition, **fields)
        self._offsets[partition] = records[-1].offset + 1

    def forget(self, partitions: Iterable[Any]) -> None:
        """They go to somebody else."""
        for partition in partitions:
            self._offsets.pop(partition, None)

    def due(self) -> Iterator[tuple[Any, int]]:
        """What to commit, if it is time for it."""
        if self._every_s < 0 or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + self._every_s
        for partition in list(self._offsets):
            offset = self._offsets.pop(partition, None)
            if offset is not None:
                yield partition, offset


def by_topic(partitions: Iterable[Any]) -> dict[str, list[int]]:
    """Topic to ascending ids."""
    found: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        found.setdefault(topic, []).append(partition)
    return found


def listen() -> queue.Queue[str]:
    """Lines of standard input, ``leave`` at its end."""
    lines: queue.Queue[str] = queue.Queue()

    def read() -> None:
        for line in sys.stdin:
            lines.put(line.strip())
        lines.put("leave")

    threading.Thread(target=read, daemon=True).start()
    return lines


def options(config: Config, tell: Teller) -> dict[str, Any]:
    """Keyword arguments of our ``assignor()``."""
    lag = None
    if config.get("lag"):
        feeds = import_module("apportion.clients.lag_feed")
        fetch = feeds.kafka_offsets(bootstrap_servers=config["bootstrap"], **config.get("admin", {}))
        lag = feeds.LagFeed(config["group"], fetch, topics=config["topics"])
        lag.refresh()
        lag.start()
    return {
        "lag": lag,
        "rack": config.get("rack"),
        "priority": config.get("priority"),
        "on_plan": lambda rebalance: tell("planned", **rebalance.to_dict()),
        **config.get("settings", {}),
    }


def run_kafka_python(config: Config, tell: Teller) -> None:
    """Consume with kafka-python until told to leave."""
    from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.errors import KafkaError

    consumer = KafkaConsumer(
        bootstrap_servers=config["bootstrap"].split(","),
        group_id=config["group"],
        client_id=tell.name,
        group_instance_id=config.get("instance"),
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=config.get("session_ms", 6000),
        heartbeat_interval_ms=config.get("session_ms", 6000) // 5,
        metadata_max_age_ms=config.get("metadata_ms", 1000),
        max_poll_records=200,
        partition_assignment_strategy=kafka_python_strategies(config, tell),
        **config.get("consumer", {}),
    )
    coordinator = consumer._coordinator
    done = Done(config, tell)

    class Watch(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Any) -> None:
            done.forget(revoked)
            tell("revoked", generation=coordinator._generation.generation_id, partitions=by_topic(revoked))

        def on_partitions_lost(self, lost: Any) -> None:
            done.forget(lost)
            tell("lost", partitions=by_topic(lost))

        def on_partitions_assigned(self, assigned: Any) -> None:
            """Only what is new, under cooperative; ``Owned`` below tells all."""

    consumer.subscribe(topics=config["topics"], listener=Watch())
    complete = coordinator._on_join_complete_async

    async def tells(generation: int, member_id: str, protocol: str, raw: bytes) -> None:
        try:
            await complete(generation, member_id, protocol, raw)
        finally:
            owned = by_topic(consumer._subscription.assigned_partitions())
            tell("assigned", generation=generation, member_id=member_id, protocol=protocol, partitions=owned)

    coordinator._on_join_complete_async = tells
    lines = listen()
    while True:
        try:
            line = lines.get_nowait() if not lines.empty() else ""
            if line == "leave":
                break
            if line.startswith("topics "):
                consumer.subscribe(topics=line[7:].split(","), listener=Watch())
            for partition, records in consumer.poll(timeout_ms=config.get("poll_ms", 100)).items():
                done.read(partition, records)
            for partition, offset in done.due():
                commit_one(consumer, partition, offset, tell)
            if config.get("pause_ms"):
                time.sleep(config["pause_ms"] / 1000)
        except KafkaError as error:
            tell("error", why=f"{type(error).__name__}: {error}")
            time.sleep(0.2)
    consumer.close(autocommit=False)
    tell("left")


def commit_one(consumer: Any, partition: Any, offset: int, tell: Teller) -> None:
    """Commit, and tell how it went."""
    from kafka.errors import KafkaError
    from kafka.structs import OffsetAndMetadata

    try:
        consumer.commit({partition: OffsetAndMetadata(offset, "", -1)}, timeout_ms=5000)
        tell("committed", offsets={f"{partition.topic}-{partition.partition}": offset})
    except KafkaError as error:
        tell("refused", why=type(error).__name__)


def kafka_python_strategies(config: Config, tell: Teller) -> list[Any]:
    """Ours, or the client's own of the same names."""
    names = config.get("strategies", ["cooperative-sticky"])
    if config.get("plain"):
        from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
        from kafka.coordinator.assignors.range import RangePartitionAssignor
        from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
        from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

        kinds = (
            CooperativeStickyAssignor,
            RangePartitionAssignor,
            RoundRobinPartitionAssignor,
            StickyPartitionAssignor,
        )
        return [next(kind for kind in kinds if kind.name == name) for name in names]
    from apportion.clients.kafka_python import assignor

    return [assignor(name, **options(config, tell)) for name in names]


async def run_aiokafka(config: Config, tell: Teller) -> None:
    """Consume with aiokafka until told to leave."""
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
    from aiokafka.errors import KafkaError
    from aiokafka.helpers import create_ssl_context

    more = dict(config.get("consumer", {}))
    if "ssl_cafile" in more:
        more["ssl_context"] = create_ssl_context(cafile=more.pop("ssl_cafile"))
    consumer = AIOKafkaConsumer(
        bootstrap_servers=config["bootstrap"].split(","),
        group_id=config["group"],
        client_id=tell.name,
        group_instance_id=config.get("instance"),
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=config.get("session_ms", 6000),
        heartbeat_interval_ms=config.get("session_ms", 6000) // 5,
        metadata_max_age_ms=config.get("metadata_ms", 1000),
        rebalance_timeout_ms=config.get("rebalance_ms", 10000),
        partition_assignment_strategy=aiokafka_strategies(config, tell),
        **more,
    )
    done = Done(config, tell)

    async def commit(partition: Any, offset: int) -> None:
        try:
            await consumer.commit({partition: offset})
            tell("committed", offsets={f"{partition.topic}-{partition.partition}": offset})
        except KafkaError as error:
            tell("refused", why=type(error).__name__)

    class Watch(ConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_revoked(self, revoked: Any) -> None:
            done.forget(revoked)
            if revoked:
                tell("revoked", generation=consumer._coordinator.generation, partitions=by_topic(revoked))

        async def on_partitions_assigned(self, assigned: Any) -> None:
            c = consumer._coordinator
            tell("assigned", generation=c.generation, member_id=c.member_id, partitions=by_topic(assigned))

    consumer.subscribe(topics=config["topics"], listener=Watch())
    await consumer.start()
    lines = listen()
    while True:
        try:
            line = lines.get_nowait() if not lines.empty() else ""
            if line == "leave":
                break
            if line.startswith("topics "):
                consumer.subscribe(topics=line[7:].split(","), listener=Watch())
            for partition, records in (await consumer.getmany(timeout_ms=100, max_records=200)).items():
                done.read(partition, records)
            for partition, offset in done.due():
                await commit(partition, offset)
            if config.get("pause_ms"):
                await asyncio.sleep(config["pause_ms"] / 1000)
        except KafkaError as error:
            tell("error", why=f"{type(error).__name__}: {error}")
            await asyncio.sleep(0.2)
    await consumer.stop()
    tell("left")


def run_confluent(config: Config, tell: Teller) -> None:
    """Consume with confluent-kafka behind a thin member until told to leave."""
    from kafka.errors import KafkaError

    session_ms = config.get("session_ms", 6000)
    settings = {
        "bootstrap.servers": config["bootstrap"],
        "group.id": config["group"],
        "client.id": tell.name,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": config.get("commit_ms", 0) > 0,
        "auto.commit.interval.ms": max(config.get("commit_ms", 0), 100),
        "session.timeout.ms": session_ms,
        "heartbeat.interval.ms": session_ms // 5,
        "metadata.max.age.ms": config.get("metadata_ms", 1000),
        "fetch.wait.max.ms": 100,
        **config.get("consumer", {}),
    }
    kind = ours("confluent").GroupConsumer
    strategy = config.get("strategies", ["cooperative-sticky"])[0]
    consumer = kind(settings, config["topics"], strategy, **options(config, tell))
    coordinator = consumer._member._coordinator
    hand_over = consumer.given_up

    def given_up(parts: list[Any], *, expelled: bool) -> None:
        hand_over(parts, expelled=expelled)
        generation = coordinator._generation.generation_id
        tell("lost" if expelled else "revoked", generation=generation, partitions=by_topic(parts))

    consumer.given_up = given_up
    told = None
    lines = listen()
    while True:
        try:
            if not lines.empty() and lines.get_nowait() == "leave":
                break
            messages = [m for m in consumer.consume(200, 0.1) if m.error() is None]
            generation = coordinator._generation
            state = (generation.generation_id, consumer.assignment())
            if state != told and coordinator.stable():
                told = state
                tell("assigned", generation=state[0], member_id=generation.member_id, partitions=state[1])
            for (topic, partition), offsets in batches(messages).items():
                tell("read", topic=topic, partition=partition, first=offsets[0], last=offsets[-1])
            if messages and config.get("commit_ms", 0) == 0:
                consumer.commit()
        except KafkaError as error:
            tell("refused", why=f"{type(error).__name__}: {error}")
            time.sleep(0.1)
    consumer.close()
    tell("left")


def batches(messages: list[Any]) -> dict[tuple[str, int], list[int]]:
    """Offsets by partition, in order."""
    found: dict[tuple[str, int], list[int]] = {}
    for message in messages:
        found.setdefault((message.topic(), message.partition()), []).append(message.offset())
    return found


def aiokafka_strategies(config: Config, tell: Teller) -> list[Any]:
    """Ours, or the client's own of the same names."""
    names = config.get("strategies", ["sticky"])
    if config.get("plain"):
        from aiokafka.coordinator.assignors.range import RangePartitionAssignor
        from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
        from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

        kinds = (RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor)
        return [next(kind for kind in kinds if kind.name == name) for name in names]
    return [ours("aio_kafka").assignor(name, **options(config, tell)) for name in names]


def ours(module: str) -> Any:
    """An adapter; by name, since this room and that one are neighbours that do not import each other."""
    return import_module(f"apportion.clients.{module}")


def main() -> int:
    """Run one member."""
    config = json.loads(sys.argv[1])
    logging.basicConfig(level=config.get("log_level", "INFO"), format="%(asctime)s %(name)s %(levelname)s %(message)s")
    tell = Teller(str(config.get("name", config.get("client", "kafka-python"))))
    while True:
        try:
            run(config, tell)
        except Exception as error:
            tell("error", why=f"{type(error).__name__}: {error}")
            # As a service's supervisor would: a broker that is away comes back.
            if type(error).__name__ not in AWAY:
                logging.getLogger(__name__).exception("the member ended")
                return 1
            time.sleep(0.5)
        else:
            return 0


def run(config: Config, tell: Teller) -> None:
    """The member's whole life in one client."""
    if config.get("client") == "aiokafka":
        asyncio.run(run_aiokafka(config, tell))
    elif config.get("client") == "confluent":
        run_confluent(config, tell)
    else:
        run_kafka_python(config, tell)


if __name__ == "__main__":
    sys.exit(main())

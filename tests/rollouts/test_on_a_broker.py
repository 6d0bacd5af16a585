"""A rolling restart that is really done beside a real broker moves what was said before, under each protocol."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.support.sighted import raw

from apportion import rollouts
from apportion.model.build import build
from apportion.model.group import Group
from apportion.sources import live
from apportion.sources.config import Connection
from apportion.sources.properties import Properties
from apportion.testing.broker import Broker

pytestmark = pytest.mark.broker
confluent = pytest.importorskip(
    "confluent_kafka", reason="the members are confluent-kafka's: pip install 'apportion[confluent]'"
)

PARTITIONS, MEMBERS = 12, 3
# Members leave when they are stopped; a busy machine must not expel one, which would count as a move.
QUICK = {"heartbeat.interval.ms": "300", "session.timeout.ms": "10000"}
CLIENTS = {
    "eager": {"partition.assignment.strategy": "range", **QUICK},
    "cooperative": {"partition.assignment.strategy": "cooperative-sticky", **QUICK},
    "consumer": {"group.protocol": "consumer", "group.remote.assignor": "uniform"},
}
Owners = dict[tuple[str, int], str]


class Rollout:
    """A group of real consumers, each under its own client id, that come and go one by one."""

    def __init__(self, broker: Broker, protocol: str) -> None:
        self.broker, self.protocol = broker, protocol
        self.group = self.topic = f"rollout-{protocol}"
        self.consumers: dict[str, Any] = {}
        broker.create_topic(self.topic, PARTITIONS)

    def join(self, name: str) -> None:
        """One more member."""
        consumer = confluent.Consumer({
            "bootstrap.servers": self.broker.bootstrap, "group.id": self.group, "client.id": name,
            "auto.offset.reset": "earliest", **CLIENTS[self.protocol],
        })  # fmt: skip
        consumer.subscribe([self.topic])
        self.consumers[name] = consumer

    def leave(self, name: str) -> None:
        """A member says good-bye."""
        self.consumers.pop(name).close()

    def settled(self, patience_s: float = 120) -> Owners:
        """Who owns what by the consumers' own word, once each partition has one owner and it stays so for a second."""
        before: Owners = {}
        since = until = time.monotonic()
        until += patience_s
        while time.monotonic() < until:
            for consumer in self.consumers.values():
                consumer.poll(0.02)
            held = [(name, p.partition) for name, c in self.consumers.items() for p in c.assignment()]
            now = {(self.topic, p): name for name, p in held}
            whole = len(held) == len(now) == PARTITIONS and len(set(now.values())) == len(self.consumers)
            if not whole or now != before:
                before, since = now, time.monotonic()
            elif time.monotonic() - since > 1:
                return now
        raise AssertionError(f"{self.group} did not settle: {Counter(before.values())}")

    def seen(self) -> Group:
        """The group as the broker describes it."""
        connection = Connection(self.broker.bootstrap, Properties())
        (observed,) = live.groups(connection, [self.group])
        return build(raw(observed))

    def close(self) -> None:
        """Everybody goes."""
        for name in list(self.consumers):
            self.leave(name)


@contextmanager
def rollout(broker: Broker, protocol: str) -> Iterator[Rollout]:
    """Three members that have settled one after the other."""
    running = Rollout(broker, protocol)
    try:
        for i in range(MEMBERS):
            running.join(f"pod-{i}")
            running.settled()
        yield running
    finally:
        running.close()


def changes(had: Owners, has: Owners, stay: set[str]) -> tuple[int, int, int]:
    """Partitions that members who stayed lost, those of them that moved, and that somebody else reads than before."""
    changed = [key for key in had if had[key] != has[key]]
    taken = [key for key in changed if had[key] in stay]
    return len(taken), len(taken), len(changed)  # everybody who takes them is somebody: what was lost moved


@pytest.mark.parametrize("protocol", CLIENTS)
def test_a_rolling_restart_that_was_done_moved_what_was_said_before(broker: Broker, protocol: str) -> None:
    with rollout(broker, protocol) as running:
        group = running.seen()
        clients = group.client_ids or ()
        assert sorted(map(str, clients)) == sorted(running.consumers)
        planned = rollouts.rollout(group, ["rolling 1"], protocol)  # type: ignore[arg-type]
        had = running.settled()
        for i, stage in enumerate(planned):
            name = str(clients[i // 2])  # in member order, which client ids alone decide under the classic protocol
            stay = set(running.consumers) - {name}
            if i % 2:
                running.join(name)
            else:
                running.leave(name)
            has = running.settled()
            assert (stage.taken, stage.moved, stage.read_anew) == changes(had, has, stay), stage.step
            loads = Counter(has.values())
            assert sorted(loads.values()) == sorted(Counter(stage.plan.owner.tolist()).values())
            if protocol == "eager":
                # Client ids go before what Kafka draws, so that even the places of range are known beforehand.
                called = stage.plan.group.client_ids or ()
                own = stage.plan.owner.tolist()
                assert has == {stage.plan.group.name_of(p): called[m] for p, m in enumerate(own)}
            had = has
        assert len(planned) == 2 * MEMBERS
        if protocol != "eager":
            assert not any(stage.moved for stage in planned[::2]), "who leaves sets free, and nothing else moves"


def test_weights_of_a_living_group_are_measured_while_it_is_written_to(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    """Some 40 messages a second in one partition, 10 in another, for three seconds; what was written is counted."""
    from apportion.cli import main

    topic = group = "size-live"
    broker.create_topic(topic, 3)
    producer = confluent.Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
    consumer = confluent.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, **QUICK})
    consumer.subscribe([topic])
    over = threading.Event()

    def write() -> None:
        while not over.wait(0.1):
            for p in (0, 0, 0, 0, 1):
                producer.produce(topic, b"x", partition=p)
            producer.flush()

    writer = threading.Thread(target=write)
    try:
        while len(consumer.assignment()) < 3:
            consumer.poll(0.1)
        writer.start()
        asked = ["--bootstrap-server", broker.bootstrap, "--group", group, "--window", "3"]
        assert main(["size", *asked, "--by", "weight", "--capacity", "1000", "-o", "json"]) == 0
    finally:
        over.set()
        if writer.ident:
            writer.join()
        consumer.close()
    sized = json.loads(capsys.readouterr().out)
    assert (sized["by"], sized["bound"]) == ("weight", 1)
    assert sized["total"] > 5
    assert "of 3 partitions by what was written to their logs" in sized["advice"]
    assert "over 3 s" in sized["advice"]

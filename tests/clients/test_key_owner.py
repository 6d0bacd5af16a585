"""Each member of an application with state knows which member reads a key, and at which address that one answers."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from kafka import KafkaProducer

from apportion.clients.tasks import TaskRunner
from apportion.errors import UnknownName
from apportion.tasks.topology import Subtopology, Topology
from apportion.testing.broker import Broker

from .groups import new_name
from .test_tasks_live import QUICK

pytestmark = pytest.mark.broker
KEYS = [f"user-{n}".encode() for n in range(40)]


def test_the_owner_of_a_key_is_the_member_that_gets_its_records(broker: Broker, tmp_path: Path) -> None:
    source, changelog, name = new_name("source"), new_name("changelog"), new_name("app")
    broker.create_topic(source, 6)
    broker.create_topic(changelog, 6, cleanup_policy="compact")
    addresses = ["10.0.0.1:8080", "10.0.0.2:8080"]
    with ExitStack() as stack:
        runners = {
            address: stack.enter_context(
                TaskRunner(
                    Topology.of(Subtopology((source,), changelog)), application=name, tags={"address": address},
                    bootstrap_servers=broker.bootstrap, state_dir=tmp_path / address, consumer=QUICK,
                )
            )
            for address in addresses
        }  # fmt: skip
        end = time.monotonic() + 120
        while [len(runner.active) for runner in runners.values()] != [3, 3]:
            assert time.monotonic() < end
            for runner in runners.values():
                runner.poll(50)
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
        for key in KEYS:
            producer.send(source, b"", key)
        producer.close()
        read_at: dict[bytes, tuple[str, int]] = {}
        while len(read_at) < len(KEYS):
            assert time.monotonic() < end
            for address, runner in runners.items():
                for records in runner.poll(50).values():
                    read_at |= {record.key: (address, record.partition) for record in records}
        for runner in runners.values():
            owners = {key: runner.owner_of(source, key) for key in KEYS}
            assert {key: (owner.address, owner.partition) for key, owner in owners.items()} == read_at
            assert all(owner.member and owner.host for owner in owners.values())
        with pytest.raises(UnknownName, match="topic of the group"):
            runner.owner_of("another", b"k")

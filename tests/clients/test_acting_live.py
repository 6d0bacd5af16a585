"""Lag that acts in real groups: a slow member is relieved though nobody joins or leaves, whoever the client."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.serve.running import until
from tests.support.examples import thorough
from tests.support.member import PythonMember

from apportion.cli import main
from apportion.testing.broker import Broker
from apportion.testing.peers import JavaMember

from .groups import Members, new_name, owned, settle

pytestmark = pytest.mark.broker
PARTITIONS, PER_S = 6, 60
ACTING = {"gain": 0.2, "hold_s": 4.0, "rest_s": 10.0}
CONFIG: dict[str, Any] = {
    "lag": True,
    "lag_s": 0.5,
    "acting": ACTING,
    "settings": {"capacity": "learned"},
    "own_log_level": "DEBUG",
}
STRATEGY = "cooperative-lag-aware"
REST_S = 4.0


class Steady:
    """Writes so many messages a second to each partition."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        from confluent_kafka import Producer

        self._client, self._topic, self._over = Producer({"bootstrap.servers": bootstrap}), topic, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        began, written = time.monotonic(), 0
        while not self._over.wait(0.05):
            due = int((time.monotonic() - began) * PER_S)
            for _ in range(due - written):
                for partition in range(PARTITIONS):
                    self._client.produce(self._topic, b"x", partition=partition)
            written = due
            self._client.poll(0)

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        self._client.flush(30)


@pytest.fixture
def busy(broker: Broker) -> Iterator[str]:
    """A topic into which as much comes on each partition, all the time."""
    topic = new_name("busy")
    broker.create_topic(topic, PARTITIONS)
    steady = Steady(broker.bootstrap, topic)
    yield topic
    steady.close()


def count(member: PythonMember | JavaMember) -> int:
    return sum(map(len, owned(member).values()))


@pytest.mark.parametrize("client", ["kafka-python", *map(thorough, ("aiokafka", "confluent"))])
def test_a_slow_member_is_relieved_and_nobody_joins(broker: Broker, busy: str, client: str, tmp_path: Path):
    """It reads some 60 messages a second of 120; a fast one of the same client leads, a Java member follows."""
    with Members(broker, new_name("acting"), [busy], tmp_path) as group:
        leader = group.python(client, STRATEGY, **CONFIG)
        settle([leader], {busy: PARTITIONS}, calm_s=0.2)
        java = group.java(STRATEGY, commit_ms=200)
        settle([leader, java], {busy: PARTITIONS}, calm_s=0.2)
        slow = group.python(client, STRATEGY, **CONFIG, poll_records=30, pause_ms=450)
        members: list[PythonMember | JavaMember] = [leader, slow, java]
        settle(members, {busy: PARTITIONS})
        until(lambda: slow.member_id in " ".join(plan["why"] for plan in by_lag(leader)), 150)
        until(lambda: count(slow) < 2, 60)
        settle(members, {busy: PARTITIONS})
        plan = next(plan for plan in by_lag(leader) if slow.member_id in plan["why"])
        assert plan["members"] == 3, "nobody joined or left"
        assert plan["moved"] >= 1
        assert count(java) >= 2, "the others are as fast as each other, for all that is known"
        asked = [plan["at"] for plan in by_lag(leader)]
        assert all(b - a > ACTING["rest_s"] - 1 for a, b in pairwise(asked))
        assert lines(leader, "evens itself out"), "it says why it acted"
        assert lines(leader, "is left as it is: the last rebalance was"), "and at debug level why not"
        assert len(lines(slow, "has another leader")) == 1, "who follows says so once"
        assert not by_lag(slow)


def test_under_a_java_leader_nothing_acts_and_the_log_says_so_once(broker: Broker, busy: str, tmp_path: Path):
    """The slow member's lag grows for twice the rest; a rebalance later the follower has still said it only once."""
    with Members(broker, new_name("led-by-java"), [busy], tmp_path) as group:
        java = group.java(STRATEGY, commit_ms=200)
        settle([java], {busy: PARTITIONS}, calm_s=0.2)
        soon = {**CONFIG, "acting": {**ACTING, "hold_s": 1.0, "rest_s": REST_S}}
        slow = group.python("kafka-python", STRATEGY, **soon, poll_records=30, pause_ms=450)
        settle([java, slow], {busy: PARTITIONS}, calm_s=0.2)
        generation = slow.generation
        time.sleep(2 * REST_S)
        assert slow.generation == generation, "nobody asked for a rebalance"
        third = group.python("kafka-python", STRATEGY, **soon)
        settle([java, slow, third], {busy: PARTITIONS}, calm_s=0.2)
        for member in (slow, third):
            assert not member.of("planned"), "Java leads"
            assert len(lines(member, "has another leader")) == 1
            assert not lines(member, "evens itself out")


def by_lag(member: PythonMember) -> list[dict[str, Any]]:
    """The rebalances that its loop asked for."""
    return [plan for plan in member.of("planned") if plan["cause"] == "lag"]


def lines(member: PythonMember, words: str) -> list[str]:
    assert member.log is not None
    return [line for line in member.log.read_text(errors="replace").splitlines() if words in line]


def test_a_nudge_is_taken_by_a_leader_of_ours_and_by_nobody_else(
    broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """The leader rebalances the group at once, and nothing is left of the nudge; one that does not act lets it be."""
    from kafka import KafkaAdminClient

    topic = new_name("nudged")
    broker.create_topic(topic, 4)
    with Members(broker, new_name("nudged"), [topic], tmp_path) as group:
        leader = group.python("kafka-python", STRATEGY, **{**CONFIG, "acting": {"rest_s": 3600.0}})
        settle([leader], {topic: 4}, calm_s=0.2)
        before = leader.generation
        command = ["nudge", "--bootstrap-server", broker.bootstrap, "--group", group.group]
        assert main([*command, "--wait", "90"]) == 0
        assert "took the nudge" in capsys.readouterr().out
        until(lambda: leader.generation > before, 90)
        assert lines(leader, "was nudged")
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        names = {listed["group_id"] for listed in admin.list_groups()}
        admin.close()
        assert f"{group.group}.apportion-nudge" not in names
    with Members(broker, new_name("left-alone"), [topic], tmp_path) as group:
        other = group.python("kafka-python", "sticky")
        settle([other], {topic: 4}, calm_s=0.2)
        before = other.generation
        command = ["nudge", "--bootstrap-server", broker.bootstrap, "--group", group.group]
        assert main([*command, "--wait", "2"]) == 2
        assert "no leader took the nudge" in capsys.readouterr().err
        assert other.generation == before

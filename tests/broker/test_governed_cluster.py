"""Three brokers with the class, rolled out and rolled on; one broker without it; chaos."""

from __future__ import annotations

import os
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka.errors import KafkaError
from tests.clients.groups import new_name

from apportion.assignors import find
from apportion.errors import Unavailable
from apportion.governing.governor import CLASS, without_class
from apportion.governing.rules_file import FactRule, GroupRule
from apportion.planning import strategy_of
from apportion.sighting.sighting import Sighting
from apportion.sources import live
from apportion.sources.cluster import Cluster, connect
from apportion.testing.broker import Broker, BrokerCluster
from apportion.testing.peers import JavaMember

from .conftest import WITH_CLASS
from .members import Governor, Member, RawMember, Running, until

pytestmark = pytest.mark.broker

CHAOS_S = int(os.environ.get("APPORTION_GOVERNED_CHAOS_S", "12"))
PRIORITIES = (FactRule("priority", "client_id", re.compile(r".*-p(\d+)")),)


@pytest.fixture(scope="module")
def three(broker_jar: Path) -> Iterator[BrokerCluster]:
    """Three brokers in racks a, b and c; offsets and the group's state have three replicas."""
    more = {"offsets.topic.replication.factor": "3", "offsets.topic.num.partitions": "3"}
    with BrokerCluster(["a", "b", "c"], properties={**WITH_CLASS, **more}, class_path=[broker_jar]) as cluster:
        cluster.create_topic("t", 12, replication=3)
        cluster.create_topic("r", 6, replication=1)
        yield cluster


@pytest.mark.thorough  # so does test_governed_rollout.py, whose brokers are restarted one by one
def test_a_coordinator_that_moves_takes_the_plan_along(three: BrokerCluster) -> None:
    """The coordinator's broker is stopped, and comes back: the carrier joins the next, and nothing moves."""
    group = new_name("moving")
    members = [Member(three, group, f"m-p{p}", ["t"]) for p in (9, 5, 1)]
    with connect(three.bootstrap) as cluster:
        running = Running(Governor(cluster, group, GroupRule(re.compile(group), find("failover"), PRIORITIES)))
        try:
            assert until(lambda: [len(m.held) for m in members] == [12, 0, 0])
            for _ in range(2):
                seen = sighted(cluster, group)
                node = int(re.search(r"\((\d+)\)", seen.coordinator or "")[1])  # type: ignore[index]
                coordinator = three.brokers[node - 1]
                if node == 1:  # the controller, too: killed and restarted at once
                    coordinator.restart()
                else:
                    coordinator.stop()
                assert until(lambda: running.rounds[-1].outcome == "unchanged"), running.rounds[-3:]
                time.sleep(2)  # the group is computed each 0.1 s, so what would move has moved
                assert [len(m.held) for m in members] == [12, 0, 0]
                coordinator.start()
            members[0].close()
            assert until(lambda: [len(m.held) for m in members[1:]] == [12, 0]), "the rank, at the new coordinator"
        finally:
            running.stop()
            running.governor.release()
            for member in members[1:]:
                member.close()


def test_members_read_from_their_own_racks(three: BrokerCluster) -> None:
    """Each partition of r has its replica in one rack; the plan gives it to the member there."""
    group = new_name("racks")
    members = {rack: Member(three, group, f"m-{rack}", ["r"], **{"client.rack": rack}) for rack in "abc"}
    with connect(three.bootstrap) as cluster:
        rule = GroupRule(re.compile(group), strategy_of("sticky", {"order": "racks,balance,moves"}))
        running = Running(Governor(cluster, group, rule))
        try:
            rack_of = {one.partition: one.racks[0] for one in cluster.partitions(["r"])}
            home = {rack: {("r", p) for p, where in rack_of.items() if where == rack} for rack in members}
            assert until(lambda: all(members[rack].held == home[rack] for rack in members))
        finally:
            running.stop()
            running.governor.release()
            for member in members.values():
                member.close()


def test_a_broker_without_the_class_is_refused_and_ends_members_where_it_is_forced(broker_jar: Path) -> None:
    """What the page warns of: a member that names the class on a broker without it ends for good, and lives on."""
    group = new_name("forced")
    with Broker(class_path=[broker_jar], properties=WITH_CLASS) as broker:
        broker.create_topic("t", 4)
        broker.stop()
        settings = broker.folder / "server.properties"
        text = settings.read_text()
        settings.write_text(text.replace(f",{CLASS}", ""))
        broker.start()
        with connect(broker.bootstrap) as cluster:
            assert list(without_class(cluster)) == ["1"]
            doomed = Member(broker, group, "doomed", ["t"])
            assert until(lambda: any("assignor" in error for error in doomed.errors)), "the one word that is said"
            assert RawMember(broker, group, topics=["t"]).beat_or_refused() == 112, "UNSUPPORTED_ASSIGNOR"
        broker.stop()
        settings.write_text(text)
        broker.start()
        with connect(broker.bootstrap) as cluster:
            assert without_class(cluster) == {}
        after = Member(broker, group, "new", ["t"])
        assert until(lambda: len(after.held) == 4)
        time.sleep(2)  # the group is computed each 0.1 s, so what would move has moved
        assert not doomed.held, "it does not come back by itself, though its process lives"
        assert doomed.thread.is_alive()
        for one in (doomed, after):
            one.close()


def sighted(cluster: Cluster, group: str) -> Sighting:
    """The group, once all brokers answer: one that has just come back does not at once."""
    found: list[Sighting] = []

    def look() -> bool:
        with suppress(Unavailable):
            found.extend(live.read(cluster, [group]))
        return bool(found)

    assert until(look)
    return found[0]


class Fire:
    """A group under fire: members come, go and die, governors change hands, a coordinator is stopped."""

    def __init__(self, three: BrokerCluster, group: str) -> None:
        self.three, self.group, self.r = three, group, random.Random(70)
        self.stack = ExitStack()
        self.members = [self._member(p) for p in (9, 5, 3)]
        self.java = [self._java(7)]
        self.governor = self._govern()
        self.wrong: list[str] = []
        self.counted: Counter[str] = Counter()
        self.over = threading.Event()
        self.threads = [threading.Thread(target=one, daemon=True) for one in (self._watch, self._commits, self._write)]
        for thread in self.threads:
            thread.start()

    def _member(self, priority: int) -> Member:
        quick = {"auto.commit.interval.ms": "300", "auto.offset.reset": "earliest"}
        return Member(self.three, self.group, f"c-p{priority}", ["t"], **quick)

    def _java(self, priority: int) -> JavaMember:
        properties = {"group.protocol": "consumer", "group.remote.assignor": "apportion", "client.id": f"j-p{priority}"}
        return JavaMember(self.three.bootstrap, self.group, ["t"], properties, commit_ms=300)

    def _govern(self) -> Running:
        rule = GroupRule(re.compile(self.group), find("failover"), PRIORITIES)
        return Running(Governor(self.stack.enter_context(connect(self.three.bootstrap)), self.group, rule))

    def _watch(self) -> None:
        """Two members that hold one partition by their own words, both still after they were looked at again."""
        while not self.over.wait(0.01):
            members = list(self.members)
            for n, one in enumerate(members):
                for other in members[n + 1 :]:
                    if set(one.held) & set(other.held) & set(one.held):
                        self.wrong.append(f"{one.client_id} and {other.client_id}: {one.held & other.held}")
            self.counted["looks"] += 1

    def _commits(self) -> None:
        """Commits that went back."""
        highest: dict[Any, int] = {}
        with self.three.admin() as admin:
            while not self.over.wait(0.2):
                try:
                    offsets = admin.list_group_offsets([self.group])[self.group]
                except KafkaError:
                    continue  # a broker is down
                for at, offset in offsets.items():
                    if offset.offset < highest.get(at, -1):
                        self.wrong.append(f"{at} went back from {highest[at]} to {offset.offset}")
                    highest[at] = max(highest.get(at, -1), offset.offset)
                self.counted["commits"] = sum(max(0, offset) for offset in highest.values())

    def _write(self) -> None:
        producer = Producer({"bootstrap.servers": self.three.bootstrap})
        while not self.over.wait(0.05):
            for p in range(12):
                producer.produce("t", b"x", partition=p)
            producer.poll(0)

    def befall(self, n: int) -> None:
        """One of seven things, all in turns, and whom by chance."""
        kind = ("join", "leave", "kill", "governor", "rejoin", "coordinator", "second")[n % 7]
        self.counted[kind] += 1
        if kind in ("join", "rejoin"):
            self.members.append(self._member(self.r.randrange(1, 12)))
            if not self.java:
                self.java.append(self._java(8))
        elif kind == "leave":
            self.members.pop(self.r.randrange(len(self.members))).close()
        elif kind == "kill":
            for java in self.java:
                java.close()  # kill -9
            self.java.clear()
        elif kind == "governor":
            self.governor.stop()
            how = self.r.choice((Governor.release, Governor.die))
            how(self.governor.governor)
            self.governor = self._govern()
        elif kind == "coordinator":
            self.three.brokers[self.r.choice((1, 2))].restart()
        else:
            second = self._govern()
            time.sleep(1)  # a second governor that is there for a moment
            second.stop()
            second.governor.release()

    def end(self) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join(10)
        self.governor.stop()
        self.governor.governor.release()
        for member in self.members:
            member.close()
        for java in self.java:
            java.close()
        self.stack.close()


def test_under_fire_no_partition_has_two_owners_and_no_commit_goes_back(
    three: BrokerCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """As long as APPORTION_GOVERNED_CHAOS_S says; ``make chaos`` burns for 70 seconds."""
    fire = Fire(three, new_name("fire"))
    try:
        assert until(lambda: len(fire.members[0].held) == 12)
        ends, n = time.monotonic() + CHAOS_S, 0
        while time.monotonic() < ends:
            fire.befall(n)
            n += 1
            time.sleep(fire.r.uniform(0.2, 1.5))
        assert until(lambda: sorted(len(m.held) for m in fire.members)[-1] == 12 or java_has_all(fire))
        with capsys.disabled():
            print(f" {CHAOS_S} s: {dict(fire.counted)}", end="")
    finally:
        fire.end()
    assert not fire.wrong
    assert fire.counted["commits"] > 100


def java_has_all(fire: Fire) -> bool:
    return any(len(java.assignment.get("t", ())) == 12 for java in fire.java)

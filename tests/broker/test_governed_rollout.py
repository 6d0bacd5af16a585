"""The class brought to running brokers and taken away again, one restart after the other; the two ways of naming it."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.clients.groups import new_name

from apportion.assignors import find
from apportion.governing.governor import CLASS
from apportion.governing.rules_file import FactRule, GroupRule
from apportion.sources import live
from apportion.sources.cluster import Cluster, connect
from apportion.testing.broker import Broker, BrokerCluster

from .conftest import LIVE, WITH_CLASS
from .members import Governor, Member, Running, until

pytestmark = pytest.mark.broker

BEHIND, FIRST, WITHOUT = f"uniform,range,{CLASS}", f"{CLASS},uniform,range", "uniform,range"
PRIORITIES = (FactRule("priority", "client_id", re.compile(r".*-p(\d+)")),)


def failover(group: str) -> GroupRule:
    return GroupRule(re.compile(group), find("failover"), PRIORITIES)


def restart(broker: Broker, assignors: str, jar: Path | None) -> None:
    """Restart it as an operator does who changes the image and one line of its settings."""
    broker.stop()
    settings = broker.folder / "server.properties"
    settings.write_text(re.sub(r"(group\.consumer\.assignors)=.*", rf"\1={assignors}", settings.read_text()))
    broker.class_path = (jar,) if jar else ()
    broker.start()


def check(bootstrap: str) -> tuple[int, int]:
    """The exit code of ``govern --check``, and how many brokers it says lack the class."""
    command = [sys.executable, "-m", "apportion", "govern", "--bootstrap-server", bootstrap, "--check"]
    told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    return told.returncode, told.stdout.count("lacks")


def count(members: list[Member]) -> list[int]:
    return [len(member.held) for member in members]


def renamed(cluster: BrokerCluster, group: str, members: list[Member], **named: str) -> list[Member]:
    """The members rolled on to another setting: each is closed, and one of its name comes in its place."""
    for place, old in enumerate(members):
        old.close()
        members[place] = Member(cluster, group, old.client_id, ["t"], **named)
        assert until(lambda: sum(count(members)) == 12)
    return members


@pytest.mark.parametrize("version", LIVE)
def test_the_class_is_rolled_out_to_three_brokers_and_rolled_back(broker_jar: Path, version: str) -> None:
    """In the page's order: class, check, members, governor; brokers restarted under it; and the same way back."""
    group = new_name("rollout")
    three_replicas = {"offsets.topic.replication.factor": "3", "offsets.topic.num.partitions": "3"}
    properties = {**WITH_CLASS, **three_replicas, "group.consumer.assignors": WITHOUT}
    with BrokerCluster(["a", "b", "c"], properties=properties, version=version) as cluster:
        cluster.create_topic("t", 12, replication=3)
        members = [Member(cluster, group, f"m-p{p}", ["t"], **{"group.remote.assignor": ""}) for p in (9, 5)]
        assert until(lambda: count(members) == [6, 6])
        for missing, broker in zip((3, 2, 1), reversed(cluster.brokers), strict=True):
            assert check(cluster.bootstrap) == (3, missing)
            restart(broker, BEHIND, broker_jar)
            assert until(lambda: count(members) == [6, 6]), "the groups read on"
        assert check(cluster.bootstrap) == (0, 0)
        members = renamed(cluster, group, members, **{"group.remote.assignor": "apportion"})
        with connect(cluster.bootstrap) as admin:
            running = Running(Governor(admin, group, failover(group)))
            try:
                assert until(lambda: count(members) == [12, 0])
                for broker in reversed(cluster.brokers):  # the coordinator moves once at least
                    broker.restart()
                    assert until(lambda: running.rounds[-1].outcome == "unchanged"), running.rounds[-3:]
                    assert count(members) == [12, 0]
            finally:
                running.stop()
            running.governor.let_go()
        members = renamed(cluster, group, members, **{"group.remote.assignor": ""})
        assert until(lambda: count(members) == [6, 6]), "uniform's again"
        for broker in reversed(cluster.brokers):
            restart(broker, WITHOUT, None)
            assert until(lambda: sum(count(members)) == 12)
        time.sleep(2)  # the group is computed each 0.1 s, so what would move has moved
        assert count(members) == [6, 6]
        assert not [error for member in members for error in member.errors if "assignor" in error]
        for member in members:
            member.close()


@pytest.fixture(scope="module", params=LIVE)
def standing_first(request: pytest.FixtureRequest, broker_jar: Path) -> Iterator[Broker]:
    """A broker where the class is the first of the list: the default of groups that name none."""
    settings = {**WITH_CLASS, "group.consumer.assignors": FIRST}
    with Broker(version=request.param, class_path=[broker_jar], properties=settings) as broker:
        broker.create_topic("t", 12)
        yield broker


def test_first_in_the_list_members_name_nothing_and_a_broker_without_it_is_uniforms(
    standing_first: Broker, broker_jar: Path
) -> None:
    """Ungoverned it is uniform; governed a failover; on a broker without the class everybody reads, by uniform."""
    group = new_name("first")
    members = [Member(standing_first, group, f"m-p{p}", ["t"], **{"group.remote.assignor": ""}) for p in (9, 5)]
    assert until(lambda: count(members) == [6, 6]), "no plan: uniform"
    with connect(standing_first.bootstrap) as admin:
        running = Running(Governor(admin, group, failover(group)))
        try:
            assert until(lambda: count(members) == [12, 0])
            restart(standing_first, WITHOUT, None)
            # The carrier is a member still: were it to name the class, each computation would fail.
            members.append(Member(standing_first, group, "m-p1", ["t"], **{"group.remote.assignor": ""}))
            assert until(lambda: count(members) == [4, 4, 4]), count(members)
            assert until(lambda: running.rounds[-1].outcome == "not ours")
            assert until(lambda: not carried(admin, group)), "the governor leaves"
            restart(standing_first, FIRST, broker_jar)
            assert until(lambda: count(members) == [12, 0, 0]), "and it comes back with the class"
        finally:
            running.stop()
            running.governor.release()
    assert not [error for member in members for error in member.errors if "assignor" in error or "UNKNOWN" in error]
    for member in members:
        member.close()


def carried(cluster: Cluster, group: str) -> int:
    return len(live.read(cluster, [group])[0].carried)

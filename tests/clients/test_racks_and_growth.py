"""A leader rejoins when a topic grows, and, where it has a rack, when a replica moves to another one (KIP-881)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.examples import thorough

from apportion.testing.broker import Broker, BrokerCluster

from .groups import Members, new_name, owned, settle

CLIENTS = ["kafka-python", "aiokafka"]
pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def cluster(jars: str) -> Iterator[BrokerCluster]:
    with BrokerCluster(["a", "b"]) as both:
        yield both


def move(cluster: BrokerCluster, topic: str, brokers: list[int]) -> None:
    """Put each partition's only replica on one broker; new partitions are made with it there too."""
    from kafka import TopicPartition

    with cluster.admin() as admin:
        admin.alter_partition_reassignments({TopicPartition(topic, p): [node] for p, node in enumerate(brokers)})


@pytest.mark.parametrize("client", [CLIENTS[0], thorough(CLIENTS[1])])
def test_readers_follow_replicas_that_move_to_another_rack(cluster: BrokerCluster, client: str, tmp_path: Path):
    """Four partitions, two in each rack: everybody reads at home, before and after they change places."""
    topic = new_name("racks")
    cluster.create_topic(topic, 4)
    move(cluster, topic, [1, 1, 2, 2])
    with Members(cluster, new_name("racks"), [topic], tmp_path) as group:
        members = [group.python(client, "sticky", rack=rack) for rack in "ab"]
        wait_for(members, topic, [[0, 1], [2, 3]])
        move(cluster, topic, [2, 1, 1, 2])
        wait_for(members, topic, [[1, 2], [0, 3]])


def wait_for(members: list, topic: str, wanted: list[list[int]]) -> None:
    """Settled, each with what is near."""
    for _ in range(15):
        settle(members, {topic: 4}, calm_s=1)
        if [owned(member)[topic] for member in members] == wanted:
            return
    raise AssertionError([owned(member) for member in members])


@pytest.mark.parametrize("client", [CLIENTS[0], thorough(CLIENTS[1])])
def test_new_partitions_find_owners_by_themselves(broker: Broker, client: str, tmp_path: Path):
    topic = new_name("grows")
    broker.create_topic(topic, 2)
    with Members(broker, new_name("grows"), [topic], tmp_path) as group:
        members = [group.python(client, "sticky") for _ in range(2)]
        settle(members, {topic: 2})
        before = [owned(member) for member in members]
        broker.grow_topic(topic, 5)
        settle(members, {topic: 5})
        assert all(had[topic][0] in owned(member)[topic] for had, member in zip(before, members, strict=True))


@pytest.mark.parametrize("client", [CLIENTS[0], thorough(CLIENTS[1])])
def test_a_static_member_comes_back_to_its_own(broker: Broker, client: str, tmp_path: Path):
    """Members are ordered by instance id, whatever their member ids, and a restart moves nothing."""
    topic = new_name("static")
    broker.create_topic(topic, 4)
    with Members(broker, new_name("static"), [topic], tmp_path) as group:
        # The larger instance id joins first, so that it leads and its member id says nothing of the order.
        second = group.python(client, "range", instance="pod-1")
        settle([second], {topic: 4}, calm_s=0.2)
        first = group.python(client, "range", instance="pod-0")
        settle([first, second], {topic: 4})
        assert [owned(first)[topic], owned(second)[topic]] == [[0, 1], [2, 3]]
        first.kill()
        again = group.python(client, "range", instance="pod-0")
        settle([again, second], {topic: 4})
        assert [owned(again)[topic], owned(second)[topic]] == [[0, 1], [2, 3]]


def test_short_polls_end_the_joins_that_they_begin(broker: Broker, tmp_path: Path):
    """An answer that comes between two calls of poll counts; kafka-python alone throws it away and begins anew."""
    topic = new_name("short")
    broker.create_topic(topic, 6)
    with Members(broker, new_name("short"), [topic], tmp_path) as group:
        members = [group.python("kafka-python", "sticky", poll_ms=5, pause_ms=150) for _ in range(3)]
        settle(members, {topic: 6}, calm_s=2)
        before = members[0].generation
        members.pop().leave()
        settle(members, {topic: 6}, calm_s=2)
        assert members[0].generation <= before + 2

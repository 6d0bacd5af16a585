"""A reader that stands at an open transaction of a real broker is told so, and no record of its is blamed."""

from __future__ import annotations

import json
import time

import pytest
from kafka import TopicPartition
from kafka.errors import CoordinatorNotAvailableError
from kafka.structs import OffsetAndMetadata
from tests.cli.conftest import run_here

from apportion.sources import live
from apportion.sources.cluster import connect
from apportion.sources.cluster_round import look
from apportion.sources.nudge_commit import SUFFIX
from apportion.testing.broker import Broker

pytestmark = pytest.mark.broker


def commit(broker: Broker, group: str, topic: str, offset: int) -> None:
    """One offset of partition 0; a broker that has just started makes its topic of offsets first."""
    until = time.monotonic() + 60
    while True:
        try:
            with broker.admin() as admin:
                place = TopicPartition(topic, 0)
                errors = admin.alter_group_offsets(group, {place: OffsetAndMetadata(offset, "", -1)})
                if not errors[place].errno:
                    return
        except CoordinatorNotAvailableError:
            pass
        assert time.monotonic() < until, "no coordinator"
        time.sleep(0.5)


def test_a_transaction_that_stays_open_holds_back_what_is_behind_it_and_one_that_ends_does_not(broker: Broker) -> None:
    from confluent_kafka import Producer

    topic, group = "held-back", "reads-committed"
    broker.create_topic(topic, 1)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "left-open"})
    producer.init_transactions(60)
    producer.begin_transaction()
    for _ in range(3):
        producer.produce(topic, b"x", partition=0)
    producer.flush(30)
    commit(broker, group, topic, 0)
    with connect(broker.bootstrap) as cluster:
        [seen] = live.read(cluster, [group])
        assert (seen.stable, look(cluster).topics[topic].held_back()) == ({(topic, 0): 0}, {0: 0})
        assert seen.held_back.tolist() == [True]
        told = run_here("describe", "--bootstrap-server", broker.bootstrap, "--group", group, "-o", "json").out
        odd = json.loads(told)["groups"][0]["described"]["odd"]
        assert f"A transaction is open on {topic}(0): who reads committed messages sees none behind it." in odd
        producer.commit_transaction(60)
        [seen] = live.read(cluster, [group])
        assert seen.stable == {}
        assert not seen.held_back.any()


def test_a_group_that_a_nudge_is_committed_in_is_none_that_anybody_watches(broker: Broker) -> None:
    topic, group = "nudged", "watched"
    broker.create_topic(topic, 1)
    commit(broker, group, topic, 0)
    commit(broker, group + SUFFIX, topic, 1_795_272_800_000)
    with connect(broker.bootstrap) as cluster:
        names = {observed.name for observed in live.read(cluster, None)}
        assert group in names
        assert group + SUFFIX not in names | look(cluster).groups.keys()

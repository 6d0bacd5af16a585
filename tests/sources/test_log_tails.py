"""Markers of transactions at a log's end are told from messages, by what a real broker wrote and gives back."""

from __future__ import annotations

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata
from tests.support.sighted import raw

from apportion.sources import live
from apportion.sources.cluster import connect
from apportion.sources.config import Connection
from apportion.sources.log_tails import Tail, tail_of, tails
from apportion.sources.properties import Properties
from apportion.testing.broker import Broker

pytestmark = pytest.mark.broker


def transact(broker: Broker, topic: str, partition: int, messages: int, commit: bool = True) -> None:
    """So many messages in a transaction of its own, by librdkafka."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": f"{topic}-{partition}"})
    producer.init_transactions(60)
    producer.begin_transaction()
    for _ in range(messages):
        producer.produce(topic, b"x", partition=partition)
    producer.flush(30)
    (producer.commit_transaction if commit else producer.abort_transaction)(60)


def test_a_tail_of_markers_alone_is_no_message(broker: Broker) -> None:
    """Committed, aborted after a message, followed by a message, and not transactional at all."""
    topic = "log-tails"
    broker.create_topic(topic, 4)
    for partition in (0, 1, 2):
        transact(broker, topic, partition, 3)
    transact(broker, topic, 1, 1, commit=False)
    from confluent_kafka import Producer

    plain = Producer({"bootstrap.servers": broker.bootstrap})
    for partition in (2, 3):
        plain.produce(topic, b"x", partition=partition)
    assert plain.flush(30) == 0
    with connect(broker.bootstrap) as cluster:
        ends = {one.partition: one.end for one in cluster.ends(cluster.partitions([topic]))}
        assert ends == {0: 4, 1: 6, 2: 5, 3: 1}
        behind = {(topic, 0): 3, (topic, 1): 3, (topic, 2): 3, (topic, 3): 0}
        assert tails(cluster, behind) == {
            (topic, 0): Tail(4, False),
            (topic, 1): Tail(6, False),
            (topic, 2): Tail(4, True),
            (topic, 3): Tail(0, True),
        }
        assert tails(cluster, {(topic, 0): 0}) == {(topic, 0): Tail(0, True)}
        assert tails(cluster, {("not there", 0): 0, (topic, 9): 0}) == {}


def test_who_stands_before_a_marker_has_read_all_of_a_live_cluster_and_who_has_a_message_left_has_not(
    broker: Broker,
) -> None:
    """Two groups stand at different offsets of one log; the one farther behind has messages left."""
    from confluent_kafka import Producer

    topic = "before-a-marker"
    broker.create_topic(topic, 2)
    transact(broker, topic, 0, 3)
    plain = Producer({"bootstrap.servers": broker.bootstrap})
    plain.produce(topic, b"x", partition=1)
    plain.produce(topic, b"x", partition=1)
    assert plain.flush(30) == 0
    for group, offsets in (("at-the-marker", (3, 1)), ("farther-behind", (2, 2))):
        with KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=group, enable_auto_commit=False) as consumer:
            consumer.commit({TopicPartition(topic, p): OffsetAndMetadata(at, "", -1) for p, at in enumerate(offsets)})
    connection = Connection(broker.bootstrap, Properties())
    both, [alone] = (
        live.groups(connection, names) for names in (["at-the-marker", "farther-behind"], ["at-the-marker"])
    )
    lags = [
        [entry.get("lag", entry["end"] - entry["committed"]) for entry in raw(one)["topics"][topic]] for one in both
    ]
    assert lags == [[0, 1], [2, 0]]
    assert raw(alone)["topics"] == raw(both[0])["topics"]


def test_bytes_that_are_no_batches_tell_nothing() -> None:
    for records in (b"", b"\x00", bytes(200), b"\xff" * 300):
        assert tail_of(records, 7, []) == Tail(7, False)

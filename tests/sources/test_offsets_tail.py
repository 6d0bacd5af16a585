"""The tail of ``__consumer_offsets``: nothing stays behind where nobody answers; no open transaction holds it up."""

from __future__ import annotations

import gc
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from apportion.sources import cluster, offsets_tail
from apportion.sources.cluster import OFFSETS, partition_of_group
from apportion.sources.offsets_tail import OffsetsTail, TailRecord
from apportion.sources.properties import Properties
from apportion.testing.broker import Broker, free_ports
from apportion.wire.coordinator import Commit, GroupGeneration, decode


def until(holds: Callable[[], bool], patience_s: float = 120) -> None:
    end = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < end, "it never held"
        time.sleep(0.05)


@pytest.mark.slow
def test_where_nobody_answers_no_thread_and_no_socket_of_a_try_is_left(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cluster, "PATIENCE_MS", 200)
    monkeypatch.setattr(offsets_tail, "RETRY_S", 0.01)
    caplog.set_level(logging.CRITICAL, logger="kafka")  # records that are kept have connections in them
    tries: list[int] = []

    class Tail(OffsetsTail):
        def _note(self, trouble: str) -> None:
            super()._note(trouble)
            gc.collect()  # kafka-python's own sockets of connections that were refused wait for it
            tries.append(len(os.listdir("/proc/self/fd")))

    threads = threading.active_count()
    (port,) = free_ports(1)
    tail = Tail(f"127.0.0.1:{port}", Properties(), lambda batch: None)
    tail.start()
    until(lambda: len(tries) >= 6)
    tail.close()
    assert "no Kafka broker answered" in tail.trouble
    until(lambda: threading.active_count() <= threads)
    assert tries[-1] <= tries[0], tries


@pytest.mark.broker
def test_a_transaction_that_is_left_open_holds_up_no_record_behind_it(broker: Broker) -> None:
    import confluent_kafka as confluent

    group = "tail-behind-a-transaction"
    broker.create_topic(group, 1)
    servers = {"bootstrap.servers": broker.bootstrap}
    records: list[TailRecord] = []

    def taken(kind: type) -> list[TailRecord]:
        return [r for r in records if isinstance(one := decode(r.key, r.value), kind) and one.group == group]

    consumer = confluent.Consumer({**servers, "group.id": group, "enable.auto.commit": False})
    producer = confluent.Producer({**servers, "transactional.id": group})
    consumer.subscribe([group])
    try:
        until(lambda: consumer.poll(0.1) is None and bool(consumer.assignment()))
        tail = OffsetsTail(broker.bootstrap, Properties(), records.extend)
        tail.start()
        assert tail.ready.wait(120)
        producer.init_transactions(60)
        producer.begin_transaction()
        commits = [confluent.TopicPartition(group, 0, 1)]
        producer.send_offsets_to_transaction(commits, consumer.consumer_group_metadata(), 60)
        until(lambda: bool(taken(Commit)))
        consumer.close()
        until(lambda: bool(taken(GroupGeneration)))
        producer.abort_transaction(60)
        tail.close()
    finally:
        consumer.close()
    with broker.admin() as admin:
        (topic,) = admin.describe_topics([OFFSETS])
    assert {r.partition for r in taken(object)} == {partition_of_group(group, len(topic["partitions"]))}


class NewTopic:
    """As much of a consumer as ``_assign`` asks: a topic that is not there at first, and has records when it is."""

    def __init__(self) -> None:
        self.there = False
        self.at: dict[int, int] = {}
        self.asked_ms: list[int] = []

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return {0, 1, 2} if self.there else None

    def assign(self, places: Sequence[Any]) -> None:
        self.at = dict.fromkeys((place.partition for place in places), -1)

    def beginning_offsets(self, places: Sequence[Any]) -> dict[Any, int]:
        return dict.fromkeys(places, 0)

    def end_offsets(self, places: Sequence[Any]) -> dict[Any, int]:
        return dict.fromkeys(places, 10)

    def offsets_for_times(self, moments: Mapping[Any, int]) -> dict[Any, Any]:
        self.asked_ms += moments.values()
        return {place: SimpleNamespace(offset=place.partition) if place.partition < 2 else None for place in moments}

    def seek(self, place: Any, offset: int) -> None:
        self.at[place.partition] = offset


def test_what_is_written_while_the_tail_waits_for_the_topic_is_read() -> None:
    """Between two looks for a topic that is not there the first groups write their first records."""
    consumer = NewTopic()
    tail = OffsetsTail("", Properties(), lambda batch: None)
    before = time.time()
    assert not tail._assign(consumer)
    consumer.there = True
    assert tail._assign(consumer)
    assert consumer.at == {0: 0, 1: 1, 2: 10}
    assert 1000 * (before - 120) < min(consumer.asked_ms) <= max(consumer.asked_ms) < 1000 * time.time()
    late = OffsetsTail("", Properties(), lambda batch: None, {1: 7})
    assert late._assign(consumer)
    assert consumer.at == {0: 10, 1: 7, 2: 10}


@pytest.mark.broker
def test_the_first_record_of_a_new_cluster_is_read(jars: str) -> None:
    """The first member makes ``__consumer_offsets``; until the tail looks for it again, all is written already."""
    import confluent_kafka as confluent

    records: list[TailRecord] = []
    looks_again = threading.Event()

    class Over(threading.Event):
        """As long as it is not over, the tail waits for the test between two looks."""

        def wait(self, timeout: float | None = None) -> bool:
            return looks_again.wait(300) and super().wait(timeout)

    with Broker() as broker:
        broker.create_topic("t", 1)
        tail = OffsetsTail(broker.bootstrap, Properties(), records.extend)
        tail._over = Over()
        tail.start()
        assert tail.ready.wait(120)
        assert "shows no __consumer_offsets: no consumer has joined a group or committed yet" in tail.trouble
        consumer = confluent.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "first"})
        try:
            consumer.subscribe(["t"])
            until(lambda: consumer.poll(0.1) is None and bool(consumer.assignment()))
        finally:
            consumer.close()
        assert not records
        looks_again.set()
        until(lambda: any(isinstance(decode(r.key, r.value), GroupGeneration) for r in records))
        tail.close()

"""The tail of ``__consumer_offsets``: nothing stays behind where nobody answers; no open transaction holds it up."""

from __future__ import annotations

import gc
import logging
import os
import threading
import time
from collections.abc import Callable

import pytest

from apportion.inputs import cluster, offsets_tail
from apportion.inputs.cluster import OFFSETS
from apportion.inputs.cluster_round import partition_of_group
from apportion.inputs.offsets_tail import OffsetsTail, TailRecord
from apportion.inputs.properties import Properties
from apportion.testing.broker import Broker, free_ports
from apportion.wire.coordinator import Commit, GroupGeneration, decode


def until(holds: Callable[[], bool], patience_s: float = 60) -> None:
    end = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < end, "it never held"
        time.sleep(0.05)


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
        assert tail.ready.wait(60)
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

"""Where changelogs begin and end, asked leader by leader: one that does not answer holds up no other's.

kafka-python asks for all partitions at once. Where some have no leader it raises a bare KeyError, and where one leader
is silent it waits for it until the time-out. Here all leaders are asked at the same time, with one short deadline, and
who is silent is asked again ever more seldom.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from kafka import TopicPartition
from kafka.admin import ConfigResourceType
from kafka.consumer.fetcher import Fetcher
from kafka.errors import KafkaError
from kafka.protocol.admin import DescribeConfigsRequest, DescribeProducersRequest

from apportion.clients.runtime.back_off import BackOff
from apportion.sources.cluster import OFFSETS, partition_of_group
from apportion.wire.primitives import uuid_text

DEADLINE_S: Final = 1.0
"""How long the answers of all leaders may take together."""
BACK_OFF_S: Final = (1.0, 30.0)
"""Wait before a silent leader is asked again: doubled each time, from the first to the second."""
EARLIEST: Final = -2
LATEST: Final = -1
DELETE_RETENTION_MS: Final = 86_400_000
"""Kafka's default of ``delete.retention.ms``, where a topic's own may not be looked up."""


class LogOffsets:
    """Questions about logs, on the connections of a ``KafkaConsumer``; tasks wait for the answers, but not long."""

    def __init__(self, consumer: Any) -> None:
        self._cluster, self._manager = consumer._cluster, consumer._client._manager
        servers = consumer.config["bootstrap_servers"]
        self._server = servers if isinstance(servers, str) else servers[0]
        # The end is the high watermark: what may yet be aborted lies before it, and is waited for.
        settings = {**consumer.config, "isolation_level": "read_uncommitted"}
        self._fetcher = Fetcher(consumer._client, consumer._subscription, **settings)
        self._silent = BackOff[int](*BACK_OFF_S)
        self._retention_ms: dict[str, int] = {}

    def begin(self, pairs: Iterable[Any]) -> dict[Any, int]:
        """Partition to its log start offset, of those that are known."""
        return self._ask(EARLIEST, pairs)

    def end(self, pairs: Iterable[Any]) -> dict[Any, int]:
        """Partition to its high watermark, of those that are known."""
        return self._ask(LATEST, pairs)

    def led(self, pair: Any) -> bool:
        """Whether the partition has a leader that answers, as far as is known."""
        leader = self._cluster.leader_for_partition(pair)
        return leader not in (None, -1) and leader not in self._silent

    def topic_id(self, topic: str) -> str:
        """The topic's id as Kafka prints it; "" if the brokers do not give it."""
        known = self._cluster.topic_id(topic)
        return uuid_text(known.bytes) if isinstance(known, UUID) and known.int else ""

    def delete_retention_ms(self, topic: str) -> int:
        """How long the topic remembers that a key was deleted; Kafka's default if that may not be looked up."""
        if topic not in self._retention_ms:
            resource = (ConfigResourceType.TOPIC, topic, ["delete.retention.ms"])
            question = self._manager.call_soon(self._manager.send, DescribeConfigsRequest(resources=[resource]))
            try:
                [answer] = self._wait(question, DEADLINE_S).results
            except KafkaError:
                return DELETE_RETENTION_MS  # it is asked again
            texts = [config.value for config in answer.configs if config.name == "delete.retention.ms"]
            self._retention_ms[topic] = int(texts[0]) if texts and texts[0] else DELETE_RETENTION_MS
        return self._retention_ms[topic]

    def held(self, pair: Any, at: int) -> str:
        """What keeps readers of committed records at that offset of a partition, and which command ends it."""
        start = f"nothing behind offset {at} of {pair.topic}, partition {pair.partition}, can be read"
        return f"{start}: {self._open_transaction(pair)}"

    def held_commit(self, group: str, pair: Any) -> str:
        """The reason why a group's committed offset of a partition is withheld, and which command ends it."""
        start = f"the committed offset of {pair.topic}, partition {pair.partition}, is not told"
        self._cluster.add_topic(OFFSETS)
        with suppress(KafkaError):
            self._wait(self._cluster.request_update(), DEADLINE_S)
        count = len(self._cluster.partitions_for_topic(OFFSETS) or ())
        if not count:
            return f"{start}, and this user may not see {OFFSETS}"
        return f"{start}: {self._open_transaction(TopicPartition(OFFSETS, partition_of_group(group, count)))}"

    def _open_transaction(self, pair: Any) -> str:
        """A sentence on the open transaction that begins first in a partition, or on why none is known."""
        topic = DescribeProducersRequest.TopicRequest(name=pair.topic, partition_indexes=[pair.partition])
        request = DescribeProducersRequest(topics=[topic])
        leader = self._cluster.leader_for_partition(pair)
        question = self._manager.call_soon(lambda: self._manager.send(request, node_id=leader))
        try:
            [partition] = self._wait(question, DEADLINE_S).topics[0].partitions
        except KafkaError as error:
            return f"the leader does not say why ({type(error).__name__})"
        begun = [producer for producer in partition.active_producers if producer.current_txn_start_offset >= 0]
        if not begun:
            return f"no transaction is open in {pair.topic}, partition {pair.partition}"
        first = min(begun, key=lambda producer: producer.current_txn_start_offset)
        newest = datetime.fromtimestamp(first.last_timestamp / 1000, UTC).isoformat(" ", "seconds")
        return (
            f"producer {first.producer_id} (epoch {first.producer_epoch}) has a transaction open in {pair.topic}, "
            f"partition {pair.partition}, from offset {first.current_txn_start_offset} on, since {newest} or earlier. "
            "Brokers abort it after its time-out; if they do not, abort it: kafka-transactions.sh --bootstrap-server "
            f"{self._server} abort --topic {pair.topic} --partition {pair.partition} "
            f"--start-offset {first.current_txn_start_offset}"
        )

    def _ask(self, spec: int, pairs: Iterable[Any]) -> dict[Any, int]:
        now = time.monotonic()
        by_leader: dict[int, dict[Any, tuple[int, int]]] = {}
        for pair in pairs:
            leader = self._cluster.leader_for_partition(pair)
            if leader not in (None, -1) and not self._silent.waits(leader):
                by_leader.setdefault(leader, {})[pair] = (spec, -1)
        questions = {
            leader: self._manager.call_soon(self._fetcher._send_list_offsets_request, leader, offset_specs)
            for leader, offset_specs in by_leader.items()
        }
        offsets: dict[Any, int] = {}
        for leader, question in questions.items():
            try:
                answer, refused = self._wait(question, max(0.0, now + DEADLINE_S - time.monotonic()))
            except KafkaError:
                self._wait_longer(leader)
                continue
            self._silent.well(leader)
            offsets |= {pair: at.offset for pair, at in answer.items()}
            self._look_again(refused)
        return offsets

    def _wait(self, question: Any, patience_s: float) -> Any:
        return self._manager.run(self._manager.wait_for, question, patience_s * 1000)

    def _wait_longer(self, leader: int) -> None:
        """Leave a silent leader alone for a while, and look whether its partitions have another one by now."""
        self._silent.failed(leader)
        self._look_again((leader,))

    def _look_again(self, stale: Collection[Any]) -> None:
        if stale:
            self._cluster.request_update()

"""Where changelogs begin and end, asked leader by leader: one that does not answer holds up nobody else's.

kafka-python asks for all partitions at once. Where some have no leader it raises a bare KeyError, and where one leader
is silent it waits for it until the time-out. Here all leaders are asked at the same time, with one short deadline, and
who is silent is asked again ever more seldom.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from typing import Any, Final
from uuid import UUID

from kafka.admin import ConfigResourceType
from kafka.consumer.fetcher import Fetcher
from kafka.errors import KafkaError
from kafka.protocol.admin import DescribeConfigsRequest

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
        # The end is the high watermark: what may yet be aborted lies before it, and is waited for.
        settings = {**consumer.config, "isolation_level": "read_uncommitted"}
        self._fetcher = Fetcher(consumer._client, consumer._subscription, **settings)
        self._silent: dict[int, tuple[float, float]] = {}
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
        """The topic's id as Kafka prints it; "" where the brokers do not tell."""
        known = self._cluster.topic_id(topic)
        return uuid_text(known.bytes) if isinstance(known, UUID) and known.int else ""

    def delete_retention_ms(self, topic: str) -> int:
        """How long the topic remembers that a key was deleted; Kafka's default where that may not be looked up."""
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

    def _ask(self, spec: int, pairs: Iterable[Any]) -> dict[Any, int]:
        now = time.monotonic()
        by_leader: dict[int, dict[Any, tuple[int, int]]] = {}
        for pair in pairs:
            leader = self._cluster.leader_for_partition(pair)
            if leader not in (None, -1) and now >= self._silent.get(leader, (0.0, 0.0))[0]:
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
            self._silent.pop(leader, None)
            offsets |= {pair: at.offset for pair, at in answer.items()}
            self._look_again(refused)
        return offsets

    def _wait(self, question: Any, patience_s: float) -> Any:
        return self._manager.run(self._manager.wait_for, question, patience_s * 1000)

    def _wait_longer(self, leader: int) -> None:
        """Leave a silent leader alone for a while, and look whether its partitions have another one by now."""
        first, longest = BACK_OFF_S
        wait = min(longest, 2 * self._silent.get(leader, (0.0, first / 2))[1])
        self._silent[leader] = (time.monotonic() + wait, wait)
        self._look_again((leader,))

    def _look_again(self, stale: Collection[Any]) -> None:
        if stale:
            self._cluster.request_update()

"""Real members of governed groups, and a governor that runs, for the live tests here."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from apportion.errors import ApportionError
from apportion.governing.governor import Governed, Governor
from apportion.testing.broker import Broker, BrokerCluster


class Member:
    """A confluent-kafka consumer of the new protocol in a thread of its own."""

    def __init__(
        self,
        broker: Broker | BrokerCluster,
        group: str,
        client_id: str,
        topics: list[str],
        bootstrap: str | None = None,
        **more: str,
    ) -> None:
        self.client_id, self.over = client_id, threading.Event()
        settings = {
            "bootstrap.servers": bootstrap or broker.bootstrap,
            "group.id": group,
            "client.id": client_id,
            "group.protocol": "consumer",
            "group.remote.assignor": "apportion",
            **more,
        }
        self.consumer = Consumer({key: value for key, value in settings.items() if value})  # "" leaves one out
        # Whatever is asked of a consumer from another thread waits for the one that polls.
        self.to_commit: list[TopicPartition] = []
        self.held: set[tuple[str, int]] = set()
        self.errors: list[str] = []
        self.consumer.subscribe(topics, on_assign=self._assigned, on_revoke=self._revoked)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while not self.over.is_set():
            message = self.consumer.poll(0.1)
            if message is not None and message.error():
                self.errors.append(str(message.error()))
            if self.to_commit:
                self.consumer.commit(offsets=self.to_commit, asynchronous=False)
                self.to_commit = []
        self.consumer.close()

    def _assigned(self, consumer: Consumer, given: list[Any]) -> None:
        consumer.incremental_assign(given)
        self.held |= {(p.topic, p.partition) for p in given}

    def _revoked(self, consumer: Consumer, taken: list[Any]) -> None:
        consumer.incremental_unassign(taken)
        self.held -= {(p.topic, p.partition) for p in taken}

    def close(self) -> None:
        self.over.set()
        self.thread.join(30)


def until(true: Callable[[], bool], patience_s: float = 120) -> bool:
    ends = time.monotonic() + patience_s
    while time.monotonic() < ends:
        if true():
            return True
        time.sleep(0.1)
    return False


class Running:
    """A governor that makes a round a second, as the service does."""

    def __init__(self, governor: Governor) -> None:
        self.governor, self.rounds, self.over = governor, list[Governed](), threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while not self.over.wait(0.5):
            try:
                self.rounds.append(self.governor.round())
            except ApportionError as error:  # as the service does: it is told, and the next round tries again
                self.rounds.append(Governed(time.time(), "failed", sentences=(str(error),)))

    def stop(self) -> None:
        self.over.set()
        self.thread.join(30)

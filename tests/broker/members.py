"""Real members of governed groups, and a governor that runs, for the live tests here."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, ClassVar
from uuid import uuid4

from confluent_kafka import Consumer, TopicPartition

from apportion.errors import ApportionError
from apportion.governing.carrier import LEAVE, Carrier
from apportion.governing.governor import Governed
from apportion.governing.looking import Selection
from apportion.governing.rules_file import GroupRule
from apportion.governing.service import Governing, governing
from apportion.sources.cluster import Cluster, patiently
from apportion.sources.properties import Properties
from apportion.testing.broker import Broker, BrokerCluster
from apportion.wire import plan_text
from apportion.wire.plan_text import ASSIGNOR


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


class RawMember:
    """A member of the new protocol that is nothing but its heartbeats, sent when the test says so."""

    opened: ClassVar[list[Any]] = []
    """The clients of all, which ``conftest`` closes."""

    def __init__(
        self,
        broker: Broker | BrokerCluster,
        group: str,
        member_id: str = "",
        topics: Sequence[str] = (),
        instance_id: str | None = None,
    ) -> None:
        self.member_id, self.epoch, self.group = member_id or str(uuid4()), 0, group
        self.admin = broker.admin()
        self.opened.append(self.admin)
        self.given: set[tuple[Any, int]] = set()
        self.fields: dict[str, Any] = {
            "instance_id": instance_id,
            "rebalance_timeout_ms": 30_000,
            "subscribed_topic_names": list(topics),
            "server_assignor": ASSIGNOR if topics else None,
        }

    def beat(self) -> None:
        """Join, or say that it lives and what it has."""
        refused = self.beat_or_refused()
        assert not refused, refused

    def beat_or_refused(self) -> int:
        """Beat; Kafka's error code, 0 if there is none."""
        from apportion.sources.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

        owned: dict[Any, list[int]] = {}
        for topic, number in self.given:
            owned.setdefault(topic, []).append(number)
        of_topic = ConsumerGroupHeartbeatRequest.TopicPartitions
        lists = [of_topic(topic_id=topic, partitions=numbers) for topic, numbers in owned.items()]
        answer = self._send(self.epoch, topic_partitions=lists if self.epoch else [], **self.fields)
        if answer["error_code"]:
            return int(answer["error_code"])
        self.epoch = answer["member_epoch"]
        if answer["assignment"]:
            parts = answer["assignment"]["topic_partitions"]
            self.given = {(part["topic_id"], number) for part in parts for number in part["partitions"]}
        return 0

    def say(self, text: str, topic: str) -> None:
        """Carry a plan, with other topics than before, so that the group is computed."""
        topics = [] if self.fields["subscribed_topic_names"] else [topic]
        self.fields |= {**plan_text.joining(text), "subscribed_topic_names": topics}
        if not self.epoch and not topics:
            self.beat()
            self.fields["subscribed_topic_names"] = [topic]
        self.beat()

    def leave(self) -> None:
        self._send(-1)
        self.admin.close()

    def _send(self, epoch: int, **more: Any) -> dict[str, Any]:
        from apportion.sources.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

        fields = {"group_id": self.group, "member_id": self.member_id, "member_epoch": epoch, **more}
        node = patiently("", lambda: self.admin._manager.run(self.admin._find_coordinator_ids, [self.group]))
        request = ConsumerGroupHeartbeatRequest(**fields)
        answer: dict[str, Any] = self.admin._manager.run(self.admin._manager.send, request, node[self.group]).to_dict()
        return answer


def new_group() -> str:
    """A name that no other test has."""
    return f"g-{uuid4().hex[:8]}"


def until(true: Callable[[], bool], patience_s: float = 60) -> bool:
    ends = time.monotonic() + patience_s
    while time.monotonic() < ends:
        if true():
            return True
        time.sleep(0.1)
    return False


class Governor:
    """A governor of one group, pass by pass."""

    def __init__(
        self, cluster: Cluster, group: str, rule: GroupRule, key: bytes | None = None, login: Properties | None = None
    ) -> None:
        self.cluster, self.group, self.rule, self.key, self.login = cluster, group, rule, key, login
        self.stack = ExitStack()
        self.governing: Governing | None = None

    def _open(self) -> Governing:
        if self.governing is None:
            rule = replace(self.rule, pattern=re.compile(re.escape(self.group)))
            selection = Selection((rule,), (self.group,))
            made = governing(self.cluster.bootstrap, self.login, self.cluster, selection, self.key)
            self.governing = self.stack.enter_context(made)
        return self.governing

    @property
    def carriers(self) -> list[Carrier]:
        governors = self._open().governors
        return governors[self.group].carriers if self.group in governors else []

    @property
    def trouble(self) -> str:
        return self._open().counts.trouble

    def round(self) -> Governed:
        """A pass, and what became of a publication."""
        running = self._open()
        while (governed := self._pass(running)).outcome == "publishing":
            running.heart.wait(self.carriers, 20)
        return governed

    def _pass(self, running: Governing) -> Governed:
        outcomes = running.round()
        return outcomes.get(self.group) or Governed(time.time(), "waiting" if running.groups() else "empty")

    def release(self, epoch: int = LEAVE) -> None:
        """Leave the group."""
        if self.governing is not None:
            self.governing.close(epoch)
            self.governing = None
            self.stack.close()

    def die(self) -> None:
        """End as by kill -9: nobody is told, and the lease ends with its session."""
        if self.governing is not None:
            self.governing.heart.stop()
            self.governing = None
            self.stack.close()

    def let_go(self) -> str:
        """Give the group back, as a command that is started for it."""
        self.release()
        why_not = self._open().release(self.group)
        self.release()
        return why_not


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

"""A group under fire: members that join, leave, freeze and die, a broker that is killed, and the log of it all.

Two groups read the same topics under the same events: one with ``cooperative-sticky``, one with ``sticky``. Every
member is a process of its own. ``judge.py`` reads the log afterwards.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from apportion.errors import Unavailable
from apportion.testing.broker import Broker
from apportion.testing.member import PythonMember
from apportion.testing.peers import JavaMember

SESSION_MS = 3000
COMMIT_MS = 1000
TOPICS = ("views", "sales")
KINDS = ("kafka-python", "confluent", "aiokafka", "java")
Event = dict[str, Any]


@dataclass
class One:
    """A member, what it is, and when its process ended (None: it lives)."""

    name: str
    kind: str
    member: PythonMember | JavaMember
    topics: list[str]
    frozen: bool = False
    ended: float | None = None
    wrote: list[Event] = field(default_factory=list)

    @property
    def generation(self) -> int:
        return self.member.generation

    @property
    def owned(self) -> set[tuple[str, int]]:
        said = self.member.assignment if isinstance(self.member, JavaMember) else self.member.owned
        return {(topic, p) for topic, ids in said.items() for p in ids}


class Producer:
    """Writes steadily to all partitions; restarts of the broker only delay it."""

    def __init__(self, bootstrap: str, sizes: dict[str, int], per_s: int = 300) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka import Producer as Client

        self._trouble = KafkaException

        self._client = Client({"bootstrap.servers": bootstrap, "acks": "all", "message.timeout.ms": 60_000})
        self._sizes, self._per_s, self._over = sizes, per_s, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        n = 0
        while not self._over.is_set():
            for _ in range(self._per_s // 20):
                topic = TOPICS[n % len(TOPICS)]
                n += 1
                # A partition that was just added is unknown to this client for a moment.
                with suppress(self._trouble):
                    self._client.produce(topic, b"%d" % n, partition=(n // len(TOPICS)) % self._sizes[topic])
            self._client.poll(0)
            time.sleep(0.05)
        self._client.flush(60)

    def close(self) -> None:
        self._over.set()
        self._thread.join()


class Arena:
    """One broker, two groups, one producer, and the events that befall them."""

    def __init__(self, logs: Path, seed: int) -> None:
        self.logs, self.random = logs, random.Random(seed)
        self.stack = ExitStack()
        self.sizes = {"views": 6, "sales": 4}
        self.groups: dict[str, list[One]] = {"cooperative-sticky": [], "sticky": []}
        self.told: list[str] = []
        self._made = 0

    def __enter__(self) -> Arena:
        self.broker = self.stack.enter_context(Broker(properties={"offsets.topic.num.partitions": "1"}))
        for topic, size in self.sizes.items():
            self.broker.create_topic(topic, size)
        self.producer = Producer(self.broker.bootstrap, self.sizes)
        self.stack.callback(self.producer.close)
        for group in self.groups:
            for kind in KINDS:
                self.join(group, kind)
        return self

    def __exit__(self, *_: object) -> None:
        for one in self.living():
            one.member.kill()
        self.stack.close()

    def living(self, group: str | None = None) -> list[One]:
        """Members whose process lives, frozen ones too."""
        return [o for name, all_ in self.groups.items() if group in (None, name) for o in all_ if o.ended is None]

    def join(self, group: str, kind: str) -> One:
        self._made += 1
        name = f"{kind}-{self._made}"
        member = self._java(group) if kind == "java" else self._python(group, kind, name)
        one = One(name, kind, member, list(TOPICS))
        self.groups[group].append(one)
        return one

    def _python(self, group: str, kind: str, name: str) -> PythonMember:
        return PythonMember(
            self.logs / f"{name}.log",
            client=kind,
            name=name,
            bootstrap=self.broker.bootstrap,
            group=group,
            topics=TOPICS,
            strategies=[group],
            session_ms=SESSION_MS,
            commit_ms=COMMIT_MS,
        )

    def _java(self, group: str) -> JavaMember:
        told = {
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": SESSION_MS // 5,
            "metadata.max.age.ms": 1000,
            "enable.auto.commit": "true",
            "auto.commit.interval.ms": COMMIT_MS,
        }
        return JavaMember(self.broker.bootstrap, group, TOPICS, told, strategy=group)

    # -- events ------------------------------------------------------------------------------------------------------

    def befall(self, what: str) -> None:
        """One event for both groups."""
        self.told.append(what)
        getattr(self, f"_{what}")()

    def _pick(self, group: str, *, keep: int = 2) -> One | None:
        awake = [one for one in self.living(group) if not one.frozen]
        return self.random.choice(awake) if len(awake) > keep else None

    def _grown(self) -> None:
        topic = self.random.choice(TOPICS)
        if self.sizes[topic] < 12:
            self.broker.grow_topic(topic, self.sizes[topic] + 1)
            self.sizes[topic] += 1

    def _joined(self) -> None:
        kind = self.random.choice(KINDS)
        for group in self.groups:
            if len(self.living(group)) < 6:
                self.join(group, kind)

    def _left(self) -> None:
        for group in self.groups:
            if one := self._pick(group):
                try:
                    one.member.leave()
                except Unavailable:  # it could not say good-bye in time: then it dies
                    one.member.kill()
                one.ended = time.time()

    def _killed(self) -> None:
        for group in self.groups:
            if one := self._pick(group):
                one.ended = time.time()
                one.member.kill()

    def _froze(self) -> None:
        """Stopped beyond the session, then let go on: it wakes as a zombie."""
        for group in self.groups:
            if one := self._pick(group):
                one.frozen = True
                freeze(one, signal.SIGSTOP)
                timer = threading.Timer(SESSION_MS / 1000 + 2, self._thaw, [one])
                timer.daemon = True
                timer.start()

    def _thaw(self, one: One) -> None:
        if one.ended is None:
            freeze(one, signal.SIGCONT)
        one.frozen = False

    def _resubscribed(self) -> None:
        """One member takes less or all again; everybody else keeps both topics, so that each has a reader."""
        for group in self.groups:
            if one := self._pick(group):
                one.topics = ["views"] if len(one.topics) == 2 else list(TOPICS)
                if isinstance(one.member, JavaMember):
                    one.member.subscribe(one.topics)
                else:
                    one.member.say("topics " + ",".join(one.topics))

    def _broker_killed(self) -> None:
        self.broker.kill()
        time.sleep(1)
        self.broker.start()

    # -- watching ----------------------------------------------------------------------------------------------------

    def generation(self, group: str) -> int:
        return max((one.generation for one in self.groups[group]), default=-1)

    def settled(self, group: str) -> bool:
        """All partitions have one owner and all members speak of one generation."""
        members = self.living(group)
        held = sorted(pair for one in members for pair in one.owned)
        wanted = sorted((topic, p) for topic, size in self.sizes.items() for p in range(size))
        return held == wanted and len({one.generation for one in members}) == 1

    def settle(self, patience_s: float = 40) -> None:
        """Wait until both groups are settled and stay so for a second."""
        until, since = time.monotonic() + patience_s, None
        while time.monotonic() < until:
            calm = not any(one.frozen for one in self.living()) and all(map(self.settled, self.groups))
            since = (since or time.monotonic()) if calm else None
            if since and time.monotonic() - since > 1:
                return
            time.sleep(0.05)
        state = {g: [(o.name, o.generation, sorted(o.owned)) for o in self.living(g)] for g in self.groups}
        raise AssertionError(f"not settled {patience_s} s after {self.told[-3:]}: {state}")

    def caught_up(self, patience_s: float = 30) -> None:
        """Stop writing and wait until every committed offset is the log's end."""
        from kafka import KafkaAdminClient, TopicPartition
        from kafka.admin import OffsetSpec

        self.producer.close()
        admin = KafkaAdminClient(bootstrap_servers=self.broker.bootstrap)
        try:
            parts = [TopicPartition(t, p) for t, size in self.sizes.items() for p in range(size)]
            until = time.monotonic() + patience_s
            while time.monotonic() < until:
                specs = dict.fromkeys(parts, OffsetSpec.LATEST)
                self.ends = {tuple(tp): at.offset for tp, at in admin.list_partition_offsets(specs).items()}
                said = admin.list_group_offsets(list(self.groups))
                behind = {
                    (group, *tp): (end, said[group].get(TopicPartition(*tp)))
                    for group in self.groups
                    for tp, end in self.ends.items()
                    if end and getattr(said[group].get(TopicPartition(*tp)), "offset", -1) != end
                }
                if not behind:
                    return
                time.sleep(0.3)
        finally:
            admin.close()
        raise AssertionError(f"not caught up after {patience_s} s: {behind}")


def freeze(one: One, number: int) -> None:
    """SIGSTOP or SIGCONT to a member's process."""
    one.member.process.send_signal(number)

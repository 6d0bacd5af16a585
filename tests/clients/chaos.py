"""Groups under fire: members that join, leave, freeze and die, a broker that is killed, and the log of it all.

Three groups read the same topics, and every event of one script (``script.py``) befalls all of them at once:

* ``cooperative`` (cooperative-sticky) and ``eager`` (sticky) have members of the same clients in the same slots, which
  run the same application; so what they read twice compares.
* ``mixed`` has aiokafka members among them and is cooperative-sticky too, the harder case: that client gives up all at
  every join. It is judged like the others but compared with none, for no group without aiokafka is like it.

The application: it works on a record for ``WORK_MS`` after it has read it, and commits what is done every
``COMMIT_MS``, when partitions are revoked, and when it leaves. What it has in work when a partition is revoked,
somebody reads again. What ``GroupConsumer`` gave out counts as done at the next call, in all groups. Every member is a
process of its own. ``judge.py`` reads the log.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.member import PythonMember

from apportion.errors import Unavailable
from apportion.testing.broker import Broker
from apportion.testing.peers import JavaMember

from .script import KINDS, TOPICS, Event, Script

SESSION_MS = 3000
COMMIT_MS = 2000
WORK_MS = 1000
STRATEGY = {"cooperative": "cooperative-sticky", "eager": "sticky", "mixed": "cooperative-sticky"}
MIXED = ("aiokafka", "java", "kafka-python", "confluent")


@dataclass
class One:
    """A member, what it is, when its process ended (None: it lives), and when it was killed or frozen."""

    name: str
    kind: str
    slot: int
    member: PythonMember | JavaMember
    frozen: bool = False
    ended: float | None = None
    fell: list[float] = field(default_factory=list)

    @property
    def generation(self) -> int:
        return self.member.generation

    @property
    def owned(self) -> set[tuple[str, int]]:
        said = self.member.assignment if isinstance(self.member, JavaMember) else self.member.owned
        return {(topic, p) for topic, ids in said.items() for p in ids}


class Producer:
    """Writes steadily to all partitions, and waits while the broker is away.

    What it would write meanwhile is left out: read at once when the broker is back, it would be most of what a
    rebalance then finds uncommitted, and one moment would decide what the groups read twice.
    """

    hot: frozenset[tuple[str, int]] = frozenset()

    def __init__(self, bootstrap: str, sizes: dict[str, int], per_s: int = 300) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka import Producer as Client

        self._trouble = KafkaException

        settings = {"bootstrap.servers": bootstrap, "acks": "all", "message.timeout.ms": 60_000, "log_level": 2}
        self._client = Client({**settings, "queue.buffering.max.messages": per_s // 2})
        self._sizes, self._per_s, self._over = sizes, per_s, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        n = 0
        while not self._over.is_set():
            for _ in range(self._per_s // 20):
                topic = TOPICS[n % len(TOPICS)]
                n += 1
                # A partition that was just added is unknown to this client for a moment; a full queue is said above.
                with suppress(self._trouble, BufferError):
                    self._client.produce(topic, b"%d" % n, partition=self.partition(n // len(TOPICS), topic))
            self._client.poll(0)
            time.sleep(0.05)
        self._client.flush(60)

    def partition(self, n: int, topic: str) -> int:
        """Where a topic's n-th record goes: to all in turn, and four of five to those that are ``hot``."""
        hot = sorted(p for name, p in self.hot if name == topic)
        return hot[n // 5 % len(hot)] if n % 5 and hot else n % self._sizes[topic]

    def close(self) -> None:
        self._over.set()
        self._thread.join()


class Arena:
    """One broker, some groups, one producer, and the events that befall them.

    script
        How many partitions the topics have; who is there at first has the kinds ``kinds``.
    strategy
        Of each group; a group that is ``acting`` has a feed, learned speeds and this rule.
    """

    def __init__(
        self,
        logs: Path,
        script: Script,
        strategy: Mapping[str, str] = STRATEGY,
        kinds: Sequence[str] = KINDS,
        acting: Mapping[str, float] | None = None,
    ) -> None:
        self.logs, self.script, self.strategy, self.kinds, self.acting = logs, script, strategy, kinds, acting
        self.stack = ExitStack()
        self.sizes = dict(script.sizes)
        self.groups: dict[str, list[One]] = {group: [] for group in strategy}
        self.told: list[str] = []

    def __enter__(self) -> Arena:
        self.broker = self.stack.enter_context(Broker(properties={"offsets.topic.num.partitions": "1"}))
        self.pool = self.stack.enter_context(ThreadPoolExecutor(len(self.groups)))
        for topic, size in self.sizes.items():
            self.broker.create_topic(topic, size)
        self.producer = Producer(self.broker.bootstrap, self.sizes)
        self.stack.callback(self.producer.close)
        for slot, kind in enumerate(self.kinds):
            self._joined(Event(0, "joined", slot, kind))
        return self

    def __exit__(self, *_: object) -> None:
        for one in self.living():
            one.member.kill()
        self.stack.close()

    def living(self, group: str | None = None) -> list[One]:
        """Members whose process lives, frozen ones too."""
        return [o for name, all_ in self.groups.items() if group in (None, name) for o in all_ if o.ended is None]

    def _join(self, group: str, slot: int, kind: str) -> None:
        kind = MIXED[slot % len(MIXED)] if group == "mixed" else kind
        name = f"{group}-{slot}-{kind}"
        member = self._java(group) if kind == "java" else self._python(group, kind, name)
        self.groups[group].append(One(name, kind, slot, member))

    def _python(self, group: str, kind: str, name: str) -> PythonMember:
        return PythonMember(
            self.logs / f"{name}.log",
            client=kind,
            name=name,
            bootstrap=self.broker.bootstrap,
            group=group,
            topics=TOPICS,
            strategies=[self.strategy[group]],
            session_ms=SESSION_MS,
            commit_ms=COMMIT_MS,
            work_ms=WORK_MS,
            **acting_settings(self.acting),
        )

    def _java(self, group: str) -> JavaMember:
        told = {
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": SESSION_MS // 5,
            "metadata.max.age.ms": 1000,
        }
        return JavaMember(
            self.broker.bootstrap,
            group,
            TOPICS,
            told,
            strategy=self.strategy[group],
            commit_ms=COMMIT_MS,
            work_ms=WORK_MS,
        )

    # -- events ------------------------------------------------------------------------------------------------------

    def befall(self, event: Event) -> None:
        """One event for all groups, at one time."""
        time.sleep(event.wait_s)
        self.told.append(event.what)
        getattr(self, f"_{event.what}")(event)

    def _each(self, event: Event, do: Callable[[One], None]) -> None:
        """To the members in that slot of all groups at once, so that none of them has the event earlier."""
        list(self.pool.map(do, [one for one in self.living() if one.slot == event.slot]))

    def _grown(self, event: Event) -> None:
        for topic in event.topics:
            self.broker.grow_topic(topic, self.sizes[topic] + 1)
            self.sizes[topic] += 1

    def _joined(self, event: Event) -> None:
        for group in self.groups:
            self._join(group, event.slot, event.kind)

    def _left(self, event: Event) -> None:
        self._each(event, leave)

    def _killed(self, event: Event) -> None:
        self._each(event, kill)

    def _froze(self, event: Event) -> None:
        """Stopped beyond the session, then let go on: it wakes as a zombie."""
        self._each(event, freeze)

    def _thawed(self, event: Event) -> None:
        self._each(event, thaw)

    def _resubscribed(self, event: Event) -> None:
        """To fewer topics, or all again."""
        self._each(event, lambda one: resubscribe(one, event.topics))

    def _broker_killed(self, event: Event) -> None:
        self.broker.kill()
        time.sleep(1)  # so that members miss it
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

    def settle(self, patience_s: float = 180) -> None:
        """Wait until all groups are settled and stay so for a second."""
        until, since = time.monotonic() + patience_s, None
        while time.monotonic() < until:
            calm = not any(one.frozen for one in self.living()) and all(map(self.settled, self.groups))
            since = (since or time.monotonic()) if calm else None
            if since and time.monotonic() - since > 1:
                return
            time.sleep(0.05)
        state = {g: [(o.name, o.generation, sorted(o.owned)) for o in self.living(g)] for g in self.groups}
        raise AssertionError(f"not settled {patience_s} s after {self.told[-3:]}: {state}")

    def caught_up(self, patience_s: float = 180) -> None:
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


def acting_settings(acting: Mapping[str, float] | None) -> dict[str, Any]:
    """Of a Python member in a group that acts, which reads 150 records a second at most; nothing where it does not.

    Without a limit it keeps up with whatever is written, and a group whose members keep up has no reason to act.
    """
    slow = {"poll_records": 15, "pause_ms": 100, "settings": {"capacity": "learned"}}
    return {"lag": True, "lag_s": 0.5, "acting": acting, "own_log_level": "DEBUG", **slow} if acting else {}


def leave(one: One) -> None:
    try:
        one.member.leave()
        one.ended = time.time()
    except Unavailable:  # it could not say good-bye in time: then it dies
        kill(one)


def kill(one: One) -> None:
    one.ended = time.time()
    one.fell.append(one.ended)
    one.member.kill()


def freeze(one: One) -> None:
    one.frozen = True
    one.fell.append(time.time())
    one.member.process.send_signal(signal.SIGSTOP)


def thaw(one: One) -> None:
    one.member.process.send_signal(signal.SIGCONT)
    one.frozen = False


def resubscribe(one: One, topics: tuple[str, ...]) -> None:
    if isinstance(one.member, JavaMember):
        one.member.subscribe(topics)
    else:
        one.member.say("topics " + ",".join(topics))

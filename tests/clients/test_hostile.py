"""A member that talks nonsense costs itself its memory and nobody else anything; a warning names it."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer
from tests.support.examples import thorough

from apportion.clients.kafka_python import assignor
from apportion.testing.broker import Broker
from apportion.wire.subscription import Subscription, write_subscription

from .groups import BEAT_MS, SESSION_MS, Members, new_name, pairs, settle

pytestmark = pytest.mark.broker
SIZE = 4

GARBAGE = b"\xff\xfe\x00\x01garbage"
HUGE = b"\x7f\xff\xff\xff" * 4  # two thousand million topics, it says


def lies(topic: str) -> dict[str, bytes]:
    """What a liar sends: subscriptions in bytes."""
    impossible = ((topic, (99, 100_000)), ("no-such-topic", (0,)))
    newer = write_subscription(Subscription((topic,), None))[2:]
    return {
        "garbage": write_subscription(Subscription((topic,), GARBAGE)),
        "huge": write_subscription(Subscription((topic,), HUGE)),
        "a newer version": b"\x00\x63" + newer + b"what version 99 may add",
        # Every bad byte is read as three: 60,000 for a client that asks its broker for the name.
        "a name without end": write_subscription(Subscription((topic, "\x7f" * 20_000))).replace(b"\x7f", b"\xff"),
        "impossible claims": write_subscription(Subscription((topic,), None, impossible, 7)),
        "no subscription at all": b"\x00\x03\x7f\xff",
    }


class Liar:
    """A kafka-python consumer in a thread of the test, whose words are ours to choose."""

    def __init__(self, broker: Broker, group: str, topic: str, strategy: str, words: bytes) -> None:
        self.held: set[tuple[str, int]] = set()
        self.member_id, self.generation = "", -1
        self.error: Exception | None = None
        self._over = threading.Event()
        lying = assignor(strategy)
        lying.metadata = lambda topics: words  # type: ignore[method-assign]
        self._consumer = KafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap,
            group_id=group,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=BEAT_MS,
            metadata_max_age_ms=1000,
            partition_assignment_strategy=[lying],
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @property
    def owned(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for topic, p in sorted(self.held):
            found.setdefault(topic, []).append(p)
        return found

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                self._consumer.poll(timeout_ms=100)
                self.held = {(tp.topic, tp.partition) for tp in self._consumer.assignment()}
                generation = self._consumer._coordinator._generation
                self.member_id, self.generation = generation.member_id, generation.generation_id
        except Exception as error:
            self.error = error
        finally:
            self._consumer.close(autocommit=False)

    def close(self) -> None:
        self._over.set()
        self._thread.join(20)


@pytest.fixture(scope="module")
def topic(broker: Broker) -> str:
    name = new_name("hostile")
    broker.create_topic(name, SIZE)
    return name


@pytest.mark.parametrize("client", ["kafka-python", thorough("aiokafka")])
@pytest.mark.parametrize("lie", sorted(lies("")))
def test_the_group_settles_around_a_liar(broker: Broker, topic: str, client: str, lie: str, tmp_path: Path):
    """The leader is ours; the liar gets its share where it said what it wants, and the log names it."""
    strategy = "cooperative-sticky" if client == "kafka-python" else "sticky"
    with Members(broker, new_name("hostile"), [topic], tmp_path) as group:
        leader = group.python(client, strategy)
        settle([leader], {topic: SIZE}, calm_s=0.2)
        liar: Any = Liar(broker, group.group, topic, strategy, lies(topic)[lie])
        try:
            if lie == "no subscription at all":
                wait_for_words(leader.log, "no subscription that anyone can read")
                settle([leader], {topic: SIZE})
            else:
                settle([leader, liar], {topic: SIZE})
                assert len(pairs(liar)) == SIZE // 2
        finally:
            liar.close()
        assert liar.error is None
        if lie in ("garbage", "huge"):
            wait_for_words(leader.log, f"member {liar.member_id!r} remembers nothing")
        # Java's sticky and ours read user data alone, so only the cooperative strategy hears these claims.
        if lie == "impossible claims" and client == "kafka-python":
            wait_for_words(leader.log, f"member {liar.member_id!r} claims what does not exist")


def wait_for_words(log: Path | None, words: str) -> None:
    """The words stand in the log, soon."""
    assert log is not None
    until = time.monotonic() + 60
    while words not in log.read_text():
        assert time.monotonic() < until, f"{words!r} is not in the log:\n{log.read_text()[-3000:]}"
        time.sleep(0.1)


def test_consumers_that_get_the_same_assignor_share_a_group_and_no_memory(broker: Broker, topic: str) -> None:
    """Frameworks hand one object to several workers; each after the first takes a copy."""
    ours = assignor("cooperative-sticky")
    configs: dict[str, Any] = {"bootstrap_servers": broker.bootstrap, "group_id": new_name("twice")}
    consumers = [KafkaConsumer(topic, partition_assignment_strategy=[ours], **configs) for _ in range(2)]
    try:
        until = time.monotonic() + 60
        while not all(counts := [len(one.assignment()) for one in consumers]) or sum(counts) != SIZE:
            assert time.monotonic() < until
            for one in consumers:
                one.poll(timeout_ms=20)
    finally:
        for one in consumers:
            one.close()
    assert len({id(one._coordinator._ours[0]) for one in consumers}) == 2

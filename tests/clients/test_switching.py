"""A running group goes from range to cooperative-sticky and back in two bounces each way, and never stops reading."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.serve.running import until
from tests.support.examples import thorough
from tests.support.member import PythonMember

from apportion.testing.broker import Broker
from apportion.testing.peers import JavaMember

from .groups import Members, new_name, settle
from .judge import Life, read_again, reads, two_owners, unread

pytestmark = pytest.mark.broker
SIZE = 6
BOTH = ["cooperative-sticky", "range"]
STEPS = (BOTH, ["cooperative-sticky"], BOTH, ["range"])
Member = PythonMember | JavaMember


class Writer:
    """A record every so often, until it is told to stop."""

    def __init__(self, broker: Broker, topic: str, every_s: float = 0.05) -> None:
        from kafka import KafkaProducer

        self._producer = KafkaProducer(bootstrap_servers=broker.bootstrap, linger_ms=0)
        self._topic, self._every_s, self._over, self.written = topic, every_s, threading.Event(), 0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(self._every_s):
            self._producer.send(self._topic, b"x", partition=self.written % SIZE)
            self.written += 1

    def ends(self) -> dict[tuple[str, int], int]:
        """(topic, partition) to how many were written."""
        return {(self._topic, p): len(range(p, self.written, SIZE)) for p in range(SIZE)}

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        self._producer.flush()
        self._producer.close()


def test_two_bounces_each_way_without_a_stop(broker: Broker, tmp_path: Path):
    """Java, kafka-python and aiokafka, one restarted at a time; the broker switches when the last one has the list."""
    topic = new_name("switch")
    broker.create_topic(topic, SIZE)
    with Members(broker, new_name("switch"), [topic], tmp_path) as group:
        starts: dict[str, Callable[[list[str]], Member]] = {
            "java": lambda names: group.java(names, {"enable.auto.commit": "true", "auto.commit.interval.ms": "200"}),
            "kafka-python": lambda names: group.python("kafka-python", "", strategies=names),
            "aiokafka": lambda names: group.python("aiokafka", "", strategies=names, rebalance_ms=300_000),
        }
        now = {kind: start(["range"]) for kind, start in starts.items()}
        lives: list[tuple[str, Member, float | None, bool]] = []
        settle(now.values(), {topic: SIZE})
        writer = Writer(broker, topic)
        used = [protocol(broker, group.group)]
        for names in STEPS:
            for kind, start in starts.items():
                now[kind].leave()
                lives.append((kind, now[kind], time.time(), False))
                now[kind] = start(names)
                settle(now.values(), {topic: SIZE}, calm_s=0.2)
            used.append(protocol(broker, group.group))
        writer.close()
        lives += [(kind, member, None, False) for kind, member in now.items()]

        def of_all() -> list[Life]:
            return [Life(f"{k}-{i}", coop, list(m.events), end).live() for i, (k, m, end, coop) in enumerate(lives)]

        until(lambda: not unread(of_all(), writer.ends()))
    assert used[0] == "range"
    assert used[2] == "cooperative-sticky"
    assert used[4] == "range"
    assert not list(two_owners(of_all()))
    assert longest_silence(of_all()) < 20, "nobody waits for a session or a rebalance time-out"


@pytest.mark.parametrize("eager", ["lag-aware", *map(thorough, ("sticky-stream-join", "failover"))])
def test_two_bounces_lead_from_an_eager_strategy_of_ours_to_its_cooperative_form(
    broker: Broker, eager: str, tmp_path: Path
):
    """kafka-python and aiokafka, one restarted at a time; nobody ever reads what another holds, and nothing is lost."""
    topic, cooperative = new_name("form"), f"cooperative-{eager}"
    broker.create_topic(topic, SIZE)
    with Members(broker, new_name("form"), [topic], tmp_path) as group:
        now: dict[str, Member] = {}
        lives: list[Life] = []
        writer = Writer(broker, topic)
        used = []
        for names in ([eager], [cooperative, eager], [cooperative]):
            for kind in ("kafka-python", "aiokafka"):
                if kind in now:
                    left = now.pop(kind)
                    left.leave()
                    lives.append(Life(f"{kind}-{len(lives)}", False, list(left.events), time.time()).live())
                now[kind] = group.python(kind, "", strategies=names, lag=eager == "lag-aware")
                settle(now.values(), {topic: SIZE}, calm_s=0.2)
            used.append(protocol(broker, group.group))
        writer.close()

        def of_all() -> list[Life]:
            return lives + [Life(kind, False, list(member.events), None).live() for kind, member in now.items()]

        until(lambda: not unread(of_all(), writer.ends()))
    assert used == [eager, cooperative, cooperative]
    assert not list(two_owners(of_all()))


def test_cooperative_members_read_less_twice(broker: Broker, tmp_path: Path):
    """The same joins and leaves, a second of work on each record: an eager client begins all its work anew.

    That is aiokafka here. kafka-python keeps the positions of what stays with it even where it is eager.
    """
    topic = new_name("twice")
    broker.create_topic(topic, SIZE)
    lives: dict[str, list[PythonMember]] = {"sticky": [], "cooperative-sticky": []}
    with Members(broker, topic, [topic], tmp_path) as group:

        def join(strategy: str) -> PythonMember:
            client = "aiokafka" if strategy == "sticky" else "kafka-python"
            member = group.python(client, strategy, group=topic + strategy, commit_ms=1000, work_ms=1000)
            lives[strategy].append(member)
            return member

        stay = {strategy: [join(strategy), join(strategy)] for strategy in lives}
        for members in stay.values():
            settle(members, {topic: SIZE})
        writer = Writer(broker, topic, every_s=0.005)
        for _ in range(2):
            guests = {strategy: join(strategy) for strategy in lives}
            for strategy, members in stay.items():
                settle([*members, guests[strategy]], {topic: SIZE})
            for guest in guests.values():
                guest.leave()
            for members in stay.values():
                settle(members, {topic: SIZE})
        writer.close()
    of_each = {strategy: [Life(m.name, False, m.events, None) for m in members] for strategy, members in lives.items()}
    again = {strategy: sum(read_again(members).values()) for strategy, members in of_each.items()}
    print(f"read again: {again} of {writer.written}")
    assert again["cooperative-sticky"] < again["sticky"]


def protocol(broker: Broker, group: str) -> str:
    with broker.admin() as admin:
        return str(admin.describe_groups([group])[group]["protocol_data"])


def longest_silence(lives: list[Any]) -> float:
    """Seconds in which nobody of the group read anything."""
    times = sorted(at for at, *_ in reads(lives))
    return max(b - a for a, b in pairwise(times))

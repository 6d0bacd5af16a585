"""Groups of real members for the tests here: start them, wait until they settle, ask what each owns."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.support.member import PythonMember

from apportion.testing.broker import Broker, BrokerCluster
from apportion.testing.peers import JavaMember

Owned = dict[str, list[int]]
SESSION_MS, BEAT_MS = 20_000, 600
"""Members hear of a rebalance soon, and are not expelled where the machine is busy for some seconds."""
SHORT_MS = 3000
"""The session of one that is to be missed."""
_counter = itertools.count()


def new_name(stem: str) -> str:
    """A topic or group name that no other test has."""
    return f"{stem}-{os.getpid()}-{next(_counter)}"


class Members:
    """Starts members of one group and ends them all at the end of a test."""

    def __init__(self, broker: Broker | BrokerCluster, group: str, topics: list[str], logs: Path) -> None:
        self.broker, self.group, self.topics, self.logs = broker, group, topics, logs
        self.stack = ExitStack()

    def __enter__(self) -> Members:
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def python(self, client: str, strategy: str, **config: Any) -> PythonMember:
        """A member with our strategy in that client."""
        name = config.pop("name", new_name(client))
        told = {"client": client, "name": name, "bootstrap": self.broker.bootstrap, "group": self.group}
        told |= {
            "session_ms": SESSION_MS,
            "beat_ms": BEAT_MS,
            "topics": self.topics,
            "strategies": [strategy],
            **config,
        }
        member = PythonMember(self.logs / f"{name}.log", **told)
        self.stack.callback(member.close)
        return member

    def java(
        self, strategy: str | list[str], properties: Mapping[str, object] | None = None, **config: Any
    ) -> JavaMember:
        """A member with Kafka's own strategy."""
        told = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": BEAT_MS, "metadata.max.age.ms": 1000}
        member = JavaMember(
            self.broker.bootstrap, self.group, self.topics, {**told, **(properties or {})}, strategy=strategy, **config
        )
        self.stack.callback(member.close)
        return member

    def member(self, client: str, strategy: str, session_ms: int = SESSION_MS) -> PythonMember | JavaMember:
        """One of ``java``, ``kafka-python``, ``aiokafka``."""
        if client == "java":
            return self.java(strategy, {"session.timeout.ms": session_ms})
        return self.python(client, strategy, session_ms=session_ms)


def owned(member: PythonMember | JavaMember) -> Owned:
    """What it owns by its own word, topics without partitions left out."""
    said = member.assignment if isinstance(member, JavaMember) else member.owned
    return {topic: sorted(ids) for topic, ids in said.items() if ids}


def pairs(member: PythonMember | JavaMember) -> set[tuple[str, int]]:
    """The same as pairs."""
    return {(topic, p) for topic, ids in owned(member).items() for p in ids}


def settled(members: Iterable[PythonMember | JavaMember], sizes: Mapping[str, int]) -> bool:
    """Whether every partition has one owner and all members speak of one generation."""
    members = list(members)
    held = sorted(pair for member in members for pair in pairs(member))
    wanted = sorted((topic, p) for topic, size in sizes.items() for p in range(size))
    return held == wanted and len({member.generation for member in members}) == 1


def settle(
    members: Iterable[PythonMember | JavaMember],
    sizes: Mapping[str, int],
    *,
    patience_s: float = 120,
    calm_s: float = 0.5,
) -> None:
    """Wait until the group is settled and stays so for a moment."""
    members = list(members)
    until = time.monotonic() + patience_s
    since = None
    while time.monotonic() < until:
        if not settled(members, sizes):
            since = None
        elif since is None:
            since = time.monotonic()
        elif time.monotonic() - since > calm_s:
            return
        time.sleep(0.05)
    raise AssertionError(
        f"not settled after {patience_s} s: {[(owned(m), m.generation) for m in members]}; {words(members)}"
    )


def words(members: Iterable[PythonMember | JavaMember]) -> str:
    """The end of what each said, for a failing test."""
    ends = []
    for member in members:
        if isinstance(member, JavaMember):
            ends.append(f"java: {member.events[-3:]}")
        elif member.log:
            ends.append("\n".join(member.log.read_text().splitlines()[-5:]))
    return "\n".join(ends)


def leads(member: PythonMember) -> bool:
    """Whether this member planned its newest generation."""
    return any(plan["generation"] == member.generation for plan in member.of("planned"))

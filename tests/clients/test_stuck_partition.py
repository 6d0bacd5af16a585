"""A partition that no member gets on with is told by a warning, once, in a simulated group that acts on its lag."""

from __future__ import annotations

import time
from typing import Any

import pytest
from kafka.structs import OffsetAndMetadata

from apportion.acting import Acting
from apportion.clients.group import acting
from apportion.clients.kafka_python import assignor
from apportion.clients.lag_feed import LagFeed, kafka_offsets
from apportion.testing.simulation import simulate
from apportion.testing.simulation.members import QUICK

pytestmark = pytest.mark.broker  # it needs Java, and Kafka's jars
POISONED = 3


class AllButOne:
    """Commits what it was given, but for a partition that it cannot process for two minutes."""

    def __init__(self, consumer: Any) -> None:
        self.consumer, self.mended_s = consumer, time.monotonic() + 120

    def process(self, records: Any) -> None:
        poisoned = POISONED if time.monotonic() < self.mended_s else None
        ends = {at: batch[-1].offset + 1 for at, batch in records.items() if at[1] != poisoned}
        done = {at: OffsetAndMetadata(end, "", -1) for at, end in ends.items()}
        if done:
            self.consumer.commit(done)

    async def on_partitions_assigned(self, partitions: Any) -> None: ...

    async def on_partitions_revoked(self, partitions: Any) -> None: ...

    async def on_partitions_lost(self, partitions: Any) -> None: ...


def acts(*, bootstrap_servers: Any, **connection: Any) -> Any:
    """A member that knows the group's lag each second and may act on it."""
    from kafka import KafkaConsumer

    feed = LagFeed("group", kafka_offsets(bootstrap_servers=bootstrap_servers), every_s=1, deadline_s=3).start()
    strategy = assignor("cooperative-lag-aware", lag=feed, acting=Acting(hold_s=1.0, rest_s=6.0, horizon_s=1.0))
    return KafkaConsumer(
        bootstrap_servers=bootstrap_servers, group_id="group", enable_auto_commit=False, auto_offset_reset="earliest",
        partition_assignment_strategy=[strategy], **QUICK, **connection,
    )  # fmt: skip


def test_a_stuck_partition_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence names it and what to look for; a minute of looks later it has still been said once."""
    told: list[str] = []
    # A simulation turns logging off, so the warnings are taken where they are given.
    monkeypatch.setattr(acting.log, "warning", lambda text, *values: told.append(text % values))
    script = [{"at": 0, "do": "start", "member": "a"}, {"at": 10, "do": "start", "member": "b"}]
    events = simulate(acts, AllButOne, [*script, {"at": 150, "do": "close", "member": "b"}], seed=3)
    assert events[-1]["event"] == "end"
    [sentence] = [line for line in told if "unread, although the owner keeps up with the rest" in line]
    assert f"records-{POISONED}: unread" in sentence

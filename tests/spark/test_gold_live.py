"""A real broker with real members, captured and built: gold agrees with Kafka's own tools at the same moment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from tests.history import kafka_says

from apportion.history.group_history import GroupHistories, GroupHistory
from apportion.sources import tables
from apportion.testing.broker import Broker
from apportion.testing.peers import JavaMember

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.timeout(900)]
TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TOPIC, GROUPS = "gold-live", ("gold-range", "gold-kip848", "gold-simple", "gold-empty")


@dataclass
class Seen:
    """The tables, and what Kafka's tool and the members said at the same moment."""

    out: Path
    memory: GroupHistories
    offsets: str
    members: str
    states: str
    logged: dict[str, list[dict[str, Any]]]

    @property
    def groups(self) -> list[GroupHistory]:
        return [self.memory.groups[name] for name in GROUPS]


@pytest.fixture(scope="module")
def seen(broker: Broker, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    from apportion.spark import job

    folder = tmp_path_factory.mktemp("live")
    broker.create_topic(TOPIC, 6)
    fill(broker)
    members = play(broker)
    asked = [part for name in GROUPS for part in ("--group", name)]
    told: Any = [
        broker.tool(TOOL, "--describe", *asked, *what)
        for what in (["--offsets"], ["--members", "--verbose"], ["--state"])
    ]
    job.capture(broker.bootstrap, folder / "dump", source="python", spark=spark)
    job.build(folder / "dump", folder / "out", spark=spark)
    logged = {group: [event for member in crew for event in member.events] for group, crew in members.items()}
    yield Seen(folder / "out", tables.load_histories(folder / "out"), told[0], told[1], told[2], logged)
    for crew in members.values():
        for member in crew:
            member.close()


def fill(broker: Broker) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    for partition in range(6):
        for _ in range(10 * (partition + 1)):
            producer.send(TOPIC, b"x", partition=partition)
    producer.flush()
    producer.close()


def play(broker: Broker) -> dict[str, list[JavaMember]]:
    """Members that come, commit, leave and stay."""
    # Nobody waits for these sessions.
    quick = {"session.timeout.ms": 20_000, "heartbeat.interval.ms": 300}
    a = JavaMember(broker.bootstrap, "gold-range", [TOPIC], {**quick, "client.id": "a"}, strategy="range", read=False)
    holds(6, a)
    b = JavaMember(broker.bootstrap, "gold-range", [TOPIC], {**quick, "client.id": "b"}, strategy="range", read=False)
    holds(3, a, b)
    c = JavaMember(broker.bootstrap, "gold-range", [TOPIC], {**quick, "client.id": "c"}, strategy="range", read=False)
    holds(2, a, b, c)
    b.leave()
    holds(3, a, c)
    a.commit({TOPIC: {0: 4, 1: 20}})
    c.commit({TOPIC: {3: 7}})
    new = {"group.protocol": "consumer"}
    x = JavaMember(broker.bootstrap, "gold-kip848", [TOPIC], {**new, "client.id": "x"}, read=False)
    holds(6, x)
    y = JavaMember(broker.bootstrap, "gold-kip848", [TOPIC], {**new, "client.id": "y"}, read=False)
    holds(3, x, y)
    x.commit({TOPIC: dict.fromkeys(x.assignment[TOPIC], 5)})
    simple = JavaMember(broker.bootstrap, "gold-simple", assign={TOPIC: [1, 2]}, read=False)
    simple.commit({TOPIC: {1: 3, 2: 9}})
    empty = JavaMember(broker.bootstrap, "gold-empty", [TOPIC], quick, strategy="sticky", read=False)
    holds(6, empty)
    empty.commit({TOPIC: {5: 50}})
    empty.leave()
    return {"gold-range": [a, b, c], "gold-kip848": [x, y], "gold-simple": [simple], "gold-empty": [empty]}


def holds(each: int, *members: JavaMember) -> None:
    for member in members:
        member.wait_until(lambda m: len(m.assignment.get(TOPIC, ())) == each)


def test_offsets_ends_and_lag_are_the_tool_s(seen: Seen) -> None:
    ours, theirs = kafka_says.our_offsets(seen.memory), kafka_says.their_offsets(seen.offsets)
    assert len(theirs) == 6 + 6 + 2 + 1
    assert {place: ours.get(place) for place in theirs} == theirs  # type: ignore[arg-type]


def test_gold_lag_says_it_in_the_table_itself(seen: Seen) -> None:
    rows = ds.dataset(seen.out / "gold/lag").to_table().to_pylist()
    ours = {
        (row["group"], row["topic"], str(row["partition"])): tuple(
            kafka_says.dash(row[column]) for column in ("committed", "end", "raw_lag")
        )
        for row in rows
    }
    theirs = kafka_says.their_offsets(seen.offsets)
    assert {place: ours.get(place) for place in theirs} == theirs  # type: ignore[arg-type]


def test_owners_members_and_states_are_the_tool_s(seen: Seen) -> None:
    assert kafka_says.our_owners(seen.groups) == kafka_says.their_owners(seen.offsets)
    assert kafka_says.our_members(seen.groups) == kafka_says.their_members(seen.members)
    assert kafka_says.our_states(seen.groups) == kafka_says.their_states(seen.states)


def test_every_generation_that_members_logged_has_the_same_owners(seen: Seen) -> None:
    rows = ds.dataset(seen.out / "silver/generations").to_table().to_pylist()
    given = {
        (row["group"], row["generation"], member["member_id"]): {
            h["topic"]: sorted(h["partitions"]) for h in member["assigned"]
        }
        for row in rows
        for member in row["members"]
    }
    logged = [
        ((group, event["generation"], event["member"]), {t: sorted(ids) for t, ids in event["holds"].items() if ids})
        for group in ("gold-range", "gold-empty")
        for event in seen.logged[group]
        if event["event"] == "assigned"
    ]
    assert len(logged) >= 1 + 2 + 3 + 2 + 1
    for key, held in logged:
        assert given[key] == held, key


def test_the_rebalances_are_those_that_were_played(seen: Seen) -> None:
    rows = seen.memory.groups["gold-range"].rebalances
    played = [(row.cause, row.members, row.moved, row.given) for row in rows if row.previous_generation > 0]
    assert played == [("join", 2, 3, 0), ("join", 3, 3, 0), ("leave", 2, 0, 2)]
    newer = [(row.cause, row.members, row.moved) for row in seen.memory.groups["gold-kip848"].rebalances]
    assert newer == [("join", 2, 3)]

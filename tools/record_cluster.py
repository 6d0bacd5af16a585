"""Record what a real broker answers to our readers, for tests that need its answers and not itself.

python -m tools.record_cluster        needs Java and Maven; writes tests/sources/recorded_cluster.json.gz

Groups of each kind stand on one broker: a classic one with a static member, two of the new protocol (one by an
expression), a share group, a streams group, one that only commits, one behind a transaction's marker. Every step of
``tests/sources/live_steps.py`` is asked of it.
"""

from __future__ import annotations

import sys
import time
import traceback
from contextlib import ExitStack
from pathlib import Path

from tests.sources import live_steps as steps
from tests.support.recorded_cluster import Proxy

from apportion.errors import UnknownName
from apportion.sources import live
from apportion.sources.config import Connection
from apportion.sources.properties import Properties
from apportion.testing.broker import Broker
from apportion.testing.peers import JavaMember

from .record_task_groups import PROPERTIES, Sharer, StreamsApp, set_group, streams_jars, until

TO = Path(__file__).parents[1] / "tests" / "sources" / "recorded_cluster.json.gz"
TOPICS = {
    "live-clicks": 3,
    "live-orders": 2,
    "live-ledger": 1,
    "users": 2,
    "clicks": 2,
    "views": 2,
    "jobs": 1,
    "veiled": 1,
}


def produce(bootstrap: str, topic: str, count: int) -> None:
    """Messages to a topic's partitions in turn."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap})
    for i in range(count):
        producer.produce(topic, b"x", partition=i % TOPICS[topic])
    producer.flush(30)


def transact(bootstrap: str, topic: str) -> None:
    """Three messages in a transaction, so that a marker ends the log."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(60)
    producer.begin_transaction()
    for _ in range(3):
        producer.produce(topic, b"x", partition=0)
    producer.flush(30)
    producer.commit_transaction(60)


def commit(broker: Broker, group: str, offsets: dict[tuple[str, int], int]) -> None:
    """Offsets of a group without members."""
    from kafka import TopicPartition
    from kafka.structs import OffsetAndMetadata

    with broker.admin() as admin:
        admin.alter_group_offsets(
            group, {TopicPartition(*place): OffsetAndMetadata(at, "", -1) for place, at in offsets.items()}
        )


def play(broker: Broker, stack: ExitStack) -> None:
    """All groups, settled."""
    at = broker.bootstrap
    for topic, partitions in TOPICS.items():
        broker.create_topic(topic, partitions)
        produce(at, topic, 40)
    transact(at, "live-ledger")
    both, new = ["live-clicks", "live-orders"], {"group.protocol": "consumer"}
    members = [
        (
            steps.CLASSIC,
            both,
            {"client.id": "my client", "group.instance.id": "pod-0", "client.rack": "a"},
            "range",
            None,
        ),
        (steps.CLASSIC, both, {"client.id": "other"}, "range", None),
        (steps.NEW, ["live-clicks", "live-ledger"], {**new, "client.id": "n1", "client.rack": "b"}, None, None),
        (steps.NEW, ["live-clicks"], {**new, "client.id": "n2", "group.instance.id": "pod-9"}, None, None),
        (steps.BY_EXPRESSION, [], {**new, "client.id": "e1"}, None, "live-.*s"),
    ]
    living = [
        stack.enter_context(JavaMember(at, group, wants, settings, strategy=strategy, pattern=pattern))
        for group, wants, settings, strategy, pattern in members
    ]
    stack.enter_context(Sharer(at, steps.SHARED, "worker-0"))
    app = stack.enter_context(StreamsApp(at, steps.TASKS, "pod-0", 2))
    second = stack.enter_context(StreamsApp(at, steps.TASKS, "pod-1"))
    set_group(broker, steps.TASKS, "streams.num.standby.replicas=1")
    until(lambda: app.tasks > 0 and second.tasks > 0 and app.standbys + second.standbys > 0, "tasks and standbys", 180)
    until(
        lambda: held(broker, {steps.CLASSIC: 5, steps.NEW: 4, steps.BY_EXPRESSION: 5}), "members hold partitions", 180
    )
    for member in living:
        member.commit()
    commit(broker, steps.OLD_TOOLS, {("live-clicks", 0): 7, ("live-orders", 1): 20})
    commit(broker, steps.LEDGER, {("live-ledger", 0): 43})
    commit(broker, steps.HIDDEN, {("live-clicks", 0): 1})
    produce(at, "live-clicks", 17)
    time.sleep(5)


def held(broker: Broker, wanted: dict[str, int]) -> bool:
    """Whether each group holds so many partitions."""
    try:
        found = live.groups(Connection(broker.bootstrap, Properties()), list(wanted))
    except UnknownName:
        return False
    return all(
        wanted[one.name] == sum(len(ids) for m in one.raw["members"].values() for ids in m.get("owned", {}).values())
        for one in found
    )


def main() -> int:
    """Play, ask, write."""
    streams_jars()
    settings = {**PROPERTIES, "offsets.topic.num.partitions": "2"}
    with Proxy() as proxy, ExitStack() as stack:
        settings["advertised.listeners"] = f"PLAINTEXT://{proxy.address}"
        with Broker(rack="a", properties=settings) as broker, stack:
            proxy.target = [broker.bootstrap]
            play(broker, stack)
            at = time.time()

            def meanwhile(seconds: float) -> None:
                if seconds >= 1:
                    produce(broker.bootstrap, "live-clicks", 30)

            def ask(name: str) -> None:
                print(f"{time.strftime('%H:%M:%S')} {name}", file=sys.stderr, flush=True)

                def do() -> None:
                    try:
                        print(str(steps.answer(name, proxy.address, steps.Clock(at, meanwhile)))[:300], file=sys.stderr)
                    except Exception:  # what was said is kept all the same, and the test will show the same fault
                        traceback.print_exc()

                proxy.record(name, do)

            for name in (*steps.CALLS, *steps.LINES):
                ask(name)
        proxy.write(TO, at=at)
    print(f"{TO}: {TO.stat().st_size:,} bytes", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())

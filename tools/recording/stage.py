"""Where the workload plays: a cluster in three racks, topics with uneven load, members that are waited for."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

from apportion.errors import Unavailable
from apportion.testing.broker import BrokerCluster, free_ports
from apportion.testing.peers import JavaMember, Peer
from tools.recording.members import AioKafkaMember, KafkaPythonMember

Member: TypeAlias = JavaMember | KafkaPythonMember | AioKafkaMember

QUICK = {"session.timeout.ms": 12000, "heartbeat.interval.ms": 300, "metadata.max.age.ms": 1500}
Actor = TypeVar("Actor", JavaMember, KafkaPythonMember, AioKafkaMember)

# Topic: how many records each partition gets. Few are even, and some have a hot partition, as in life.
LOAD = {
    "clicks": [9000, 7000, 52000, 8000, 6500, 7200, 30000, 5000, 7700, 6100, 8400, 4000],
    "impressions": [21000, 20000, 22000, 19000, 20500, 21500, 64000, 20000],
    "orders": [4000, 4200, 3900, 4100, 9500, 4050],
    "payments": [4000, 4100, 3950, 4150, 9000, 4000],
    "inventory": [2500, 2400, 2600, 2500],
    "emails": [3000, 2800, 12000],
    "returns": [900, 300],
    "legacy": [700, 600],
    "returns-archive": [500],
}
GROWN = {"inventory": [2500, 2400, 2600, 2500, 800, 700, 900, 600]}


def pace(load: list[int], partition: int) -> float:
    """How well a group keeps up with a partition: badly with a hot one."""
    hot = load[partition] > 1.6 * sum(load) / len(load)
    return 0.7 if hot else 0.94 if partition % 2 else 1.0


class Stage:
    """A running cluster, and who told what on it.

    cast
        Every member that ever was: (group, client id, member).
    extras
        Processes in groups of other kinds.
    """

    def __init__(self, cluster: BrokerCluster) -> None:
        self.cluster, self.bootstrap = cluster, cluster.bootstrap
        self.cast: list[tuple[str, str, Member]] = []
        self.extras: list[Peer] = []
        self.seen: dict[str, int] = {}
        self.lock = threading.Lock()

    def set_up(self) -> None:
        """Make the topics and fill them."""
        for topic, load in LOAD.items():
            self.cluster.create_topic(topic, len(load), replication=2)
        self.fill(LOAD)

    def fill(self, load: Mapping[str, list[int]], times: float = 1.0) -> None:
        """Write records to each partition."""
        from confluent_kafka import Producer

        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 2000000}
        )
        for topic, counts in load.items():
            for partition, count in enumerate(counts):
                for _ in range(int(count * times)):
                    producer.produce(topic, b"x", partition=partition)
        if left := producer.flush(60):
            raise Unavailable(f"{left} records were not written in 60 s")

    def java(self, group: str, name: str, topics: list[str], strategy: str | None = None, **more: Any) -> JavaMember:
        """A Java member with the client id ``name``; further settings of its consumer with ``_`` for ``.``."""
        options = {key: more.pop(key) for key in ("pattern", "assign", "read") if key in more}
        told = {key.replace("_", "."): value for key, value in more.items()}
        pace = {} if told.get("group.protocol") == "consumer" else QUICK
        properties = {**pace, "metadata.max.age.ms": 1500, "client.id": name, **told}
        member = JavaMember(self.bootstrap, group, topics, properties, strategy=strategy, **{"read": False, **options})
        return self._enter(group, name, member)

    def kafka_python(self, group: str, name: str, topics: list[str]) -> KafkaPythonMember:
        """A kafka-python member."""
        return self._enter(group, name, KafkaPythonMember(self.bootstrap, group, topics, name))

    def aiokafka(self, group: str, name: str, topics: list[str]) -> AioKafkaMember:
        """An aiokafka member."""
        return self._enter(group, name, AioKafkaMember(self.bootstrap, group, topics, name))

    def share(self, group: str, topic: str) -> None:
        """A member of a share group, once it has its assignment."""
        member = self._extra("Sharer")
        member.tell({"properties": {"bootstrap.servers": self.bootstrap, "group.id": group}, "topic": topic})
        member.hear()

    def connect(self, group: str) -> None:
        """A worker of Kafka Connect: its group is classic, and its bytes are in Connect's own protocol."""
        topics = {f"{name}.storage.topic": f"{group}-{name}" for name in ("config", "offset", "status")}
        properties = {
            "bootstrap.servers": self.bootstrap,
            "group.id": group,
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "listeners": f"HTTP://127.0.0.1:{free_ports(1)[0]}",
            **topics,
            **{f"{name}.storage.replication.factor": "2" for name in ("config", "offset", "status")},
            **{f"{name}.storage.partitions": "1" for name in ("offset", "status")},
        }
        with tempfile.NamedTemporaryFile("w", suffix=".properties") as file:
            file.write("".join(f"{key}={value}\n" for key, value in properties.items()))
            file.flush()
            worker = self._extra("Leash", "org.apache.kafka.connect.cli.ConnectDistributed", file.name)
            self._wait_stable(group, worker)

    def _wait_stable(self, group: str, worker: Peer) -> None:
        until = time.monotonic() + 90
        while time.monotonic() < until and worker.process.poll() is None:
            with self.cluster.admin() as admin:
                if any(one["group_id"] == group and one["group_state"] == "Stable" for one in admin.list_groups()):
                    return
            time.sleep(0.5)
        raise Unavailable(f"{group} did not become stable: {worker.last_words()}")

    def _extra(self, main_class: str, *args: str) -> Peer:
        peer = Peer(main_class, *args)
        with self.lock:
            self.extras.append(peer)
        return peer

    def settle(self, group: str, *members: Member, same: bool = False, patience_s: float = 60) -> None:
        """Wait until all share a generation that is new (or the ``same``), nobody doubles, and all is calm."""
        until = time.monotonic() + patience_s
        while not self._calm(members, self.seen.get(group, 0), same):
            if time.monotonic() > until:
                told = [(member.generation, member.assignment, member.events[-3:]) for member in members]
                raise Unavailable(f"{group} did not settle after generation {self.seen.get(group)}: {told}")
            time.sleep(0.1)
        self.seen[group] = members[0].generation

    @staticmethod
    def _calm(members: tuple[Member, ...], last: int, same: bool) -> bool:
        generations = {member.generation for member in members}
        held = [(t, p) for member in members for t, ps in member.assignment.items() for p in ps]
        if len(generations) != 1 or len(held) != len(set(held)) or not held:
            return False
        if not (min(generations) > last or (same and min(generations) == last)):
            return False
        return all(time.time() - member.events[-1]["at"] > 0.8 for member in members)

    def read(self, member: Member, share: float, **more: Any) -> None:
        """Commit that share of each partition it holds, less on hot ones, so that lag differs."""
        load = {**LOAD, **GROWN}
        offsets = {
            topic: {p: int(load[topic][p] * share * pace(load[topic], p)) for p in partitions}
            for topic, partitions in member.assignment.items()
        }
        if offsets:
            member.commit(offsets, **more)

    def _enter(self, group: str, name: str, member: Actor) -> Actor:
        with self.lock:
            self.cast.append((group, name, member))
        return member

"""What a governed group costs its broker, beside uniform: python -m bench.governed_cost [options]

    --members N      in each of the two groups (1000)
    --partitions N   on ten topics (10000)
    --starts N       of the broker for each group (3)
    --rounds N       after each start (12): a member is replaced, and for the governed group a new plan comes
    --kafka V        the broker's release (4.3.0)

The times are those of ``assign`` on the coordinator's thread, taken around it by a class that stands in its place: the
thread's own CPU, and the clock's, which depends on what else the machine does. The members are one process's raw
heartbeats: they join once, with a session of an hour, and read nothing. The broker is started anew before each series,
so that its first call finds cold code; JIT and collector are Kafka's defaults.
"""

from __future__ import annotations

import argparse
import random
import re
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from uuid import uuid4

from tests.support import java_artifacts

from apportion.errors import Unavailable
from apportion.governing.carrier import ELSEWHERE
from apportion.sources.cluster import Cluster, connect, patiently
from apportion.testing import jars
from apportion.testing.broker import Broker
from apportion.wire import plan_text
from apportion.wire.plan_text import ASSIGNOR, GovernedPlan, MemberKey

TOPICS = [f"cost-{n}" for n in range(10)]
HOUR_MS = "3600000"
SETTINGS = {
    "group.consumer.assignors": "TimedAssignors$Uniform,TimedAssignors$Governed",
    "group.consumer.max.session.timeout.ms": HOUR_MS,
    "group.consumer.session.timeout.ms": HOUR_MS,
    "group.consumer.max.size": "100000",
}
INTERVAL_S = 1.05
"""A group is computed once a second at most (``group.consumer.assignment.interval.ms``)."""

AS_KAFKA = ("-Xmx1g", "-XX:TieredStopAtLevel=4", "-XX:-UseSerialGC", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        "python -m bench.governed_cost", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    for name, default in (("members", 1000), ("partitions", 10_000), ("starts", 3), ("rounds", 12)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--kafka", default=jars.KAFKA[0])
    args = parser.parse_args()
    jar = java_artifacts.broker_jar()
    with tempfile.TemporaryDirectory() as folder:
        timed = Path(folder)
        java_artifacts.compile_program(Path(__file__).parent / "java" / "TimedAssignors.java", timed, args.kafka, [jar])
        with Broker(version=args.kafka, class_path=[jar, timed], properties=SETTINGS, jvm=AS_KAFKA) as broker:
            with broker.admin() as admin:
                one = {"num_partitions": args.partitions // len(TOPICS), "replication_factor": 1}
                for topic in TOPICS:  # the controller takes 10,000 records at once at most
                    admin.create_topics({topic: {**one, "configs": {"segment.index.bytes": "4096"}}})
                admin.wait_for_topics(TOPICS, timeout_ms=300_000)
            groups = [Crowd(broker, "uniform", "timed-uniform"), Crowd(broker, "governed", ASSIGNOR)]
            for group in groups:
                with connect(broker.bootstrap) as cluster:
                    group.gather(cluster, args.members)
            for _ in range(args.starts):
                for group in groups:
                    broker.restart()
                    with connect(broker.bootstrap) as cluster:
                        group.run(cluster, args.rounds)
    print(f"{args.members} members, {args.partitions} partitions, Kafka {args.kafka}, {args.starts} starts")
    print("| CPU, ms (on the clock) | first after each start | second | later: median | later: worst |")
    print("|---|---|---|---|---|")
    for group in groups:
        for kind in dict.fromkeys(call.kind for call in group.series[0]):
            print(group.row(kind))


class Call(NamedTuple):
    """One call of ``assign``: what had happened, and what it took of the thread and of the clock."""

    kind: str
    cpu_ms: float
    clock_ms: float

    def __str__(self) -> str:
        return f"{self.cpu_ms:.1f} ({self.clock_ms:.1f})"


class Crowd:
    """One group of many members, and what its calls took."""

    def __init__(self, broker: Broker, group: str, assignor: str) -> None:
        self.broker, self.group, self.assignor = broker, group, assignor
        self.members: list[str] = []
        self.series: list[list[Call]] = []
        self.r = random.Random(group)  # noqa: S311 - the same plans every time
        self.carrier, self.epoch, self.topics = str(uuid4()), 0, list[str]()
        self.number = 0

    def gather(self, cluster: Cluster, count: int) -> None:
        """Let so many join, and give the governed ones their first plan."""
        admin = cluster._admin
        # Asking for a coordinator is what makes the offsets' topic.
        patiently(cluster.bootstrap, lambda: admin._manager.run(admin._find_coordinator_ids, [self.group]))
        for _ in range(count):
            self._join(cluster)
        time.sleep(INTERVAL_S)
        if self.assignor == ASSIGNOR:
            for _ in range(2):  # joining without topics computes nothing
                self._publish(cluster)
                time.sleep(INTERVAL_S)
        else:
            self._join(cluster)

    def run(self, cluster: Cluster, rounds: int) -> None:
        """After a start: members go and come, and plans come, one each time the broker computes again."""
        calls: list[Call] = []
        self.series.append(calls)
        kinds = [("a member is replaced", self._replace)]
        if self.assignor == ASSIGNOR:
            kinds.append(("a new plan", self._publish))
        for _ in range(rounds):
            for kind, happen in kinds:
                time.sleep(INTERVAL_S)
                before = len(self._timed())
                happen(cluster)
                calls += [Call(kind, *took) for took in self._timed()[before:]]

    def row(self, kind: str) -> str:
        """One line of the table: of each start the first two calls of all, then the later ones of this kind."""
        later = [call for calls in self.series for call in calls[1:] if call.kind == kind]
        cpu, clock = [call.cpu_ms for call in later], [call.clock_ms for call in later]
        shown = [", ".join(str(calls[at]) for calls in self.series) for at in (0, 1)]
        shown += [str(Call(kind, median(cpu), median(clock))), str(Call(kind, max(cpu), max(clock)))]
        return f"| {self.group}, {kind} | {' | '.join(shown)} |"

    def _timed(self) -> list[tuple[float, float]]:
        """(CPU, clock) of each call since the broker's start, in ms."""
        text = self.broker.log.read_text(errors="replace")
        lines = re.findall(rf"TIMED {self.assignor} \d+ (\d+) (\d+)", text)
        return [(int(cpu) / 1000, int(clock) / 1000) for cpu, clock in lines]

    def _join(self, cluster: Cluster) -> None:
        member = str(uuid4())
        self._beat(
            cluster,
            member,
            0,
            rebalance_timeout_ms=int(HOUR_MS),
            subscribed_topic_names=TOPICS,
            server_assignor=self.assignor,
            topic_partitions=[],
        )
        self.members.append(member)

    def _replace(self, cluster: Cluster) -> None:
        """One goes, which computes nothing, and one comes."""
        self._beat(cluster, self.members.pop(self.r.randrange(len(self.members))), -1)
        self._join(cluster)

    def _beat(self, cluster: Cluster, member: str, epoch: int, **more: Any) -> int:
        from apportion.sources.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

        request = ConsumerGroupHeartbeatRequest(group_id=self.group, member_id=member, member_epoch=epoch, **more)
        manager = cluster._admin._manager
        while (answer := manager.run(manager.send, request, self.broker.node_id).to_dict())["error_code"] in ELSEWHERE:
            time.sleep(0.2)  # the broker still makes or loads its offsets
        if answer["error_code"]:
            raise Unavailable(f"{self.group}: a heartbeat was refused: {answer}")
        return int(answer["member_epoch"])

    def _plan(self, cluster: Cluster) -> str:
        """All partitions positions anew by chance, evenly."""
        sizes: dict[str, int] = {}
        for one in cluster.partitions(TOPICS):
            sizes[one.topic_id or ""] = sizes.get(one.topic_id or "", 0) + 1
        positions = [n % len(self.members) for n in range(sum(sizes.values()))]
        self.r.shuffle(positions)
        owners, at = {}, 0
        for topic, size in sizes.items():
            owners[plan_text.topic_id(topic)] = positions[at : at + size]
            at += size
        keys = tuple(map(MemberKey, self.members))
        self.number += 1
        [text] = plan_text.texts(GovernedPlan(self.number, 0, keys, (), owners), self.carrier)
        return text

    def _publish(self, cluster: Cluster) -> None:
        """A new plan, with other topics than before: without them nothing is computed."""
        self.topics = [] if self.topics or not self.epoch else TOPICS[:1]
        self.epoch = self._beat(
            cluster,
            self.carrier,
            self.epoch,
            instance_id="apportion-governor",
            rebalance_timeout_ms=int(HOUR_MS),
            subscribed_topic_names=self.topics,
            topic_partitions=[],
            **plan_text.joining(self._plan(cluster)),
        )


if __name__ == "__main__":
    main()

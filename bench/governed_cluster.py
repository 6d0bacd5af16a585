"""A governor of many groups on one broker: python -m bench.governed_cluster [options]

    --groups N       of four members and 24 partitions each (800)
    --minutes N      for which 1 % of the groups change in every interval (3)
    --burst N        groups that change at once, at the end (50)
    --governors N    that share the groups (1)
    --kafka V        the broker's release (4.3.0)
    --uniform        no governor: what the same groups cost the broker under ``uniform``

The members are bare heartbeats of one other process: they join once, beat every 15 seconds, and read nothing. A group
changes by a member that leaves and one that comes. The governors are commands; pass and heartbeat gap are from their
own metrics, CPU and memory from the system, both of the governor and of the broker. Other work on the machine shows in
the times, and little in CPU seconds.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from typing import Any

from tests.support import java_artifacts

from apportion.governing.carrier import Carrier
from apportion.governing.heart import AT_ONCE, Heart
from apportion.governing.looking import GovernedLook, Selection
from apportion.governing.rules_file import read_rules
from apportion.sources.cluster import connect
from apportion.sources.cluster_round import DescribedGroup, look
from apportion.testing import jars
from apportion.testing.broker import Broker
from apportion.wire.plan_text import ASSIGNOR

MEMBERS, TOPICS, PARTITIONS, INTERVAL_S, BEAT_S = 4, 20, 24, 5, 15.0
RULES = '[[group]]\npattern = "load-.*"\nassignor = "sticky"\n'
JVM = ("-Xmx2g", "-XX:TieredStopAtLevel=4", "-XX:-UseSerialGC", "-XX:+UseG1GC")
SETTINGS = {
    "group.consumer.heartbeat.interval.ms": "5000",
    "group.consumer.min.heartbeat.interval.ms": "5000",
    "group.consumer.session.timeout.ms": "45000",
}


class Member(Carrier):
    """A member that wants a topic, takes what it gets at once, and beats rarely."""

    def __init__(self, group: str, topic: str, assignor: str) -> None:
        super().__init__(group, None)
        self.wants, self.assignor = topic, assignor
        self.has: list[Any] = []

    def fields(self) -> Mapping[str, Any]:
        """What it has goes with each heartbeat."""
        self.topics = [self.wants]
        return {**super().fields(), "topic_partitions": self.has if self.joined else []}

    def _taken_up(self, fields: Mapping[str, Any], answer: Mapping[str, Any], connection: object, now_s: float) -> None:
        from apportion.sources.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

        super()._taken_up(fields, {**answer, "assignment": None}, connection, now_s)
        self.due_s = now_s + random.uniform(0.8, 1.0) * BEAT_S  # noqa: S311 - spread, no more
        if answer["assignment"]:
            of_topic = ConsumerGroupHeartbeatRequest.TopicPartitions
            self.has = [of_topic(**part) for part in answer["assignment"]["topic_partitions"]]
            self.due_s = now_s


def crowd(bootstrap: str, groups: int, assignor: str) -> None:
    """The members, in a process of its own: lines on stdin say how many groups change, an answer says which."""
    with connect(bootstrap, max_in_flight_requests_per_connection=2 * AT_ONCE) as cluster:
        heart, random_ = Heart(cluster), random.Random(55)  # noqa: S311 - the same every time
        members: dict[str, list[Member]] = {}
        for n in range(groups):
            members[f"load-{n}"] = [Member(f"load-{n}", f"t-{n % TOPICS}", assignor) for _ in range(MEMBERS)]
            for member in members[f"load-{n}"]:
                heart.add(member)
        everybody = [member for group in members.values() for member in group]
        while not all(member.joined for member in everybody):
            time.sleep(0.2)
        print(f"{len(everybody)} members joined", flush=True)
        for line in sys.stdin:
            chosen = random_.sample(sorted(members), int(line))
            for name in chosen:
                old, new = members[name].pop(0), Member(name, members[name][0].wants, assignor)
                members[name].append(new)
                old.leave()
                heart.wake([old])
                heart.add(new)
            print(" ".join(chosen), flush=True)


def cpu_s(pid: int) -> float:
    """CPU seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def peak_mb(pid: int) -> float:
    """The most memory that a process has had."""
    return int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) / 1024  # type: ignore[index]


class Governors:
    """Commands, and what their metrics said each second."""

    def __init__(self, broker: Broker, folder: Path, count: int) -> None:
        (folder / "govern.toml").write_text(RULES)
        words = [
            "govern",
            "--bootstrap-server",
            broker.bootstrap,
            "--all-groups",
            "--config",
            str(folder / "govern.toml"),
        ]
        words += ["--interval", str(INTERVAL_S)]
        self.ports = [19_600 + n for n in range(count)]
        self.processes = [
            subprocess.Popen(
                [sys.executable, "-m", "apportion", *words, "--listen", f"127.0.0.1:{port}"], stderr=subprocess.DEVNULL
            )
            for port in self.ports
        ]
        self.passes: dict[tuple[int, float], float] = {}
        self.gaps: list[float] = []
        self.over = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def metrics(self, port: int) -> dict[str, float]:
        """Each series of one governor."""
        connection = HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
        return {key: float(value) for key, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}

    def _watch(self) -> None:
        while not self.over.wait(1):
            for port in self.ports:
                with suppress(OSError):
                    seen = self.metrics(port)
                    self.passes[port, seen["apportion_governor_passes_total"]] = seen["apportion_governor_pass_seconds"]
                    self.gaps.append(seen["apportion_governor_heartbeat_gap_seconds"])

    def settled(self) -> int:
        """Groups that follow their plan."""
        count = 0.0
        for port in self.ports:
            with suppress(OSError):
                count += self.metrics(port).get('apportion_governor_groups{outcome="unchanged"}', 0)
        return int(count)


def planned(groups: Mapping[str, DescribedGroup], names: list[str]) -> bool:
    """Whether every member of these groups is to have its share."""
    shares = [[sum(map(len, t.values())) for t in groups[name].facts["targets"].values()] for name in names]
    return all(len(share) == MEMBERS and max(share) - min(share) <= 1 for share in shares)


def main() -> None:
    """Measure and print."""
    if sys.argv[1:2] == ["crowd"]:
        crowd(sys.argv[2], int(sys.argv[3]), sys.argv[4])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name, default in (("groups", 800), ("minutes", 3), ("burst", 50), ("governors", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--kafka", default=jars.KAFKA[0])
    parser.add_argument("--uniform", action="store_true")
    args = parser.parse_args()
    jar = java_artifacts.broker_jar()
    properties = {**SETTINGS, "group.consumer.assignors": "uniform,range,io.apportion.broker.GovernedAssignor"}
    with (
        tempfile.TemporaryDirectory() as folder,
        Broker(version=args.kafka, class_path=[jar], properties=properties, jvm=JVM) as broker,
    ):
        for n in range(TOPICS):
            broker.create_topic(f"t-{n}", PARTITIONS)
        words = [sys.executable, "-m", "bench.governed_cluster", "crowd", broker.bootstrap, str(args.groups)]
        words.append("uniform" if args.uniform else ASSIGNOR)
        members = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        print(answer_of(members), flush=True)
        try:
            measure(args, broker, Path(folder), members)
        finally:
            members.kill()


def change(members: subprocess.Popen[str], count: int) -> list[str]:
    """Have so many groups change; which."""
    if members.stdin is not None:
        members.stdin.write(f"{count}\n")
        members.stdin.flush()
    return answer_of(members).split()


def answer_of(members: subprocess.Popen[str]) -> str:
    """The crowd's next line."""
    return members.stdout.readline().strip() if members.stdout is not None else ""


def measure(args: argparse.Namespace, broker: Broker, folder: Path, members: subprocess.Popen[str]) -> None:
    """One series."""
    began_s = time.monotonic()
    governors = Governors(broker, folder, 0 if args.uniform else args.governors)
    while not args.uniform and governors.settled() < args.groups:
        time.sleep(1)
    print(f"{args.groups} groups governed after {time.monotonic() - began_s:.0f} s", flush=True)
    governors.passes.clear()
    time.sleep(60)  # the longest gap is that of the last minute
    governors.gaps.clear()
    pids = [process.pid for process in governors.processes]
    before_s, at_s = [cpu_s(pid) for pid in (*pids, broker.process.pid)], time.monotonic()
    for _ in range(args.minutes * 60 // INTERVAL_S):
        due_s = time.monotonic() + INTERVAL_S
        change(members, max(1, args.groups // 100))
        time.sleep(max(0.0, due_s - time.monotonic()))
    clock_s = time.monotonic() - at_s
    used = [(cpu_s(pid) - before) / clock_s for pid, before in zip((*pids, broker.process.pid), before_s, strict=True)]
    print(
        f"{clock_s:.0f} s, {max(1, args.groups // 100)} groups changed every {INTERVAL_S} s; "
        f"the broker: {used[-1]:.2f} cores"
    )
    if pids:
        took = list(governors.passes.values())
        print(
            f"passes: median {median(took):.2f} s, longest {max(took):.2f} s; heartbeat gap {max(governors.gaps):.2f} s"
        )
        print(f"cores: {', '.join(f'{one:.2f}' for one in used[:-1])}; memory: "
              f"{', '.join(f'{peak_mb(pid):.0f} MB' for pid in pids)}")  # fmt: skip
        began_s, names = time.monotonic(), change(members, args.burst)
        selection = Selection(read_rules(str(folder / "govern.toml")))
        with connect(broker.bootstrap) as cluster:
            while not planned(look(cluster, lambda admin: GovernedLook(admin, selection)).groups, names):
                time.sleep(0.1)
        print(f"{args.burst} groups that changed at once are planned after {time.monotonic() - began_s:.1f} s")
    governors.over.set()
    for process in governors.processes:
        process.terminate()
    for process in governors.processes:
        process.wait(30)


if __name__ == "__main__":
    main()

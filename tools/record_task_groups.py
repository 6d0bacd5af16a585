"""Record the dump of streams groups and share groups that tests read: a real broker, Java Streams, share consumers.

python -m tools.record_task_groups [--to tests/data/task_groups]

Two streams applications and three share groups live and die on one broker: members join in processes of one and two
threads, standbys are turned on, a process is killed, another leaves, a topic grows, one application is deleted. What
Kafka's own tools print at the end stands beside the records, in ``truth/``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from apportion.errors import Unavailable
from apportion.testing import jars, processes
from apportion.testing.broker import Broker
from apportion.testing.peers import QUIET, Peer
from tools.recording import dump

HERE = Path(__file__).parent
TO = HERE.parent / "tests" / "data" / "task_groups"
STREAMS_JAR = "org.apache.kafka:kafka-streams:4.3.0"

PROPERTIES = {
    "offsets.topic.num.partitions": "4",
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.session.timeout.ms": "4000",
    "group.streams.min.heartbeat.interval.ms": "300",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.min.assignment.interval.ms": "0",
    "group.streams.assignment.interval.ms": "100",
    "group.share.min.heartbeat.interval.ms": "300",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.session.timeout.ms": "4000",
}
TOPICS = {"clicks": 6, "users": 6, "views": 4, "counts": 2, "shouted": 2, "jobs": 4}
TOOLS = {
    "streams-state.txt": ("streams.StreamsGroupCommand", "--state", "--verbose"),
    "streams-members.txt": ("streams.StreamsGroupCommand", "--members", "--verbose"),
    "share-members.txt": ("consumer.group.ShareGroupCommand", "--members", "--verbose"),
    "share-state.txt": ("consumer.group.ShareGroupCommand", "--state"),
}


def streams_jars() -> str:
    """The class path of Kafka Streams and of ``StreamsApp``, fetched and compiled where they are missing."""
    source = HERE / "java" / "StreamsApp.java"

    def bring(folder: Path) -> None:
        jars.run(
            jars.maven(), "-q", "-B", "dependency:copy", f"-Dartifact={STREAMS_JAR}", f"-DoutputDirectory={folder}"
        )
        path = os.pathsep.join([jars.kafka(), str(folder / "*")])
        jars.run(jars.java("javac"), "-nowarn", "-proc:none", "-d", str(folder), "-cp", path, str(source))

    kafka = jars.kafka()
    folder = jars.home() / "streams"
    jars.made(folder, jars.digest(STREAMS_JAR.encode(), source.read_bytes()), bring)
    return os.pathsep.join([str(folder), str(folder / "*"), kafka])


class StreamsApp:
    """A process of a Java Streams application; ``standing`` is what it said last of its state and tasks."""

    def __init__(self, bootstrap: str, application: str, client: str, threads: int = 1, **more: object) -> None:
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self.state_dir = tempfile.TemporaryDirectory()
        command = [jars.java(), "-Xmx160m", *QUIET, "-cp", streams_jars(), "StreamsApp"]
        self.process = processes.start(command, log=self.log, stdout=subprocess.PIPE, encoding="utf-8")
        properties = {
            "bootstrap.servers": bootstrap, "application.id": application, "client.id": client,
            "group.protocol": "streams", "num.stream.threads": threads, "state.dir": self.state_dir.name,
            "statestore.cache.max.bytes": 0, "commit.interval.ms": 500, "replication.factor": 1,
            "metadata.max.age.ms": 1000, **{name.replace("_", "."): value for name, value in more.items()},
        }  # fmt: skip
        self.standing: dict[str, Any] = {"state": "", "threads": []}
        assert self.process.stdin is not None  # noqa: S101 - for the type checker
        self.process.stdin.write(json.dumps({"properties": properties}) + "\n")
        self.process.stdin.flush()
        threading.Thread(target=self._listen, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.state_dir.cleanup()

    @property
    def tasks(self) -> int:
        """Active tasks of all its threads."""
        return sum(len(thread["active"]) for thread in self.standing["threads"])

    @property
    def standbys(self) -> int:
        """Standby tasks of all its threads."""
        return sum(len(thread["standby"]) for thread in self.standing["threads"])

    def leave(self) -> None:
        """Close the application in good order."""
        assert self.process.stdin is not None  # noqa: S101 - for the type checker
        self.process.stdin.write("close\n")
        self.process.stdin.flush()
        self.process.wait(30)

    def kill(self) -> None:
        """Kill -9."""
        self.process.kill()
        self.process.wait()

    def _listen(self) -> None:
        assert self.process.stdout is not None  # noqa: S101 - for the type checker
        for line in self.process.stdout:
            if line.startswith("{"):
                self.standing = json.loads(line)


class Sharer(Peer):
    """A member of a share group."""

    main_class = "Sharer"
    heap = "-Xmx96m"

    def __init__(self, bootstrap: str, group: str, client: str) -> None:
        super().__init__()
        self.tell({
            "topic": "jobs",
            "properties": {"bootstrap.servers": bootstrap, "group.id": group, "client.id": client, "client.rack": "a"},
        })  # fmt: skip

    def leave(self) -> None:
        """Close it in good order."""
        self.tell({})
        self.process.wait(30)


def until(true: Callable[[], object], what: str, patience_s: float = 60) -> None:
    """Wait until something is so."""
    end = time.monotonic() + patience_s
    while not true():
        if time.monotonic() > end:
            raise Unavailable(f"waited {patience_s:.0f} s in vain: {what}")
        time.sleep(0.2)
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def fill(bootstrap: str) -> None:
    """Some records for everybody to read."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap})
    for topic in ("users", "clicks", "views", "jobs"):
        for n in range(400):
            producer.produce(topic, f"value {n % 7}".encode(), key=f"key {n % 31}".encode())
    producer.flush(30)


def set_group(broker: Broker, group: str, setting: str) -> None:
    """Set a group's own configuration."""
    broker.tool(
        "kafka.admin.ConfigCommand", "--alter", "--entity-type", "groups", "--entity-name", group,
        "--add-config", setting,
    )  # fmt: skip


def play_streams(broker: Broker, stack: ExitStack) -> None:
    """One application through its changes; at the end a process of two threads and one of one are left."""
    app = "enrich"

    def start(client: str, threads: int = 1, **more: object) -> StreamsApp:
        return stack.enter_context(StreamsApp(broker.bootstrap, app, client, threads, **more))

    first = start("pod-0", 2, client_tag_zone="a", application_server="pod-0:7070")
    until(lambda: first.tasks == 16, "pod-0 runs all 16 tasks")
    second = start("pod-1")
    until(lambda: first.tasks + second.tasks == 16 and second.tasks >= 5, "pod-1 has its share")
    set_group(broker, app, "streams.num.standby.replicas=1")
    until(lambda: first.standbys + second.standbys == 12, "standbys are kept")
    third = start("pod-2", client_tag_zone="b")
    until(lambda: third.tasks == 4, "pod-2 has its share")
    second.kill()
    until(lambda: first.tasks + third.tasks == 16, "pod-1 is missed", 90)
    broker.grow_topic("views", 6)
    until(lambda: first.tasks + third.tasks == 18, "views has grown")
    fourth = start("pod-3")
    until(lambda: fourth.tasks >= 4, "pod-3 has its share")
    third.leave()
    until(lambda: first.tasks + fourth.tasks == 18, "pod-2 has left")
    time.sleep(3)


def play_gone(broker: Broker, stack: ExitStack) -> None:
    """An application that empties, one that is deleted."""
    for app in ("paused", "deleted"):
        process = stack.enter_context(StreamsApp(broker.bootstrap, app, f"{app}-0"))
        until(lambda process=process: process.tasks == 16, f"{app} runs")
        process.leave()
    time.sleep(5)
    broker.tool("org.apache.kafka.tools.streams.StreamsGroupCommand", "--delete", "--group", "deleted")


def play_share(broker: Broker, stack: ExitStack) -> None:
    """A share group of two members, one that emptied, one that was deleted."""
    for client in ("worker-0", "worker-1"):
        stack.enter_context(Sharer(broker.bootstrap, "workers", client))
    leaving = [stack.enter_context(Sharer(broker.bootstrap, group, f"{group}-0")) for group in ("idle", "dismissed")]
    for member in [*leaving]:
        print(member.hear(), file=sys.stderr, flush=True)
        member.leave()
    time.sleep(1)
    broker.tool("org.apache.kafka.tools.consumer.group.ShareGroupCommand", "--delete", "--group", "dismissed")


def write(broker: Broker, to: Path) -> int:
    """The dump and the truth, whole or not at all."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        rows = dump.write_records(folder, broker.bootstrap)
        dump.write_ends(folder, broker, dump.write_topics(folder, broker))  # type: ignore[arg-type]
        (folder / "truth").mkdir()
        for name, (tool, *options) in TOOLS.items():
            printed = broker.tool(f"org.apache.kafka.tools.{tool}", "--describe", "--all-groups", *options)
            (folder / "truth" / name).write_text(printed)
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(folder, to)
    return len(rows)


def main() -> int:
    """Play and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--to", type=Path, default=TO)
    to = parser.parse_args().to
    streams_jars()
    with Broker(rack="a", properties=PROPERTIES) as broker, ExitStack() as stack:
        for topic, partitions in TOPICS.items():
            broker.create_topic(topic, partitions)
        fill(broker.bootstrap)
        play_share(broker, stack)
        play_gone(broker, stack)
        play_streams(broker, stack)
        print(f"{write(broker, to)} records in {to}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A real Apache Kafka broker on this machine: start, stop, kill, restart on the same data.

    with Broker(rack="a") as broker:
        broker.create_topic("clicks", 6)
        ... broker.bootstrap ...

KRaft on 127.0.0.1, free ports, a temporary folder. ``BrokerCluster(["a", "b", "c"])`` is one with a broker for each
rack. ``python -m apportion.testing.broker`` runs one for a person until Ctrl-C.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4
from weakref import finalize

from apportion.errors import ApportionError, Unavailable
from apportion.testing import jars, processes

STARTED = "Kafka Server started"
TAKEN = "Address already in use"

# A test's broker: one replica of everything, no waiting for members that may come, sessions as short as a test likes.
QUICK = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "300",
    "group.consumer.heartbeat.interval.ms": "500",
    "auto.create.topics.enable": "false",
    "group.share.min.session.timeout.ms": "1000",
    # After kill -9 the controller serves the restarted broker only when the old session is over.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}
JVM = ("-Xmx512m", "-Xms128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.awt.headless=true")
LOGGING = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
)


class Client:
    """Requests to running brokers: topics made, grown and deleted, Kafka's own tools run."""

    bootstrap: str
    """``host:port`` of a plain listener, several with commas between."""

    def create_topic(self, name: str, partitions: int, replication: int = 1, **configs: str) -> None:
        """Make a topic and wait until it can be written; ``retention_ms="5"`` sets ``retention.ms``."""
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        topic = {"num_partitions": partitions, "replication_factor": replication, "configs": settings}
        with self.admin() as admin:
            admin.create_topics({name: topic})
            admin.wait_for_topics([name])

    def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        with self.admin() as admin:
            admin.delete_topics([name])

    def grow_topic(self, name: str, partitions: int) -> None:
        """Raise a topic's number of partitions to ``partitions``."""
        with self.admin() as admin:
            admin.create_partitions({name: partitions})

    def admin(self) -> Any:
        """A new ``kafka.KafkaAdminClient``, to be closed by the caller."""
        from kafka import KafkaAdminClient

        return KafkaAdminClient(bootstrap_servers=self.bootstrap.split(","))

    def tool(self, main_class: str, *args: str, patience_s: float = 120) -> str:
        """Run one of Kafka's command-line classes against these brokers and return its output.

        ``tool("org.apache.kafka.tools.TopicCommand", "--list")``; ``--bootstrap-server`` is added.
        """
        return java(main_class, "--bootstrap-server", self.bootstrap, *args, patience_s=patience_s)


class Broker(Client):
    """One broker, its own controller unless it is given another.

    rack
        Its ``broker.rack``.
    properties
        More or other settings, Kafka's names. ``{port}`` in a value stands for a free port, ``{port2}`` .. ``{port9}``
        for others; ``ports`` tells afterwards which they are. A ``+`` behind a name adds to what is there:
        ``{"listeners+": "SASL://127.0.0.1:{port}", "listener.security.protocol.map+": "SASL:SASL_PLAINTEXT"}``.
    format_args
        More arguments for ``StorageTool format``: ``("--add-scram", "SCRAM-SHA-256=[name=ann,password=secret]")``.
    jvm
        More options for the JVM.
    version
        The release of Apache Kafka, as ``jars.kafka`` takes it.
    class_path
        Jars beside Kafka's own, as somebody puts them who brings a class along.
    """

    def __init__(
        self,
        *,
        rack: str | None = None,
        properties: Mapping[str, str] | None = None,
        format_args: Sequence[str] = (),
        jvm: Sequence[str] = (),
        node_id: int = 1,
        cluster_id: str | None = None,
        controller: str | None = None,
        version: str = jars.KAFKA[0],
        class_path: Sequence[Path] = (),
    ) -> None:
        self.version, self.class_path = version, tuple(class_path)
        self.rack, self.properties, self.node_id = rack, dict(properties or {}), node_id
        self.format_args, self.jvm = tuple(format_args), tuple(jvm)
        self.cluster_id = cluster_id or urlsafe_b64encode(uuid4().bytes).decode().rstrip("=").replace("-", "x")
        self.given_controller = controller
        self.ports: dict[str, int] = {}
        self.process: subprocess.Popen[Any] | None = None
        self.folder = Path(tempfile.mkdtemp(prefix="apportion-broker-"))
        self.clean = finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    @property
    def bootstrap(self) -> str:  # type: ignore[override]  # read-only here
        """``127.0.0.1:port`` of the plain listener; the same after a restart."""
        return f"127.0.0.1:{self.ports['plain']}"

    @property
    def controller(self) -> str:
        """``1@127.0.0.1:port`` of the controller that this broker listens to."""
        return self.given_controller or f"{self.node_id}@127.0.0.1:{self.ports['controller']}"

    @property
    def log(self) -> Path:
        """The broker's standard output and error."""
        return self.folder / "broker.log"

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self.process is not None and self.process.poll() is None

    def start(self, patience_s: float = 240) -> Self:
        """Start, on the data of the last run if there was one, and wait until it serves."""
        if self.running:
            return self
        if self.ports:
            self._launch(patience_s)
            return self
        for attempt in range(3):
            self._settle()
            try:
                self._launch(patience_s)
            except Unavailable as wrong:
                if TAKEN not in str(wrong) or attempt == 2:  # somebody took our free port; take another
                    raise
                shutil.rmtree(self.folder / "data", ignore_errors=True)
            else:
                break
        return self

    def stop(self) -> None:
        """Shut down in good order; members hear of it."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill -9: nothing is flushed, no member hears of it."""
        self._end(signal.SIGKILL)

    def restart(self) -> Self:
        """Stop in good order if it runs, and start on the same data and ports."""
        self.stop()
        return self.start()

    def close(self) -> None:
        """Kill and remove the folder."""
        self.kill()
        self.clean()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, kind: type[BaseException] | None, wrong: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _end(self, how: int) -> None:
        if self.process is not None:
            processes.end(self.process, how=how)
            self.process = None

    def _settle(self) -> None:
        """Choose ports, write the settings, format the storage."""
        names = ["plain", "controller", "port", *(f"port{n}" for n in range(2, 10))]
        self.ports = dict(zip(names, free_ports(len(names)), strict=True))
        settings = self._settings()
        text = "".join(f"{key}={value}\n" for key, value in settings.items())
        (self.folder / "server.properties").write_text(text)
        config = str(self.folder / "server.properties")
        words = ("format", "-t", self.cluster_id, "-c", config, *self.format_args)
        # It reads all settings, so it needs every class that they name.
        java("kafka.tools.StorageTool", *words, class_path=self._path)

    def _settings(self) -> dict[str, str]:
        alone = self.given_controller is None
        listeners = f"PLAINTEXT://{self.bootstrap}"
        own = {
            "process.roles": "broker,controller" if alone else "broker",
            "node.id": str(self.node_id),
            "controller.quorum.voters": self.controller,
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listeners": f"{listeners},CONTROLLER://{self.controller.split('@')[1]}" if alone else listeners,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.folder / "data"),
            **({"broker.rack": self.rack} if self.rack else {}),
            **QUICK,
        }
        for key, value in self.properties.items():
            for name, port in self.ports.items():
                value = value.replace("{%s}" % name, str(port))  # noqa: UP031
            if key.endswith("+"):
                own[key[:-1]] += "," + value
            else:
                own[key] = value
        return own

    @property
    def _path(self) -> str:
        return os.pathsep.join([*map(str, self.class_path), jars.kafka(self.version)])

    def _launch(self, patience_s: float) -> None:
        config = str(self.folder / "server.properties")
        command = [jars.java(), *JVM, *LOGGING, *self.jvm, f"-Dapportion.sweep={self.folder}"]
        command += ["-cp", self._path, "apportion.Leash", "kafka.Kafka", config]
        with self.log.open("wb") as log:
            self.process = processes.start(command, log=subprocess.STDOUT, stdout=log)
        until = time.monotonic() + patience_s
        while STARTED not in self.log.read_text(errors="replace"):
            if not self.running or time.monotonic() > until:
                why = "ended" if not self.running else f"was not up after {patience_s:.0f} s"
                self.kill()
                raise Unavailable(f"the broker {why}; its last words:\n{processes.tail(self.log)}")
            time.sleep(0.05)


class BrokerCluster(Client):
    """One broker for each rack; the first is the controller too.

    racks
        ``["a", "b", "c"]``. Topics with ``replication=2`` have their replicas in two of them.
    properties, version, class_path
        Settings, the release and more jars of every broker.
    """

    def __init__(
        self,
        racks: Sequence[str],
        *,
        properties: Mapping[str, str] | None = None,
        version: str = jars.KAFKA[0],
        class_path: Sequence[Path] = (),
    ) -> None:
        first = Broker(rack=racks[0], properties=properties, version=version, class_path=class_path)
        self.brokers = [first]
        self._others, self._properties = list(racks[1:]), properties

    @property
    def bootstrap(self) -> str:  # type: ignore[override]  # read-only here
        """The plain listeners of all brokers."""
        return ",".join(broker.bootstrap for broker in self.brokers)

    def __enter__(self) -> Self:
        first = self.brokers[0]
        try:
            first.start()
            for node_id, rack in enumerate(self._others, start=2):
                more = Broker(
                    rack=rack,
                    properties=self._properties,
                    node_id=node_id,
                    cluster_id=first.cluster_id,
                    controller=first.controller,
                    version=first.version,
                    class_path=first.class_path,
                )
                self.brokers.append(more)
                more.start()
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Kill all and remove their folders."""
        for broker in reversed(self.brokers):
            broker.close()

    def __exit__(self, kind: type[BaseException] | None, wrong: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def java(
    main_class: str, *args: str, patience_s: float = 300, text: str | None = None, class_path: str | None = None
) -> str:
    """Run a Java class of Kafka's or ours to its end and return its standard output.

    text
        What it reads on standard input.
    class_path
        Where its classes are, if not in the first of ``jars.KAFKA``.
    Raises
        Unavailable: it ended with an error or took too long; with what it said.
    """
    command = [jars.java(), "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", LOGGING[0]]
    command += ["-cp", class_path or jars.kafka(), main_class, *args]
    try:
        process = subprocess.run(
            command, capture_output=True, encoding="utf-8", timeout=patience_s, input=text, check=False
        )
    except subprocess.TimeoutExpired as late:
        raise Unavailable(f"{main_class} {' '.join(args)} took more than {patience_s:.0f} s") from late
    if process.returncode:
        output = (process.stdout + process.stderr).strip()[-2000:]
        raise Unavailable(f"{main_class} {' '.join(args)} ended with {process.returncode}:\n{output}")
    return process.stdout


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that are free just now, all different.

    They lie below those that systems lend to outgoing connections: a client that knocks at a broker that is down may
    be lent the very port it knocks at, connect to itself, and so keep the broker from coming back.
    """
    held: list[socket.socket] = []
    try:
        while len(held) < count:
            listener = socket.socket()
            try:
                listener.bind(("127.0.0.1", 15000 + secrets.randbelow(17000)))
            except OSError:
                listener.close()
            else:
                held.append(listener)
        return [listener.getsockname()[1] for listener in held]
    finally:
        for listener in held:
            listener.close()


def main() -> int:
    """Run a broker for a person until Ctrl-C."""
    name = "python -m apportion.testing.broker"
    ArgumentParser(
        name, description="Run a real Kafka broker on 127.0.0.1 until Ctrl-C; it takes no options."
    ).parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with suppress(KeyboardInterrupt), Broker() as broker:
            print(f"Apache Kafka listens on {broker.bootstrap}; data in {broker.folder}; Ctrl-C ends it.", flush=True)
            while broker.running:
                time.sleep(0.2)
    except ApportionError as wrong:
        print(wrong, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

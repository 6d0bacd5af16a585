"""The class for the brokers, built as users build it, and one JVM to ask it in."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support import java_artifacts
from tests.support.examples import thorough

from apportion.governing.governor import CLASS
from apportion.sources.cluster import Cluster, connect
from apportion.testing import jars
from apportion.testing.broker import Broker
from apportion.testing.plugin import needs_java

from .members import RawMember

Json = dict[str, Any]
Ask = Callable[..., list[Json]]
LIVE = (*map(thorough, jars.KAFKA[:-1]), jars.KAFKA[-1])
"""Releases whose brokers the class is tried in: the newest. Beside each release ``governed`` asks the class itself."""
WITH_CLASS = {
    "group.consumer.assignors": f"uniform,range,{CLASS}",
    "group.consumer.assignment.interval.ms": "100",
    "group.consumer.session.timeout.ms": "10000",  # members of a busy machine are not to be expelled
}
SESSION_S = 10.0
"""Until a member that was killed is missed."""


@pytest.fixture(autouse=True, scope="module")
def _clients_closed() -> Iterator[None]:
    """One that is left would knock at a broker that is gone, and draw its back-offs while hypothesis draws examples."""
    yield
    while RawMember.opened:
        RawMember.opened.pop().close()


@pytest.fixture(scope="session")
def broker_jar() -> Path:
    """The jar that ``mvn package`` makes of ``broker/``."""
    needs_java()
    return java_artifacts.broker_jar()


@pytest.fixture(scope="session", params=jars.KAFKA)
def governed(request: pytest.FixtureRequest, broker_jar: Path, tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """Ask the class beside each release of Kafka: groups give assignments, in one JVM from first to last."""
    needs_java(request.param)
    folder = tmp_path_factory.mktemp("harness")
    source = Path(__file__).with_name("Harness.java")
    path = java_artifacts.compile_program(source, folder, request.param, [broker_jar])
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    command = [jars.java(), "-XX:TieredStopAtLevel=1", "-Xmx256m", quiet, "-cp", path, "Harness"]

    def ask(groups: list[Json], **environment: str) -> list[Json]:
        lines = "".join(json.dumps(group) + "\n" for group in groups)
        finished = subprocess.run(command, input=lines.encode(), capture_output=True, check=True)
        answers = [json.loads(line) for line in finished.stdout.decode().splitlines()]
        assert len(answers) == len(groups), finished.stderr.decode()[-2000:]
        return answers

    return ask


@pytest.fixture(scope="session", params=LIVE)
def governed_broker(request: pytest.FixtureRequest, broker_jar: Path) -> Iterator[Broker]:
    """A broker with the class beside Kafka's own assignors; topics a and b of 12 partitions."""
    with Broker(version=request.param, class_path=[broker_jar], properties=WITH_CLASS) as broker:
        broker.create_topic("a", 12)
        broker.create_topic("b", 12)
        yield broker


@pytest.fixture
def cluster(governed_broker: Broker) -> Iterator[Cluster]:
    with connect(governed_broker.bootstrap) as cluster:
        yield cluster

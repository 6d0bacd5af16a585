"""Kafka's own group coordinator behind a pipe: ``Coordinator.java``, compiled once for each release of Kafka.

One JVM serves all runs of a process: each run begins with a coordinator of its own.
"""

from __future__ import annotations

import atexit
import base64
import json
import os
import subprocess
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from apportion.governing.governor import CLASS
from apportion.testing import jars

SOURCE: Final = Path(__file__).with_name("Coordinator.java")
OURS: Final = sorted((Path(__file__).parents[4] / "broker").glob("src/main/java/**/*.java"))
"""The class that ``govern`` puts into brokers, as it is; nothing if this is no source tree."""
RENAMED: Final[Mapping[str, Mapping[str, str]]] = {
    "4.4.0": {
        "org.apache.kafka.common.utils.LogContext": "org.apache.kafka.common.utils.internals.LogContext",
        "new GroupConfigManager(Map.of(), config,": "new GroupConfigManager(config,",
        "classicGroupJoin(context, r.data(), future)": "classicGroupJoin(context, r.data(), future, false)",
    }
}
"""Release to what is spelled otherwise in it than in the first of ``jars.KAFKA``."""
FLAGS: Final = (
    *("-XX:+UseSerialGC", "-XX:+UnlockExperimentalVMOptions", "-XX:hashCode=3", "-Xmx512m", "-Xshare:auto"),
    *("-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"),
)
CONFIG: Final[Mapping[str, Any]] = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1000,
    "group.consumer.min.session.timeout.ms": 1000,
    "group.consumer.session.timeout.ms": 6000,
    "group.consumer.min.heartbeat.interval.ms": 300,
    "group.consumer.heartbeat.interval.ms": 1500,
    "group.consumer.assignors": "uniform,range" + f",{CLASS}" * bool(OURS),
}


def class_path(version: str) -> str:
    """The coordinator's classes and Kafka's jars; compiled if they are missing."""
    kafka = jars.kafka(version).split(os.pathsep)[1]
    folder = jars.home() / f"simulation-{version}"
    renamed = RENAMED.get(version, {})
    recipe = jars.digest(*(path.read_bytes() for path in (SOURCE, *OURS)), repr(renamed).encode())
    jars.made(folder, recipe, partial(_compile, kafka, renamed))
    return os.pathsep.join((str(folder), kafka))


def _compile(kafka: str, renamed: Mapping[str, str], folder: Path) -> None:
    source = SOURCE.read_text()
    for ours, theirs in renamed.items():
        source = source.replace(ours, theirs)
    path = folder / SOURCE.name
    path.write_text(source)
    jars.run(jars.java("javac"), "-nowarn", "-proc:none", "-d", str(folder), "-cp", kafka, str(path), *map(str, OURS))


@cache
def _process(version: str) -> subprocess.Popen[bytes]:
    command = [jars.java(), *FLAGS, "-cp", class_path(version), "Coordinator"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    atexit.register(process.kill)
    return process


class Coordinator:
    """One run's coordinator: its input, and its answers.

    Raises
        Unavailable without Java, or without Maven where the jars are missing.
    """

    def __init__(
        self, seed: int, now_ms: int, version: str = jars.KAFKA[0], config: Mapping[str, Any] = CONFIG
    ) -> None:
        self._process = _process(version)
        self._exchange({"op": "begin", "seed": seed, "now": now_ms, "config": dict(config)})

    def tell(self, op: str, now_ms: int, **facts: Any) -> dict[str, Any]:
        """One line to it and one back: ``id``, ``answers`` and ``records`` as bytes, ``next`` in milliseconds or -1."""
        answer = self._exchange({"op": op, "now": now_ms, **facts})
        if "error" in answer:
            raise RuntimeError(f"Kafka's coordinator failed at {op}:\n{answer['error']}")
        answer["answers"] = [(number, base64.b64decode(body)) for number, body in answer["answers"]]
        answer["records"] = [
            tuple(None if x is None else base64.b64decode(x) for x in pair) for pair in answer["records"]
        ]
        return answer

    def request(self, frame: bytes, now_ms: int, error: str | None = None) -> dict[str, Any]:
        """A client's request, or its refusal with that error."""
        refusal = {} if error is None else {"error": error}
        return self.tell("request", now_ms, frame=base64.b64encode(frame).decode(), **refusal)

    def _exchange(self, line: Mapping[str, Any]) -> dict[str, Any]:
        pipe, back = self._process.stdin, self._process.stdout
        assert pipe is not None and back is not None  # noqa: S101, PT018 - both are pipes
        pipe.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
        pipe.flush()
        answer = back.readline()
        if not answer:
            _process.cache_clear()
            raise RuntimeError(f"the JVM with Kafka's coordinator ended (exit {self._process.wait()})")
        return dict(json.loads(answer))

"""The other assignors on one cell, each in a process of its own: Kafka's in Java, franz-go, kafka-python.

Everything that is made afresh for each call (what members say when they join) is made outside the clock.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from apportion.errors import ApportionError
from apportion.testing import jars
from bench.leader import IN_TURN

HERE = Path(__file__).parent
JAVA_VERSION, GO_VERSION, PYTHON_VERSION = "kafka-clients 4.3.0", "franz-go v1.22.2", "kafka-python 3.0.12"
PYTHON_PARTITIONS = 10_000
"""kafka-python is quadratic: beyond this size calls take minutes."""

Assignment = dict[str, dict[str, list[int]]]


@dataclass
class Told:
    """What one peer needed, in milliseconds of CPU time, and what it answered.

    first, warm, wall
        The first call of a fresh process; the median of the later ones; their wall time.
    wire, sync
        Reading what members sent when they joined, and writing what each is sent, where they are told apart (medians,
        beside ``warm``).
    why
        Why there are no figures.
    first_whole
        The first call from bytes to bytes, where reading and writing are told apart.
    """

    first: float | None = None
    warm: float | None = None
    wall: float | None = None
    wire: float | None = None
    sync: float | None = None
    assignment: Assignment = field(default_factory=dict)
    why: str = ""
    first_whole: float | None = None

    @property
    def whole(self) -> float | None:
        """From bytes to bytes, where reading and writing are told apart."""
        if self.warm is None or self.wire is None or self.sync is None:
            return None
        return self.warm + self.wire + self.sync


def java_program() -> str:
    """The class path of our program and Kafka's jars."""
    path = jars.kafka()
    source = HERE / "java" / "Bench.java"

    def compile_it(folder: Path) -> None:
        jars.run(jars.java("javac"), "-nowarn", "-proc:none", "-d", str(folder), "-cp", path, str(source))

    jars.made(jars.home() / "bench-java", jars.stamp(source), compile_it)
    return os.pathsep.join([str(jars.home() / "bench-java"), path])


def go_program() -> str:
    """The path of our program, built with the Go at hand."""
    go = shutil.which("go")
    if go is None:
        raise ApportionError("no go is on the PATH")
    sources = sorted((HERE / "go").iterdir())

    def build_it(folder: Path) -> None:
        jars.run(go, "-C", str(HERE / "go"), "build", "-o", str(folder / "bench"), ".")

    jars.made(jars.home() / "bench-go", jars.stamp(*sources), build_it)
    return str(jars.home() / "bench-go" / "bench")


def java(path: Path, calls: int, seconds: float, *, from_bytes: bool = False) -> Told:
    """Kafka's CooperativeStickyAssignor in a fresh JVM: the first call, then as many as fit in the seconds.

    from_bytes
        Each call reads what members sent, plans, and writes what each is sent, as a consumer that leads does.
    """
    try:
        command = [jars.java(), "-Xmx4g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", java_program()]
        out = _run([*command, "Bench", str(path), str(calls), str(seconds), "bytes" if from_bytes else "names"])
    except ApportionError as wrong:
        return Told(why=str(wrong).splitlines()[0])
    # The compiler is done with most of it after the first half.
    warm, wall = (out.get(name, [])[len(out.get(name, [])) // 2 :] for name in ("cpu_ms", "wall_ms"))
    return Told(out["first_ms"], _median(warm), _median(wall), assignment=out["assignment"])


def franz_go(path: Path, calls: int, caches: str = IN_TURN) -> Told:
    """franz-go's cooperative-sticky balancer by its public interface, which knows no racks without a client.

    caches
        As in ``bench.caches``.
    """
    try:
        out = _run([go_program(), str(path), str(calls + 1), caches])
    except ApportionError as wrong:
        return Told(why=str(wrong).splitlines()[0])
    parts = [out[name] for name in ("plan_ms", "wall_ms", "wire_ms", "sync_ms")]
    first, _, first_wire, first_sync = (part[0] for part in parts)
    warm, wall, wire, sync = (_median(part[1:]) for part in parts)
    whole = first + first_wire + first_sync
    return Told(first, warm, wall, wire, sync, out["assignment"], first_whole=whole)


def kafka_python(path: Path, partitions: int, limit_s: int) -> Told:
    """kafka-python's sticky assignor, one call, given up after so many seconds of CPU time."""
    if partitions > PYTHON_PARTITIONS:
        return Told(why="not tried")
    try:
        out = _run([sys.executable, "-m", "bench.kafka_python", str(path), str(limit_s)])
    except ApportionError as wrong:
        return Told(why=f"> {limit_s} s" if "-24" in str(wrong) else str(wrong).splitlines()[0])
    return Told(warm=out["cpu_ms"], wall=out["wall_ms"], assignment=out["assignment"])


def _run(command: list[str]) -> dict[str, Any]:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=HERE.parent)
    if done.returncode:
        raise ApportionError(f"{Path(command[0]).name} ended with {done.returncode}: {done.stderr[-300:]}")
    return dict(json.loads(done.stdout))


def _median(values: list[float]) -> float | None:
    return median(values) if values else None

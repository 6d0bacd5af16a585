"""What a Spark session costs: CPU seconds and memory of this process, its JVM and its Python workers."""

from __future__ import annotations

import compileall
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import apportion

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_last: dict[tuple[int, int], float] = {}
"""Number and start of each process that was ever seen, which no other has -> the most CPU seconds seen of it."""


def compile_package() -> None:
    """Compile the package's modules as pip does for users, which an editable install leaves to each process."""
    compileall.compile_dir(Path(apportion.__file__).parent, quiet=2)


def processes() -> dict[int, tuple[str, float, int]]:
    """Pid -> (``driver``, ``jvm`` or ``worker``, CPU seconds, resident bytes).

    Workers come and go, and nobody adds up what the ended ones used: what was seen of each is remembered.
    """
    children: dict[int, list[int]] = {}
    told: dict[int, tuple[float, int]] = {}
    started: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(stat.parent.name)
        children.setdefault(int(fields[1]), []).append(pid)
        told[pid] = sum(map(int, fields[11:13])) / _TICKS, int(fields[21]) * _PAGE
        started[pid] = int(fields[19])
    own = os.getpid()
    found = {own: ("driver", time.process_time(), told[own][1])}
    todo = [(pid, False) for pid in children.get(own, [])]
    while todo:
        pid, inside = todo.pop()
        jvm = not inside and _is_spark(pid)
        if jvm or inside:
            found[pid] = ("jvm" if jvm else "worker", *told.get(pid, (0.0, 0)))
        todo += [(child, inside or jvm) for child in children.get(pid, [])]
    for pid, (_, cpu, _) in found.items():
        # Two threads look: one may come here with what it saw before the other, which is no less for that.
        key = pid, started.get(pid, 0)
        _last[key] = max(cpu, _last.get(key, 0.0))
    return found


def _is_spark(pid: int) -> bool:
    try:
        return b"org.apache.spark.deploy" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def cpu_seconds() -> float:
    """CPU spent so far by all that were ever seen; a broker that this process started does not count."""
    processes()
    return sum(list(_last.values()))


@dataclass
class Cost:
    """Of one stage; memory in bytes at its peak, workers added up (pages that they share count for each)."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    jvm: int = 0
    workers: int = 0

    def __add__(self, other: Cost) -> Cost:
        """One after the other."""
        return Cost(
            self.wall_s + other.wall_s, self.cpu_s + other.cpu_s, max(self.jvm, other.jvm),
            max(self.workers, other.workers),
        )  # fmt: skip


class Meter:
    """Costs by the name of a stage; a stage lasts until the next one begins."""

    def __init__(self) -> None:
        self.costs: dict[str, Cost] = {}
        self._stage = ""
        self._began = (0.0, 0.0)
        self._over = threading.Event()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Memory is looked at twice a second in this block."""
        watcher = threading.Thread(target=self._watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            self._over.set()
            watcher.join()

    def begin(self, stage: str) -> None:
        """The stage before is over; "" for a pause."""
        now = time.perf_counter(), cpu_seconds()
        if self._stage:
            cost = self.costs.setdefault(self._stage, Cost())
            cost.wall_s += now[0] - self._began[0]
            cost.cpu_s += now[1] - self._began[1]
        self._stage, self._began = stage, now
        if stage:
            self.costs.setdefault(stage, Cost())

    def _watch(self) -> None:
        while not self._over.wait(0.5):
            stage, seen = self._stage, processes().values()
            if stage and (cost := self.costs.get(stage)):
                cost.jvm = max(cost.jvm, sum(size for kind, _, size in seen if kind == "jvm"))
                cost.workers = max(cost.workers, sum(size for kind, _, size in seen if kind == "worker"))

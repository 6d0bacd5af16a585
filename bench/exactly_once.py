"""Word counts and a join under kill -9, freezes and a broker's death: how exact, fast and late they are, as a table.

    python -m bench.exactly_once [--records N] [--kills N] [--seeds N] [--only WORD]

Two processes with a standby for each task. First a backlog is worked off (records a second). Then records come evenly
while processes are killed at random moments and started again, frozen beyond their session, and the broker is killed
once. At the end each process dies once for good: how long until all partitions' records come out again. A reader of
committed records sees each output (latency: from a record's time to its count). Last, a process with an empty folder
restores the state. The same for ``at_least_once`` and for Kafka Streams with ``exactly_once_v2``, one table.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError
from tests.support.hanging import HANGING

from apportion.clients.tasks import TaskRunner
from apportion.spark.packages import JarSet
from apportion.tasks.settings import TaskSettings
from apportion.tasks.topology import Subtopology, Topology
from apportion.testing import jars, processes
from apportion.testing.broker import Broker

PARTITIONS: Final = 4
SESSION_MS: Final = 3000
COMMIT_MS: Final = 100
VOCABULARY: Final = 500
BACKLOG: Final = 50_000
STREAMS: Final = JarSet("bench-streams", ("org.apache.kafka:kafka-streams:4.3.0", "org.rocksdb:rocksdbjni:10.1.3"), ())
ENGINES: Final = ("words exactly_once", "join exactly_once", "words at_least_once", "words java exactly_once_v2")


@dataclass
class Figures:
    """What one run of one engine came to."""

    engine: str
    seed: int
    records: int
    kills: int = 0
    per_s: float = 0.0
    latency_ms: list[float] = field(default_factory=list)
    takeover_s: float = 0.0
    wrong_counts: int = 0
    lost: int = 0
    twice: int = 0
    restored_equal: bool | None = None

    def row(self) -> str:
        """One line of the table."""
        middle = statistics.median(self.latency_ms) if self.latency_ms else 0
        late = statistics.quantiles(self.latency_ms, n=100)[98] if len(self.latency_ms) > 100 else 0
        equal = {None: "", True: "yes", False: "no"}[self.restored_equal]
        return (
            f"| {self.engine} | {self.seed} | {self.records:,} | {self.kills} | {self.wrong_counts} | {self.lost} "
            f"| {self.twice} | {equal} | {self.per_s:,.0f} | {middle:,.0f} / {late:,.0f} | {self.takeover_s:.1f} |"
        )


HEAD: Final = (
    "| engine | seed | records | kills | wrong counts | outputs lost | outputs twice | restored state equal "
    "| records/s | latency ms, median / 99 % | take over, s (sessions of 3 s) |\n"
    "|---|---:|---:|---:|---:|---:|---:|---|---:|---:|---:|"
)


# -- one process of an application ----------------------------------------------------------------------------------


def work(bootstrap: str, name: str, folder: str, kind: str, guarantee: str, standbys: str = "1") -> None:
    """A plain loop until it is killed, or its standard input ends."""
    over = threading.Event()
    threading.Thread(target=_end_with_input, args=(over,), daemon=True).start()
    sources = (f"{name}-in",) if kind == "words" else (f"{name}-in", f"{name}-clicks")
    step = count if kind == "words" else join
    while not over.is_set():
        with suppress(KafkaError), runner_of(bootstrap, name, folder, sources, guarantee, int(standbys)) as runner:
            while not over.is_set():
                with suppress(KafkaError):
                    for task, records in runner.poll(50).items():
                        for record in records:
                            step(runner, runner.state(task), record, f"{name}-out")


def _end_with_input(over: threading.Event) -> None:
    sys.stdin.read()
    over.set()


def runner_of(
    bootstrap: str, name: str, folder: str, sources: tuple[str, ...], guarantee: Any, standbys: int = 1
) -> TaskRunner:
    """A runner that commits by time, as Kafka Streams does."""
    return TaskRunner(
        Topology.of(Subtopology(sources, f"{name}-changelog")),
        application=name,
        bootstrap_servers=bootstrap,
        state_dir=folder,
        settings=TaskSettings(num_standby_replicas=standbys),
        guarantee=guarantee,
        commit_every_s=COMMIT_MS / 1000,
        consumer={"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": 500},
    )


def count(runner: Any, state: Any, record: Any, out: str) -> None:
    """One more of a word, and the new count to a topic."""
    number = int(state.get(record.key) or 0) + 1
    state.put(record.key, b"%d" % number)
    runner.send(out, record.key, b"%d %d" % (number, record.timestamp), partition=record.partition)


def join(runner: Any, state: Any, record: Any, out: str) -> None:
    """A click meets its impression, whichever comes first; each pair goes to a topic once, with a running number."""
    other = b"click" if record.topic.endswith("-in") else b"impression"
    mine = b"impression" if other == b"click" else b"click"
    if state.get(other + record.key) is None:
        state.put(mine + record.key, record.value)
        return
    state.put(other + record.key, None)
    runner.send(out, record.key, b"1 %d" % record.timestamp, partition=record.partition)


class Process:
    """One of the application's processes: killed, frozen, started again on its folder."""

    def __init__(self, engine: str, bootstrap: str, name: str, folder: Path, standbys: int = 1) -> None:
        kind, *guarantee = engine.split()
        if guarantee[0] == "java":
            path = os.pathsep.join([str(java_words()), str(jars.home() / STREAMS.name / "*"), jars.kafka()])
            options = ["-Xmx400m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
            logging = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
            arguments = [bootstrap, name, str(folder), guarantee[1], str(COMMIT_MS), str(SESSION_MS)]
            command = [jars.java(), *options, logging, "-cp", path, "Words", *arguments, f"{name}-in", f"{name}-out"]
            command.append(str(standbys))
            self.command = [*HANGING, *command]
        else:
            self.command = [sys.executable, "-m", "bench.exactly_once", "work", bootstrap, name, str(folder), kind]
            self.command += [guarantee[0], str(standbys)]
        self.start()

    def start(self) -> None:
        """Run, on what an earlier run left."""
        self.process = processes.start(self.command, log=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def signal(self, number: int) -> None:
        """To the process and its children."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def kill(self) -> None:
        """Kill -9."""
        processes.end(self.process, how=signal.SIGKILL)


def java_words() -> Path:
    """The compiled program of Kafka Streams."""
    source = Path(__file__).parent / "java" / "Words.java"
    jars.spark(STREAMS)
    path = os.pathsep.join([str(jars.home() / STREAMS.name / "*"), jars.kafka()])

    def compile_it(folder: Path) -> None:
        jars.run(jars.java("javac"), "-nowarn", "-proc:none", "-d", str(folder), "-cp", path, str(source))

    jars.made(jars.home() / "bench-words", jars.stamp(source), compile_it)
    return jars.home() / "bench-words"


# -- what is written, and what comes out -----------------------------------------------------------------------------


class Watcher(threading.Thread):
    """Reads committed outputs as they come: how often each came, when each partition's last, how late."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self.seen: Counter[tuple[bytes, int]] = Counter()
        self.came: dict[int, list[float]] = {p: [] for p in range(PARTITIONS)}
        self.late_ms: list[float] = []
        self.timed = self.over = False
        self._address, self._topic = bootstrap, topic

    def run(self) -> None:
        """Until it is over."""
        consumer = KafkaConsumer(
            bootstrap_servers=self._address, auto_offset_reset="earliest", isolation_level="read_committed"
        )
        consumer.assign([TopicPartition(self._topic, p) for p in range(PARTITIONS)])
        while not self.over:
            with suppress(KafkaError):
                batches = consumer.poll(50, max_records=5000)
                now = time.time()
                for pair, records in batches.items():
                    self.came[pair.partition].append(now)
                    for record in records:
                        number, at = record.value.split()
                        self.seen[record.key, int(number)] += 1
                        if self.timed:
                            self.late_ms.append(now * 1000 - int(at))
        consumer.close(autocommit=False)


class Input:
    """Writes what the application reads, and knows what must come out."""

    def __init__(self, broker: Broker, name: str, kind: str, seed: int) -> None:
        self._rng, self._kind, self._name = random.Random(seed), kind, name  # noqa: S311 - words, no secrets
        self._producer = KafkaProducer(bootstrap_servers=broker.bootstrap, linger_ms=5)
        self.expected: Counter[tuple[bytes, int]] = Counter()
        self.counts: Counter[bytes] = Counter()
        self.records = 0

    def write(self) -> None:
        """One record, or a pair in one order or the other."""
        if self._kind == "words":
            number = self._rng.randrange(VOCABULARY)
            key = b"word-%d" % number
            self.counts[key] += 1
            self.expected[key, self.counts[key]] += 1
            self._producer.send(f"{self._name}-in", b"", key=key, partition=number % PARTITIONS)
            self.records += 1
            return
        key, partition = b"auction-%d" % self.records, self._rng.randrange(PARTITIONS)
        self.expected[key, 1] += 1
        for topic in self._rng.sample(["in", "clicks"], 2):
            self._producer.send(f"{self._name}-{topic}", b"x", key=key, partition=partition)
            self.records += 1

    def flush(self) -> None:
        """All that was written is there."""
        self._producer.flush()


# -- one run ---------------------------------------------------------------------------------------------------------


def run(engine: str, seed: int, records: int, kills: int, folder: Path, *, timed: bool = True) -> Figures:
    """Chaos and a restore; where ``timed``, a backlog before and a quiet stretch and a death in between."""
    figures, kind = Figures(engine, seed, records), engine.split()[0]
    name = f"{engine.replace(' ', '-')}-{seed}".replace("_", "-")
    with Broker() as broker:
        for topic in ("in", "clicks", "out"):
            broker.create_topic(f"{name}-{topic}", PARTITIONS)
        log = f"{name}-counts-changelog" if "java" in engine else f"{name}-changelog"
        if "java" not in engine:
            broker.create_topic(log, PARTITIONS, cleanup_policy="compact")
        source, watcher = Input(broker, name, kind, seed), Watcher(broker.bootstrap, f"{name}-out")
        watcher.start()
        workers = [Process(engine, broker.bootstrap, name, folder / f"{name}-{letter}") for letter in "ab"]
        try:
            if timed:
                figures.per_s = backlog(source, watcher, min(BACKLOG, records // 4))
            moments = random.Random(seed)  # noqa: S311 - moments, no secrets
            figures.kills = chaos(broker, source, watcher, workers, records, kills, moments)
            settle(source, watcher)
            if timed:
                watcher.timed = True
                pace(source, 10)
                settle(source, watcher)
                watcher.timed = False
                figures.takeover_s = max(death(source, watcher, worker) for worker in workers)
        finally:
            for worker in workers:
                worker.kill()
        watcher.over = True
        watcher.join(10)
        judge(figures, source, watcher, kind, committed(broker, log))
        if "java" not in engine:
            figures.restored_equal = restored(broker, name, kind, engine, folder) == committed(broker, log)
    return figures


def backlog(source: Input, watcher: Watcher, records: int) -> float:
    """Records a second while many wait; the processes have begun before the clock does."""
    for _ in range(100):
        source.write()
    settle(source, watcher)
    began = time.monotonic()
    while source.records < records:
        source.write()
    settle(source, watcher)
    return records / (time.monotonic() - began)


def chaos(
    broker: Broker, source: Input, watcher: Watcher, workers: list[Process], records: int, kills: int, rng: Any
) -> int:
    """The rest of the records while processes are killed; each fifth time one is frozen, and once the broker dies."""
    rest, step_s = records - source.records, 3.0
    writing = threading.Thread(target=pace, args=(source, step_s * kills, rest))
    writing.start()
    for number in range(kills):
        time.sleep(rng.uniform(0.5, 2 * step_s - 0.5))
        worker = rng.choice(workers)
        if number == kills // 2:
            broker.kill()
            time.sleep(1)
            broker.start()
        if number % 5 == 4:
            worker.signal(signal.SIGSTOP)
            time.sleep(SESSION_MS / 1000 * 1.5)
            worker.signal(signal.SIGCONT)
        worker.kill()
        worker.start()
    writing.join()
    return kills


def pace(source: Input, seconds: float, records: int | None = None) -> None:
    """Records evenly over a time: 500 a second where no number is given."""
    records, began = records or int(500 * seconds), time.monotonic()
    for n in range(records):
        if source._kind == "join" and n % 2:
            continue  # a pair was written
        source.write()
        while n / records * seconds > time.monotonic() - began:
            time.sleep(0.002)
    source.flush()


def settle(source: Input, watcher: Watcher, patience_s: float = 180) -> None:
    """Until as many outputs came as must, or no more come for some time."""
    source.flush()
    end = time.monotonic() + patience_s
    while len(watcher.seen) < len(source.expected) and time.monotonic() < end:
        time.sleep(0.1)


def death(source: Input, watcher: Watcher, worker: Process) -> float:
    """A process dies for a while: the longest time until records of some partition come out again."""
    writing = threading.Thread(target=pace, args=(source, 20))
    writing.start()
    time.sleep(4)
    at = time.time()
    worker.kill()
    writing.join()
    settle(source, watcher, patience_s=60)
    back = time.time()
    worker.start()
    pace(source, 10)  # it joins, and has its copies
    settle(source, watcher, patience_s=60)
    gaps = []
    for came in watcher.came.values():
        times = [at - 0.001, *(moment for moment in list(came) if at < moment < back)]
        gaps.append(max(after - before for before, after in itertools.pairwise(times)))
    return max(gaps)


def committed(broker: Broker, topic: str) -> dict[bytes, bytes]:
    """The newest committed value of each key of a changelog."""
    newest: dict[bytes, bytes] = {}
    with KafkaConsumer(
        bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as reader:
        parts = [TopicPartition(topic, p) for p in range(PARTITIONS)]
        reader.assign(parts)
        ends, end = reader.end_offsets(parts), time.monotonic() + 120
        while any(reader.position(part) < ends[part] for part in parts) and time.monotonic() < end:
            for batch in reader.poll(200, max_records=10_000).values():
                newest |= {record.key: record.value for record in batch}
    return {key: value for key, value in newest.items() if value is not None}


def judge(figures: Figures, source: Input, watcher: Watcher, kind: str, state: dict[bytes, bytes]) -> None:
    """Counts and outputs against what must be."""
    figures.latency_ms = watcher.late_ms
    if kind == "words":
        values = {
            key: int.from_bytes(value, "big") if "java" in figures.engine else int(value)
            for key, value in state.items()
        }
        figures.wrong_counts = sum(values.get(key, 0) != number for key, number in source.counts.items())
    else:
        figures.wrong_counts = len(state)  # whatever waits for its other half, when every half has come
    figures.lost = sum((source.expected - watcher.seen).values())
    figures.twice = sum((watcher.seen - source.expected).values())
    figures.records = source.records


def restored(broker: Broker, name: str, kind: str, engine: str, folder: Path) -> dict[bytes, bytes]:
    """The state of a process with an empty folder, once it runs all tasks."""
    sources = (f"{name}-in",) if kind == "words" else (f"{name}-in", f"{name}-clicks")
    end = time.monotonic() + 120
    with runner_of(broker.bootstrap, name, str(folder / f"{name}-empty"), sources, engine.split()[1]) as runner:
        while len(runner.active) < PARTITIONS and time.monotonic() < end:
            runner.poll(50)
        return {key: value for task in runner.active for key, value in runner.state(task).store.items()}  # type: ignore[attr-defined]


def main() -> None:
    """Print the table, a row as soon as it is there."""
    parser = argparse.ArgumentParser("python -m bench.exactly_once", description=__doc__)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--json", type=Path, help="all figures, a line a run")
    args = parser.parse_args()
    print(HEAD, flush=True)
    for seed in range(1, args.seeds + 1):
        for engine in ENGINES:
            if args.only in engine and (seed == 1 or "exactly_once" in engine.split()):
                with tempfile.TemporaryDirectory() as folder:
                    figures = run(engine, seed, args.records, args.kills, Path(folder))
                print(figures.row(), flush=True)
                if args.json:
                    with args.json.open("a") as file:
                        file.write(json.dumps(vars(figures)) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work(*sys.argv[2:])
    else:
        main()

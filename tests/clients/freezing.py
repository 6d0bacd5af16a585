"""Words counted exactly once by processes that are killed, and frozen in their transactions beyond their session.

    python -m tests.clients.freezing --runs 30 --seed 1 --burners 2

A run has two or three processes of one application, half of them with standbys, a steady feed, and events of one seed.
A frozen process stops itself (SIGSTOP) at a named step of a transaction, or is stopped anywhere. It goes on when its
session has ended and others have its tasks, but before the broker aborts the transaction. At the end every word's
counts in the output and in the changelog are compared with the input topic. A run that does not come to its end must
say why, in a warning.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError
from tests.support.hanging import HANGING

from apportion.clients.tasks import TaskRunner
from apportion.tasks.settings import TaskSettings
from apportion.tasks.topology import Subtopology, Topology
from apportion.testing import processes
from apportion.testing.broker import Broker

PARTITIONS: Final = 4
SESSION_S: Final = 3.0
TRANSACTION_S: Final = 20.0
"""Longer than a session, a rebalance and a wait for the other process together."""
STEPS: Final = ("begun", "sent", "offsets", "committed", "anywhere")
"""Where a process stops: nothing sent, all records sent, offsets sent too, after the transaction's end, or anywhere."""
VOCABULARY: Final = 40
PER_S: Final = 300
SETTLE_S: Final = 120.0


# -- one process -----------------------------------------------------------------------------------------------------


def work(bootstrap: str, name: str, folder: str, journal: str, standbys: str) -> None:
    """Count words until killed; a line of input names the step of a transaction at which to stop."""
    logging.basicConfig(level="WARNING", format="%(asctime)s %(name)s %(levelname)s %(message)s")
    orders: list[str] = []
    threading.Thread(target=_listen, args=(orders,), daemon=True).start()
    with open(journal, "a", buffering=1) as lines:

        def tell(event: str, **more: Any) -> None:
            lines.write(json.dumps({"at": time.time(), "event": event, **more}) + "\n")

        while True:
            with suppress(KafkaError), runner_of(bootstrap, name, Path(folder), int(standbys)) as runner:
                _freeze_at_steps(runner, orders, tell)
                rounds, active = -1, None
                while True:
                    with suppress(KafkaError):
                        for task, records in runner.poll(50).items():
                            for record in records:
                                count(runner, runner.state(task), record, f"{name}-out")
                    if rounds != runner.bridge.rounds:
                        rounds = runner.bridge.rounds
                        tell("assigned", tasks=[f"{s}_{p}" for s, p in runner.bridge.orders.active])
                    if active != runner.active:
                        active = runner.active
                        tell("active", tasks=[str(task) for task in active])


def _listen(orders: list[str]) -> None:
    for line in sys.stdin:
        orders.append(line.strip())
    os._exit(0)


def _freeze_at_steps(runner: TaskRunner, orders: list[str], tell: Any) -> None:
    """Look for an order at each step of each transaction that has records in it."""
    delivery: Any = runner._delivery
    begin, finish, wait = delivery.begin, delivery.finish, delivery._wait
    waits = 0

    def stop(step: str) -> None:
        if orders and orders[0] == step:
            orders.pop(0)
            tell("frozen", step=step)
            os.kill(os.getpid(), signal.SIGSTOP)
            tell("woke", step=step)

    def begun() -> None:
        begin()
        tell("begun")
        stop("begun")

    def finished(*args: Any) -> bool:
        nonlocal waits
        waits = 0
        stop("sent")
        committed: bool = finish(*args)
        stop("committed")
        return committed

    def waited(result: Any) -> None:
        nonlocal waits
        wait(result)
        waits += 1
        if waits == 1:
            stop("offsets")

    delivery.begin, delivery.finish, delivery._wait = begun, finished, waited


def runner_of(bootstrap: str, name: str, folder: Path, standbys: int) -> TaskRunner:
    """One that commits ten times a second."""
    return TaskRunner(
        Topology.of(Subtopology((f"{name}-in",), f"{name}-changelog")),
        application=name,
        bootstrap_servers=bootstrap,
        state_dir=folder,
        settings=TaskSettings(num_standby_replicas=standbys),
        guarantee="exactly_once",
        commit_every_s=0.1,
        transaction_timeout_s=TRANSACTION_S,
        consumer={"session_timeout_ms": int(SESSION_S * 1000), "heartbeat_interval_ms": 500},
    )


def count(runner: TaskRunner, state: Any, record: Any, out: str) -> None:
    """One more of a word, and the new count to the output."""
    number = int(state.get(record.key) or 0) + 1
    state.put(record.key, b"%d" % number)
    runner.send(out, record.key, b"%d" % number, partition=record.partition)


class Worker:
    """A process of the application, and what its journal says."""

    def __init__(self, bootstrap: str, name: str, folder: Path, standbys: int) -> None:
        self.journal, self.log = folder.with_suffix(".journal"), folder.with_suffix(".log")
        self._command = [sys.executable, "-m", "tests.clients.freezing", "work"]
        self._command += [bootstrap, name, str(folder), str(self.journal), str(standbys)]
        self.start()

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = processes.start(self._command, log=log)

    def kill(self) -> None:
        processes.end(self.process, how=signal.SIGKILL)

    def events(self, event: str) -> list[dict[str, Any]]:
        if not self.journal.exists():
            return []
        lines = self.journal.read_text().splitlines()
        return [line for line in map(json.loads, lines) if line["event"] == event]

    def tasks(self, event: str) -> set[str]:
        """Of its newest event of that kind: ``assigned`` or ``active``."""
        newest = self.events(event)[-1:]
        return set(newest[0]["tasks"]) if newest else set()

    def order(self, step: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(step.encode() + b"\n")
        self.process.stdin.flush()

    def frozen(self) -> bool:
        """Whether the kernel says that it is stopped."""
        return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    def wake(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def warnings(self, since: float) -> list[str]:
        """What the application's own log said since that moment."""
        after = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(since))
        lines = self.log.read_text(errors="replace").splitlines()
        return [line for line in lines if " apportion." in line and "WARNING" in line and line[:19] >= after]


# -- one run ---------------------------------------------------------------------------------------------------------


@dataclass
class Verdict:
    """What one run came to.

    proofs
        Of each freeze: where, for how long, seconds since its transaction began, and which of its tasks others had.
    woke_in_time
        Freezes within a transaction that ended before its time, with the session over and tasks at another process.
    wrong
        Words whose counts in output or changelog are not those of the input.
    twice, lost
        Inputs counted more than once, or not, by the changelog.
    waits
        Why nothing came any more, by the warnings; "" if all came, "without a word" if nothing was said.
    """

    seed: int
    inputs: int = 0
    proofs: list[str] = field(default_factory=list)
    woke_in_time: int = 0
    wrong: list[str] = field(default_factory=list)
    twice: int = 0
    lost: int = 0
    waits: str = ""

    def line(self) -> str:
        return (
            f"seed {self.seed}: {self.inputs} inputs, {self.woke_in_time} of {len(self.proofs)} woke in time, "
            f"{len(self.wrong)} words wrong, {self.twice} inputs twice, {self.lost} lost"
            + (f", WAITS: {self.waits}" if self.waits else "")
        )


class Feed(threading.Thread):
    """Words at a steady pace; what counts is what the topic holds in the end."""

    def __init__(self, bootstrap: str, topic: str, seed: int) -> None:
        super().__init__(daemon=True)
        self._address, self._topic, self._rng = bootstrap, topic, random.Random(seed)
        self._over = threading.Event()
        self.start()

    def run(self) -> None:
        producer = KafkaProducer(bootstrap_servers=self._address, linger_ms=5)
        while not self._over.wait(0.02):
            for _ in range(int(PER_S * 0.02)):
                number = self._rng.randrange(VOCABULARY)
                with suppress(KafkaError):
                    producer.send(self._topic, b"", key=b"word-%d" % number, partition=number % PARTITIONS)
        with suppress(KafkaError):
            producer.flush(60)
        producer.close(timeout=10)

    def stop(self) -> None:
        self._over.set()
        self.join(90)


def run(broker: Broker, seed: int, folder: Path, freezes: int, kills: int, broker_dies: bool) -> Verdict:
    """One application from its first record to the verdict."""
    name, rng, verdict = f"freezing-{seed}-{os.getpid()}", random.Random(seed), Verdict(seed)
    broker.create_topic(f"{name}-in", PARTITIONS)
    broker.create_topic(f"{name}-out", PARTITIONS)
    broker.create_topic(f"{name}-changelog", PARTITIONS, cleanup_policy="compact")
    feed = Feed(broker.bootstrap, f"{name}-in", seed)
    with ExitStack() as stack:
        letters, standbys = "ab" if seed % 2 else "abc", seed // 2 % 2
        workers = [Worker(broker.bootstrap, name, folder / f"{name}-{letter}", standbys) for letter in letters]
        for worker in workers:
            stack.callback(worker.kill)
        until("all tasks run", 60, lambda: sum(len(w.tasks("active")) for w in workers) == PARTITIONS)
        events = ["freeze"] * freezes + ["kill"] * kills
        rng.shuffle(events)
        for n, event in enumerate(events):
            time.sleep(rng.uniform(0.5, 2.5))
            if broker_dies and n == len(events) // 2:
                broker.kill()
                time.sleep(1)  # so that its clients miss it
                broker.start()
            if event == "kill":
                worker = rng.choice(workers)
                worker.kill()
                worker.start()
            else:
                freeze(workers, rng, verdict)
        while not verdict.woke_in_time and len(verdict.proofs) < freezes + 3:
            freeze(workers, rng, verdict)
        time.sleep(2)  # what was under way when the last one woke is committed, or refused
        feed.stop()
        judge(broker, name, workers, verdict)
    return verdict


def freeze(workers: list[Worker], rng: random.Random, verdict: Verdict) -> None:
    """Stop a process that runs tasks, and let it go on when others have them."""
    with suppress(TimeoutError):
        until("all run something", 40, lambda: all(w.tasks("active") for w in workers))
    worker = rng.choice(workers)
    others = [other for other in workers if other is not worker]
    step = rng.choice(STEPS if verdict.woke_in_time else STEPS[:3])
    if step == "anywhere":
        worker.process.send_signal(signal.SIGSTOP)
    else:
        worker.order(step)
    try:
        until("it stops", 30, worker.frozen)
    except TimeoutError:  # it had nothing to commit
        verdict.proofs.append(f"{step}: it did not stop")
        return

    def taken() -> set[str]:
        return tasks & set[str]().union(*(other.tasks("assigned") for other in others))

    at, tasks, began = time.time(), worker.tasks("assigned"), (worker.events("begun") or [{"at": 0.0}])[-1]["at"]
    with suppress(TimeoutError):
        until("others have its tasks", TRANSACTION_S * 0.7, lambda: taken() == tasks)
    time.sleep(rng.uniform(0, 1.5))
    woke, theirs = time.time(), sorted(taken())
    worker.wake()
    in_time = woke - at > SESSION_S and woke - began < TRANSACTION_S and bool(theirs)
    verdict.woke_in_time += in_time and step in STEPS[:3]
    verdict.proofs.append(
        f"{step}: {worker.journal.stem[-1]} with {sorted(tasks)} stopped for {woke - at:.1f} s, "
        + (f"transaction open for {woke - began:.1f} of {TRANSACTION_S:g} s, " if step in STEPS[:3] else "")
        + f"others had {theirs}"
    )


def judge(broker: Broker, name: str, workers: list[Worker], verdict: Verdict) -> None:
    """Wait until all inputs are counted, or nothing comes any more, and compare."""
    words = Counter(record.key for record in read(broker, f"{name}-in", "read_uncommitted"))
    verdict.inputs, since = words.total(), time.time()
    end, counts = time.monotonic() + SETTLE_S, list[Any]()
    while time.monotonic() < end:
        time.sleep(1)  # each look reads the whole topic
        counts = [(record.key, int(record.value)) for record in read(broker, f"{name}-out")]
        if dict(counts).keys() >= words.keys() and len(counts) >= words.total():
            break
    else:
        spoken = [line for worker in workers for line in worker.warnings(since - SETTLE_S)]
        verdict.waits = " / ".join(sorted({line.split("WARNING")[1].strip() for line in spoken})) or "without a word"
    newest = {r.key: int(r.value) for r in read(broker, f"{name}-changelog")}
    outputs = Counter(counts)
    for word, number in words.items():
        right = all(outputs[word, n] == 1 for n in range(1, number + 1)) and outputs[word, number + 1] == 0
        if not right or newest.get(word) != number:
            verdict.wrong.append(word.decode())
        verdict.twice += max(0, newest.get(word, 0) - number)
        verdict.lost += max(0, number - newest.get(word, 0))


def read(broker: Broker, topic: str, isolation_level: str = "read_committed") -> list[Any]:
    """All records of a topic that can be read now."""
    with KafkaConsumer(
        bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", isolation_level=isolation_level
    ) as reader:
        pairs = [TopicPartition(topic, p) for p in range(PARTITIONS)]
        reader.assign(pairs)
        ends, records, end = reader.end_offsets(pairs), list[Any](), time.monotonic() + 30
        while any(reader.position(pair) < ends[pair] for pair in pairs) and time.monotonic() < end:
            for batch in reader.poll(200, max_records=20_000).values():
                records.extend(batch)
        return records


def until(aim: str, patience_s: float, true: Any) -> None:
    """Wait for it.

    Raises
        TimeoutError with the aim.
    """
    end = time.monotonic() + patience_s
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"{aim}: not within {patience_s:g} s")
        time.sleep(0.05)


def main() -> int:
    """Print a line a run; 1 if any count was wrong, any run proved nothing, or any waited without a word."""
    parser = argparse.ArgumentParser("python -m tests.clients.freezing", description=__doc__)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--freezes", type=int, default=3)
    parser.add_argument("--kills", type=int, default=2)
    parser.add_argument("--burners", type=int, default=2, help="processes that do nothing but take the cores' time")
    parser.add_argument("--folder", type=Path, help="where journals and logs stay (default: nowhere)")
    args = parser.parse_args()
    burners = [
        processes.start([*HANGING, sys.executable, "-c", "while True: pass"], log=None) for _ in range(args.burners)
    ]
    bad = 0
    with Broker() as broker, tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for seed in range(args.seed, args.seed + args.runs):
            verdict = run(broker, seed, folder, args.freezes, args.kills, broker_dies=seed % 3 == 0)
            print(verdict.line(), *verdict.proofs, sep="\n    ", flush=True)
            bad += bool(verdict.wrong) or verdict.waits == "without a word" or not verdict.woke_in_time
    for burner in burners:
        processes.end(burner, how=signal.SIGKILL)
    print(f"{args.runs} runs, {bad} of them bad")
    return min(1, bad)


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work(*sys.argv[2:])
    else:
        sys.exit(main())

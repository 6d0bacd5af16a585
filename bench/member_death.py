"""A process with state dies: until its tasks work again, with and without standbys: python -m bench.member_death

Word counts by our ``TaskRunner`` and by Kafka Streams, at least once, both with a session of 3 s: 4 tasks on two
processes. Words of a thousand letters fill the state, ``--mb`` in all: an application of 10 GB, scaled down. Then short
words come, 500 a second, and one process is killed: the longest time for which nothing came out of a partition.

    --mb N           megabytes of state in all tasks together (100: a hundredth of 10 GB)
    --only WORD      engines with that word in their names; may come again
    --to PAGE        put the table into this page too, engine by engine
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from itertools import pairwise
from pathlib import Path

from kafka import KafkaProducer

from apportion.testing.broker import Broker
from bench.exactly_once import PARTITIONS, SESSION_MS, Input, Process, Watcher, pace, settle
from bench.page_table import put_table

WORD: int = 1000
ENGINES = ("words at_least_once", "words java at_least_once")
NAMES = dict(zip(ENGINES, ("TaskRunner", "Kafka Streams"), strict=True))
HEAD = "| engine | standbys | state in all | filled in | its tasks stood still |\n|---|---:|---:|---:|---:|"


def fill(broker: Broker, name: str, watcher: Watcher, mb: int) -> float:
    """Write long words, and wait until all of them were counted; seconds."""
    began, words = time.monotonic(), mb * 1_000_000 // WORD
    with KafkaProducer(bootstrap_servers=broker.bootstrap, linger_ms=20) as producer:
        for n in range(words):
            producer.send(f"{name}-in", b"", key=b"%d " % n + b"x" * (WORD - 8), partition=n % PARTITIONS)
            while n - len(watcher.seen) > 20_000:
                time.sleep(0.01)
    while len(watcher.seen) < words:
        if time.monotonic() - began > 600:
            raise TimeoutError(f"{len(watcher.seen):,} of {words:,} words were counted in ten minutes")
        time.sleep(0.1)
    return time.monotonic() - began


def death(source: Input, watcher: Watcher, worker: Process, patience_s: float = 240) -> float:
    """Kill it while words come, until all partitions' come out again: the longest silence of one."""
    over = threading.Event()
    writing = threading.Thread(target=write_until, args=(source, over))
    writing.start()
    try:
        time.sleep(4)
        at = time.time()
        worker.kill()
        while time.time() < at + SESSION_MS / 1000 + 2 or not all(
            came and came[-1] > max(at + SESSION_MS / 1000, time.time() - 1) for came in watcher.came.values()
        ):
            if time.time() > at + patience_s:
                raise TimeoutError(f"some partition's words did not come out again in {patience_s:.0f} s")
            time.sleep(0.2)
    finally:
        over.set()
        writing.join()
    times = [[at, *(moment for moment in list(came) if moment > at)] for came in watcher.came.values()]
    return max(after - before for each in times for before, after in pairwise(each))


def write_until(source: Input, over: threading.Event) -> None:
    """Words, 500 a second."""
    while not over.is_set():
        pace(source, 1)


def run(engine: str, standbys: int, mb: int, folder: Path) -> str:
    """A line of the table."""
    name = f"{engine.replace(' ', '-')}-{standbys}".replace("_", "-")
    with Broker() as broker:
        for topic in ("in", "out"):
            broker.create_topic(f"{name}-{topic}", PARTITIONS)
        if "java" not in engine:
            broker.create_topic(f"{name}-changelog", PARTITIONS, cleanup_policy="compact")
        source, watcher = Input(broker, name, "words", 1), Watcher(broker.bootstrap, f"{name}-out")
        watcher.start()
        workers = [Process(engine, broker.bootstrap, name, folder / f"{name}-{n}", standbys) for n in range(2)]
        try:
            pace(source, 10)  # both are there, and share the tasks while there is no state yet
            settle(source, watcher)
            filled_s = fill(broker, name, watcher, mb)
            watcher.seen.clear()
            source.expected.clear()
            time.sleep(10)  # standbys have read the end
            stood_s = death(source, watcher, workers[0])
            if stood_s < SESSION_MS / 1000:  # nobody missed it: it had no task, and the other one had all
                workers[0].start()
                pace(source, 10)
                stood_s = death(source, watcher, workers[1])
        finally:
            for worker in workers:
                worker.kill()
        watcher.over = True
        watcher.join(10)
    cells = (NAMES[engine], standbys, f"{mb} MB", f"{filled_s:.0f} s", f"{stood_s:.1f} s")
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    """Print the table, a row as soon as it is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--mb", type=int, default=100)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--to", type=Path)
    args = parser.parse_args()
    table = [HEAD]
    print(HEAD, flush=True)
    for engine in ENGINES:
        for standbys in (0, 1):
            if not args.only or any(word in f"{engine} {standbys}" for word in args.only):
                with tempfile.TemporaryDirectory() as folder:
                    table.append(run(engine, standbys, args.mb, Path(folder)))
                print(table[-1], flush=True)
                if args.to:
                    put_table(args.to, "member_death", table)


if __name__ == "__main__":
    main()

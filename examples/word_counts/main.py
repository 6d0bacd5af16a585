"""Count words with state in two processes, kill -9 one in mid-stream, and lose and double nothing.

    python -m examples.word_counts.main

The same runs twice, with a standby for each task and without, and prints how long the survivor had to restore.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from apportion.clients.tasks import State, TaskRunner
from apportion.tasks.settings import TaskSettings
from apportion.tasks.topology import Subtopology, Topology
from apportion.testing.broker import Broker
from examples.running import Progress, Worker, fill, read_all, tell, told_to_leave, until

WORDS, VOCABULARY, PARTITIONS = 24_000, 3_000, 4


def main() -> None:
    """Both runs, and what they say together."""
    words = random.Random(1).choices([f"word-{n}" for n in range(VOCABULARY)], k=WORDS)
    exact = Counter(words)
    with Broker() as broker, tempfile.TemporaryDirectory() as folder:
        broker.create_topic("words", PARTITIONS)
        fill(broker.bootstrap, "words", ((int(word[5:]) % PARTITIONS, None, word.encode(), None) for word in words))
        for standbys in (1, 0):
            counts, ms, messages = run(broker, Path(folder) / str(standbys), standbys)
            wrong = sum(counts[word] != count for word, count in exact.items())
            print(
                f"{standbys} standby: {sum(counts.values()):,} of {WORDS:,} words counted, {wrong} counts wrong; "
                f"after kill -9 the tasks of the dead process ran again when {messages:,} messages were restored, "
                f"in {ms:,.0f} ms",
                flush=True,
            )
            assert counts == exact


def run(broker: Broker, folder: Path, standbys: int) -> tuple[Counter[str], float, int]:
    """Two workers, one of which dies half-way; the counts, and what the other had to restore."""
    application = f"word-counts-{standbys}"
    broker.create_topic(changelog(application), PARTITIONS, cleanup_policy="compact")
    args = ("work", broker.bootstrap, application, str(standbys))
    workers = [Worker("examples.word_counts.main", *args, str(folder / name)) for name in "ab"]
    survivor, victim = workers
    until("half of the words", lambda: all(w.newest("counted").get("words", 0) > WORDS / 4 for w in workers))
    kept = len(survivor.of("active"))
    victim.kill()
    until("the tasks of the dead", lambda: len(survivor.of("active")) >= kept + PARTITIONS // 2)
    progress = Progress(broker.bootstrap, application, ["words"])
    until("the rest of the words", lambda: progress.left() == 0)
    survivor.leave()
    taken = survivor.of("active")[kept:]
    counts = {
        record.key.decode(): json.loads(record.value)[0]
        for record in read_all(broker.bootstrap, changelog(application))
    }
    ms, messages = max(t["waited_ms"] for t in taken), max(t["restored"] for t in taken)
    return Counter(counts), ms, messages - survivor.of("active")[kept - 1]["restored"]


def changelog(application: str) -> str:
    """The topic that the counts can be restored from."""
    return f"{application}-changelog"


def work(bootstrap: str, application: str, standbys: str, folder: str) -> None:
    """A plain loop: count each word once, even if it is read again after a crash."""
    over = told_to_leave()
    counted = 0
    runner = TaskRunner(
        Topology.of(Subtopology(("words",), changelog(application))),
        application=application,
        bootstrap_servers=bootstrap,
        state_dir=folder,
        settings=TaskSettings(num_standby_replicas=int(standbys)),
        on_active=lambda task: tell(
            "active", task=str(task), waited_ms=runner.waited_s[task] * 1000, restored=runner.restored
        ),
        consumer={"session_timeout_ms": 2000, "heartbeat_interval_ms": 400},
    )
    with runner:
        while not over.is_set():
            for task, records in runner.poll(max_records=250).items():
                state = runner.state(task)
                for record in records:
                    counted += count(state, record.value, record.offset)
            runner.commit()
            tell("counted", words=counted)
            time.sleep(0.02)


def count(state: State, word: bytes, offset: int) -> int:
    """One more, unless this very record is counted already: the value holds the count and the last offset in it."""
    kept = state.get(word)
    number, last = json.loads(kept) if kept else (0, -1)
    if offset <= last:
        return 0
    state.put(word, json.dumps([number + 1, offset]).encode())
    return 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work(*sys.argv[2:])
    else:
        main()

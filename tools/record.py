"""Record the demo's dump anew: a scripted workload on a real cluster of three racks, some minutes, unattended.

python -m tools.record [--to FOLDER]
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from apportion.errors import ApportionError
from apportion.testing.broker import BrokerCluster
from apportion.testing.peers import JavaMember
from tools.recording import dump, truth
from tools.recording.stage import Stage
from tools.recording.workload import SCRIPT

HERE = Path(__file__).parents[1] / "src" / "apportion" / "demo" / "dump"

# The default of five seconds between two looks would let the regular expressions of KIP-848 groups wait.
PROPERTIES = {"transaction.max.timeout.ms": "900000", "group.min.session.timeout.ms": "1000"}


def record(to: Path) -> int:
    """Play the script, write the dump, and return the number of its records."""
    with BrokerCluster(["a", "b", "c"], properties=PROPERTIES) as cluster:
        stage = Stage(cluster)
        try:
            step("topics", stage.set_up)
            play(stage)
            with hanging_transaction(stage.bootstrap):
                return write(stage, to)
        finally:
            for extra in stage.extras:
                extra.process.kill()
                extra.close()
            for _, _, member in stage.cast:
                if isinstance(member, JavaMember):
                    member.kill()
                    member.close()
                else:
                    member.leave()


def play(stage: Stage) -> None:
    """All groups of the script, four at a time."""
    with ThreadPoolExecutor(4) as pool:
        playing = [pool.submit(step, scene.__name__, partial(scene, stage)) for scene in SCRIPT]
        for one in playing:
            one.result()


def write(stage: Stage, to: Path) -> int:
    """The dump and the truth, whole or not at all."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "dump"
        rows = step("records", lambda: dump.write_records(folder, stage.bootstrap))
        partitions = dump.write_topics(folder, stage.cluster)
        dump.write_ends(folder, stage.cluster, partitions)
        step("tools", lambda: truth.write_tools(folder / "truth", stage.cluster))
        step("formatters", lambda: truth.write_formatters(folder / "truth", stage.cluster))
        truth.write_decoded(folder / "truth", rows)
        truth.write_members(folder / "truth", stage)
        truth.write_versions(folder / "truth")
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(folder, to)
    return len(rows)


@contextmanager
def hanging_transaction(bootstrap: str) -> Iterator[None]:
    """A transaction that stays open: the last stable offset of ``payments`` 0 stays behind its end."""
    from confluent_kafka import Producer

    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": "hanging", "transaction.timeout.ms": 600000}
    )
    producer.init_transactions()
    producer.begin_transaction()
    for _ in range(40):
        producer.produce("payments", b"x", partition=0)
    producer.flush(30)
    try:
        yield
    finally:
        producer.abort_transaction()


def step(name: str, do: Callable[[], Any]) -> Any:
    """Do it and tell how long it took."""
    begun = time.monotonic()
    try:
        return do()
    finally:
        print(f"{name:<12} {time.monotonic() - begun:6.1f} s", file=sys.stderr, flush=True)


def main() -> int:
    """Record into the package, or where one is told."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--to", type=Path, default=HERE, help="the folder of the dump, written anew")
    to = parser.parse_args().to
    try:
        records = record(to)
    except ApportionError as wrong:
        print(wrong, file=sys.stderr)
        return 2
    size = sum(path.stat().st_size for path in to.rglob("*") if path.is_file())
    print(f"{records} records, {size / 1000:.0f} kB in {to}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

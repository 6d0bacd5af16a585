"""A cluster that lives, to be looked at: a real broker, three groups at work, and ``apportion serve`` beside them.

    python -m tools.live

``orders-hot`` has one partition that gets most of the messages, and less time to read them than they take to come.
``feed-scaled`` is cooperative, and a third member joins and leaves it, over and over. ``words-tasks`` runs tasks with
their standbys. All of it ends with this process, however that ends.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from tests.support.hanging import HANGING
from tests.support.member import PythonMember

from apportion.errors import ApportionError, Unavailable
from apportion.testing import processes
from apportion.testing.broker import Broker

PARTITIONS: Final = {"orders": 6, "feed": 8, "words": 4}
A_TURN: Final = 200
"""Messages that are written between two looks at the processes: some 400 a second."""
TURN_S: Final = 0.5
APPLICATION: Final = "words-tasks"


def main() -> int:
    """Start everything, say where the page is, and keep it alive until Ctrl-C."""
    parser = ArgumentParser("python -m tools.live", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--listen", default="127.0.0.1:9200", help="where the page is served (default: %(default)s)")
    parser.add_argument("--scale-s", type=float, default=45, help="seconds between two changes of feed-scaled's size")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with suppress(KeyboardInterrupt), ExitStack() as stack:
            run(stack, options.listen, options.scale_s)
    except ApportionError as wrong:
        print(wrong, file=sys.stderr)
        return 2
    return 0


def run(stack: ExitStack, listen: str, scale_s: float) -> None:
    """Everything in its order; ``stack`` ends it in the other one."""
    print("starting a broker, three groups and a page ...", flush=True)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="apportion-live-")))
    broker = stack.enter_context(Broker())
    for topic, partitions in PARTITIONS.items():
        broker.create_topic(topic, partitions)
    broker.create_topic(f"{APPLICATION}-changelog", PARTITIONS["words"], cleanup_policy="compact")
    server = stack.enter_context(serving(broker.bootstrap, listen, folder / "serve.log"))
    for name in ("orders-a", "orders-b", "orders-c"):
        # 20 messages each 0.2 s: less than what the hot partition gets.
        pace = {"poll_records": 20, "pause_ms": 200, "commit_ms": 1000}
        stack.enter_context(member(broker, "orders-hot", "orders", name, "range", **pace))
    for name in ("feed-a", "feed-b"):
        stack.enter_context(member(broker, "feed-scaled", "feed", name, "cooperative-sticky"))
    for name in ("words-a", "words-b"):
        stack.enter_context(tasks(broker, folder / name))
    print(f"Apache Kafka listens on {broker.bootstrap}; Ctrl-C ends everything that was started.", flush=True)
    print("In another terminal, try next:", *next_commands(broker.bootstrap), sep="\n    ", flush=True)
    keep_alive(broker, server, stack.enter_context(ExitStack()), scale_s)


def next_commands(bootstrap: str) -> Iterator[str]:
    """What to ask next about the three groups."""
    apportion = os.path.relpath(Path(sys.executable).with_name("apportion"))
    for words in ("describe --all-groups", "compare --group orders-hot", "watch --group feed-scaled"):
        yield f"{apportion} {words} --bootstrap-server {bootstrap}"


def keep_alive(broker: Broker, server: subprocess.Popen[Any], third: ExitStack, scale_s: float) -> None:
    """Write messages, and let a third member of ``feed-scaled`` come and go, until somebody ends it."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, linger_ms=20)
    numbers, there, change = random.Random(1), False, time.monotonic() + scale_s  # noqa: S311 - traffic
    try:
        while broker.running and server.poll() is None:
            write(producer, numbers)
            if time.monotonic() > change:
                if there:
                    third.close()
                else:
                    third.enter_context(member(broker, "feed-scaled", "feed", "feed-c", "cooperative-sticky"))
                there, change = not there, time.monotonic() + scale_s
            time.sleep(TURN_S)
    finally:
        producer.close(timeout=1)
    raise Unavailable("the broker or the page ended by itself")


def write(producer: Any, numbers: random.Random) -> None:
    """A turn's messages: two of three orders go to one partition, the rest is even."""
    for n in range(A_TURN):
        hot = 0 if n % 3 else numbers.randrange(PARTITIONS["orders"])
        producer.send("orders", b"order", partition=hot)
        if n % 2:
            producer.send("feed", b"post", partition=numbers.randrange(PARTITIONS["feed"]))
            producer.send(
                "words", b"word-%d" % numbers.randrange(500), partition=numbers.randrange(PARTITIONS["words"])
            )
    producer.flush(5)


@contextmanager
def serving(bootstrap: str, listen: str, log: Path) -> Iterator[subprocess.Popen[Any]]:
    """The server, once it listens; its address is printed."""
    command = [sys.executable, "-u", "-m", "apportion", "serve", "--bootstrap-server", bootstrap, "--listen", listen]
    with log.open("wb") as out:
        line = [*HANGING, *command, "--interval", "2"]
        process = processes.start(line, log=out.fileno(), stdout=out.fileno())
    try:
        print(f"The page: {address(process, log)}", flush=True)
        yield process
    finally:
        processes.end(process, how=signal.SIGKILL)  # it would end by itself, but after who waits for it has gone


def address(process: subprocess.Popen[Any], log: Path, patience_s: float = 90) -> str:
    """Where the server listens, by its own word."""
    until = time.monotonic() + patience_s
    while process.poll() is None and time.monotonic() < until:
        for word in log.read_text(errors="replace").split():
            if word.startswith("http://"):
                return word.rstrip(".,;")
        time.sleep(0.2)
    raise Unavailable(f"the page was not served:\n{processes.tail(log)}")


@contextmanager
def member(broker: Broker, group: str, topic: str, name: str, strategy: str, **more: Any) -> Iterator[None]:
    """A member of a group in a process of its own."""
    one = PythonMember(
        client="kafka-python", bootstrap=broker.bootstrap, group=group, topics=[topic], strategies=[strategy],
        name=name, plain=True, **{"commit_ms": 1000, **more},
    )  # fmt: skip
    try:
        yield
    finally:
        processes.end(one.process, patience_s=5)


@contextmanager
def tasks(broker: Broker, folder: Path) -> Iterator[None]:
    """A process that runs tasks of ``words-tasks`` with their state in ``folder``."""
    program = [sys.executable, "-m", "tools.live_tasks", broker.bootstrap, APPLICATION, str(folder)]
    process = processes.start([*HANGING, *program], log=subprocess.DEVNULL)
    try:
        yield
    finally:
        processes.end(process, patience_s=5)


if __name__ == "__main__":
    sys.exit(main())

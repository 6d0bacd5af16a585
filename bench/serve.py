"""What a server costs beside a real broker with many groups: python -m bench.serve [options]

    --groups N,M     sizes (200,2000); each has 25 committed partitions a group, on one topic for every ten groups
    --rounds N       rounds that are measured at each size (5)
    --long-s S       then this long a run with groups coming and going and the broker restarted (0: none)
    --restarts N     how often within it (3)

The server is a process of its own, as a user starts it. A round's time and the scrape's are wall clock and depend on
what else the machine does; the CPU time is the server's own: of rounds in which nothing changes, and of rounds in which
every log has grown, so that every group's lag is another.
"""

from __future__ import annotations

import argparse
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaError
from tests.serve.running import Serving, serving, until

from apportion.testing.broker import Broker
from bench import many_groups

HEAD = (
    "| groups | committed | round, s | asked, s | CPU a round, s | growing, s | scrape gzip / plain, ms | page, ms "
    "| series | memory, MB |"
)
TICK = os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser("python -m bench.serve", description=__doc__)
    parser.add_argument("--groups", default="200,2000")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--long-s", type=int, default=0)
    parser.add_argument("--restarts", type=int, default=3)
    args = parser.parse_args()
    with Broker(jvm=("-Xmx1g",)) as broker:
        sizes = [int(size) for size in args.groups.split(",")]
        topics = max(sizes) // 10
        many_groups.make_topics(broker, topics)
        made = 0
        print(HEAD)
        print("|---|---|---|---|---|---|---|---|---|---|", flush=True)
        for size in sizes:
            many_groups.make_groups(broker, range(made, size), topics)
            made = size
            with serving("--interval", "1", "--names", "all", bootstrap=broker.bootstrap) as server:
                print(row(server, broker, topics, size, args.rounds), flush=True)
        if args.long_s:
            long_run(broker, topics, made, args.long_s, args.restarts)


def row(server: Serving, broker: Broker, topics: int, groups: int, rounds: int) -> str:
    """One size as a line of the table."""
    until(lambda: server.ask("/readyz")[0] == 200, 120)
    seen, asked, scrapes, plain, pages = [], [], [], [], []
    stream = HTTPConnection("127.0.0.1", server.port, timeout=120)
    stream.request("GET", "/events")
    rounds_come = stream.getresponse()
    next_round(rounds_come)
    next_round(rounds_come)
    # Nobody else asks meanwhile: the CPU time is that of asking, remembering and writing the metrics.
    cpu = cpu_a_round(server, rounds_come, rounds)
    with logs_that_grow(broker, topics):
        next_round(rounds_come)
        growing = cpu_a_round(server, rounds_come, rounds)
    stream.close()
    for _ in range(rounds):
        values = about_itself(server)
        seen.append(values["apportion_scrape_round_duration_seconds"])
        asked.append(values["apportion_scrape_asked_duration_seconds"])
        scrapes.append(timed(server, "/metrics", {"Accept-Encoding": "gzip"}))
        plain.append(timed(server, "/metrics", {}))
        pages.append(timed(server, "/", {"Accept-Encoding": "gzip"}))
        series = int(values["apportion_scrape_series"])
        time.sleep(2)
    mid = statistics.median
    cells = (
        f"{groups:,}", f"{groups * many_groups.PARTITIONS:,}", f"{mid(seen):.2f}", f"{mid(asked):.2f}", f"{cpu:.2f}",
        f"{growing:.2f}", f"{mid(scrapes):.0f} / {mid(plain):.0f}", f"{mid(pages):.0f}", f"{series:,}",
        f"{server.memory_mb():.0f}",
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def cpu_a_round(server: Serving, rounds_come: HTTPResponse, rounds: int) -> float:
    """CPU seconds of the server for each of so many rounds."""
    before = cpu_s(server)
    for _ in range(rounds):
        next_round(rounds_come)
    return (cpu_s(server) - before) / rounds


@contextmanager
def logs_that_grow(broker: Broker, topics: int) -> Iterator[None]:
    """For the block, a record to every partition again and again, with a second between."""
    over = threading.Event()

    def write() -> None:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap.split(","), linger_ms=50)
        while not over.wait(1):
            for topic in range(topics):
                for partition in range(many_groups.PARTITIONS):
                    producer.send(many_groups.topic_of(topic, topics), b"x", partition=partition)
            producer.flush()
        producer.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        over.set()
        writer.join()


def timed(server: Serving, path: str, headers: dict[str, str]) -> float:
    """Milliseconds until an answer is there as a whole."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
    started = time.perf_counter()
    connection.request("GET", path, headers=headers)
    connection.getresponse().read()
    took = (time.perf_counter() - started) * 1000
    connection.close()
    return took


def about_itself(server: Serving) -> dict[str, float]:
    """The server's metrics about itself, found without parsing all the others."""
    _, _, body = server.ask("/metrics", Accept_Encoding="gzip")
    own = body[body.rindex(b"# HELP apportion_up ") :].decode()
    lines = [line.split() for line in own.splitlines() if not line.startswith("#") and "{" not in line]
    return {name: float(value) for name, value in lines}


def next_round(stream: HTTPResponse) -> None:
    """Wait for the end of a round."""
    while stream.readline() != b"event: round\n":
        pass


def cpu_s(server: Serving) -> float:
    """CPU seconds of the process."""
    with open(f"/proc/{server.process.pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def state(server: Serving) -> dict[str, Any]:
    """What may not grow: memory, threads, open files."""
    root, about = f"/proc/{server.process.pid}", about_itself(server)
    return {
        "memory_mb": round(server.memory_mb()),
        "threads": len(os.listdir(f"{root}/task")),
        "files": len(os.listdir(f"{root}/fd")),
        "groups": int(about["apportion_scrape_groups"]),
        "connections": int(about["apportion_scrape_connections"]),
        "rounds": int(about["apportion_scrape_rounds_total"]),
        "failed": int(about["apportion_scrape_rounds_failed_total"]),
    }


def churn(work: Callable[..., None], *args: Any) -> None:
    """Make or remove groups; a broker that is too busy for it is no reason to end the run."""
    try:
        work(*args)
    except (TimeoutError, KafkaError) as error:
        print(f"       the broker did not do it: {error!r:.100}", flush=True)


def long_run(broker: Broker, topics: int, made: int, long_s: int, restarts: int) -> None:
    """Groups come and go, the broker restarts, a page is opened and left; memory, threads and files stay."""
    with serving("--interval", "2", "--names", "all", bootstrap=broker.bootstrap) as server:
        until(lambda: server.ask("/readyz")[0] == 200, 120)
        started, turn, done = time.monotonic(), 0, 0
        while time.monotonic() - started < long_s:
            fresh = range(100_000 + turn * 10, 100_000 + turn * 10 + 10)
            churn(many_groups.make_groups, broker, fresh, topics)
            viewer = HTTPConnection("127.0.0.1", server.port, timeout=30)
            viewer.request("GET", f"/events?group={many_groups.group_name(fresh[0])}")
            time.sleep(6)
            viewer.close()
            churn(many_groups.remove_groups, broker, fresh)
            turn += 1
            if done < restarts and time.monotonic() - started > long_s * (done + 1) / (restarts + 1):
                broker.stop()
                time.sleep(5)
                broker.start(patience_s=900)  # thousands of logs are opened again
                done += 1
                until(lambda: server.ask("/readyz")[0] == 200, 300)
            if turn % 3 == 1:
                print(f"{time.monotonic() - started:6.0f} s, {done} restarts:", state(server), flush=True)
        print(f"{time.monotonic() - started:6.0f} s, {done} restarts:", state(server), flush=True)


if __name__ == "__main__":
    main()

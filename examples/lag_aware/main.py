"""Two hot partitions side by side: what each member still has to read over time, under range and under lag-aware.

    python -m examples.lag_aware.main

Each member reads at one fixed rate; the backlog is there before they start. Range knows numbers alone and gives both
hot partitions to one member; lag-aware sees the lag and parts them, with equal numbers of partitions all the same.
"""

from __future__ import annotations

import logging
import sys
import time
from itertools import chain, repeat

from apportion.testing.broker import Broker
from examples.running import Worker, fill, tell, told_to_leave, until

BACKLOG = {0: 3000, 1: 2400, 2: 300, 3: 300, 4: 300, 5: 300}
RATE_MSGS_S = 900
MEMBERS = "abc"
STEP_S = 0.25
BARS = " ▁▂▃▄▅▆▇█"


def main() -> None:
    """Both strategies on the same backlog, drawn one above the other."""
    with Broker() as broker:
        took = {strategy: run(broker, strategy) for strategy in ("range", "lag-aware")}
    print(f"the group was done after {took['range']:.1f} s under range, {took['lag-aware']:.1f} s under lag-aware")


def run(broker: Broker, strategy: str) -> float:
    """Three members on a topic of their own; draws each one's lag and returns the seconds until nothing was left."""
    topic = f"events-{strategy}"
    broker.create_topic(topic, len(BACKLOG))
    fill(broker.bootstrap, topic, ((p, None, b"x", None) for p, size in BACKLOG.items() for _ in range(size)))
    module = "examples.lag_aware.main"
    workers = [Worker(module, "read", broker.bootstrap, topic, strategy, name) for name in MEMBERS]
    until("all are in one generation", lambda: together(workers))
    began = time.time()
    for worker in workers:
        assert worker.process.stdin is not None
        worker.process.stdin.write(b"go\n")
        worker.process.stdin.flush()
    until("everything is read", lambda: all(worker.newest("lag").get("left") == 0 for worker in workers))
    for worker in workers:
        worker.leave()
    return draw(strategy, workers, began)


def together(workers: list[Worker]) -> bool:
    """Whether all partitions are given out in one and the same generation."""
    seen = [worker.newest("owns") for worker in workers]
    one = len({line.get("generation") for line in seen}) == 1
    return one and sum(len(line.get("partitions", ())) for line in seen) == len(BACKLOG)


def draw(strategy: str, workers: list[Worker], began: float) -> float:
    """One row a member, one column each quarter of a second, the height of a bar its lag."""
    samples = [[(line["at"] - began, line["left"]) for line in worker.of("lag")] for worker in workers]
    took = max(next(at for at, left in series if left == 0) for series in samples)
    print(f"{strategy}: messages left to each member, a column every {STEP_S} s")
    for name, worker, series in zip(MEMBERS, workers, samples, strict=True):
        columns = [left_at(series, n * STEP_S) for n in range(int(took / STEP_S) + 2)]
        bars = "".join(BARS[-(-left * 8 // sum(BACKLOG.values()))] for left in columns)
        owns = ",".join(map(str, worker.newest("owns")["partitions"]))
        print(f"  {name} |{bars:<40}| {series[0][1]:>5,} at first, partitions {owns}", flush=True)
    return took


def left_at(series: list[tuple[float, int]], at: float) -> int:
    """What was left at a time: the newest sample until then."""
    return next((left for when, left in reversed(series) if when <= at), series[0][1])


def read(bootstrap: str, topic: str, strategy: str, name: str) -> None:
    """Join, wait for the word, then read at the fixed rate; tells what is left."""
    from kafka import KafkaConsumer

    from apportion.clients.kafka_python import assignor
    from apportion.clients.lag_feed import LagFeed, kafka_offsets

    feed = LagFeed(topic, kafka_offsets(bootstrap_servers=bootstrap), topics=[topic])
    logging.getLogger("apportion.clients").setLevel(logging.ERROR)
    while not feed.refresh():  # so that the first plan knows the lag; a fresh broker needs a moment
        time.sleep(0.2)
    ours = assignor(strategy, auto_offset_reset="earliest", lag=feed if strategy == "lag-aware" else None)
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=topic,
        client_id=name,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        heartbeat_interval_ms=300,
        partition_assignment_strategy=[ours],
    )
    wait_for_go(consumer)
    over, ends = told_to_leave(), consumer.end_offsets(sorted(consumer.assignment()))
    consumer.resume(*consumer.assignment())
    began, done, total = time.monotonic(), 0, sum(ends.values())
    tell("lag", left=total)
    while not over.is_set():
        allowed = int((time.monotonic() - began) * RATE_MSGS_S) - done
        if allowed > 0 and done < total:
            done += len(list(chain.from_iterable(consumer.poll(timeout_ms=20, max_records=allowed).values())))
            tell("lag", left=total - done)
        time.sleep(0.02)
    consumer.close()


def wait_for_go(consumer: object) -> None:
    """Poll, with everything paused, until a line comes; tells the assignment of each generation."""
    import select

    seen = -1
    for _ in repeat(None):
        consumer.poll(timeout_ms=20)  # type: ignore[attr-defined]
        owned = consumer.assignment()  # type: ignore[attr-defined]
        consumer.pause(*owned)  # type: ignore[attr-defined]
        coordinator = consumer._coordinator  # type: ignore[attr-defined]
        generation = coordinator._generation.generation_id
        if generation not in (seen, -1) and not coordinator.rejoining and owned:
            seen = generation
            tell("owns", generation=generation, partitions=sorted(pair.partition for pair in owned))
        if select.select([sys.stdin], [], [], 0)[0]:
            sys.stdin.readline()
            for pair in owned:
                consumer.seek(pair, 0)  # type: ignore[attr-defined]
            return


if __name__ == "__main__":
    if sys.argv[1:2] == ["read"]:
        read(*sys.argv[2:])
    else:
        main()

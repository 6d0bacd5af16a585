"""A group with hot partitions and slow members on a real broker, under four strategies: python -m bench.hot_partitions

40 partitions, of which 5 are five times as busy as the others; 8 members, of which 2 read half as fast. All together
could read a quarter more than comes in. Each group finds 15 s of messages waiting, and reads for ``--seconds``. One
group after the other on one broker: kafka-python's own cooperative-sticky, Java's CooperativeStickyAssignor,
``lag-aware`` with a feed, and ``cooperative-lag-aware`` acting with learned speeds. Told of each: when no member was
more than five seconds behind for the first time, how old the oldest unread message was at most and at the end, the
heaviest member's lag at the end, and rebalances after the group was complete.

    --seconds N      of each group (115: four groups take nine minutes)
    --rate N         messages a second that come into a partition that is not hot (4)
    --only WORD      groups with that word in their names; may come again
    --members N      how many, each as fast as of eight (8); given again, each group is run with one number after the
                     other until none of its members is more than five seconds behind
    --picture FILE   draw the age of the oldest unread message over time, as SVG
    --to PAGE        put the table into this page too, group by group
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.acting import HIGH, LEFT, WIDE
from bench.live_group import close_all, settle
from bench.page_table import put_table

PARTITIONS: Final = 40
HOT: Final = (3, 11, 17, 26, 38)
MEMBERS, SLOW = 8, (2, 5)
BACKLOG_S: Final = 15
ROOM: Final = 1.25
"""What all members together can read, beside what comes in."""
BEHIND_S: Final = 5.0


@dataclass(frozen=True)
class Rates:
    """Messages a second."""

    cold: float

    def of(self, partition: int) -> float:
        """What comes into a partition."""
        return self.cold * (5 if partition in HOT else 1)

    def speed(self, member: int) -> float:
        """What a member can read."""
        total = sum(self.of(p) for p in range(PARTITIONS))
        return ROOM * total / (2 * MEMBERS - len(SLOW)) * (1 if member % MEMBERS in SLOW else 2)


class Writer:
    """Writes to every partition at its rate, from ``backlog_s`` seconds ago on."""

    def __init__(
        self, bootstrap: str, topic: str, rates: Rates, *, partitions: int = PARTITIONS, backlog_s: float = BACKLOG_S
    ) -> None:
        from confluent_kafka import Producer

        self._client = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
        self._topic, self._rates, self._over = topic, rates, threading.Event()
        self.began = time.monotonic() - backlog_s
        self._written = [0] * partitions
        self._write()
        self._client.flush(60)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        now = time.monotonic() - self.began
        for p in range(len(self._written)):
            due = int(now * self._rates.of(p))
            for _ in range(due - self._written[p]):
                self._client.produce(self._topic, b"x" * 100, partition=p)
            self._written[p] = due
        self._client.poll(0)

    def _run(self) -> None:
        while not self._over.wait(0.05):
            self._write()

    def close(self) -> None:
        """Stop."""
        self._over.set()
        self._thread.join()
        self._client.flush(30)


class PythonReader(threading.Thread):
    """A kafka-python consumer that reads so many messages a second, in a thread."""

    def __init__(self, bootstrap: str, group: str, topic: str, speed: float, strategy: Any) -> None:
        from kafka import KafkaConsumer

        super().__init__(daemon=True)
        self._consumer = KafkaConsumer(
            topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", session_timeout_ms=10_000,
            heartbeat_interval_ms=1000, auto_commit_interval_ms=1000, max_poll_records=max(1, int(speed / 2)),
            partition_assignment_strategy=[strategy],
        )  # fmt: skip
        self._speed, self._over = speed, threading.Event()

    def run(self) -> None:
        """Poll, and sleep as long as the work takes."""
        while not self._over.is_set():
            count = sum(map(len, self._consumer.poll(timeout_ms=200).values()))
            time.sleep(count / self._speed)
        self._consumer.close()

    @property
    def generation(self) -> int:
        """Of its last join."""
        return int(self._consumer._coordinator._generation.generation_id)

    @property
    def owned(self) -> list[int]:
        """Its partitions."""
        return sorted(part.partition for part in self._consumer.assignment())

    def close(self) -> None:
        """Leave."""
        self._over.set()
        self.join(30)


class JavaReader:
    """A Java consumer that reads so many messages a second, in a process."""

    def __init__(self, bootstrap: str, group: str, topic: str, speed: float) -> None:
        from apportion.testing.peers import JavaMember

        properties = {"max.poll.records": max(1, int(speed / 2)), "session.timeout.ms": 10_000}
        self._member = JavaMember(
            bootstrap, group, [topic], properties, strategy="cooperative-sticky", commit_ms=1000,
            each_us=int(1_000_000 / speed),
        )  # fmt: skip
        self.close: Callable[[], None] = self._member.close

    def start(self) -> None:
        """It runs already."""

    @property
    def generation(self) -> int:
        """Of its last join."""
        return self._member.generation

    @property
    def owned(self) -> list[int]:
        """Its partitions."""
        return sorted(p for ids in self._member.assignment.values() for p in ids)


def own_cooperative(bootstrap: str, group: str, topic: str, speed: float, stack: ExitStack) -> Any:
    """kafka-python's own."""
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

    return PythonReader(bootstrap, group, topic, speed, CooperativeStickyAssignor)


def javas(bootstrap: str, group: str, topic: str, speed: float, stack: ExitStack) -> Any:
    """Java's own."""
    return JavaReader(bootstrap, group, topic, speed)


def ours(name: str, **more: Any) -> Callable[[str, str, str, float, ExitStack], Any]:
    """A strategy of ours with a feed."""

    def made(bootstrap: str, group: str, topic: str, speed: float, stack: ExitStack) -> Any:
        from apportion.clients.kafka_python import assignor
        from apportion.clients.lag_feed import LagFeed, kafka_offsets

        feed = LagFeed(group, kafka_offsets(bootstrap_servers=bootstrap), topics=[topic], every_s=2)
        feed.refresh()
        stack.enter_context(feed)
        return PythonReader(bootstrap, group, topic, speed, assignor(name, lag=feed, **more))

    return made


def groups() -> dict[str, Callable[[str, str, str, float, ExitStack], Any]]:
    """Each way, with what makes a member."""
    from apportion.clients import Acting

    acting = Acting(gain=0.2, hold_s=10, rest_s=30)
    return {
        "kafka-python cooperative-sticky": own_cooperative,
        "Java CooperativeStickyAssignor": javas,
        "lag-aware": ours("lag-aware", auto_offset_reset="earliest"),
        "cooperative-lag-aware, acting": ours(
            "cooperative-lag-aware", auto_offset_reset="earliest", max_skew=4, capacity="learned", acting=acting
        ),
    }


@dataclass
class Result:
    """What one group came to, look by look."""

    name: str
    members: int
    at: list[float] = field(default_factory=list)
    age_s: list[float] = field(default_factory=list)
    lag: list[float] = field(default_factory=list)
    rebalances: int = 0

    @property
    def caught_up_s(self) -> float | None:
        """When nobody was far behind for the first time; None: never."""
        return next((at for at, age in zip(self.at, self.age_s, strict=True) if age <= BEHIND_S), None)

    def row(self) -> str:
        """A line of the table."""
        caught_up = "not within the run" if self.caught_up_s is None else f"{self.caught_up_s:.0f} s"
        ages = f"{max(self.age_s):.0f} s | {self.age_s[-1]:.0f} s"
        return f"| {self.name} | {self.members} | {caught_up} | {ages} | {self.lag[-1]:,.0f} | {self.rebalances} |"


HEAD: Final = (
    "| strategy | members | all less than 5 s behind after | oldest unread message: at most | at the end "
    "| heaviest member's lag at the end | rebalances |\n|---|---:|---:|---:|---:|---:|---:|"
)


def run(name: str, made: Any, bootstrap: str, topic: str, rates: Rates, seconds: int, size: int) -> Result:
    """One group: start its members, look each second at what is unread."""
    from apportion.clients.lag_feed import kafka_offsets

    group, fetch = f"{name.replace(' ', '-').replace(',', '')}-{size}", kafka_offsets(bootstrap_servers=bootstrap)
    result = Result(name, size)
    with ExitStack() as stack:
        members = [made(bootstrap, group, topic, rates.speed(m), stack) for m in range(size)]
        stack.callback(close_all, members)
        for member in members:
            member.start()
        writer = Writer(bootstrap, topic, rates)
        stack.callback(writer.close)
        settle(members, PARTITIONS)
        first, began = members[0].generation, time.monotonic()
        while (now := time.monotonic() - began) < seconds:
            look(result, now, fetch(group, [topic], 5)[topic], rates, members)
            time.sleep(1)
        result.rebalances = members[0].generation - first
    fetch.close()  # type: ignore[attr-defined]
    return result


def look(
    result: Result,
    now: float,
    table: Mapping[int, Mapping[str, int]],
    rates: Rates,
    members: list[Any],
) -> None:
    """How old the oldest unread message is, by when its writer was due to write it, and the heaviest member's lag."""
    unread = {p: row["end"] - row.get("committed", row["begin"]) for p, row in table.items()}
    ages = [unread[p] / rates.of(p) for p in unread]
    lags = [sum(unread[p] for p in member.owned) for member in members]
    result.at.append(now)
    result.age_s.append(max(ages))
    result.lag.append(max(lags))


COLOURS: Final = ("#a0aec0", "#f6ad55", "#38a169", "#2b6cb0")


def picture(results: list[Result], colours: Sequence[str] = COLOURS) -> str:
    """SVG: the age of the oldest unread message over time, a line for each strategy."""
    top, long = max(max(r.age_s) for r in results), max(r.at[-1] for r in results)
    high = HIGH * 2
    parts: list[str] = []
    for n, (result, colour) in enumerate(zip(results, colours, strict=False)):
        places = (
            f"{LEFT + WIDE * at / long:.1f} {30 + high - high * age / top:.1f}"
            for at, age in zip(result.at, result.age_s, strict=True)
        )
        parts.append(f'<path d="M{"L".join(places)}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts.append(f'<text x="{LEFT + 20}" y="{16 + 14 * n}" fill="{colour}" font-weight="bold">{result.name}</text>')
    for share in (0, 0.5, 1):
        parts.append(
            f'<text x="{LEFT - 4}" y="{34 + high - high * share}" text-anchor="end">{top * share:.0f} s</text>'
        )
    step, unit, name = (60, 1, "s") if long < 600 else (600, 60, "min")
    ticks = [
        f'<text x="{LEFT + WIDE * s / long:.0f}" y="{46 + high}">{s // unit} {name}</text>'
        for s in range(0, int(long) + 1, step)
    ]
    box = f'viewBox="0 0 {LEFT + WIDE + 40} {high + 56}"'
    title = "<title>Age of the oldest unread message, in seconds, over time</title>"
    style = 'font-family="sans-serif" font-size="11"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box} {style}>{title}\n' + "\n".join(parts + ticks) + "\n</svg>\n"


def main() -> None:
    """Run the groups, print the table, draw the picture."""
    from apportion.testing.broker import Broker

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=int, default=115)
    parser.add_argument("--rate", type=float, default=4.0)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--members", type=int, action="append")
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--to", type=Path)
    args = parser.parse_args()
    results: list[Result] = []
    print(HEAD)
    with Broker() as broker:
        for name, made in groups().items():
            if args.only and not any(word in name for word in args.only):
                continue
            for size in args.members or [MEMBERS]:
                topic = f"hot-{len(results)}"
                broker.create_topic(topic, PARTITIONS)
                results.append(run(name, made, broker.bootstrap, topic, Rates(args.rate), args.seconds, size))
                print(results[-1].row(), flush=True)
                if args.to:
                    command = "hot_partitions --members" if args.members else "hot_partitions"
                    put_table(args.to, command, [HEAD, *(result.row() for result in results)])
                if results[-1].caught_up_s is not None:
                    break
    if args.picture:
        args.picture.write_text(picture(results), encoding="utf-8")


if __name__ == "__main__":
    main()

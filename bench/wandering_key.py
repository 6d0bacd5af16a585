"""An hour with a hot key that wanders, on a real broker: what a group did and why: python -m bench.wandering_key

24 partitions, into each of which 2 messages a second come, and 20 more into one of them: another one every 8 minutes.
Two groups of 4 kafka-python members read them all, every member up to 27 messages a second: one with
``cooperative-lag-aware`` that acts by the rule's defaults with learned speeds, and one with the client's own
cooperative-sticky. Told are each minute the heaviest member's lag and the age of the oldest unread message of both, all
that the leader said, and how often it said why it did not act.

    --minutes N      how long (60)
    --wander S       seconds until the hot key is another one (480)
    --acting TEXT    the rule's numbers (gain=0.2,hold=10,rest=60,horizon=60)
    --to FILE        the report, written anew each minute (standard output at the end)
    --picture FILE   draw the age of the oldest unread message of both over time, as SVG
"""

from __future__ import annotations

import argparse
import logging
import re
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.hot_partitions import COLOURS, Result, ours, own_cooperative, picture
from bench.live_group import close_all, start_all

PARTITIONS, MEMBERS = 24, 4
COLD, HOT, SPEED = 2.0, 20.0, 27.0
ACTING, STILL = "cooperative-lag-aware, acting", "kafka-python cooperative-sticky"


def group_id(name: str) -> str:
    """Of the group that goes by this name."""
    return name.replace(", ", "-").replace(" ", "-")


def hot_at(second: float, wander_s: float) -> int:
    """The partition that the hot key is in."""
    return int(second // wander_s) * 7 % PARTITIONS


class Writer(threading.Thread):
    """Writes what is due, and remembers when each partition's log had which end."""

    def __init__(self, bootstrap: str, topic: str, wander_s: float) -> None:
        from confluent_kafka import Producer

        super().__init__(daemon=True)
        self._client, self._topic, self._wander_s = Producer({"bootstrap.servers": bootstrap}), topic, wander_s
        self._over, self.began = threading.Event(), time.monotonic()

    def run(self) -> None:
        """Every tenth of a second, until it is closed."""
        due, written, last = [0.0] * PARTITIONS, [0] * PARTITIONS, 0.0
        while not self._over.wait(0.1):
            now = time.monotonic() - self.began
            for p in range(PARTITIONS):
                due[p] += (now - last) * (COLD + HOT * (p == hot_at(now, self._wander_s)))
                for _ in range(int(due[p]) - written[p]):
                    self._client.produce(self._topic, b"x" * 100, partition=p)
                written[p] = int(due[p])
            last = now
            self._client.poll(0)

    def close(self) -> None:
        """Stop."""
        self._over.set()
        self.join()
        self._client.flush(30)


class Told(logging.Handler):
    """What the group's members say: lines with their second, and the reasons why nothing was done, counted."""

    def __init__(self, began: float) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []
        self.left: Counter[str] = Counter()
        self.began = began
        self._names: dict[str, str] = {}

    def _short(self, member: re.Match[str]) -> str:
        return self._names.setdefault(member[0], f"member-{len(self._names) + 1}")

    def emit(self, record: logging.LogRecord) -> None:
        """One line."""
        words = re.sub(r"kafka-python-[\d.]+-[0-9a-f-]{36}", self._short, record.getMessage())
        if "is left as it is: " in words:
            reason = words.split("is left as it is: ")[1]
            self.left[re.sub(r"[\d,.]*\d", "N", reason)] += 1
        elif record.levelno >= logging.INFO and words.startswith(("group ", "rebalance ")):
            self.lines.append(f"{time.monotonic() - self.began:7.1f} s  {words}")


@dataclass
class Course:
    """One group, minute by minute."""

    name: str
    members: list[Any]
    lag: list[int] = field(default_factory=list)
    age_s: list[float] = field(default_factory=list)
    first: int = 0

    def look(self, table: Mapping[int, Mapping[str, int]], ends: list[tuple[float, list[int]]]) -> None:
        """The heaviest member's lag, and since when the oldest unread message is there."""
        read = {p: row.get("committed", row["begin"]) for p, row in table.items()}
        unread = {p: row["end"] - read[p] for p, row in table.items()}
        self.lag.append(max(sum(unread[p] for p in member.owned) for member in self.members))
        now = ends[-1][0]
        since = [next((at for at, end in ends if end[p] > read[p]), now) for p in range(PARTITIONS)]
        self.age_s.append(now - min(since))

    @property
    def rebalances(self) -> int:
        """Since it was complete."""
        return int(self.members[0].generation) - self.first


def report(courses: list[Course], told: Told, wander_s: float, every_s: float) -> str:
    """Tables and the log, in Markdown."""
    looks = len(courses[0].lag)
    lines = [
        "| group | rebalances | heaviest member's lag: mean | most | oldest unread message: mean | most |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for c in courses:
        lag, age = f"{sum(c.lag) / looks:,.0f} | {max(c.lag):,}", f"{sum(c.age_s) / looks:.0f} s | {max(c.age_s):.0f} s"
        lines.append(f"| {c.name} | {c.rebalances} | {lag} | {age} |")
    lines += ["", "What the members said:", "", *told.lines, "", "Looks that changed nothing, by reason:", ""]
    lines += [f"{count:6}  {why}" for why, count in told.left.most_common()]
    lines += [
        "",
        "second, hot partition, and for each group the heaviest member's lag and the oldest message's age",
        "",
    ]
    for n in range(looks):
        second = (n + 1) * every_s
        each = "  ".join(f"{c.lag[n]:6} {c.age_s[n]:5.0f} s" for c in courses)
        lines.append(f"{second:6.0f} {hot_at(second, wander_s):3}  {each}")
    return "\n".join(lines) + "\n"


def drawn(ages: Mapping[str, list[float]], every_s: float) -> str:
    """SVG of the ages, the group that acts in the colour that it has in the bench of hot partitions."""
    results = [
        Result(name, MEMBERS, [(n + 1) * every_s for n in range(len(age_s))], age_s) for name, age_s in ages.items()
    ]
    return picture(results, (COLOURS[-1], COLOURS[0]))


def main() -> None:
    """Two groups on one topic for as long as it takes."""
    from apportion.acting import Acting
    from apportion.clients.lag_feed import kafka_offsets
    from apportion.testing.broker import Broker

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--wander", type=float, default=480)
    parser.add_argument("--acting", default="gain=0.2,hold=10,rest=60,horizon=60")
    parser.add_argument("--to", type=Path)
    parser.add_argument("--picture", type=Path)
    args = parser.parse_args()
    acting = Acting.of_text(args.acting)
    acts = ours("cooperative-lag-aware", auto_offset_reset="earliest", acting=acting)
    every_s = min(60.0, args.minutes * 6)
    with Broker() as broker, ExitStack() as stack:
        broker.create_topic("wandering", PARTITIONS)
        told = Told(time.monotonic())
        log = logging.getLogger("apportion.clients")
        log.setLevel(logging.DEBUG)
        log.addHandler(told)
        courses = []
        for name, made in ((ACTING, acts), (STILL, own_cooperative)):
            members = [made(broker.bootstrap, group_id(name), "wandering", SPEED, stack) for _ in range(MEMBERS)]
            stack.callback(close_all, members)
            start_all(members, PARTITIONS)
            courses.append(Course(name, members, first=members[0].generation))
        writer = Writer(broker.bootstrap, "wandering", args.wander)
        told.began = writer.began
        writer.start()
        stack.callback(writer.close)
        fetch, ends = kafka_offsets(bootstrap_servers=broker.bootstrap), []
        while (now := time.monotonic() - writer.began) < args.minutes * 60:
            time.sleep(min(1.0, every_s / 10))
            tables = [fetch(group_id(course.name), ["wandering"], 5)["wandering"] for course in courses]
            ends.append((now, [tables[0][p]["end"] for p in range(PARTITIONS)]))
            if now >= (len(courses[0].lag) + 1) * every_s:
                for course, table in zip(courses, tables, strict=True):
                    course.look(table, ends)
                if args.to:
                    args.to.write_text(report(courses, told, args.wander, every_s), encoding="utf-8")
        print(report(courses, told, args.wander, every_s))
        if args.picture:
            args.picture.write_text(drawn({c.name: c.age_s for c in courses}, every_s), encoding="utf-8")


if __name__ == "__main__":
    main()

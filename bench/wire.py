"""How fast the readers of Kafka's bytes are, in one process: python bench/wire.py [rows]

Prints CPU time per row or record, best of three, input made outside the clock. What Spark adds is not in here.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
from tests.support.records import commit_key, commit_value, group_key, group_value

from apportion.wire.assignment import Assignment, read_assignment, write_assignment
from apportion.wire.commits import BytesColumn, decode_commits
from apportion.wire.coordinator import GroupGeneration, Member, decode
from apportion.wire.subscription import Subscription, read_subscription, write_subscription

BATCH = 10_000


def best(work: Callable[[], object], items: int) -> float:
    """Nanoseconds of CPU for one item, best of three."""
    spent = []
    for _ in range(3):
        begun = time.process_time()
        work()
        spent.append(time.process_time() - begun)
    return min(spent) / items * 1e9


def column(rows: list[bytes]) -> BytesColumn:
    """Byte strings as Arrow lays them out."""
    offsets = np.zeros(len(rows) + 1, np.int32)
    offsets[1:] = np.cumsum([len(row) for row in rows])
    return BytesColumn(np.frombuffer(b"".join(rows), np.uint8), offsets)


def commits(n: int, version: int) -> tuple[list[bytes], list[bytes]]:
    """Keys and values of ``n`` usual commits; those of version 4 name their topic's id."""
    keys = [commit_key(f"team-{i % 997:04d}.service", f"orders.events.{i % 313}", i % 200) for i in range(n)]
    values = [
        commit_value(
            i * 17, version=version, leader_epoch=i % 9, commit_time=1758335260726 + i, topic_id=bytes(range(16))
        )
        for i in range(n)
    ]
    return keys, values


def main(rows: int = 200_000) -> None:
    """Print one line a reader."""
    for version in (3, 4):
        keys, values = commits(rows, version)
        batches = [(column(keys[at : at + BATCH]), column(values[at : at + BATCH])) for at in range(0, rows, BATCH)]
        fast = best(lambda batches=batches: [decode_commits(*batch) for batch in batches], rows)  # type: ignore[misc]
        some = list(zip(keys[:20_000], values[:20_000], strict=True))
        plain = best(lambda some=some: [decode(*pair) for pair in some], len(some))  # type: ignore[misc]
        print(f"commits v{version}, batches of {BATCH}: {fast:.0f} ns a row; plain decoder {plain:.0f} ns a row")
    owned = (("clicks", tuple(range(10))),)
    said = write_subscription(Subscription(tuple(f"topic-{i}" for i in range(100)), None, owned, 5))
    told = write_assignment(Assignment(owned))
    others = write_subscription(Subscription(("another",)))
    fresh = best(lambda: [read_subscription(raw) for _ in range(2000) for raw in (said, others)], 2000)
    print(f"subscription of 100 topics, 10 owned: {fresh:.0f} ns; with the topics of the member before: ", end="")
    print(f"{best(lambda: [read_subscription(said) for _ in range(5000)], 5000):.0f} ns")
    print(f"assignment of 10: {best(lambda: [read_assignment(told) for _ in range(5000)], 5000):.0f} ns")
    for members in (3, 100):
        one = Member("consumer-1-5f0c", None, "app", "/10.0.0.1", 1, 1, subscription=said, assignment=told)
        value = group_value(GroupGeneration("g", False, 3, 5, "consumer", "range", "m", 1, (one,) * members))
        spent = best(lambda value=value: [decode(group_key("g"), value) for _ in range(200)], 200)  # type: ignore[misc]
        print(f"generation of {members} members: {spent / 1000:.0f} us")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

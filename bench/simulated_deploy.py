"""A rolling deploy of three kafka-python members in virtual time, which no load of the machine touches.

    python -m bench.simulated_deploy

12 partitions, two records a second into each, heartbeats 3 s apart. One member after the other goes, is away for eight
seconds, and comes back; the next one goes 16 seconds after it. A partition stands still from when a member gives it up
until one has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

PARTITIONS: Final = 12
WAYS: Final = (
    ("kafka-python's `range`", "range", "close"),
    ("our `cooperative-sticky`, `close()`", "cooperative-sticky", "close"),
    ("our `cooperative-sticky`, `leave()`", "cooperative-sticky", "leave"),
)


def maker(strategy: str) -> Callable[..., Any]:
    """What makes a consumer."""
    from kafka import KafkaConsumer
    from kafka.coordinator.assignors.range import RangePartitionAssignor

    from apportion.clients.kafka_python import assignor

    def make(**connection: Any) -> Any:
        chosen = RangePartitionAssignor if strategy == "range" else assignor(strategy)
        return KafkaConsumer(
            **connection, group_id="g", auto_offset_reset="earliest", partition_assignment_strategy=[chosen]
        )

    return make


def deploy(strategy: str, goes: str) -> tuple[float, float, int]:
    """Partition-seconds that stood still, the longest of one partition, and how many were handed on."""
    from apportion.testing.simulation import simulate

    script: list[dict[str, Any]] = [{"at": 0, "do": "traffic", "topic": "records", "per_s": 2 * PARTITIONS}]
    script += [{"at": 0.1 * n, "do": "start", "member": member} for n, member in enumerate("abc")]
    for n, member in enumerate("abc"):
        at = 25 + 16 * n
        script += [{"at": at, "do": goes, "member": member}, {"at": at + 8, "do": "start", "member": member}]
    script.append({"at": 80, "do": "end of traffic", "topic": "records"})
    since: dict[tuple[str, int], float] = {}
    reader: dict[tuple[str, int], str] = {}
    stood, moved = [], 0
    for event in simulate(maker(strategy), None, script, topics={"records": PARTITIONS}, seed=1):
        for pair in map(tuple, event.get("partitions", ())):
            if event["event"] in ("revoked", "lost"):
                since.setdefault(pair, event["at"])
            elif event["event"] == "assigned":
                given_up = since.pop(pair, event["at"])
                if event["at"] > 25:
                    stood.append(event["at"] - given_up)
                    moved += reader[pair] != event["member"]
                reader[pair] = event["member"]
    return sum(stood), max(stood), moved


def main() -> None:
    """Print the table."""
    print("| way | stood still, partition-seconds | longest of one partition | handed on |\n|---|---:|---:|---:|")
    for name, strategy, goes in WAYS:
        still_s, longest_s, moved = deploy(strategy, goes)
        print(f"| {name} | {still_s:.1f} | {longest_s:.1f} s | {moved} |", flush=True)


if __name__ == "__main__":
    main()

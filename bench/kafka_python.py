"""One call of kafka-python's own sticky assignor: python -m bench.kafka_python GROUP.json CPU_SECONDS."""

from __future__ import annotations

import json
import logging
import resource
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.structs import TopicPartition


class Cluster:
    """As much of kafka-python's cluster metadata as an assignor asks for."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.ids = {
            topic: set(range(what)) if isinstance(what, int) else {entry["partition"] for entry in what}
            for topic, what in raw["topics"].items()
        }

    def topics(self) -> list[str]:
        """Names."""
        return list(self.ids)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Ids."""
        return self.ids.get(topic)


class Member:
    """A member as the coordinator hands it to an assignor."""

    def __init__(self, name: str, member: Mapping[str, Any]) -> None:
        held = [TopicPartition(topic, p) for topic, ids in (member.get("owned") or {}).items() for p in ids]
        self.member_id, self.group_instance_id = name, None
        self.metadata = StickyPartitionAssignor._metadata(member["topics"], held, member.get("generation", -1))


def main(path: str, limit_s: str) -> None:
    """Print the CPU and wall milliseconds and the assignment; the system ends us at the limit."""
    logging.disable()
    raw = json.loads(Path(path).read_text())
    cluster, members = Cluster(raw), [Member(*item) for item in raw["members"].items()]
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + int(limit_s) + 1, resource.RLIM_INFINITY))
    began, at = time.perf_counter(), time.process_time()
    given = StickyPartitionAssignor().assign(cluster, members)
    out: dict[str, Any] = {
        "cpu_ms": (time.process_time() - at) * 1000,
        "wall_ms": (time.perf_counter() - began) * 1000,
        "assignment": {name: dict(told.assigned_partitions) for name, told in given.items()},
    }
    print(json.dumps(out))


if __name__ == "__main__":
    main(*sys.argv[1:])

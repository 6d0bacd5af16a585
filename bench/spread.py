"""What spread costs as a goal: 1,000 members, 100 topics, 10,000 partitions, for docs/strategies/sticky.md.

    python -m bench.spread

The sizes are those that Kafka's coming assignor ``uniform2`` gives for itself. CPU milliseconds of planning alone,
medians of five calls after one to warm up; the order is balance, spread, racks, moves.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

from apportion.model.build import build
from apportion.solvers.goals import ALL
from apportion.solvers.solve import best
from bench.cells import Cell

CALLS = 5
EVENTS = {"full": "FULL", "one joins": "JOIN_ONE", "one in ten leaves": "LEAVE_MANY"}
CAPACITIES = {"equal": (1,), "1 to 13": tuple(range(1, 14))}


def measure(raw: dict[str, Any]) -> float:
    """CPU milliseconds of a plan whose every goal is proved."""
    times = []
    for _ in range(CALLS + 1):
        group = build(raw)
        begun = time.process_time()
        answer = best(group, tuple(ALL))
        times.append(time.process_time() - begun)
        if set(answer.proof.values()) != {"optimal"}:
            raise AssertionError(f"{group.name}: {answer.proof}")
    return statistics.median(times[1:]) * 1000


def main() -> None:
    """Print the table."""
    print("| capacities | racks | " + " | ".join(EVENTS) + " |\n|---|---|" + "---:|" * len(EVENTS))
    for words, capacities in CAPACITIES.items():
        for racks in (False, True):
            cells = []
            for event in EVENTS.values():
                raw = Cell("hom", 1000, 10, 100, event, racks=racks).group()
                for i, member in enumerate(raw["members"].values()):
                    member["capacity"] = capacities[i % len(capacities)]
                cells.append(f"{measure(raw):.3g}")
            print(f"| {words} | {'three' if racks else 'none'} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()

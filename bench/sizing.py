"""How long ``apportion.size`` takes for a group of 10,000 partitions: python -m bench.sizing

Weights are drawn from 0 to 10; every member holds its share by roundrobin, and about a third or a sixth of them could
go. The call is whole, from a dict to the frontier. CPU seconds, the median of three.
"""

from __future__ import annotations

import random
import time
from statistics import median
from typing import Any

import apportion

CASES = ((100, 700), (400, 150))
"""Members, and what one takes."""


def group(members: int) -> dict[str, Any]:
    """20 topics of 500 partitions, shared by members that have held them before."""
    draw = random.Random(1)  # noqa: S311 - the same group on each machine
    topics = {f"t{i}": [{"partition": p, "weight": 10 * draw.random()} for p in range(500)] for i in range(20)}
    raw: dict[str, Any] = {
        "group": "g",
        "topics": topics,
        "members": {f"m{m}": {"topics": [*topics]} for m in range(members)},
    }
    for member, owned in apportion.plan(raw, "roundrobin").assignment.items():
        raw["members"][member] |= {"owned": owned, "generation": 1}
    return raw


def main() -> None:
    """A row for each case."""
    print("| members | advised | plans | CPU s |\n|---:|---:|---:|---:|")
    for members, capacity in CASES:
        raw, spent = group(members), []
        for _ in range(3):
            began = time.process_time()
            sizing = apportion.size(raw, capacity=capacity, by="weight")
            spent.append(time.process_time() - began)
        advised = sizing.frontier[sizing.chosen].members
        print(f"| {members} | {advised} | {len(sizing.frontier)} | {median(spent):.2f} |")


if __name__ == "__main__":
    main()

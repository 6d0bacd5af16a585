"""The leader's call and franz-go's with equally warm and equally cold caches.

In the large table calls follow each other, and everybody's collector works when it likes. Here both have what they
have there (in turn); a thread that made the same call just before (warm); one that wrote through 64 MB just before
(cold); and a collector that was made to run just before (collected). The last is no equal thing: Python's walks over
the whole process on the thread that plans, and leaves its caches without the code and the memory of the call; Go's
walks over a small heap, on other threads.

Beside stands our call on a group of the same members, wishes and event with hardly any partitions. It goes the same
way, so it is what the call takes whatever the size: a floor that no quicker work on partitions can lower.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from bench import peers
from bench.leader import IN_TURN, leader_ms
from bench.matrix import alone
from bench.parts import LEADER_CELLS

CACHES = (IN_TURN, "warm", "cold", "collected")
ROUNDS, CALLS = 5, 21
FLOOR_RATIO, FLOOR_TOPICS = 2, 5
"""Partitions a member, and topics: hardly any."""
OURS = "kafka-python with apportion"
FLOOR = f"the same with {FLOOR_RATIO} partitions a member"


def caches() -> list[dict[str, Any]]:
    """Milliseconds of CPU time, medians of several processes of each, by turns."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "group.json"
        for cell in LEADER_CELLS:
            raw, hardly_any = cell.group(), replace(cell, ratio=FLOOR_RATIO, topics=FLOOR_TOPICS).group()
            path.write_text(json.dumps(raw))
            for state in CACHES:
                ours, floor, theirs = [], [], []
                for _ in range(ROUNDS):
                    ours.append(alone(leader_ms, "kafka-python", raw, CALLS, state)[1])
                    floor.append(alone(leader_ms, "kafka-python", hardly_any, CALLS, state)[1])
                    go = peers.franz_go(path, CALLS, state)
                    theirs.append(go.whole)
                known = [ms for ms in theirs if ms is not None]
                rows.append(
                    {
                        "cell": cell.name,
                        "caches": state,
                        OURS: round(median(ours), 2),
                        FLOOR: round(median(floor), 2),
                        "franz-go": round(median(known), 2) if known else go.why,
                        "of franz-go": round(median(ours) / median(known), 2) if known else "",
                    }
                )
    return rows

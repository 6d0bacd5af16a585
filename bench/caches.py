"""The leader's call and franz-go's with equally warm and equally cold caches.

Before each call of the large table everybody's collector runs. Python's walks over the whole process on the thread that
plans, and leaves its caches without the code and the memory of the call; Go's walks over a small heap, on other
threads. So the table compares a cold call with a warmer one. Here both have the caches that they have there, both
those of a thread that made the same call just before, and both those of one that wrote through 64 MB in between.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from bench import peers
from bench.leader import leader_ms
from bench.matrix import alone
from bench.parts import LEADER_CELLS

CACHES = ("collected", "warm", "cold")
ROUNDS, CALLS = 5, 21


def caches() -> list[dict[str, Any]]:
    """Milliseconds of CPU time, medians of several processes of each, by turns."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "group.json"
        for cell in LEADER_CELLS:
            raw = cell.group()
            path.write_text(json.dumps(raw))
            for state in CACHES:
                ours, theirs = [], []
                for _ in range(ROUNDS):
                    ours.append(alone(leader_ms, "kafka-python", raw, CALLS, state)[1])
                    go = peers.franz_go(path, CALLS, state)
                    theirs.append(go.whole)
                known = [ms for ms in theirs if ms is not None]
                rows.append(
                    {
                        "cell": cell.name,
                        "caches": state,
                        "kafka-python with apportion": round(median(ours), 2),
                        "franz-go": round(median(known), 2) if known else go.why,
                        "of franz-go": round(median(ours) / median(known), 2) if known else "",
                    }
                )
    return rows

"""Made-up traffic of an ad server: impressions, and clicks on them that may come late, too late, or for nothing."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from zlib import crc32

PARTITIONS = 10
WINDOW_MS = 20_000
"""A click counts for an impression of its auction that is at most this much older."""
GRACE_MS = 10_000
"""A click may reach its topic this long after it happened."""
STEP_MS = 50

Row = tuple[int, bytes, bytes, int]
"""Partition, key, value, event time."""


def number_of(auction: str) -> int:
    """The partition number of an auction, the same in every topic."""
    return crc32(auction.encode()) % PARTITIONS


def traffic(auctions: int, seed: int = 1) -> Iterator[tuple[str, Row]]:
    """(topic, row) in the order of arrival: four clicks in ten impressions, one in eight of them after the window."""
    rng = random.Random(seed)
    arrivals: list[tuple[int, str, Row]] = []
    for n in range(auctions):
        auction, at = f"auction-{n}", n * STEP_MS
        arrivals.append((at, "impressions", row(auction, {"auction": auction, "at": at}, at)))
        if rng.random() < 0.4:
            wait = rng.randint(0, WINDOW_MS) if rng.random() < 7 / 8 else WINDOW_MS + rng.randint(1, 10_000)
            clicked = at + wait
            value = {"click": f"click-{n}", "auction": auction, "at": clicked}
            arrivals.append((clicked + rng.randint(0, GRACE_MS), "clicks", row(auction, value, clicked)))
        if rng.random() < 0.02:
            value = {"click": f"stray-{n}", "auction": f"never-{n}", "at": at}
            arrivals.append((at, "clicks", row(f"never-{n}", value, at)))
    arrivals.sort(key=lambda arrival: arrival[:2])
    for _, topic, made in arrivals:
        yield topic, made


def row(auction: str, value: dict[str, object], at_ms: int) -> Row:
    """A record as it is written."""
    return number_of(auction), auction.encode(), json.dumps(value).encode(), at_ms


def expected(auctions: int, seed: int = 1) -> dict[str, tuple[str, int, int]]:
    """Click to (auction, impression time, click time) of every row that the join must give."""
    shown: dict[str, int] = {}
    clicks = []
    for topic, (_, _, value, _) in traffic(auctions, seed):
        said = json.loads(value)
        if topic == "impressions":
            shown[said["auction"]] = said["at"]
        else:
            clicks.append(said)
    return {
        said["click"]: (said["auction"], shown[said["auction"]], said["at"])
        for said in clicks
        if said["auction"] in shown and 0 <= said["at"] - shown[said["auction"]] <= WINDOW_MS
    }

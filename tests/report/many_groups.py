"""Thousands of groups, no two alike, with plans, lags and a past each: what a page of a large cluster is made of."""

from __future__ import annotations

import random
from typing import Any

import apportion
from apportion.model.group_json import read_group
from apportion.report.group_data import group_data
from apportion.sighting.judged import Judged
from apportion.sighting.sighting import Sighting

WORDS = ("orders", "clicks", "billing", "search", "stock", "mail", "fraud", "views", "audit", "geo", "ads", "users")
CAUSES = ("join", "leave", "join, leave", "subscription", "topic grew", "restart")


def different_groups(count: int, seed: int = 5) -> list[dict[str, Any]]:
    """So many groups as the page draws them, the same for the same seed.

    Each has 2 to 9 members, 1 to 3 topics of 3 to 12 partitions in racks, lags over five orders of size, the plans of
    every strategy and 4 to 9 rebalances with their owners.
    """
    r = random.Random(seed)
    return [one_of(r, f"{r.choice(WORDS)}-{r.choice(WORDS)}-{i:04}") for i in range(count)]


def one_of(r: random.Random, name: str) -> dict[str, Any]:
    """One group of the page."""
    raw = group_json(r, name)
    group = read_group(raw)
    plans = [apportion.plan(group, strategy) for strategy in apportion.known()]
    past = rebalances(r, raw)
    replays = [
        {"assignor": plan.assignor, "moves": [r.randrange(6) for _ in past], "skew_max": r.randrange(5),
         "skew_max_then": r.randrange(5)}
        for plan in plans
    ]  # fmt: skip
    lag = sum(entry["end"] - entry["committed"] for entries in raw["topics"].values() for entry in entries)
    state, assignor = r.choice(("Stable", "Empty")), r.choice(("range", "cooperative-sticky"))
    drawn = group_data(
        Judged(Sighting(group, state, None, assignor, generation=r.randrange(4000))), plans, history=past,
        replays=replays,
        advice=[f"sticky: members get the same; it moves {r.randrange(9)} where range moves {r.randrange(30)}."],
    )  # fmt: skip
    verdict = r.choice(("OK", "OK", "WARN", "ERR"))
    facts = {"verdict": verdict, "why": [f"The lag is local: {name} has most of {lag:,} messages."]}
    return {**drawn, **facts, "row": {**drawn["row"], **facts}}


def group_json(r: random.Random, name: str) -> dict[str, Any]:
    """A group.json."""
    topics = {}
    for t in range(r.randint(1, 3)):
        ends = [r.randrange(10 ** r.randint(3, 8)) + 1000 for _ in range(r.randint(3, 12))]
        topics[f"{name.split('-')[t % 2]}.{t}.v{r.randint(1, 9)}"] = [
            {"partition": p, "racks": r.sample("abc", 2), "begin": 0, "end": end, "committed": r.randrange(end)}
            for p, end in enumerate(ends)
        ]
    count = r.randint(2, 9)
    members = {
        f"{name}-{m}-{r.getrandbits(64):016x}": {
            "client_id": f"{name}-{m}", "host": f"/10.{r.randrange(256)}.{r.randrange(256)}.{m}", "rack": "abc"[m % 3],
            "topics": list(topics), "generation": 7,
            "owned": {topic: [p for p in range(len(topics[topic])) if p % count == m] for topic in topics},
        }
        for m in range(count)
    }  # fmt: skip
    return {"group": name, "topics": topics, "members": members}


def rebalances(r: random.Random, raw: dict[str, Any]) -> list[dict[str, Any]]:
    """A past in which a third of the partitions changes hands at each rebalance."""
    keys = [(topic, entry["partition"]) for topic, entries in raw["topics"].items() for entry in entries]
    names = [member["client_id"] for member in raw["members"].values()]
    owners = {key: r.choice(names) for key in keys}
    past = []
    for generation in range(r.randint(4, 9)):
        moved = r.sample(keys, len(keys) // 3)
        owners = {**owners, **{key: r.choice(names) for key in moved}}
        past.append({
            "generation": generation, "at": f"2026-11-{generation + 1:02}T{r.randrange(24):02}:30:00Z",
            "cause": r.choice(CAUSES), "members": len(names), "moved": len(moved), "kept": len(keys) - len(moved),
            "given": 0, "needless": r.randrange(len(moved) + 1), "complete": True, "moves_then": len(moved),
            "owners": owners,
        })  # fmt: skip
    return past

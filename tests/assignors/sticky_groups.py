"""Random groups as group.json: every kind of subscription, racks and past."""

from __future__ import annotations

import random
from typing import Any

SUBSCRIPTIONS = ("equal", "unequal", "nested", "disjoint", "few")
RACKS = ("none", "partial", "full")
PASTS = ("none", "clean", "dirty", "perturbed")


def random_group(
    rng: random.Random, topics: int = 4, per_topic: int = 5, members: int = 6, gaps: bool = True
) -> dict[str, Any]:
    """A group of at most so many topics, partitions a topic and members; ``gaps`` allows holes in the ids."""
    names = [f"t{i}" for i in range(rng.randint(1, topics))]
    racked = rng.choice(RACKS)
    counts = [rng.randint(0 if rng.random() < 0.1 else 1, per_topic) for _ in names]
    described = {name: _partitions(rng, count, racked, gaps) for name, count in zip(names, counts, strict=True)}
    people = [f"m{i}" for i in range(rng.randint(1, members))]
    wishes = _wishes(rng, names, len(people))
    group: dict[str, Any] = {"topics": described, "members": {}}
    for name, wish in zip(people, wishes, strict=True):
        member: dict[str, Any] = {"topics": wish}
        if racked != "none" and (racked == "full" or rng.random() < 0.6):
            member["rack"] = rng.choice("abcx" if rng.random() < 0.2 else "abc")
        group["members"][name] = member
        if rng.random() < 0.15:
            member["instance_id"] = f"pod-{rng.randint(0, 10**9)}"
    _past(rng, group, rng.choice(PASTS))
    return group


def _partitions(rng: random.Random, count: int, racked: str, gaps: bool) -> Any:
    if racked == "none" and rng.random() < 0.7:
        return count
    ids = rng.sample(range(count + gaps * rng.choice((0, 0, 3))), count)
    rows = []
    for p in ids:
        row: dict[str, Any] = {"partition": p}
        if racked == "full" or (racked == "partial" and rng.random() < 0.6):
            row["racks"] = rng.sample("abc", rng.choice((1, 1, 2, 2, 3)))
        rows.append(row)
    return rows


def _wishes(rng: random.Random, names: list[str], members: int) -> list[list[str]]:
    kind = rng.choice(SUBSCRIPTIONS)
    if kind == "equal":
        return [list(names)] * members
    if kind == "nested":
        return [names[: rng.randint(1, len(names))] for _ in range(members)]
    if kind == "disjoint":
        buckets = rng.randint(1, 3)
        return [[n for i, n in enumerate(names) if i % buckets == m % buckets] for m in range(members)]
    if kind == "few":
        some = [rng.sample(names, rng.randint(1, len(names))) for _ in range(2)]
        return [rng.choice(some) for _ in range(members)]
    return [rng.sample(names, rng.randint(0, len(names))) for _ in range(members)]


def _past(rng: random.Random, group: dict[str, Any], kind: str) -> None:
    parts = [
        (topic, p if isinstance(p, int) else p["partition"])
        for topic, what in group["topics"].items()
        for p in (range(what) if isinstance(what, int) else what)
    ]
    if kind == "none":
        return
    members = group["members"]
    names = list(members)
    skew = rng.choice((1, 3))
    for topic, p in parts:
        if kind == "dirty" and rng.random() < 0.3:
            claimants = rng.sample(names, min(len(names), rng.randint(0, 3)))
        elif rng.random() < 0.15:
            claimants = []
        else:
            wanting = [n for n in names if topic in members[n]["topics"]] or names
            claimants = [wanting[int(len(wanting) * rng.random() ** skew)]]
        for name in claimants:
            members[name].setdefault("owned", {}).setdefault(topic, []).append(p)
    if kind == "dirty":
        for name in names:
            if rng.random() < 0.3:
                members[name].setdefault("owned", {}).setdefault(rng.choice(["gone", "t0"]), []).append(99)
            members[name]["generation"] = rng.choice((3, 5, 5, None))
    elif rng.random() < 0.5:
        for name in names:
            members[name]["generation"] = 7

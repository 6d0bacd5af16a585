"""``broker-uniform`` on random groups with topic ids: owners and how sure they are, against what was written down."""

from __future__ import annotations

import base64
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.support.written_down import as_written

import apportion

WRITTEN = Path(__file__).parent / "broker_uniform_whole.json"


def a_group(seed: int) -> dict[str, Any]:
    """Members of like or unlike wishes that hold parts of up to thirty topics, some of which are gone."""
    draw = Random(seed)
    topics = [f"t{draw.randrange(10**6)}" for _ in range(draw.choice((1, 2, 6, 12, 13, 30)))]
    sizes = {topic: draw.choice((1, 2, 5, 20)) for topic in topics}
    alike = draw.random() < 0.6
    members: dict[str, Any] = {}
    for _ in range(draw.choice((1, 2, 5, 12, 13))):
        wants = topics if alike else draw.sample(topics, draw.randrange(1, len(topics) + 1))
        name = base64.urlsafe_b64encode(draw.randbytes(16)).decode().rstrip("=")
        members[name] = {"topics": [*wants, "gone"] if draw.random() < 0.2 else wants, "owned": {}, "generation": 3}
    for topic, size in sizes.items():
        takers = [name for name, fields in members.items() if topic in fields["topics"]]
        for number in range(size):
            if takers and draw.random() < 0.8:
                members[draw.choice(takers)]["owned"].setdefault(topic, []).append(number)
    if draw.random() < 0.3:
        next(iter(members.values()))["owned"]["vanished"] = [0, 1]
    ids = {topic: base64.urlsafe_b64encode(draw.randbytes(16)).decode().rstrip("=") for topic in topics}
    gap = 1 if draw.random() < 0.1 else -1
    told = {topic: [{"partition": p} for p in range(n) if p != gap] for topic, n in sizes.items()}
    return {"group": "g", "topics": told, "members": members, **({"topic_ids": ids} if draw.random() < 0.8 else {})}


@pytest.mark.parametrize("seeds", [range(n, n + 10) for n in range(0, 80, 10)])
def test_targets_are_those_written_down(seeds: range) -> None:
    plans = [apportion.plan(a_group(seed), "broker-uniform") for seed in seeds]
    as_written(
        WRITTEN, f"{seeds[0]}", [[plan.owner.tolist(), plan.proof, plan.to_dict()["prediction"]] for plan in plans]
    )

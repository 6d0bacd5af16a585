"""Lag-aware with capacities and by weight: counts are the fairest, exchanges help, floats lose nothing."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

from tests.assignors.four_goals_oracle import best_values, values
from tests.assignors.sticky_judge import owners

import apportion


def some(seed: int) -> dict[str, Any]:
    rng = random.Random(seed)
    topics = {
        f"t{i}": [
            {"partition": p, "lag": rng.randint(0, 99), "weight": rng.random() * 9} for p in range(rng.randint(1, 7))
        ]
        for i in range(rng.randint(1, 3))
    }
    members = {
        f"m{i}": {"topics": rng.sample(list(topics), rng.randint(1, len(topics))), "capacity": rng.choice((1, 2, 3, 8))}
        for i in range(rng.randint(2, 5))
    }
    return {"topics": topics, "members": members}


def test_counts_are_the_fairest_for_the_capacities() -> None:
    for seed in range(150):
        raw = some(seed)
        made = apportion.plan(raw, "lag-aware", {"scope": "group", "by": random.Random(seed).choice(("lag", "weight"))})
        value = values(raw, owners(raw, made.assignment))
        assert (value["balance"],) == best_values(raw, ("balance",)), seed
        if made.measures["partitions"]:
            assert made.proof["balance"] == "optimal"
            assert made.measures["lag_bound"] <= made.measures["lag_max"]


def test_in_each_topic_counts_are_the_fairest_for_the_capacities() -> None:
    for seed in range(150):
        raw = some(seed)
        made = apportion.plan(raw, "lag-aware", {"scope": "topic"})
        value = values(raw, owners(raw, made.assignment))
        assert (value["spread"],) == best_values(raw, ("spread",)), seed


def test_past_owners_keep_what_they_can_within_the_limit() -> None:
    raw: dict[str, Any] = {
        "topics": {"t": [{"partition": p, "lag": 10} for p in range(8)]},
        "members": {
            "a": {"topics": ["t"], "owned": {"t": [6, 7]}, "generation": 1},
            "b": {"topics": ["t"], "capacity": 3, "owned": {"t": [0, 1, 2, 3, 4, 5]}, "generation": 1},
        },
    }
    assert apportion.plan(raw, "lag-aware", {"scope": "group"}).measures["moves"] == 0


def test_weights_of_any_size_are_summed_exactly() -> None:
    weights = [2.0**53, 2.0**-60, 0.1, 0.2, 1e-300]
    raw = {
        "topics": {"t": [{"partition": p, "weight": w} for p, w in enumerate(weights)]},
        "members": {"a": {"topics": ["t"]}},
    }
    made = apportion.plan(raw, "lag-aware", {"by": "weight"})
    assert made.measures["weight_max"] == float(sum(map(Fraction, weights)))
    assert made.proof["weight"] == "optimal"

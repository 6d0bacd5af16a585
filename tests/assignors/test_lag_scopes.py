"""Lag over all topics leaves nobody worse off than a plan without lag; the KIP's rule, topic by topic, does."""

from __future__ import annotations

import random
from typing import Any

import pytest

import apportion

GROUPS = 300


def grown(seed: int) -> dict[str, Any]:
    """Two to four topics with heavy-tailed lags, held as a sticky strategy left them before a member joined."""
    r = random.Random(seed)
    topics = {
        f"t{t}": [{"partition": p, "lag": int(r.paretovariate(1.1) * 100)} for p in range(r.randint(2, 12))]
        for t in range(r.randint(2, 4))
    }
    members: dict[str, Any] = {f"m{m}": {"topics": list(topics)} for m in range(r.randint(2, 6))}
    raw: dict[str, Any] = {"topics": topics, "members": members}
    for member, owned in apportion.plan(raw, "cooperative-sticky").to_dict()["target"].items():
        members[member] |= {"owned": owned, "generation": 1}
    members["newcomer"] = {"topics": list(topics)}
    return raw


@pytest.mark.slow
def test_over_all_topics_nobody_is_worse_off_than_without_lag_and_by_the_rule_of_the_kip_many_are() -> None:
    worse = {"group": 0, "topic": 0}
    for seed in range(GROUPS):
        raw = grown(seed)
        blind = apportion.plan(raw, "cooperative-sticky").measures
        for scope in worse:
            aware = apportion.plan(raw, "lag-aware", {"scope": scope}).measures
            worse[scope] += aware["lag_max"] > blind["lag_max"]
            if scope == "group":
                assert aware["load_squares"] == blind["load_squares"], seed
    assert worse == {"group": 0, "topic": 220}

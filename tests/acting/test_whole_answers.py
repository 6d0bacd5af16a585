"""What a loop forecasts leaves alone what nobody owns, and each decision says its reason in a sentence."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

import apportion
from apportion.acting.forecast import Load, forecast, loaded
from apportion.acting.rule import Acting
from apportion.model.group import Group
from apportion.model.group_json import read_group


def drawn(draw: Random, members: int, partitions: int) -> Group:
    """Members of one topic and of another that half of them want; some static, some larger."""
    fields: dict[str, Any] = {}
    for m in range(members):
        topics = ["t", "u"] if m % 2 == 0 else ["t"]
        fields[f"m{m}"] = {"topics": topics, "capacity": draw.choice((1, 1, 1, 3)), "owned": {}, "generation": 3}
        if m % 3 == 1:
            fields[f"m{m}"]["instance_id"] = f"i{m}"
    for p in range(partitions):
        fields[f"m{draw.randrange(members)}"]["owned"].setdefault("t", []).append(p)
    fields["m0"]["owned"]["u"] = [0, 1]
    return read_group({"group": "g", "topics": {"t": partitions, "u": 2, "nobodys": 1}, "members": fields})


def test_a_forecast_leaves_alone_what_nobody_owns_and_counts_the_work_that_is_left() -> None:
    draw = Random(9)
    for n in range(30):
        group = drawn(draw, draw.randint(1, 5), draw.randint(1, 9))
        work = np.array([float(draw.choice((0, 1, 7, 50, 400))) for _ in range(group.P)])
        capacity = np.array([draw.randint(1, 4) for _ in range(group.M)])
        load = Load(work, capacity * 2.5, capacity, in_seconds=n % 2 == 0)
        owner = np.where(group.wanted, group.owner, -1)
        if n % 4 == 0:
            owner = np.where(np.arange(group.P) % 5 == 2, -1, owner)
        acting = Acting(gain=draw.choice((0.05, 0.3)), moves=draw.choice((None, 1, 3, 0.2, 0.9)))
        _, target = forecast(group, owner, apportion.find("lag-aware"), load, acting)
        assert (target[owner == -1] == -1).all(), "what nobody owns is left alone"
        asked = loaded(group, load)
        assert asked.weight is not None
        assert asked.weight.tolist() == asked.lag.tolist()
    nothing = Load(np.empty(0), np.ones(2), np.ones(2, dtype=np.int64), in_seconds=True)
    assert nothing.least() == 0.0
    huge = loaded(read_group({"topics": {"t": 2}, "members": {"a": {"topics": ["t"]}}}),
                  Load(np.array([2.0**60, 0.5]), np.ones(1), np.ones(1, dtype=np.int64), in_seconds=True))  # fmt: skip
    assert huge.lag.tolist() == [2**53, 0]

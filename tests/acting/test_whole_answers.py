"""What a loop forecasts leaves alone what nobody owns, and each decision says its reason in a sentence."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import apportion
from apportion.acting.forecast import Load, forecast, loaded
from apportion.acting.rule import Acting, Outlook, acts_at_most, decide
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


NEEDS = "a needs 60 s to catch up, after 2 moves the heaviest would need"


@pytest.mark.parametrize(
    ("before", "after", "since", "generation", "act", "why"),
    [
        (60.0, 30.0, 80.0, 0.0, True, f"{NEEDS} 30 s: 50% less"),
        (60.0, 30.0, 81.0, 0.0, False, f"{NEEDS} 30 s: 50% less, but only for 19 s of 20 s"),
        (60.0, 30.0, None, 0.0, False, f"{NEEDS} 30 s: 50% less, but only for 0 s of 20 s"),
        (60.0, 48.0, 80.0, 40.0, True, f"{NEEDS} 48 s: 20% less"),
        (60.0, 48.0, 80.0, 40.5, False,
         f"{NEEDS} 48 s: 20% less, but the last rebalance was 60 s ago, and the group rests for 60 s"),
        (60.0, 48.1, 80.0, 0.0, False, "a new plan saves 19% of 60 s, and 20% are needed"),
        (60.0, 48.5, 80.0, 0.0, False, "a new plan saves 19% of 60 s, and 20% are needed"),
        (0.0, 0.0, 80.0, 0.0, False, "nobody has anything to catch up with"),
        (2.5, 1.25, 80.0, 0.0, True, f"{NEEDS[:8]}2.5 s{NEEDS[12:]} 1.2 s: 50% less"),
    ],
)  # fmt: skip
def test_a_decision_says_its_reason(
    before: float, after: float, since: float | None, generation: float, act: bool, why: str
) -> None:
    decision = decide(
        Acting(hold_s=20, rest_s=60, horizon_s=1), 100.0, generation, since, Outlook(before, after, 1.0, "a", 2)
    )
    assert (decision.act, decision.why) == (act, why)


def test_acts_that_may_follow_are_bounded() -> None:
    cases = [
        (100.0, 50.0, 0.2, 3),
        (100.0, 100.0, 0.2, 0),
        (0.0, 1.0, 0.2, 0),
        (5.0, 0.0, 0.2, 0),
        (100.0, 80.0, 0.2, 1),
    ]
    assert [acts_at_most(*case[:3]) for case in cases] == [case[3] for case in cases]

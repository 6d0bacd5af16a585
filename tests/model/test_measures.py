"""Measures where they could be a little wrong: racks that are not known, bounds that are rounded."""

from __future__ import annotations

import numpy as np
import pytest

import apportion
from apportion.model.group_json import read_group
from apportion.model.measures import measure, rack_misses


def test_a_member_whose_rack_is_unknown_misses_no_rack() -> None:
    group = read_group(
        {
            "topics": {"t": [{"partition": p, "racks": ["b"] if p < 4 else []} for p in range(6)]},
            "members": {
                "a": {"topics": ["t"], "rack": "a"},
                "b": {"topics": ["t"]},
                "c": {"topics": ["t"], "rack": "z"},
            },
        }
    )
    owner = np.array([0, 1, 2, -1, 0, 1])
    assert rack_misses(group, owner).tolist() == [True, False, True, False, False, False]
    assert measure(group, owner)["rack_misses"] == 2


@pytest.mark.parametrize(
    ("assignor", "settings"),
    [("range", {}), ("sticky", {}), ("lag-aware", {"scope": "group"}), ("lag-aware", {"scope": "topic"})],
)
def test_the_lag_bound_is_rounded_up_since_messages_are_whole(assignor: str, settings: dict[str, str]) -> None:
    """Five messages in single ones on two members: one of them has three, whoever plans."""
    group = {
        "topics": {"t": [{"partition": p, "lag": 1} for p in range(5)]},
        "members": {"a": {"topics": ["t"]}, "b": {"topics": ["t"]}},
    }
    measures = apportion.plan(group, assignor, settings).measures
    assert (measures["lag_bound"], measures["lag_max"]) == (3, 3)

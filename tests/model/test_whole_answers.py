"""Groups of every kind are written and read back alike; what several read, or nothing tells, is counted as it is."""

from __future__ import annotations

from typing import Any

import pytest

import apportion
from apportion.arrays import UNKNOWN
from apportion.model import present
from apportion.model.facts import Fact
from apportion.model.group_json import group_to_dict, read_group
from apportion.model.plan_json import read_plan
from apportion.testing.groups import Kinds, many_groups

KINDS = Kinds(capacities=True, facts={"warmth": Fact(3, 0, 9)})
TWICE: dict[str, Any] = {
    "topics": {"t": [{"partition": p, "lag": 10 * p + 1} for p in range(6)], "u": 2, "v": 1},
    "members": {
        "a": {"topics": ["t", "u"], "owned": {"t": [0, 1, 2]}, "generation": 7},
        "b": {"topics": ["t"], "owned": {"t": [2, 3]}, "generation": 7},
        "c": {"topics": ["t"], "owned": {"t": [3, 4]}, "generation": 6},
        "d": {"topics": ["t", "u"], "owned": {"t": [2], "u": [0]}, "generation": 7, "capacity": 2},
    },
}
"""Partition 2 of t is read by three members at once, 3 by one, 5 by nobody."""


@pytest.mark.parametrize("seed", range(6))
def test_a_group_is_written_and_read_back_alike(seed: int) -> None:
    for raw in many_groups(5, seed=seed, kinds=KINDS):
        group = read_group(raw)
        again = group_to_dict(group)
        assert group_to_dict(read_group(again)) == again


def test_what_several_members_read_is_counted_for_each_of_them() -> None:
    group = read_group(TWICE)
    assert present.contested(group).tolist() == [False, False, True, False, False, False, False, False, False]
    assert [each.tolist() for each in present.readers(group)] == [[0, 0, 0, 1, 3, 1, 2, 3], [0, 1, 2, 2, 2, 3, 4, 6]]
    assert present.loads_now(group).tolist() == [3, 2, 1, 2]
    assert present.lag_now(group).tolist() == [1 + 11 + 21, 21 + 31, 41, 21]
    now = present.measure_now(group)
    assert (now["load_min"], now["load_max"], now["load_squares"], now["lag_max"], now["double_readers"]) == (
        1, 3, 9 + 4 + 1 + 4, 52, 1
    )  # fmt: skip
    assert present.unowned(group, group.owner) == 2, "5 of t and 1 of u"
    assert present.unowned(group, group.owner.copy()) == 3, "in a plan 2 of t too would be nobody's"
    assert present.owed(group).tolist() == [True] * 8 + [False]
    quiet = {name: list(range(6)) if name == "t" else of for name, of in TWICE["topics"].items()}
    quiet["t"] = 6
    without = present.measure_now(read_group({**TWICE, "topics": quiet}))
    assert "lag_max" not in without
    assert without["load_max"] == 3
    assert present.observed_lag(read_group({**TWICE, "topics": quiet})).tolist() == [UNKNOWN] * 9
    assert not present.observed_lag_known(read_group({**TWICE, "topics": quiet}))


@pytest.mark.parametrize(
    ("entry", "reset", "lag"),
    [
        ({"lag": 7}, "latest", 7), ({"begin": 2, "end": 9}, "latest", UNKNOWN), ({"begin": 2, "end": 9}, "earliest", 7),
        ({"begin": 2, "end": 9, "committed": 5}, "latest", 4), ({"begin": 2, "end": 9, "committed": 1}, "latest", 7),
        ({"begin": 9, "end": 9}, "latest", 0), ({"begin": 0, "end": 0}, "latest", 0),
        ({"committed": 5}, "latest", UNKNOWN),
        ({"begin": 0, "end": 1}, "latest", UNKNOWN), ({}, "earliest", UNKNOWN),
    ],
)  # fmt: skip
def test_a_lag_is_seen_where_something_tells_it(entry: dict[str, int], reset: str, lag: int) -> None:
    raw = {
        "topics": {"t": [{"partition": 0, **entry}], "u": [{"partition": 0, "lag": 1}]},
        "members": {"a": {"topics": ["t"]}}, "auto_offset_reset": reset,
    }  # fmt: skip
    group = read_group(raw)
    assert present.observed_lag(group).tolist() == [lag, 1]
    assert present.observed_lag_known(group) == (lag != UNKNOWN)


def test_a_saved_plan_gives_each_partition_the_owner_of_the_plan() -> None:
    for raw in many_groups(6, seed=31, kinds=KINDS):
        for name in ("sticky", "cooperative-sticky", "failover"):
            plan = apportion.plan(raw, name)
            written = plan.to_dict()
            saved = read_plan(written)
            assert saved.owners_in(plan.group).tolist() == plan.owner.tolist()

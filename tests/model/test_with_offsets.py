"""A group with other offsets, or another past, keeps nothing that followed from the old ones."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from apportion.model.group import Claims, Group, Offsets
from apportion.model.group_json import read_group

RAW = {
    "topics": {
        "t": [{"partition": p, "begin": 0, "end": 10, "committed": p} for p in range(4)],
        "u": [{"partition": 0, "end": 7}],
    },
    "members": {
        "a": {"topics": ["t"], "owned": {"t": [0, 1]}, "generation": 3},
        "b": {"topics": ["t", "u"], "owned": {"t": [1], "u": [0]}, "generation": 2, "capacity": 2},
    },
}


def everything(group: Group) -> dict[str, Any]:
    """Every value that a group works out once, and the owners."""
    names = [name for name, value in vars(Group).items() if isinstance(value, cached_property)]
    assert len(names) > 8
    return {name: getattr(group, name) for name in [*names, "owner"]}


def assert_same(kept: dict[str, Any], anew: dict[str, Any]) -> None:
    """All values are those of a group that works them out anew."""
    for name, value in anew.items():
        np.testing.assert_equal(_plain(kept[name]), _plain(value), name)


def test_with_another_past_too() -> None:
    group = read_group(RAW)
    before = everything(group)
    claims, generation = Claims(np.array([0, 1, 1]), np.array([0, 0, 1])), np.array([5, 4])
    kept = everything(group.with_claims(claims, generation))
    assert_same(kept, everything(replace(group, claims=claims, generation=generation)))
    assert kept["home"].tolist() != before["home"].tolist() == group.home.tolist(), "the old group stays as it was"
    assert group.with_state(None).verdict is group.verdict, "nothing follows from the state"


def test_what_is_kept_is_what_the_same_group_made_anew_would_work_out() -> None:
    group = read_group(RAW)
    before = everything(group)
    assert group.offsets is not None
    row = np.arange(5)
    other = Offsets(row + 1, row + 20, row + 2, np.array([-1, -1, 9, -1, -1]))
    kept, anew = everything(group.with_offsets(other)), everything(replace(group, offsets=other))
    assert_same(kept, anew)
    assert group.with_offsets(other).offsets is other
    assert kept["lag"].tolist() != before["lag"].tolist() == group.lag.tolist(), "the old group stays as it was"


def _plain(value: Any) -> Any:
    return vars(value) if hasattr(value, "__dict__") else value

"""A change made on a group's arrays gives what its group.json with the change in it gives, array for array."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest

from apportion import whatif
from apportion.model import edits
from apportion.model.facts import Fact
from apportion.model.group import Group, NonexistentClaims
from apportion.model.group_json import group_to_dict, read_group
from apportion.testing.groups import Kinds, many_groups

CHANGES = ("join", "join 3", "leave")


def plain(value: Any) -> Any:
    """Arrays with their types, as something that can be compared."""
    if isinstance(value, NonexistentClaims):
        return list(value)
    if isinstance(value, np.ndarray):
        return str(value.dtype), [None if one != one else one for one in value.tolist()]
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, dict):
        return {name: plain(entry) for name, entry in value.items()}
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return value


def change(group: Group, step: str) -> Group:
    """The step, with a member of the group's own."""
    if step == "leave":
        return whatif.leave(group, group.members[group.M // 2])
    return whatif.change(group, step)


def test_a_change_on_arrays_is_the_change_in_group_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random groups of all kinds; some are refused by the arrays, most are not."""
    kinds = Kinds(capacities=True)
    given = [read_group(raw) for raw in many_groups(400, seed=5, kinds=kinds)]
    asked = [(group, step) for group in given if group.M > 1 and group.T for step in CHANGES]
    ways: Counter[bool] = Counter()
    own = edits.with_changed_members

    def counted(*arguments: Any) -> Group | None:
        answer: Group | None = own(*arguments)
        ways[answer is not None] += 1
        return answer

    monkeypatch.setattr(edits, "with_changed_members", counted)
    changed = [change(group, step) for group, step in asked]
    monkeypatch.setattr(edits, "with_changed_members", lambda *_: None)
    for (group, step), after in zip(asked, changed, strict=True):
        assert plain(after) == plain(change(group, step)), f"{step} of {group!r}"
    assert ways[True] > len(asked) // 3, "most groups are changed on their arrays"
    assert ways[False], "and some are refused"


def test_members_that_restart_are_changed_on_arrays_as_in_group_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some go and some come back under other ids, with all that they told but what they held."""
    ways: Counter[bool] = Counter()
    for i, raw in enumerate(many_groups(300, seed=6, kinds=Kinds(capacities=True, facts={"warmth": Fact(3, 0, 9)}))):
        group = read_group(raw)
        names = list(group.members)
        gone = set(names[i % 3 :: 3])
        told = group_to_dict(group)["members"]
        back = {
            (m if i % 2 else f"{m}-again"): {name: value for name, value in told[m].items() if name != "owned"}
            for m in sorted(gone)
        }
        if i % 5 == 0:
            for fields in back.values():
                fields |= {"tags": {"zone": "z"}, "standby": {group.topics[0]: [0]} if group.T else {}}
        by_arrays = edits.with_changed_members(group, [m for m, name in enumerate(names) if name in gone], back)
        ways[by_arrays is not None] += 1
        if by_arrays is None:
            continue
        with monkeypatch.context() as without:
            without.setattr(edits, "with_changed_members", lambda *_: None)
            assert plain(by_arrays) == plain(whatif.with_changed_members(group, gone, back)), f"{gone} of {raw}"
    assert ways[True] > 100

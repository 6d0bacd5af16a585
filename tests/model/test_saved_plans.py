"""What a saved plan says is looked at field by field, laid over a group by names, and made a group of its own."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import apportion
from apportion.errors import BadInput
from apportion.model.group_json import read_group
from apportion.model.plan_json import read_plan

GROUP: dict[str, Any] = {
    "version": 1,
    "group": "g",
    "topics": {"t": [{"partition": p} for p in (0, 2, 5, 9)], "u": 1},
    "members": {
        "a": {"topics": ["t"], "owned": {"t": [0, 2, 5]}, "generation": 5},
        "b": {"topics": ["t", "u"], "owned": {"t": [9]}, "generation": 5},
    },
}
PLAN: dict[str, Any] = json.loads(apportion.plan(GROUP, "sticky").to_json())


@pytest.mark.parametrize(
    ("field", "value", "where", "found"),
    [
        ("version", 2, "version", "2"),
        ("group", 7, "group", "7"),
        ("settings", [], "settings", "[]"),
        ("assignment", 5, "assignment", "5"),
        ("assignment", {"a": 5}, "assignment.a", "5"),
        ("assignment", {"a": {"t": 5}}, "assignment.a.t", "5"),
        ("assignment", {"a": {"t": [0, "1"]}}, "assignment.a.t[1]", "1"),
        ("assignment", {"a": {"t": [True]}}, "assignment.a.t[0]", "true"),
        ("assignment", {"a": {"t": [-1]}}, "assignment.a.t[0]", "-1"),
        ("assignment", {"a": {"t": [2**31]}}, "assignment.a.t[0]", "2147483648"),
        ("assignment", {"a": {"t": [3, 3]}}, "assignment.a.t", "a partition twice"),
        ("assignment", {"a": {"t": [4, 3]}, "b": {"t": [3]}}, "assignment.b.t", "t-3, which a has too"),
        ("unassigned", [], "unassigned", "[]"),
        ("ignored", {}, "ignored", "{}"),
        ("measures", 7, "measures", "7"),
        ("measures", {}, f"measures.{next(iter(PLAN['measures']))}", "nothing"),
        ("measures", {**PLAN["measures"], "moves": -1}, "measures.moves", "-1"),
        ("measures", {**PLAN["measures"], "moves": "1/2"}, "measures.moves", "1/2"),
        ("measures", {**PLAN["measures"], "weight_x": -0.5}, "measures.weight_x", "-0.5"),
        ("proof", 7, "proof", "7"),
        ("proof", {"balance": "perfect"}, "proof.balance", "perfect"),
    ],
)
def test_a_field_that_cannot_be_is_named_with_what_stood_there(field: str, value: Any, where: str, found: str) -> None:
    with pytest.raises(BadInput) as refused:
        read_plan({**PLAN, field: value})
    assert re.search(rf"^{re.escape(where)}\b|{re.escape(where)}:", str(refused.value)), refused.value
    assert found in str(refused.value)
    assert "None" not in refused.value.needed


@pytest.mark.parametrize("field", ["group", "assignor", "assignment", "unassigned", "ignored", "measures", "proof"])
def test_a_plan_without_one_of_its_fields_is_refused(field: str) -> None:
    with pytest.raises(BadInput, match=field):
        read_plan({name: value for name, value in PLAN.items() if name != field})


def test_fields_and_figures_of_a_strategys_own_may_stand_there() -> None:
    measures = {**PLAN["measures"], "my_cost": "1/3", "weight_x": 0.5, "zero": 0}
    saved = read_plan({**PLAN, "measures": measures, "mine": [1], "assignment": {"a": {"t": [0, 2**31 - 1]}}})
    assert (saved.group, saved.assignor, saved.measures, saved.raw["mine"]) == ("g", "sticky", measures, [1])
    assert saved.owned == {"a": {"t": [0, 2**31 - 1]}}


def test_the_target_counts_where_a_plan_withholds() -> None:
    saved = read_plan({**PLAN, "assignment": {"a": {}}, "target": {"a": {"t": [0]}}, "withheld": {"t": [0]}})
    assert saved.owned == {"a": {"t": [0]}}


def test_a_plan_is_laid_over_its_group_by_names() -> None:
    group = read_group(GROUP)
    saved = read_plan({**PLAN, "assignment": {"b": {"u": [0], "t": [9, 2]}, "a": {"t": [5]}, "gone": {}}})
    owner = {
        (group.topics[group.topic_of[p]], int(group.number[p])): int(member)
        for p, member in enumerate(saved.owners_in(group))
    }
    a, b = (group.members.index(name) for name in "ab")
    assert owner == {("t", 0): -1, ("t", 2): b, ("t", 5): a, ("t", 9): b, ("u", 0): b}


@pytest.mark.parametrize(
    ("assignment", "where", "found"),
    [
        ({"z": {"t": [0]}}, "target", 'the member "z"'),
        ({"a": {"t": [0, 3, 4]}}, "target.a.t", "partition 3"),
        ({"a": {"t": [2, 10]}}, "target.a.t", "partition 10"),
        ({"a": {"x": [0]}}, "target.a.x", "partition 0"),
    ],
)
def test_a_plan_of_another_group_is_refused_by_its_first_stranger(
    assignment: dict[str, Any], where: str, found: str
) -> None:
    with pytest.raises(BadInput) as refused:
        read_plan({**PLAN, "assignment": assignment}).owners_in(read_group(GROUP))
    assert refused.value.where == where
    assert "of the group" in refused.value.needed
    assert found in str(refused.value)


def test_a_plan_can_be_taken_for_a_group_whose_members_want_what_they_hold() -> None:
    assignment = {"b": {"u": [0], "t": [9]}, "a": {"t": [5, 0]}, "idle": {}}
    group = read_plan({**PLAN, "assignment": assignment, "unassigned": {"t": [2], "v": [1]}}).as_group()
    assert group["topics"] == {
        "t": [{"partition": p} for p in (0, 2, 5, 9)],
        "u": [{"partition": 0}],
        "v": [{"partition": 1}],
    }
    assert list(group["topics"]) == ["t", "u", "v"]
    assert group["members"]["b"] == {"topics": ["t", "u"], "owned": {"t": [9], "u": [0]}, "generation": 0}
    assert group["members"]["idle"] == {"topics": [], "owned": {}, "generation": 0}
    assert (group["version"], group["group"]) == (1, "g")
    assert read_group(group).members

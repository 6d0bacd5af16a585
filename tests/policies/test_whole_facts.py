"""What limits look at: owners that are contested or not told, and the share of a saved plan."""

from __future__ import annotations

from typing import Any

import pytest
from tests.model.test_whole_answers import TWICE

import apportion
from apportion.model.group_json import read_group
from apportion.model.plan_json import read_plan
from apportion.policies import facts_of_owners, facts_of_saved


def test_owners_that_are_contested_or_not_told_are_judged_as_they_are() -> None:
    now = facts_of_owners(read_group(TWICE))
    assert (now["max-double-readers"], now["max-unowned"], now["max-lag"]) == (1, 2, 52)
    waiting = {**TWICE, "topics": {**TWICE["topics"], "t": [{"partition": p, "lag": 100 * p} for p in range(6)]}}
    assert facts_of_owners(read_group(waiting))["max-lag"] == 500, "5 is nobody's, and more than anybody has"
    untold = {"topics": {"t": [{"partition": 0, "lag": 4}]}, "members": {"a": {"topics": ["t"]}}}
    facts = facts_of_owners(read_group(untold))
    assert [facts[name] for name in ("max-skew", "max-topic-share", "max-lag-share", "max-cross-rack")] == [None] * 4
    assert facts["max-lag"] == 4


@pytest.mark.parametrize(
    ("owned", "share"),
    [
        ({"a": {"t": 2}, "b": {"t": 1}}, 2 / 3), ({"a": {"t": 1}}, 0.0), ({"a": {"t": 1, "u": 3}, "b": {"u": 1}}, 0.75),
        ({"a": {"t": 1}, "b": {"t": 1}}, 0.5), ({}, 0.0),
    ],
)  # fmt: skip
def test_a_saved_plans_share_is_that_of_topics_with_two_partitions_and_more(
    owned: dict[str, dict[str, int]], share: float
) -> None:
    sizes: dict[str, int] = {}
    members: dict[str, Any] = {m: {"topics": ["t", "u"], "owned": {}, "generation": 1} for m in "ab"}
    for member, held in owned.items():
        for topic, count in held.items():
            begin = sizes.get(topic, 0)
            members[member]["owned"][topic] = list(range(begin, begin + count))
            sizes[topic] = begin + count
    plan = apportion.plan({"topics": sizes, "members": members}, "sticky").to_dict()
    plan["assignment"] = {m: fields["owned"] for m, fields in members.items()}
    assert facts_of_saved(read_plan(plan))["max-topic-share"] == pytest.approx(share)

"""What limits look at, of plans, of owners and of saved plans: written down for groups of every kind."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.model.test_whole_answers import TWICE
from tests.support.written_down import as_written

import apportion
from apportion.errors import ApportionError
from apportion.model.group_json import read_group
from apportion.model.plan_json import read_plan
from apportion.policies import breaches, facts_of_owners, facts_of_plan, facts_of_saved
from apportion.testing.groups import Kinds, many_groups

WRITTEN = Path(__file__).parent / "whole_facts.json"
LIMITS: dict[str, int | float | bool] = {
    "max-moves": 1, "max-skew": 1, "max-lag": 40, "max-cross-rack": 0, "max-lag-share": 0.4, "max-unowned": 0,
    "max-topic-share": 0.5, "max-double-readers": 0, "require-proof": True,
}  # fmt: skip


def plain(facts: dict[str, Any]) -> dict[str, Any]:
    """Facts as JSON, fractions as they are."""
    return {name: str(fact) if isinstance(fact, Fraction) else fact for name, fact in facts.items()}


def breached(facts: dict[str, Any]) -> list[Any]:
    """What each limit finds; what is not told is an error in words."""
    found: list[Any] = []
    for name, limit in LIMITS.items():
        try:
            found += breaches({name: limit}, facts)
        except ApportionError as error:
            found.append(str(error))
    return found


@pytest.mark.parametrize("seed", range(5))
def test_facts_and_breaches_are_those_written_down(seed: int) -> None:
    answers: list[Any] = []
    for n, raw in enumerate(many_groups(6, seed=seed + 70, kinds=Kinds(capacities=seed % 2 == 0))):
        draw = Random(n)
        for entries in raw["topics"].values():
            for entry in entries if isinstance(entries, list) and n % 3 else ():
                entry["lag"] = draw.choice((0, 3, 50))
        now = facts_of_owners(read_group(raw))
        answers.append(["now", plain(now), breached(now)])
        for name in ("sticky", "range", "failover"):
            plan = apportion.plan(raw, name)
            saved = facts_of_saved(read_plan(plan.to_dict()))
            answers.append([name, plain(facts_of_plan(plan)), plain(saved), breached(saved)])
    as_written(WRITTEN, f"random {seed}", answers)


def test_owners_that_are_contested_or_not_told_are_judged_as_they_are() -> None:
    now = facts_of_owners(read_group(TWICE))
    assert (now["max-double-readers"], now["max-unowned"], now["max-lag"]) == (1, 2, 52)
    waiting = {**TWICE, "topics": {**TWICE["topics"], "t": [{"partition": p, "lag": 100 * p} for p in range(6)]}}
    assert facts_of_owners(read_group(waiting))["max-lag"] == 500, "5 is nobody's, and more than anybody has"
    untold = {"topics": {"t": [{"partition": 0, "lag": 4}]}, "members": {"a": {"topics": ["t"]}}}
    facts = facts_of_owners(read_group(untold))
    assert [facts[name] for name in ("max-skew", "max-topic-share", "max-lag-share", "max-cross-rack")] == [None] * 4
    assert facts["max-lag"] == 4
    as_written(WRITTEN, "twice", [plain(now), breached(now)])


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

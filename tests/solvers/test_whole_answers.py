"""Solvers on arrays of every kind: answers, not only their worth, so that a tie is broken the same way tomorrow."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.support.written_down import as_written

import apportion
from apportion.model.group_json import read_group
from apportion.testing.groups import Kinds, many_groups

WRITTEN = Path(__file__).parent / "whole_answers.json"


@pytest.mark.parametrize("members", [5, 12, 40])
@pytest.mark.parametrize("by", ["lag", "weight"])
def test_work_is_shared_as_was_written_down(members: int, by: str) -> None:
    """Wide groups, whose ties are many: of one topic and of several, all wanted or not, with racks and without."""
    answers: list[Any] = []
    for seed in range(4):
        draw = Random(f"{members} {by} {seed}")
        topics = {
            f"t{t}": [
                {"partition": p, by: draw.choice((0, 1, 7, 7, 20, 300)), "racks": draw.sample("abc", 2)}
                for p in range(draw.randint(2, 2 * members))
            ]
            for t in range(draw.randint(1, 4))
        }
        fields: dict[str, Any] = {}
        for m in range(members):
            wants = list(topics) if seed % 2 else draw.sample(list(topics), draw.randint(1, len(topics)))
            fields[f"m{m:02}"] = {"topics": wants, "owned": {}, "generation": 2, "rack": draw.choice("abcd")}
            if seed == 3:
                fields[f"m{m:02}"]["capacity"] = draw.choice((1, 1, 2, 5))
        for topic, entries in topics.items():
            wanting = [name for name, one in fields.items() if topic in one["topics"]]
            for entry in entries:
                if wanting and draw.random() < 0.7:
                    fields[draw.choice(wanting)]["owned"].setdefault(topic, []).append(entry["partition"])
        raw = {"topics": topics, "members": fields}
        for scope in ("group", "topic"):
            for skew in (None, "1", "3"):
                settings = {"scope": scope, "by": by, **({"max_skew": skew} if skew else {})}
                plan = apportion.plan(raw, "lag-aware", settings)
                answers.append([plan.owner.tolist(), dict(plan.proof)])
        for name in ("sticky", "range", "sticky-stream-join"):
            answers.append([apportion.plan(raw, name).owner.tolist(), dict(apportion.plan(raw, name).proof)])
    as_written(WRITTEN, f"{members} by {by}", answers)


def test_small_groups_are_solved_as_was_written_down() -> None:
    answers: list[Any] = []
    for raw in many_groups(60, seed=91, kinds=Kinds(6, 4, 6, capacities=True)):
        for goals in ("balance,spread,racks,moves", "balance,racks,moves", "racks,balance"):
            plan = apportion.plan(raw, "sticky", {"order": goals})
            answers.append([plan.owner.tolist(), dict(plan.proof)])
        assert read_group(raw).M
    as_written(WRITTEN, "small", answers)

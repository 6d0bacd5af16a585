"""The bound on kept claims by classes: where it shows the start to be best no flow is needed, and none keeps more."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from apportion.assignors import find
from apportion.model.build import build
from apportion.model.measures import measure
from apportion.model.plan import Answer
from apportion.solvers import lexicographic
from bench.cells import CELLS

from .sticky_groups import random_group

JOINS = [cell for cell in CELLS if cell.racks and cell.event == "JOIN_ONE"]


class Calls:
    """How often a flow was asked for, and what the bound answered."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.asked, self.answers, self.believed = 0, list[bool](), True
        flow, bound = lexicographic._keep_by_flow, lexicographic._keeps_most

        def by_flow(*args: Any) -> Any:
            self.asked += 1
            return flow(*args)

        def by_bound(*args: Any) -> bool:
            self.answers.append(bound(*args))
            return self.answers[-1] and self.believed

        patch.setattr(lexicographic, "_keep_by_flow", by_flow)
        patch.setattr(lexicographic, "_keeps_most", by_bound)


def plan(group: Any) -> Answer:
    answer = find("sticky").assign(group)
    assert isinstance(answer, Answer)
    return answer


def test_with_and_without_the_bound_the_plans_of_random_groups_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, rng = Calls(monkeypatch), random.Random(7)
    capacities = random.Random(8)
    for _ in range(300):
        raw = random_group(rng, topics=6, per_topic=12, members=14)
        if capacities.random() < 0.3:
            for member in raw["members"].values():
                member["capacity"] = capacities.randint(1, 3)
        group = build(raw)
        calls.believed = True
        bounded = plan(group)
        calls.believed = False
        by_flow = plan(group)
        assert measure(group, bounded.owner)["kept"] == measure(group, by_flow.owner)["kept"]
        assert np.array_equal(bounded.owner, by_flow.owner)
        assert bounded.proof == by_flow.proof
    assert 20 < sum(calls.answers) < len(calls.answers), "the bound shows many starts to be best, and not all"


@pytest.mark.parametrize("cell", JOINS, ids=lambda cell: cell.name)
def test_where_one_member_joins_thousand_with_racks_the_bound_suffices(
    cell: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counting would let 9,990 claims stay; but those who give up hold what the newcomer's rack has no replica of."""
    calls = Calls(monkeypatch)
    group = build(cell.group())
    answer = plan(group)
    assert (calls.asked, calls.answers) == (1, [True])
    assert measure(group, answer.owner)["kept"] == 9980
    assert set(answer.proof.values()) == {"optimal"}

"""Where counting would keep too many claims a min-cost flow finds the most: one member joins a thousand, with racks."""

from __future__ import annotations

from typing import Any

import pytest

from apportion.assignors import find
from apportion.model.build import build
from apportion.model.measures import measure
from apportion.model.plan import Answer
from apportion.solvers import lexicographic
from bench.cells import CELLS

JOINS = [cell for cell in CELLS if cell.racks and cell.event == "JOIN_ONE"]


@pytest.mark.parametrize("cell", JOINS, ids=lambda cell: cell.name)
def test_where_one_member_joins_thousand_with_racks_a_flow_keeps_the_most(
    cell: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counting would let 9,990 claims stay; but those who give up hold what the newcomer's rack has no replica of."""
    asked, by_flow = list[Any](), lexicographic._keep_by_flow

    def counted(*args: Any) -> Any:
        asked.append(args)
        return by_flow(*args)

    monkeypatch.setattr(lexicographic, "_keep_by_flow", counted)
    group = build(cell.group())
    answer = find("sticky").assign(group)
    assert isinstance(answer, Answer)
    assert len(asked) == 1
    assert measure(group, answer.owner)["kept"] == 9980
    assert set(answer.proof.values()) == {"optimal"}

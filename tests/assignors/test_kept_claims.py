"""Where those who must give something up hold what others may not take, the flow finds how many claims can stay."""

from __future__ import annotations

from typing import Any

import pytest

from apportion.assignors import find
from apportion.model.build import build
from apportion.model.measures import measure
from apportion.model.plan import Answer
from bench.cells import CELLS

JOINS = [cell for cell in CELLS if cell.racks and cell.event == "JOIN_ONE"]


@pytest.mark.parametrize("cell", JOINS, ids=lambda cell: cell.name)
def test_where_one_member_joins_thousand_with_racks_the_most_claims_stay(cell: Any) -> None:
    """Counting would let 9,990 claims stay; but those who give up hold what the newcomer's rack has no replica of."""
    group = build(cell.group())
    answer = find("sticky").assign(group)
    assert isinstance(answer, Answer)
    assert measure(group, answer.owner)["kept"] == 9980
    assert set(answer.proof.values()) == {"optimal"}

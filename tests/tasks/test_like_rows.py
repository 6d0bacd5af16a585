"""Like tasks gathered into classes."""

from __future__ import annotations

import numpy as np
import pytest

from apportion.tasks import place


@pytest.mark.parametrize("factor", [place._FACTOR, np.uint64(1), np.uint64(2**32)])
def test_like_tasks_are_gathered_however_their_sums_fall(factor: np.uint64, monkeypatch: pytest.MonkeyPatch) -> None:
    """With factors under which different rows have equal sums, rows are still told apart."""
    monkeypatch.setattr(place, "_FACTOR", factor)
    rng = np.random.default_rng(3)
    for width in (1, 2, 5):
        for height in (1, 7, 60):
            table = rng.integers(-1, 2, (height, width))
            rows, class_of = place.like_rows(table)
            assert rows[class_of].tolist() == table.tolist()
            assert len({row.tobytes() for row in rows}) == len(rows)
            assert list(dict.fromkeys(class_of.tolist())) == list(range(len(rows))), "in order of first appearance"

"""Orders of columns of numbers: what sees that nothing is to be sorted agrees with NumPy's sort, which looks at all."""

from __future__ import annotations

import numpy as np
import pytest

from apportion.spark.sorted_rows import ascending, in_order, starts_of, united


@pytest.mark.parametrize("seed", range(60))
def test_columns_are_ordered_as_numpy_sorts_them(seed: int) -> None:
    """Of one to three keys with few values each, sorted, nearly sorted or not at all."""
    rng = np.random.default_rng(seed)
    rows, count, trades = int(rng.integers(0, 12)), int(rng.integers(1, 4)), int(rng.integers(0, 3))
    table = rng.integers(-2, 3, (count, rows))
    table = table[:, np.lexsort(table[::-1])]
    for _ in range(min(trades, rows)):
        a, b = rng.integers(0, rows, 2)
        table[:, [a, b]] = table[:, [b, a]]
    keys = list(table)
    expected = np.lexsort(table[::-1])
    assert in_order(*keys).tolist() == expected.tolist()
    rows_of = [tuple(row) for row in table.T.tolist()]
    assert ascending(*keys) == (rows_of == sorted(rows_of))
    ordered = table[:, expected]
    runs = [n for n in range(rows) if n == 0 or (ordered[:, n] != ordered[:, n - 1]).any()]
    assert starts_of(*ordered).tolist() == [*runs, rows]
    assert united(*keys).tolist() == sorted(set(table.ravel().tolist()))

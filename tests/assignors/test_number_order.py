"""A set of partition ids hands them on as Java's hash map has them, however large it is."""

from __future__ import annotations

from random import Random

import pytest

from apportion.server_side.java_hash import bin_order, copied_bins, number_order


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("since_19", [False, True])
def test_ids_are_ordered_by_their_bins(backwards: bool, since_19: bool) -> None:
    """Every id put one after the other gives what one sort of them all gives; ids above 2**16 fold into lower bins."""
    rng = Random(5)
    for size in (1, 12, 13, 24, 47, 48, 49, 96, 300, 1000):
        for most in (size, 2 * size, 40 * size, 200_000):
            ids = sorted(rng.sample(range(most), size))
            order = bin_order(ids, copied_bins(size, since_19=since_19), backwards=backwards)
            ordered = number_order(ids, backwards=backwards, since_19=since_19)
            assert list(ordered) == [ids[position] for position in order.positions], (size, most)

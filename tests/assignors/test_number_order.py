"""A set of partition ids hands them on as Java's hash map has them, however large it is."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from apportion.server_side.java_hash import bin_order, copied_bins, number_order


def test_a_ninth_entry_that_is_also_the_thirteenth_doubles_the_table_once() -> None:
    """The bin doubles it, and thirteen are not too many for 32 bins; as java.util.HashMap hands these numbers on."""
    numbers = [1, 2, 3, 4, 0, 16, 32, 48, 64, 80, 96, 112, 128]
    order = bin_order(numbers)
    assert [numbers[position] for position in order.positions] == [0, 32, 64, 96, 128, 1, 2, 3, 4, 16, 48, 80, 112]
    assert not order.trees


def test_a_bin_that_was_a_tree_before_the_table_grew_is_said_to_have_no_known_order() -> None:
    """Nine in one of 64 bins make a tree; the 49th entry splits it, in the order of the tree."""
    assert not bin_order([*range(1, 49), 64]).trees
    assert bin_order([64 * n for n in range(9)] + list(range(1, 41)), 64).trees


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("since_19", [False, True])
def test_ids_are_ordered_by_their_bins(backwards: bool, since_19: bool) -> None:
    """Every id put one after the other gives what one sort of them all gives; ids above 2**16 fold into lower bins."""
    rng = Random(5)
    for size in (1, 12, 13, 24, 47, 48, 49, 96, 300, 1000):
        for most in (size, 2 * size, 40 * size, 200_000):
            ids = sorted(rng.sample(range(most), size))
            order = bin_order(ids, copied_bins(size, since_19=since_19), backwards=backwards)
            places = number_order(np.array(ids), backwards=backwards, since_19=since_19)
            assert tuple(range(size) if places is None else places.tolist()) == order.positions, (size, most)

"""Laps that hand out what is left, and which claims stay."""

from __future__ import annotations

import numpy as np

from apportion.solvers.dealing import deal, interleave, laps
from apportion.solvers.retention import capped, first_ones


def test_who_holds_least_is_served_first() -> None:
    need, load, column = np.array([2, 1, 0]), np.array([3, 2, 0]), np.zeros(3, dtype=np.int64)
    assert laps(need, column, load).tolist() == [1, 0, 0]


def test_a_row_that_goes_to_two_columns_is_dealt_to_both_in_turn() -> None:
    assert interleave(np.array([3, 3])).tolist() == [0, 1, 0, 1, 0, 1]
    row, none = np.zeros(4, dtype=np.int64), np.zeros(3, dtype=np.int64)
    owner = deal(row, np.array([[2, 2]]), np.array([1, 1, 2]), np.array([0, 0, 1]), none)
    assert owner.tolist() == [0, 2, 1, 2]


def test_a_member_keeps_its_share_and_the_first_of_those_with_more_one_more() -> None:
    own, low, high = np.array([1, 5, 5, 5]), np.full(4, 2), np.full(4, 3)
    cap = capped(own, low, high, np.zeros(4, dtype=np.int64), np.array([2]), np.array([0, 9, 0, 0]))
    assert cap.tolist() == [1, 2, 3, 3], "member 1 holds what others could use, so it keeps no more than its share"


def test_the_first_in_order_stay() -> None:
    kind, number = np.array([0, 0, 0, 1]), np.array([2, 0, 1, 5])
    assert first_ones(kind, np.array([2, 1]), (number,)).tolist() == [False, True, True, True]

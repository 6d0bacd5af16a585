"""What each solver answers to arrays of every kind, number by number: a tie that falls elsewhere is another plan."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest

from apportion.arrays import Longs
from apportion.solvers import (
    dealing,
    partition_classes,
)
from apportion.solvers import number_partitioning as numbers


def some_lags(draw: Random, n: int) -> Longs:
    """Lags with ties, noughts, and a few that outweigh the rest."""
    kinds: list[Any] = [(0, 1, 2, 3), (7,), (0, 0, 0, 900), range(1000), (10**15, 1, 5)]
    few = draw.choice(kinds)
    return np.array([draw.choice(few) for _ in range(n)], dtype=np.int64)


def draws(name: str, count: int) -> Iterator[Random]:
    """The same random numbers each time, others for each test."""
    return (Random(f"{name} {i}") for i in range(count))


def test_rounds_are_dealt_alike_to_one_table_and_to_many() -> None:
    for draw in draws("rounds", 12):
        lags = [np.array([some_lags(draw, n) for _ in range(2)]) for n in (1, 5, 8, 40, 9)]
        members = [draw.choice((1, 2, 3, 5, 16, 17, 18)) for _ in lags]
        many = numbers.deal_rounds_many(lags, members)
        for lag, m, owner in zip(lags, members, many, strict=True):
            assert [numbers.deal_rounds(row, m).tolist() for row in lag] == owner.tolist()
    huge = np.array([[2**58, 2**58 - 1, 2**57, 5, 5, 1, 0]])
    for m in (2, 3, 4):
        (owner,) = numbers.deal_rounds_many([huge], [m])
        assert owner.tolist() == [numbers.deal_rounds(huge[0], m).tolist()]
    assert numbers.deal_rounds(np.array([], dtype=np.int64), 3).tolist() == []


def test_rounds_of_exchanges_level_what_is_far_apart() -> None:
    for draw in draws("levelled", 10):
        members, each = draw.choice((4, 5, 8)), draw.choice((1, 3, 8))
        lag = np.array([draw.choice((1, 5, 9, 30, 31, 200)) for _ in range(members * each + draw.randrange(3))])
        owner = np.sort(np.arange(len(lag)) % members)
        before = owner.tolist()
        for goal in (0, int(lag.sum()) // members + 20):
            numbers.level(lag, owner, members, goal)
        assert owner.tolist() == before
    crowded = np.arange(4 * 33)
    assert numbers.level(crowded, crowded // 33, 4, 0).tolist() == (crowded // 33).tolist(), "more than is looked at"
    roomy = np.arange(4 * 32)
    assert numbers.level(roomy, roomy // 32, 4, 0).tolist() != (roomy // 32).tolist()


def test_keys_are_sorted_together_and_one_after_the_other() -> None:
    for draw in draws("keys", 16):
        n = draw.choice((1, 2, 9, 30))
        most = [draw.choice((1, 2, 7, 181, 182, 400, 40_000, 10**6)) for _ in range(draw.randint(1, 4))]
        keys = [np.array([draw.randrange(one) for _ in range(n)]) for one in most]
        order = dealing.order_by_keys(keys)
        assert order.tolist() == np.lexsort(keys).tolist()
        assert dealing.stable_order(keys[0]).tolist() == np.argsort(keys[0], kind="stable").tolist()
    for top in (dealing.RADIX_MAX - 1, dealing.RADIX_MAX, dealing.RADIX_MAX + 1, 2**16 + 5):
        key = np.array([top, 3, top - 1, 3, 0])
        assert dealing.stable_order(key).tolist() == [4, 1, 3, 2, 0]
        assert dealing.order_by_keys([np.array([1, 0, 1, 0, 1]), key]).tolist() == [4, 1, 3, 2, 0]
    for size in (181, 182, 256):  # about as many as fit beside each other into a short key
        pair = [np.array([size, 0, size, 1]), np.array([size, size, 0, 1])]
        assert dealing.order_by_keys(pair).tolist() == np.lexsort(pair).tolist()
    assert dealing.order_by_keys([np.array([], dtype=np.int64)]).tolist() == []


@pytest.mark.parametrize("n", [1, 3, 40])
def test_kinds_are_told_apart_by_table_and_by_sort(n: int) -> None:
    for draw in draws(f"kinds {n}", 6):
        most = draw.choice((2, partition_classes.DENSE * n, partition_classes.DENSE * n + 1, 10**6))
        key = np.array([draw.randint(-1, most) for _ in range(n - 1)] + [most])
        kinds, kind = partition_classes.distinct_kinds(key)
        assert kinds.tolist() == sorted({one for one in key.tolist() if one >= 0})
        assert [kinds[k] if k >= 0 else -1 for k in kind.tolist()] == key.tolist()

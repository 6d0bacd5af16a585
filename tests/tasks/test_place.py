"""Placing without a flow: where all moves cost the same, counting finds a placing as good as the flow's."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from apportion.arrays import NOBODY, Ints
from apportion.tasks import place as placing
from apportion.tasks.place import Placing, place, place_at_previous

pytest.importorskip("ortools", reason="the flow to compare with needs OR-tools")


@pytest.fixture(autouse=True)
def _large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small placings are large enough."""
    monkeypatch.setattr(placing, "LARGE", 0)


def worth(asked: Placing, owner: Ints) -> tuple[int, int]:
    """Sum of squared loads of processes; sum of costs."""
    squares = int((np.bincount(owner) ** 2).sum())
    return squares, int(asked.cost[np.arange(len(owner)), owner].sum())


def random_placing(rng: Random) -> Placing:
    """Tasks with one home, or none, and equal prices for moves."""
    tasks, processes = rng.randint(1, 12), rng.randint(1, 5)
    cost = np.full((tasks, processes), 7, dtype=np.int64)
    for n in range(tasks):
        if rng.random() < 0.7:
            cost[n, min(rng.randrange(processes), rng.randrange(processes))] = 2
    threads = np.ones(processes, dtype=np.int64)
    return Placing(np.ones(cost.shape, dtype=np.bool_), cost, threads, np.zeros(processes, dtype=np.int64))


@pytest.mark.slow
def test_counting_is_as_good_as_the_flow() -> None:
    rng = Random(1)  # tests need the same placings again, not secrets
    for _ in range(2_000):
        asked = random_placing(rng)
        counted, flowed = placing._most_stay(asked), placing._solve(asked)
        assert counted is not None
        assert flowed is not None
        assert worth(asked, counted) == worth(asked, flowed)
        assert place(asked)[1]


@pytest.mark.parametrize("kind", ["two prices", "two homes", "not everywhere", "loaded", "kinds", "threads", "parts"])
def test_what_is_not_so_simple_is_left_to_the_flow(kind: str) -> None:
    cost = np.array([[0, 7, 7], [7, 0, 7], [7, 7, 7]])
    eligible, load = np.ones(cost.shape, dtype=np.bool_), np.zeros(3, dtype=np.int64)
    if kind == "two prices":
        cost[0, 0] = 3
    if kind == "two homes":
        cost[0, 1] = 0
    eligible[0, 1] = kind != "not everywhere"
    load[0] = kind == "loaded"
    kinds = np.array([0, 0, 1]) if kind == "kinds" else None
    threads, parts = np.ones(3, dtype=np.int64), np.array([0, 0, 1]) if kind == "parts" else None
    threads[2] += kind == "threads"
    assert placing._most_stay(Placing(eligible, cost, threads, load, kinds, parts)) is None


@pytest.mark.parametrize("large", [0, 100_000])
def test_tasks_that_are_warm_in_one_place_or_nowhere_are_placed_by_their_homes_alone(
    large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same placing, task by task, as of the whole table of tasks and processes; in a large group one of equals."""
    monkeypatch.setattr(placing, "LARGE", large)
    rng, counted = Random(2), {True: 0, False: 0}
    for turn in range(1_000):
        processes = rng.randint(1, 6)
        home = np.array([rng.randrange(-1, processes) for _ in range(rng.randint(1, 30))], dtype=np.int64)
        home[rng.random() < 0.2 :: 1 if turn % 10 == 0 else 3] = NOBODY
        warm = home[:, None] == np.arange(processes)
        everywhere = (home == NOBODY)[:, None]
        one, none = np.ones(processes, dtype=np.int64), np.zeros(processes, dtype=np.int64)
        whole = place(Placing(warm | everywhere, (~warm).astype(np.int8), one, none))
        by_home = place_at_previous(home, processes)
        assert by_home is not None
        load = np.bincount(home[home != NOBODY], minlength=processes)
        tied = placing._fill(load, int(np.count_nonzero(home == NOBODY)))[1] and not (home == NOBODY).all()
        if tied and not large:  # of large ones only those as good
            loads = [sorted(np.bincount(owner, minlength=processes)) for owner in (by_home, whole[0])]
            assert loads[0] == loads[1]
            assert whole[1]
            assert (by_home == home)[home != NOBODY].all()
        else:
            assert (by_home.tolist(), True) == (whole[0].tolist(), whole[1]), home.tolist()
        counted[not tied] += 1
    assert min(counted.values()) > 200, "with a flow and without"

"""How long partitions stood still at eager rebalances lies between what the records tell of it."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from statistics import median_low

import pytest

from apportion.demo import dump
from apportion.history.cause import CommitInterval
from apportion.history.rebalance_rows import rebalances
from apportion.history.records import Generation, GenerationMember
from apportion.history.stood_still import bounds
from apportion.history.switch_advice import advice
from apportion.history.switch_measures import facts_of, left_out
from apportion.history.switching import switch
from apportion.model.build import build
from apportion.model.protocols import CLASSIC
from apportion.sources.load_history import load_histories


def seat(name: str, *held: int) -> GenerationMember:
    return GenerationMember(name, ("t",), {"t": held}, None, name, "h", None)


def generation(number: int, at: int, started: int | None, *members: GenerationMember) -> Generation:
    return Generation(
        offset=number * 100, at=at, kind=CLASSIC, number=number, members=members, protocol="range",
        fresh=number == 1, started=started,
    )  # fmt: skip


GENERATIONS = [
    generation(1, 1_000, 990, seat("a", 0, 1, 2, 3)),
    generation(2, 20_000, 19_800, seat("a", 0, 1), seat("b", 2, 3)),
    generation(3, 40_000, 39_000, seat("a", 0, 1, 2, 3)),
]
COMMITS = [
    *(CommitInterval(100, "t", p, 3, 5_000, 15_000 + p) for p in range(4)),
    # A record of the group that is no generation stands between these and those above.
    CommitInterval(150, "t", 0, 1, 17_000, 17_000),
    *(CommitInterval(200, "t", p, 2, 25_000 + p, 35_000) for p in (0, 2, 3)),
    CommitInterval(300, "t", 0, 1, 46_000, 46_000),
]


def test_the_bounds_are_those_of_the_partition_in_the_middle() -> None:
    """0 and 1 stay at both rebalances: 200 ms and 1,000 ms at least; commits of 0 tell 8 s and 11 s, of 1 nothing."""
    rows = rebalances(GENERATIONS)
    assert [row.kept for row in rows] == [2, 2]
    assert bounds(GENERATIONS, rows, COMMITS, {100, 200, 300}) == {"at_least": 200, "at_most": 8_000}
    assert bounds(GENERATIONS, rows, COMMITS, {300}) == {"at_least": 1_000, "at_most": 11_000}
    assert bounds(GENERATIONS, rows, [], {200}) == {"at_least": 200}
    assert bounds(GENERATIONS, rows, COMMITS, ()) == {}


def test_the_middle_of_any_times_is_that_of_their_list() -> None:
    """Partitions are counted, not listed: a group of 100,000 with 1,000 rebalances would fill gigabytes."""
    random = Random(1)
    row = rebalances(GENERATIONS)[0]
    for _ in range(300):
        drawn = [(random.randint(0, 9), random.randint(0, 4)) for _ in range(random.randint(0, 6))]
        rows = [replace(row, duration_ms=ms, kept=kept) for ms, kept in drawn]
        listed = [ms for ms, kept in drawn for _ in range(kept)]
        assert bounds(GENERATIONS, rows, [], {200}) == ({"at_least": median_low(listed)} if listed else {})
    many = [replace(row, duration_ms=ms, kept=10**12) for ms in (7, 8, 9)]
    assert bounds(GENERATIONS, many, [], {200}) == {"at_least": 8}


def test_a_rebalance_that_may_hide_another_tells_no_upper_bound() -> None:
    rows = [replace(row, complete=False) for row in rebalances(GENERATIONS)]
    assert bounds(GENERATIONS, rows, COMMITS, {100, 200, 300}) == {"at_least": 200}


@pytest.mark.parametrize("name", ["ads-range", "reports-kafka-python", "feed-cooperative"])
def test_recorded_groups_say_how_long_they_stood_still_as_far_as_it_is_known(name: str) -> None:
    group = load_histories(dump()).group(name)
    assert not left_out(group)
    seen = switch(build(group.raw), facts_of(group), group)
    assert seen.history is not None
    low, high = (seen.history.get(f"stopped_ms_{bound}") for bound in ("at_least", "at_most"))
    text = " ".join(advice(seen))
    assert (
        ("The median partition was paused for at least" in text) == (low is not None) == bool(seen.history["stopped"])
    )
    assert (", from the last commit before to the first after" in text) == (high is not None)
    assert low is None or high is None or low < high

"""Each strategy says in words why its plan cannot be better."""

from __future__ import annotations

import itertools
import random
import re

import pytest

import apportion
from apportion.report.tables import plan_notes


def test_stream_join_counts_its_numbers() -> None:
    members = {m: {"topics": ["t", "u"]} for m in "ab"}
    members["a"].update(owned={"t": [0, 1, 2]}, generation=1)  # type: ignore[call-overload]
    plan = apportion.plan({"topics": {"t": 3, "u": 3}, "members": members}, "sticky-stream-join")
    assert plan.explain() == [
        "co-location: each number has one owner, who reads it in every topic that it wants.",
        "balance: 3 numbers for 2 members are 1 or 2 each, as even as can be.",
        "moves: 2 numbers stay; 1 a member and one more for 1 of them can leave 2 at most.",
    ]


def test_failover_names_the_winner_and_the_reason() -> None:
    group = {
        "topics": {"t": 1, "u": 1, "v": 1, "empty": 0},
        "members": {
            "a": {"topics": ["t", "empty"], "priority": 3},
            "b": {"topics": ["t", "u", "v"], "owned": {"u": [0]}},
            "c": {"topics": ["u", "v"]},
        },
    }
    assert apportion.plan(group, "failover", {"preempt": False}).explain() == [
        "t: 'a' has the highest priority of 2 subscribers, 3.",
        "u: 'b' holds most of it and is left alone.",
        "v: no priority is set, and 'b' is the first of 2 subscribers.",
    ]


def test_one_of_anything_is_told_in_the_singular() -> None:
    topic = [{"partition": 0, "lag": 1, "racks": ["x"]}]
    member = {"topics": ["t"], "priority": 3, "rack": "y", "owned": {"t": [0]}, "generation": 1}
    group = {"topics": {"t": topic}, "members": {"a": member}}
    said = {name: " ".join(apportion.plan(group, name).explain()) for name in ("sticky", "failover", "lag-aware")}
    assert "1 owner without a local replica" in said["sticky"]
    assert "0 of 1 standing claim move: none" in said["sticky"]
    assert said["failover"] == "t: 'a' has the highest priority of 1 subscriber, 3."
    assert "the heaviest member has 1 message, and" in said["lag-aware"]
    joined = apportion.plan(group, "sticky-stream-join").explain()
    assert joined[1:] == [
        "balance: 1 number for 1 member is 1 each, as even as can be.",
        "moves: 1 number stays; 1 a member and one more for 0 of them can leave 1 at most.",
    ]
    topics = {f"t{t:02}": 1 for t in range(21)}
    many = apportion.plan({"topics": topics, "members": {"a": {"topics": list(topics)}}}, "failover")
    assert many.explain()[-1] == "... and 1 more topic."


def test_failover_stops_after_some_topics() -> None:
    topics = {f"t{t:02}": 1 for t in range(25)}
    plan = apportion.plan({"topics": topics, "members": {"a": {"topics": list(topics)}}}, "failover")
    assert plan.explain()[-1] == "... and 5 more topics."


def lags(*values: int) -> dict[str, object]:
    entries = [{"partition": p, "lag": lag} for p, lag in enumerate(values)]
    return {"topics": {"t": entries}, "members": {m: {"topics": ["t"]} for m in "ab"}}


def test_lag_aware_prints_the_gap_between_its_plan_and_the_bound() -> None:
    assert apportion.plan(lags(8, 7, 6, 5, 4), "lag-aware", {"scope": "topic"}).explain() == [
        "balance: counts of members with the same subscription differ by at most 1 within each topic.",
        "lag: the heaviest member has 17 messages; no plan gets below 15, so it is at most 2 (13.33 %) above the best.",
    ]
    assert apportion.plan(lags(8, 7, 6, 5, 4), "lag-aware").explain() == [
        "balance: counts of members with the same subscription differ by at most 1 over all topics.",
        "lag: the heaviest member has 15 messages, and no plan gets below that.",
        "moves: no plan of these counts and lag keeps more.",
    ]


def test_lag_aware_adds_up_lags_beyond_64_bits() -> None:
    half = 1 << 62
    for scope in ("topic", "group"):
        lines = apportion.plan(lags(*[half] * 5), "lag-aware", {"scope": scope}).explain()
        assert (
            lines[1]
            == f"lag: the heaviest member has {3 * half:,} messages, and no plan with counts as even gets below that."
        )


def test_lag_aware_tells_how_lag_is_evened_out_by_capacity() -> None:
    group = lags(8, 7, 6, 5, 4)
    group["members"]["a"]["capacity"] = 2  # type: ignore[index]
    ways = [apportion.plan(group, "lag-aware", {"scope": scope}).explain()[1] for scope in ("topic", "group")]
    assert "where a topic's counts leave a choice" in ways[0]
    assert "by exchanges" in ways[1]


@pytest.mark.parametrize("name", ["lag-aware", "cooperative-lag-aware"])
def test_a_bound_that_holds_for_even_counts_alone_says_so_and_what_uneven_ones_reach(name: str) -> None:
    """The sentence's setting, set, gives the sentence's figure; a bound without "as even" holds for every plan."""
    rng, bound_by_counts = random.Random(5), 0
    for values in [
        (10_000, 1_000, 1_000, 1_000),
        *([rng.choice((1, 9, 50, 400)) for _ in range(6)] for _ in range(25)),
    ]:
        group = lags(*values)
        plan = apportion.plan(group, name, {"tolerance": 0})
        text = " ".join(plan_notes(plan))
        least = min(
            max(sum(v for v, m in zip(values, owners, strict=True) if m == member) for member in (0, 1))
            for owners in itertools.product((0, 1), repeat=len(values))
        )
        if "with counts as even" not in text:
            assert plan.measures["lag_bound"] <= least, values
            assert "max_skew" not in text
        elif match := re.search(r"With max_skew=(\d+) the heaviest member would have ([\d,]+)\.", text):
            wider = apportion.plan(group, name, {"tolerance": 0, "max_skew": int(match[1])})
            assert wider.measures["lag_max"] == int(match[2].replace(",", "")) == least, values
            bound_by_counts += 1
        else:
            assert plan.measures["lag_max"] == least, values
    assert bound_by_counts > 3

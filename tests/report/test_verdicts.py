"""The verdict on a group follows from figures that know its size: what is odd alone is no warning."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.history.made import classic, member

from apportion.history.group_history import GroupHistory, TopicMetadata
from apportion.model.group_json import read_group
from apportion.report import page_groups
from apportion.sighting.diagnosing import Evidence
from apportion.sighting.governed import CarriedPlan
from apportion.sighting.judged import Judged
from apportion.sighting.sighting import Sighting
from apportion.sources.dump import sighted


def judged(group: Any, evidence: Evidence | None = None, **seen: Any) -> Judged:
    """The verdict on a group, as a source with these facts shows it."""
    return Judged(Sighting(group, **seen), evidence or Evidence())


def group(lags: list[list[int]], **more: Any) -> Any:
    """Members m0, m1, ... that hold partitions with these lags, all of one topic."""
    flat = [lag for held in lags for lag in held]
    starts = [sum(map(len, lags[:i])) for i in range(len(lags))]
    members = {
        f"m{i}": {"topics": ["t"], "owned": {"t": list(range(start, start + len(held)))}, "generation": 1}
        for i, (start, held) in enumerate(zip(starts, lags, strict=True))
    }
    topic = [{"partition": p, "lag": lag} for p, lag in enumerate(flat)]
    return read_group({"topics": {"t": topic}, "members": members, **more})


@pytest.mark.parametrize(
    ("lags", "word", "figure"),
    [
        # 100 members of six partitions each, nine partitions of nine members a million behind.
        ([[1_000_000, *[9_000] * 5]] * 9 + [[9_000] * 6] * 91, "WARN", "7.8 times"),
        ([[9_000] * 6] * 100, "OK", ""),
        ([[9_000] * 6] * 99 + [[25_000] * 6], "OK", ""),
        # 13 to 15 where 14 is even; 11 to 17; 8 to 2; 3 to 1.
        ([[0] * 13, [0] * 14, [0] * 15], "OK", ""),
        ([[0] * 11, [0] * 14, [0] * 17], "OK", ""),
        ([[0] * 10, [0] * 14, [0] * 18], "WARN", "hold 10 to 18 partitions each; even would be 14"),
        ([[0] * 8, [0] * 2], "WARN", "hold 2 to 8 partitions each; even would be 5"),
        ([[0] * 3, [0] * 1], "OK", ""),
        ([[0] * 4, []], "WARN", "hold 0 to 4 partitions each; even would be 2"),
        ([[9_999], [0], [0]], "OK", ""),
        ([[10_000], [0], [0]], "WARN", "the others have none"),
        ([[1, 0], [0, 0]], "OK", ""),
    ],
)
def test_what_warns_depends_on_the_size_of_the_group(lags: list[list[int]], word: str, figure: str) -> None:
    verdict = judged(group(lags))
    assert verdict.verdict == word, verdict.odd
    assert bool(verdict.reasons) == (word != "OK")
    assert any(figure in text for text in verdict.reasons) or not figure, verdict.reasons


def test_messages_that_nobody_reads_are_an_error_unless_readers_are_not_told() -> None:
    half = {"topics": {"t": [{"partition": 0, "lag": 5}, {"partition": 1, "lag": 5}]}}
    one = {"topics": ["t"], "owned": {"t": [0]}, "generation": 1}
    assert judged(read_group({**half, "members": {"a": one}})).verdict == "ERR"
    assert judged(read_group({**half, "members": {"a": {"topics": ["t"]}}})).verdict == "OK", "owners are not told"
    described = {**half, "members": {}}
    with pytest.raises(Exception, match="member"):
        read_group(described)
    from apportion.model.build import build

    nobody = build(described)
    assert judged(nobody).verdict == "ERR"
    assert judged(nobody, protocol="simple").verdict == "OK", "Flink, Spark and assign() commit without members"
    not_told = judged(nobody, owners_told=False)
    assert (not_told.verdict, not_told.reasons[0][:22]) == ("WARN", "The owners are unknown")


def test_messages_that_retention_deleted_warn_and_a_marker_or_a_topic_that_was_left_does_not() -> None:
    def told(begin: int, wants: str = "t") -> str:
        topics = {"t": [{"partition": 0, "begin": begin, "end": 100, "committed": 40}], "u": 1}
        members = {"a": {"topics": [wants], "owned": {wants: [0]}, "generation": 1}}
        return judged(read_group({"topics": topics, "members": members})).verdict

    assert [told(40), told(42), told(43), told(90, "u")] == ["OK", "OK", "WARN", "OK"]


def test_members_that_want_different_things_are_judged_by_what_could_be() -> None:
    """One of them holds eleven of twelve partitions, which both could share; and two topics each on one member."""
    h553 = {
        "topics": {"A": 4, "B": 4, "C": 4},
        "members": {
            "x": {"topics": ["A", "B", "C"], "owned": {"A": [0, 1, 2], "B": [0, 1, 2, 3], "C": [0, 1, 2, 3]},
                  "generation": 3},
            "y": {"topics": ["A", "B", "C"], "owned": {"A": [3]}, "generation": 3},
        },
    }  # fmt: skip
    verdict = judged(read_group(h553))
    assert (
        verdict.reasons[0] == "Uneven: members that want the same topics hold 1 to 11 partitions each; even would be 6."
    )
    whole = {t: {"topics": ["A", "B"], "owned": {t: [0, 1, 2, 3]}, "generation": 1} for t in "AB"}
    assert judged(read_group({"topics": {"A": 4, "B": 4}, "members": whole})).reasons == [
        "2 topics are each held wholly by one member, though others want it too: A, B."
    ]


@pytest.mark.parametrize("strategy", ["failover", "cooperative-failover", "sticky"])
@pytest.mark.parametrize("governed", [False, True])
def test_what_the_strategy_promises_or_the_governing_plan_wants_is_no_fault(strategy: str, governed: bool) -> None:
    """One member reads all, as failover promises and as a plan may want; only of sticky's own doing it warns."""
    one_reader = group([[50_000] * 8, [], []])
    plan = CarriedPlan(1_795_272_800_000, {}, ()) if governed else None
    protocol = "apportion" if governed else strategy
    verdict = judged(one_reader, assignor=protocol, state="Stable", governed=plan)
    uneven = any("Uneven" in text for text in verdict.reasons)
    assert uneven == (strategy == "sticky" and not governed), verdict.reasons
    if strategy != "sticky" and not governed:
        assert (verdict.verdict, verdict.reasons) == ("OK", [])


def test_partitions_that_are_not_where_the_governing_plan_wants_them_warn() -> None:
    plan = CarriedPlan(1_795_272_800_000, {("t", 0): "m1"}, ())
    verdict = judged(group([[0, 0], [0, 0]]), assignor="apportion", state="Stable", governed=plan)
    assert verdict.reasons == ["1 partition is not where its plan puts them."]


@pytest.mark.parametrize(
    "state", ["rebalancing", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"]
)
def test_a_group_that_rebalances_is_no_error_whatever_its_owners_seem_to_be(state: str) -> None:
    members = {name: {"topics": ["t"], "owned": {}, "generation": 1} for name in "ab"}
    members["a"]["owned"] = {"t": [0]}
    topic = [{"partition": p, "lag": 9_000 * p} for p in range(4)]
    verdict = judged(read_group({"topics": {"t": topic}, "members": members}), state=state)
    assert (verdict.verdict, verdict.diagnosis.kind) == ("WARN", "rebalancing")
    assert verdict.reasons[0].startswith("It is rebalancing"), verdict.reasons
    quiet = judged(group([[0, 0], [0, 0]]), state=state)
    assert (quiet.verdict, quiet.diagnosis.kind) == ("OK", "rebalancing")


def test_a_lag_of_millions_is_never_nothing_odd_even_if_it_is_even() -> None:
    verdict = judged(group([[8_000_000], [8_000_000]]))
    assert verdict.verdict == "WARN"
    assert verdict.reasons == ["16,000,000 messages wait; one member alone has 8,000,000 of them to read."]


SECOND = 1_000


@pytest.mark.parametrize(
    ("at_s", "word"),
    [
        ([0, 4, 8, 12, 16, 20, 24, 27], "WARN"),
        ([0, 20, 40, 60, 80, 100, 120, 140, 160], "OK"),
        ([0, 1, 2, 3, 4], "OK"),
        ([*range(8), 2_000], "WARN"),
        ([*range(8), 4_000], "OK"),
    ],
)
def test_a_storm_of_rebalances_warns_for_an_hour(at_s: list[int], word: str) -> None:
    even = group([[0, 0], [0, 0]])
    at = [at * SECOND for at in at_s]
    verdict = judged(even, Evidence(rebalanced_at=at))
    assert verdict.verdict == word
    if at_s[-1] == 27:
        assert (verdict.reasons, verdict.diagnosis.kind) == (["It rebalanced 8 times in 27 s."], "rebalancing")
    assert judged(even, Evidence(rebalanced_at=at, now_ms=10_000_000)).verdict == "OK"


def test_the_page_has_the_verdict_of_a_recorded_storm() -> None:
    events = [classic(i, i + 1, member("a", {"t": [i % 2]}), member("b", {"t": [1 - i % 2]})) for i in range(9)]
    past = GroupHistory("g", events, {}, [], TopicMetadata({"t": [{"partition": 0}, {"partition": 1}]}, {}, {}))
    drawn = page_groups.of_remembered(past, sighted(past))
    assert drawn["verdict"] == "WARN"
    assert "It rebalanced 8 times in 7 s." in drawn["why"]
    json.dumps(drawn)

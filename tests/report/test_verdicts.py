"""The verdict on a group follows from figures that know its size: what is odd alone is no warning."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.history.made import classic, member

from apportion.history.group_history import GroupHistory, TopicMetadata
from apportion.inputs.dump import observed
from apportion.model.group_json import read_group
from apportion.report import page_groups
from apportion.report.verdicts import judge


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
        ([[0] * 10, [0] * 14, [0] * 18], "WARN", "18 partitions where 14 would be even"),
        ([[0] * 8, [0] * 2], "WARN", "8 partitions where 5"),
        ([[0] * 3, [0] * 1], "OK", ""),
        ([[0] * 4, []], "WARN", "4 partitions where 2"),
        ([[9_999], [0], [0]], "OK", ""),
        ([[10_000], [0], [0]], "WARN", "the others have none"),
        ([[1, 0], [0, 0]], "OK", ""),
    ],
)
def test_what_warns_depends_on_the_size_of_the_group(lags: list[list[int]], word: str, figure: str) -> None:
    told, figures = judge(group(lags))
    assert told == word, figures
    assert any(figure in text for text in figures) or not figure, figures


def test_messages_that_nobody_reads_are_an_error_unless_readers_are_not_told() -> None:
    half = {"topics": {"t": [{"partition": 0, "lag": 5}, {"partition": 1, "lag": 5}]}}
    one = {"topics": ["t"], "owned": {"t": [0]}, "generation": 1}
    assert judge(read_group({**half, "members": {"a": one}}))[0] == "ERR"
    assert judge(read_group({**half, "members": {"a": {"topics": ["t"]}}}))[0] == "OK", "owners are not told"
    described = {**half, "members": {}}
    with pytest.raises(Exception, match="member"):
        read_group(described)
    from apportion.model.build import build

    nobody = build(described)
    assert judge(nobody)[0] == "ERR"
    assert judge(nobody, kind="simple")[0] == "OK", "Flink, Spark and assign() commit without members"
    assert judge(nobody, owners_told=False) == ("WARN", []), "the sentence above the figures says so"


def test_messages_that_retention_deleted_warn_and_a_marker_or_a_topic_that_was_left_does_not() -> None:
    def told(begin: int, wants: str = "t") -> str:
        topics = {"t": [{"partition": 0, "begin": begin, "end": 100, "committed": 40}], "u": 1}
        members = {"a": {"topics": [wants], "owned": {wants: [0]}, "generation": 1}}
        return judge(read_group({"topics": topics, "members": members}))[0]

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
    told, figures = judge(read_group(h553))
    assert told == "WARN"
    assert "11 partitions where 6" in figures[0]
    whole = {t: {"topics": ["A", "B"], "owned": {t: [0, 1, 2, 3]}, "generation": 1} for t in "AB"}
    assert judge(read_group({"topics": {"A": 4, "B": 4}, "members": whole}))[1] == [
        "2 topics are each held wholly by one member."
    ]
    assert judge(read_group({"topics": {"A": 4, "B": 4}, "members": whole}), protocol="failover")[0] == "OK"


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
    told, figures = judge(even, rebalanced_at=[at * SECOND for at in at_s])
    assert told == word
    if at_s[-1] == 27:
        assert figures == ["It rebalanced 8 times in 27 s."]
    assert judge(even, rebalanced_at=[at * SECOND for at in at_s], now_ms=10_000_000)[0] == "OK"


def test_the_page_has_the_verdict_of_a_recorded_storm() -> None:
    events = [classic(i, i + 1, member("a", {"t": [i % 2]}), member("b", {"t": [1 - i % 2]})) for i in range(9)]
    past = GroupHistory("g", events, {}, [], TopicMetadata({"t": [{"partition": 0}, {"partition": 1}]}, {}, {}))
    drawn = page_groups.of_remembered(past, observed(past))
    assert drawn["verdict"] == "WARN"
    assert "It rebalanced 8 times in 7 s." in drawn["why"]
    json.dumps(drawn)

"""What is odd about a group is said in words, and nothing is said of a group that is well."""

from __future__ import annotations

from typing import Any

import pytest

from apportion.model.build import build
from apportion.sighting.judged import Judged
from apportion.sighting.oddities import member_labels
from apportion.sighting.sighting import Sighting


def group(topics: dict[str, Any], members: dict[str, Any], **more: Any) -> Any:
    return build({"group": "g", "topics": topics, "members": members, **more})


def holder(owned: dict[str, list[int]], topics: tuple[str, ...] = ("t",), **more: Any) -> dict[str, Any]:
    return {"topics": list(topics), "owned": owned, "generation": 1, **more}


def entry(partition: int, lag: int) -> dict[str, int]:
    return {"partition": partition, "begin": 0, "end": 1000, "committed": 1000 - lag}


WELL = group({"t": [entry(p, 10) for p in range(4)]}, {"a": holder({"t": [0, 1]}), "b": holder({"t": [2, 3]})})

CASES = [
    ("nobody reads", group({"t": [entry(0, 7)]}, {}),
     "No members, and 7 messages wait: nobody reads, or the reader commits without joining (Flink, Spark, assign())."),
    ("more messages than 64 bits count", group({"t": [{"partition": p, "lag": 2**63 - 1} for p in range(2)]}, {}),
     "Nobody reads: the group has no members, and 18,446,744,073,709,551,614 messages wait."),
    ("a partition without an owner", group({"t": 4}, {"a": holder({"t": [0, 1]}), "b": holder({"t": [3]})}),
     "1 partition has no owner: t(2)."),
    ("no owners", group({"t": 4}, {"a": {"topics": ["t"]}}), "The owners are unknown, so moves cannot be counted."),
    ("uneven", group({"t": 6}, {"a": holder({"t": [0, 1, 2, 3]}), "b": holder({"t": [4]}), "c": holder({"t": [5]})}),
     "Uneven: members that want the same topics hold 1 to 4 partitions each; even would be 2."),
    ("a hot partition", group({"t": [entry(0, 900), entry(1, 10), entry(2, 10), entry(3, 10)]},
                              {"a": holder({"t": [0, 1]}), "b": holder({"t": [2, 3]})}),
     "The lag is uneven: t-0 has 97% of 930 messages; its member has 10 more to read, which others could take."),
    ("a swamped member", group({"t": [entry(p, 400 if p < 2 else 10) for p in range(6)]},
                               {m: holder({"t": [2 * i, 2 * i + 1]}) for i, m in enumerate("abc")}),
     "One member carries 95% of the lag: a, 800 of 840 messages."),
    ("committed beyond the end", group({"t": [{"partition": 0, "end": 5, "committed": 9}]}, {"a": holder({"t": [0]})}),
     "Committed beyond the log's end, as after a topic was deleted and created again: t(0)."),
    ("lost to retention", group({"t": [{"partition": 0, "begin": 50, "end": 90, "committed": 9}]},
                                {"a": holder({"t": [0]})}), "Retention deleted 41 messages unread: t(0)."),
    ("never committed", group({"t": [{"partition": 0, "end": 5}]}, {"a": holder({"t": [0]})}),
     "Never committed, so that auto.offset.reset (latest) decides where reading starts: t(0)."),
    ("idle for want of partitions", group({"t": 1}, {"a": holder({"t": [0]}), "b": holder({})}),
     "1 member is idle, with 1 partition for 2 members: b."),
    ("idle without need", group({"t": 2}, {"a": holder({"t": [0, 1]}), "b": holder({})}),
     "1 member is idle, though there are partitions enough: b."),
    ("unequal wishes", group({"t": 1, "u": 1}, {"a": holder({"t": [0]}), "b": holder({"u": [0]}, ("t", "u"))}),
     "Members want different topics: 2 kinds of subscription."),
    ("claims that contradict", group({"t": 2}, {"a": holder({"t": [0]}), "b": holder({"t": [0, 1]})}),
     "1 partition is read by several members: t(0)."),
    ("a topic that is not there", group({"t": 1}, {"a": holder({"t": [0]}, ("t", "ghost"))}),
     "Wanted but not there: ghost."),
    ("across racks", group({"t": [{"partition": 0, "racks": ["x"]}]}, {"a": holder({"t": [0]}, rack="y")}),
     "1 partition is read across racks."),
    ("an orphan", group({"t": 1, "old": [{"partition": 0, "end": 9, "committed": 9}]}, {"a": holder({"t": [0]})}),
     "Committed, but no member subscribes to them any more: old(0)."),
]  # fmt: skip


def odd_of(odd: Any, state: str | None = None) -> list[str]:
    """Sentences about a group in this state."""
    return Judged(Sighting(odd, state=state)).why


@pytest.mark.parametrize(("title", "odd", "sentence"), CASES, ids=[case[0] for case in CASES])
def test_each_oddity_has_its_sentence(title: str, odd: Any, sentence: str) -> None:
    assert sentence in odd_of(odd)


def test_of_a_group_that_is_well_nothing_is_said() -> None:
    assert odd_of(WELL, "Stable") == []


def test_a_rebalance_under_way_is_said_first() -> None:
    assert odd_of(WELL, "PreparingRebalance")[0].startswith("It is rebalancing")


def test_a_sum_of_lags_beyond_64_bits_is_exact() -> None:
    huge = group({"t": [{"partition": p, "lag": 2**63 - 1} for p in range(3)]}, {"a": holder({"t": [0, 1, 2]})})
    assert Sighting(huge).total_lag == 3 * (2**63 - 1)


@pytest.mark.slow
@pytest.mark.timeout(90)  # two seconds; who compares each with each takes an hour
def test_a_hundred_thousand_members_are_called_by_their_names_at_once() -> None:
    members = {f"m{i}": {"topics": ["t"], "client_id": f"c{max(i, 1)}"} for i in range(100_000)}
    assert sorted(member_labels(group({"t": 1}, members))) == sorted(
        ["m0", "m1", *(f"c{i}" for i in range(2, 100_000))]
    )


def test_a_member_with_many_times_the_lag_of_the_others_is_odd_however_small_its_share() -> None:
    members = {f"m{n:02}": {"topics": ["t"], "owned": {"t": [n]}, "generation": 1} for n in range(40)}
    lags = [{"partition": n, "lag": 1_000_000 if n == 7 else 40_000} for n in range(40)]
    lines = odd_of(build({"topics": {"t": lags}, "members": members}))
    assert lines == ["One member has 1,000,000 messages to read, 25.0 times the mean of the others: m07."]

"""Strategies side by side: only those that leave nothing undone are judged, and the advice says why."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

import apportion
from apportion import comparison, policies
from apportion.errors import UnknownName
from apportion.model.group_json import read_group
from apportion.report import comparing
from apportion.report.text import render


def test_with_capacities_the_fairest_is_judged_by_them_and_who_passes_them_over_is_named() -> None:
    raw = {"topics": {"t": 8}, "members": {"a": {"topics": ["t"]}, "b": {"topics": ["t"], "capacity": 3}}}
    compared = comparison.compare(read_group(raw), ["range", "roundrobin", "sticky"])
    assert compared.best["load_cost"] == "sticky"
    advice = comparison.advice(compared)
    assert advice[0].startswith("Advice: sticky: members get 2 to 6")
    assert advice[-1] == "Members' capacities count for nothing in range, roundrobin."


def lagging(lags: list[int], members: int = 2) -> apportion.Group:
    half = len(lags) // members
    raw: dict[str, Any] = {
        "group": "g",
        "topics": {"t": [{"partition": p, "lag": lag} for p, lag in enumerate(lags)]},
        "members": {
            f"m{i}": {"topics": ["t"], "owned": {"t": list(range(i * half, (i + 1) * half))}, "generation": 1}
            for i in range(members)
        },
    }
    return read_group(raw)


class Mute:
    """A strategy that promises nothing."""

    name: ClassVar[str] = "mute"
    goals: ClassVar[tuple[str, ...]] = ()

    def assign(self, group: apportion.Group) -> Any:
        return group.owner


EVEN = lagging([10, 10, 10, 10])
SKEWED = lagging([500, 500, 1, 1])
OURS = ("range", "roundrobin", "sticky", "cooperative-sticky", "lag-aware", "sticky-stream-join", "failover", "streams")
"""What advice is tried with: a strategy that somebody adds may be better."""


def test_an_even_group_is_left_as_it_is() -> None:
    compared = comparison.compare(EVEN)
    assert compared.best["moves"] == "cooperative-sticky"
    advice = comparison.advice(compared)[0]
    assert advice.startswith("Advice: cooperative-sticky: every member gets 2; it moves 0")
    assert "which is proved" in advice


def test_only_a_strategy_that_proves_its_moves_is_said_to_move_least() -> None:
    """Range proves how each topic is cut, and lag-aware how its lag is shared, whoever held what before."""
    members = {"a": {"topics": ["t"], "owned": {"t": [1, 3]}, "generation": 1}, "b": {"topics": ["t"]}}
    group = read_group({"topics": {"t": 4}, "members": members})
    for name, proved in (("range", False), ("roundrobin", False), ("lag-aware", False), ("sticky", True)):
        said = comparison.advice(comparison.compare(group, [name]))[0]
        assert said.startswith(f"Advice: {name}: every member gets 2")
        assert ("which is proved" in said) == proved


def test_where_lag_is_skewed_the_advice_weighs_it_against_moves() -> None:
    advice = comparison.advice(comparison.compare(SKEWED, OURS))[0]
    assert advice == (
        "Advice: lag-aware, while this lag lasts: the heaviest member has 501 messages to read instead of 1,000 under "
        "cooperative-sticky, for 2 moves instead of 0."
    )


def test_lag_over_several_topics_is_shared_as_no_topic_alone_can() -> None:
    lags = {"orders": [900, 10], "clicks": [10, 10], "pays": [400, 10], "views": [400, 10]}
    topics = {
        topic: [{"partition": p, "begin": 0, "end": lag, "committed": 0} for p, lag in enumerate(of)]
        for topic, of in lags.items()
    }
    group = read_group({"topics": topics, "members": {m: {"topics": list(lags)} for m in "ab"}})
    compared = comparison.compare(group, OURS)
    assert next(p for p in compared.plans if p.assignor == "lag-aware").measures["lag_max"] == 930
    assert comparison.advice(compared)[0].startswith("Advice: lag-aware: every member gets 4; it moves 0")


def test_a_strategy_for_state_is_advised_only_where_no_other_was_compared() -> None:
    assert "streams" not in comparison.advice(comparison.compare(EVEN))[0]
    assert comparison.advice(comparison.compare(SKEWED, ["streams"]))[0].startswith("Advice: streams: ")


def test_a_plan_that_leaves_partitions_without_an_owner_is_best_at_nothing() -> None:
    raw = {"topics": {"t": 3, "u": 1}, "members": {"a": {"topics": ["t", "u"]}}}
    compared = comparison.compare(read_group(raw))
    joined = next(p for p in compared.plans if p.assignor == "sticky-stream-join")
    assert joined.unassigned, "numbers 1 and 2 have no partner in u"
    assert joined not in compared.complete
    assert "sticky-stream-join" not in compared.best.values()
    assert any(line.startswith("Not judged") and "sticky-stream-join" in line for line in comparison.advice(compared))


def test_the_least_of_each_column_is_marked_and_the_present_is_not() -> None:
    text = render(comparing.comparison_table(comparison.compare(SKEWED, ["range", "lag-aware"])).narrow())
    now, ranged, aware = text.splitlines()[1:]
    assert "*" not in now
    assert ranged.split()[:5] == ["range", "2", "*", "0", "*"]
    assert "501 *" in aware


def test_what_several_members_read_now_counts_for_each_of_them_and_is_named() -> None:
    """Partition 1 is read by both, as each says itself: they hold two of the three each, and none is without reader."""
    owned = {"a": [0, 1], "b": [1, 2]}
    members = {m: {"topics": ["t"], "owned": {"t": held}, "generation": 4} for m, held in owned.items()}
    group = read_group({"topics": {"t": 3}, "members": members})
    columns = comparing.comparison_table(comparison.compare(group, ["sticky"]))
    now = dict(zip(columns.columns, columns.rows[0], strict=True))
    assert (now["ASSIGNOR"], now["LOAD"], now["UNOWNED"]) == ("(now)", "2", 0)
    assert comparing.notes_now(group) == ["(now) 1 partition is read by several members: t(1)."]


def test_programs_get_numbers_and_the_best_columns_by_name() -> None:
    table = comparing.comparison_table(comparison.compare(SKEWED, ["range", "lag-aware"]), marks=False)
    now, ranged, aware = table.records()
    assert now["best"] is None
    assert (ranged["moves"], ranged["best"]) == (0, "load spread moves cross_rack")
    assert (aware["lag_max"], aware["best"]) == (501, "load spread lag_max cross_rack")


def test_chosen_strategies_keep_the_order_of_the_asker() -> None:
    assert [p.assignor for p in comparison.compare(EVEN, ["sticky", "range", "sticky"]).plans] == ["sticky", "range"]
    with pytest.raises(UnknownName, match="Maybe you meant 'sticky'"):
        comparison.compare(EVEN, ["stiky"])


def test_a_limit_is_breached_above_it_and_not_at_it() -> None:
    facts = policies.facts_of_plan(apportion.plan(SKEWED, "lag-aware"))
    assert policies.breaches({"max-moves": 2, "max-skew": 0}, facts) == []
    assert policies.breaches({"max-moves": 1}, facts) == [{"policy": "max-moves", "limit": 1, "found": 2}]
    assert policies.breaches({"max-lag-share": 0.5, "max-lag": 500}, facts) == [
        {"policy": "max-lag", "limit": 500, "found": 501}
    ]


def test_proof_is_required_of_every_goal() -> None:
    proved = policies.facts_of_plan(apportion.plan(EVEN, "sticky"))
    silent = policies.facts_of_plan(apportion.plan(EVEN, Mute()))
    assert policies.breaches({"require-proof": True}, proved) == []
    assert policies.breaches({"require-proof": True}, silent)[0]["found"] == "nothing"


def test_a_setting_has_a_row_of_its_own_beside_the_default() -> None:
    settings = {"tolerance": "0.5", "order": "moves,balance"}
    compared = comparison.compare(SKEWED, ["range", "sticky", "lag-aware"], settings=settings)
    rows = [row["assignor"] for row in comparing.comparison_table(compared, marks=False).records()]
    assert rows == [
        "(now)", "range", "sticky", "sticky order=moves,balance", "lag-aware", "lag-aware tolerance=0.5",
    ]  # fmt: skip
    at_default = comparison.compare(SKEWED, ["lag-aware"], settings={"scope": "group"})
    assert len(at_default.plans) == 1, "a setting at its default is no second strategy"
    with pytest.raises(UnknownName, match="Maybe you meant 'tolerance'"):
        comparison.compare(SKEWED, OURS, settings={"tolerence": "0.5"})
    with pytest.raises(UnknownName, match="no setting is named 'order'"):
        comparison.compare(SKEWED, ["lag-aware"], settings={"order": "moves"})


def test_the_advice_says_how_a_strategy_with_settings_is_written_in_a_consumer() -> None:
    compared = comparison.compare(SKEWED, ["range", "lag-aware"], settings={"scope": "topic"})
    advice = comparison.advice(compared)
    assert advice[0].startswith("Advice: lag-aware, while this lag lasts")
    assert advice[1] == "In a consumer: assignor('lag-aware', lag=feed)."
    alone = comparison.Comparison(SKEWED, [p for p in compared.plans if p.settings or p.assignor == "range"], {})
    advice = comparison.advice(alone)
    assert advice[0].startswith("Advice: lag-aware --set scope=topic, while this lag lasts")
    assert advice[1] == "In a consumer: assignor('lag-aware', scope='topic', lag=feed)."


def test_a_group_that_shares_by_lag_is_not_told_to_leave_it_the_minute_its_lag_is_gone() -> None:
    told = comparison.advice(comparison.compare(EVEN, OURS, running="lag-aware"))
    assert told[0].startswith("Advice: lag-aware, which it runs: every member gets 2")
    assert comparison.advice(comparison.compare(EVEN, OURS, running="roundrobin"))[0].startswith("Advice: cooperative")
    all_of_it = {"topics": ["t"], "owned": {"t": [0, 1, 2, 3, 4, 5]}, "generation": 1}
    uneven = read_group({"topics": {"t": 6}, "members": {"a": all_of_it, "b": {"topics": ["t"]}}})
    assert "lag-aware" in comparison.advice(comparison.compare(uneven, OURS, running="lag-aware"))[0]


def test_a_cooperative_form_that_a_group_runs_is_compared_and_not_left_either() -> None:
    compared = comparison.compare(EVEN, running="cooperative-lag-aware")
    assert "cooperative-lag-aware" in [plan.assignor for plan in compared.plans]
    assert comparison.advice(compared)[0].startswith("Advice: cooperative-lag-aware")
    assert "cooperative-lag-aware" not in [plan.assignor for plan in comparison.compare(EVEN).plans]


def test_of_strategies_that_give_the_same_the_one_that_the_group_runs_is_advised() -> None:
    for running in ("uniform", "range"):
        told = comparison.advice(comparison.compare(EVEN, kind="consumer", running=running))
        assert told[0].startswith(f"Advice: broker-{running}")


def test_a_group_of_the_new_protocol_is_told_of_the_brokers_strategies_alone() -> None:
    told = comparison.advice(comparison.compare(SKEWED, kind="consumer"))
    assert told[0].startswith("Advice: broker-")
    assert "lag-aware" not in told[0]
    assert comparison.advice(comparison.compare(SKEWED, OURS, kind="consumer"))[0].startswith(
        "Advice: none: the broker"
    )

"""Rollouts of hosts, of several steps and of state, and advice on both sides of each bound, whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.whatif.test_whatif import RAW
from tests.whatif.test_whole_answers import Wrong

import apportion
from apportion import comparison, planning, rollouts, whatif
from apportion.errors import ApportionError, BrokenAssignor
from apportion.model.group_json import read_group
from apportion.model.plan import Answer, Plan
from apportion.model.plan_json import read_plan
from apportion.rollouts import MembershipChange, Times
from apportion.strategy.traits import traits_of

HOSTS: dict[str, Any] = {
    "group": "hosts",
    "topics": {"t": [{"partition": p, "racks": ["a", "b"][p % 3 // 2 :][:1], "lag": 10 * p} for p in range(9)], "u": 5},
    "members": {
        f"m{n}": {
            "topics": ["t", "u"] if n != 3 else ["u"],
            "host": f"/h{n % 2}" if n < 4 else None,
            "rack": "ab"[n % 2],
            "instance_id": "static" if n == 2 else None,
            "owned": {"t": [2 * n, 2 * n + 1]} if n not in (3, 5) else {"u": [n - 3]},
            "generation": 7,
        }
        for n in range(6)
    },
}


def test_what_is_not_said_is_kafkas_own() -> None:
    def told(*arguments: Any, **named: Any) -> list[Any]:
        return [stage.to_dict() for stage in rollouts.rollout(HOSTS, ["rolling 2"], *arguments, **named)]

    usual = told()
    assert usual == told("cooperative", "cooperative-sticky", None, static=False, by_host=False, times=Times(10, 45, 3))
    assert told("eager") == told("eager", "range", {}) != usual
    assert told("consumer") == told("consumer", "broker-uniform") != told("consumer", "broker-range")
    assert told("eager", "lag-aware", {"max_skew": "2"}) == told("eager", apportion.LagAware(max_skew=2))
    names = ("range", "cooperative-sticky", "broker-uniform", "broker-range", "lag-aware", "cooperative-failover")
    assert [rollouts.protocol_of(apportion.find(name)) for name in names] == [
        "eager", "cooperative", "consumer", "consumer", "eager", "cooperative",
    ]  # fmt: skip
    assert (MembershipChange("s").leave, MembershipChange("s").join, MembershipChange("s").silent) == ((), {}, False)


def test_names_of_those_that_restart_are_drawn_from_group_member_and_batch() -> None:
    plain = {**HOSTS, "members": {name: {"topics": ["t"]} for name in "ab"}}
    named = {**plain, "members": {name: {"topics": ["t"], "client_id": "pod"} for name in "ab"}}
    answers = [
        [stage.joined for stage in rollouts.rollout(raw, [step], "eager")]
        for raw in (plain, named, {**named, "group": "other"})
        for step in ("rolling", "rolling 2")
    ]
    assert all(joined[0].startswith("pod-") for stages in answers[2:] for joined in stages if joined)


def test_what_newcomers_want_and_what_is_lost_is_said_where_there_is_some() -> None:
    joined, left, moved = rollouts.rollout(HOSTS, ["join 1 like m3", "leave m3", "rolling 7"])[:3]
    assert (joined.newcomers_topics, left.newcomers_topics, moved.newcomers_topics) == (["u"], [], [])
    assert joined.to_dict()["newcomers_topics"] == ["u"]
    assert "newcomers_topics" not in left.to_dict()
    assert rollouts.rollout(HOSTS, ["scale 8 like m3"])[0].newcomers_topics == ["u"]
    assert rollouts.rollout(HOSTS, ["scale 8"])[0].newcomers_topics == ["t", "u"]
    lost = rollouts.rollout(HOSTS, ["lose-rack b "])[0]
    assert lost.to_dict()["lost_replicas"] == {"t": [2, 5, 8]}
    assert "lost_replicas" not in rollouts.rollout({**HOSTS, "topics": {"t": 9, "u": 5}}, ["leave m0"])[0].to_dict()


def test_a_partition_is_found_in_a_group_that_grew_or_lost_topics() -> None:
    group = read_group(HOSTS)
    grown = whatif.grow(whatif.grow(group, "t", 11), "u", 6)
    assert rollouts.places_in(group, group).tolist() == list(range(14))
    assert rollouts.places_in(group, grown).tolist() == [*range(9), -1, -1, *range(9, 14), -1]
    assert rollouts.places_in(grown, group).tolist() == [*range(9), *range(11, 16)]
    other = read_group({**HOSTS, "topics": {"s": 9, "u": 5}})
    assert rollouts.places_in(group, other).tolist() == [-1] * 9 + list(range(9, 14))
    assert rollouts.places_in(group, read_group({**HOSTS, "topics": {"t": 8, "u": 6}})).tolist() == [
        *range(8), *range(9, 14), -1,
    ]  # fmt: skip


def test_totals_have_their_words_for_one_and_for_none() -> None:
    assert rollouts.total_sentence([]) == (
        "In all 0 generations: members that stay let go of 0 partitions, 0 of them for good; "
        "0 are read anew by another member; partitions stand still for 0 s together, one of them 0 s at a stretch."
    )
    one = {"topics": {"t": 2}, "members": {name: {"topics": ["t"], "owned": {"t": [n]}} for n, name in enumerate("ab")}}
    assert rollouts.total_sentence(rollouts.rollout(one, ["leave b"], times=Times(rebalance_s=2_000.5))) == (
        "In all 1 generation: members that stay let go of 0 partitions, 0 of them for good; "
        "1 is read anew by another member; "
        "partitions stand still for 2,000 s together, one of them 2000.5 s at a stretch."
    )


def test_newcomers_are_told_apart_from_whoever_has_such_a_name() -> None:
    raw = {"topics": {"t": 4}, "members": {f"join-{n}": {"topics": ["t"]} for n in (1, 2, 3, 5)}}
    assert whatif.join(read_group(raw), 3).members == tuple(f"join-{n}" for n in range(1, 8))
    with pytest.raises(ApportionError, match=r"^join: found 0; needed how many members come, from 1 to 100000\.$"):
        whatif.join(read_group(raw), 0)
    assert whatif.join(read_group(RAW)).members == ("y", "join-1", "x", "z")


@pytest.mark.parametrize("n", [2, 5, 6])
def test_a_client_id_of_several_is_told_with_five_of_them(n: int) -> None:
    raw = {"topics": {"t": 4}, "members": {f"m{i}": {"topics": ["t"], "client_id": "pod"} for i in range(n)}}
    with pytest.raises(ApportionError) as error:
        whatif.leave(read_group(raw), "pod")
    assert str(error.value).count("m") >= min(n, 5)
    assert "'pod'" in str(error.value)


def test_a_name_is_looked_for_among_members_then_instances_then_clients() -> None:
    raw = {
        "topics": {"t": 4},
        "members": {
            "a": {"topics": ["t"], "instance_id": "b", "client_id": "d"},
            "b": {"topics": ["t"], "instance_id": "c", "client_id": "a"},
            "e": {"topics": ["t"], "instance_id": "d", "client_id": "c"},
        },
    }
    group = read_group(raw)
    assert [whatif.member_named(group, name) for name in "abcde"] == ["a", "b", "b", "e", "e"]
    with pytest.raises(ApportionError, match=r"^no member is named 'zz'; there are a, b, e, c, d\.$"):
        whatif.member_named(group, "zz")
    bare = read_group({"topics": {"t": 4}, "members": {"a": {"topics": ["t"]}, "b": {"topics": ["t"]}}})
    with pytest.raises(ApportionError, match=r"^no member is named 'zz'; there are a, b\.$"):
        whatif.member_named(bare, "zz")


def test_a_set_number_is_set_and_the_rest_is_as_it_was() -> None:
    group = read_group(RAW)
    assert whatif.change(group, "lag t:3=0").lag.tolist() == [5, 0, *group.lag[2:].tolist()]
    dotted = read_group({"topics": {"a:b": 2}, "members": {"m": {"topics": ["a:b"]}, "n=1": {"topics": ["a:b"]}}})
    lagging = whatif.change(dotted, "lag a:b:1=7")
    assert lagging.lag.tolist() == [0, 7] or lagging.lag_known.tolist() == [False, True]
    assert whatif.change(dotted, "capacity n=1=1000000").capacity.tolist() == [1, 1_000_000]
    with pytest.raises(ApportionError):
        whatif.change(dotted, "capacity m=1000001")
    assert whatif.change(dotted, "grow a:b:3").P == 3
    for partition in (2**31 - 1, 2**31, 2**40):
        with pytest.raises(ApportionError, match=f"^lag t:{partition}: found no such partition; needed one of the"):
            whatif.set_lag(group, "t", partition, 1)
    empty = {"topics": {"t": [], "u": 1}, "members": {"m": {"topics": ["t", "u"]}}}
    with pytest.raises(ApportionError) as error:
        whatif.set_lag(read_group(empty), "t", 0, 1)
    assert str(error.value).startswith("lag t:0: found no such partition")
    assert whatif.grow(read_group(empty), "t", 2).P == 3


def test_settings_and_the_strategy_that_is_not_named_are_used() -> None:
    steps = ["join 1", "leave x"]
    assert [p.assignor for _, p in whatif.what_if(RAW, steps)] == ["cooperative-sticky"] * 2
    ((_, planned), *_) = whatif.what_if(RAW, steps, "lag-aware", {"max_skew": "2"})
    assert planned.settings == {"max_skew": 2}
    by_hand = whatif.what_if(RAW, steps, apportion.LagAware(max_skew=2))
    assert [p.to_dict() for _, p in by_hand] == [
        p.to_dict() for _, p in whatif.what_if(RAW, steps, "lag-aware", {"max_skew": 2})
    ]
    assert apportion.plan(RAW).assignor == "cooperative-sticky"
    assert apportion.plan(RAW, "lag-aware", {"max_skew": "3"}).settings == {"max_skew": 3}


def plans(answers: dict[str, list[int]], raw: dict[str, Any]) -> list[Plan]:
    """Plans of known names with owners made by hand."""
    group = read_group(raw)
    return [
        Plan(group, name, {}, Answer(np.array(owner)), name.startswith("cooperative"))
        for name, owner in answers.items()
    ]  # fmt: skip


def test_a_comparison_as_json_says_its_group_its_failures_and_what_was_saved() -> None:
    saved = read_plan(apportion.plan(HOSTS, "range").to_dict())
    compared = comparison.compare(HOSTS, ["sticky", Wrong(None)], saved)  # type: ignore[list-item]
    said = compared.to_dict()
    assert (said["version"], said["group"], [plan["assignor"] for plan in said["plans"]]) == (1, "hosts", ["sticky"])
    assert not {"failed", "saved"} & comparison.compare(HOSTS, ["sticky"]).to_dict().keys()


def test_strategies_are_compared_once_each_in_the_order_of_the_asker() -> None:
    def names(*arguments: Any, **named: Any) -> list[str]:
        return [comparison.named(plan) for plan in comparison.compare(RAW, *arguments, **named).plans]

    assert names(["sticky", "range", "sticky"]) == ["sticky", "range"]
    assert names(["lag-aware", "range"], settings={"max-skew": "2"}) == ["lag-aware", "lag-aware max_skew=2", "range"]
    assert names(["lag-aware"], settings={"max_skew": "1"}) in (["lag-aware"], ["lag-aware", "lag-aware max_skew=1"])
    every = names()
    assert names(running="cooperative-lag-aware") == [*every, "cooperative-lag-aware"]
    assert names(running="range") == names(running="nobody's") == names(kind="consumer") == every
    assert names([apportion.LagAware(), Wrong(np.full(6, -1))], settings={"max_skew": "2"}) == [
        "lag-aware", "lag-aware max_skew=2", "wrong",
    ]  # fmt: skip
    assert names(["streams"], settings={"stateless": "t,u"})[1:] == ["streams stateless=t,u"]


def test_a_large_group_is_planned_by_quick_strategies_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    group = read_group(HOSTS)
    every = [plan.assignor for plan in comparison.every_plan(group)]
    assert every == [name for name in apportion.assignors.compared() if name in every]
    monkeypatch.setattr(comparison, "ALL_STRATEGIES_MAX_PARTITIONS", group.P)
    assert [plan.assignor for plan in comparison.every_plan(group)] == every
    monkeypatch.setattr(comparison, "ALL_STRATEGIES_MAX_PARTITIONS", group.P - 1)
    quick = [name for name in every if traits_of(apportion.assignors.known()[name]).quick]
    assert [plan.assignor for plan in comparison.every_plan(group)] == quick
    assert 0 < len(quick) < len(every)


def test_an_answer_is_held_against_the_group_partition_by_partition() -> None:
    group = read_group(RAW)
    for owner in ([1, 0, 2, 0, 2, -1], [-1] * 6, [1, 2, 2, 2, 2, 0]):
        planning.check_owners("made", group, np.array(owner))
        assert planning.plan(group, Wrong(np.array(owner))).owner.tolist() == owner  # type: ignore[arg-type]
    wrong: tuple[Any, ...] = (
        np.array([0, 0, 1, 0, 0, -1]), np.array([3, 0, 1, 1, 2, -2]), np.array([-5, 0, 1, 1, 2, 2]), np.zeros((6, 1)),
        np.array([True] * 6), np.array([0, 0, 1, 1, 2, 2], dtype=np.uint8), [0] * 6, np.array([0, 1, 0]),
    )  # fmt: skip
    for owner in wrong:
        with pytest.raises(BrokenAssignor) as error:
            planning.check_owners("made", group, owner)
        assert "made" in str(error.value), "the strategy is named"
    nothing = read_group({"topics": {}, "members": {"a": {"topics": []}}})
    planning.check_owners("made", nothing, np.array([], dtype=np.int64))

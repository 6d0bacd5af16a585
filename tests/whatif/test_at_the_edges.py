"""Rollouts of hosts, of several steps and of state, and advice on both sides of each bound, whole."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.written_down import as_written
from tests.whatif.test_whatif import RAW
from tests.whatif.test_whole_answers import STREAMS, Wrong, drawn

import apportion
from apportion import comparison, planning, rollouts, whatif
from apportion.errors import ApportionError, BrokenAssignor
from apportion.model.group_json import group_to_dict, read_group
from apportion.model.plan import Answer, Plan
from apportion.model.plan_json import read_plan
from apportion.rollouts import MembershipChange, Stage, Times
from apportion.strategy.traits import traits_of

WRITTEN = Path(__file__).parent / "at_the_edges.json"
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


FIGURES = ("generations", "revoked", "taken", "moved", "read_anew", "standstill_s", "longest_s")


def whole(stages: list[Stage], times: Times) -> list[Any]:
    """All that a rollout says."""
    said: list[Any] = []
    for stage in stages:
        one = stage.to_dict()
        planned, figures = one.pop("plan"), [one.pop(name) for name in FIGURES]
        who, owners = rollouts.identities(stage.plan.group), rollouts.owners(stage.plan.group, stage.plan.owner)
        places = [
            who.index(owners[key]) if key in owners else None
            for key in map(stage.plan.group.name_of, range(stage.plan.group.P))
        ]
        said.append([one, figures, planned["assignor"], planned.get("withheld"), who, places])
        said.append([np.unique(stage.still_s).tolist(), stage.still_s.argmax().item(), stage.movers.tolist()])
    return [*said, rollouts.total_sentence(stages), rollouts.begins_and_ends(stages, times)]


@pytest.mark.parametrize("protocol", rollouts.PROTOCOLS)
@pytest.mark.parametrize("by_host", [False, True])
def test_members_of_a_host_go_and_come_back_together(protocol: Any, by_host: bool) -> None:
    answers: list[Any] = []
    for times in (Times(), Times(restart_s=45, session_s=45, rebalance_s=0.75), Times(restart_s=45.5)):
        for steps in (
            ["rolling 2"], ["rolling 4"], ["rolling 3", "scale 4", "grow u:7"], ["leave /h0"],
            ["lose-rack b", "join 2", "rolling 3"], ["scale 5", "leave static", "scale 7"],
        ):  # fmt: skip
            for static in (False, True)[: 1 + (len(steps) < 2)]:
                asked = {"static": static, "by_host": by_host, "times": times}
                try:
                    answers.append(whole(rollouts.rollout(HOSTS, steps, protocol, **asked), times))  # type: ignore[arg-type]
                except ApportionError as error:
                    answers.append(str(error))
    as_written(WRITTEN, f"hosts {protocol} {by_host}", answers)


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


def test_steps_of_state_take_the_rounds_that_its_copies_need() -> None:
    answers: list[Any] = []
    for steps in (["rolling"], ["scale 5", "scale 2"], ["leave c-1", "join"], ["join 2", "grow t:8"]):
        for settings in ({}, {"num_standby_replicas": "1", "max_warmup_replicas": "1"}):
            stages = rollouts.rollout(STREAMS, steps, "cooperative", "streams", settings)
            answers.append(whole(stages, Times()))
    as_written(WRITTEN, "rollouts of state", answers)


def test_names_of_those_that_restart_are_drawn_from_group_member_and_batch() -> None:
    plain = {**HOSTS, "members": {name: {"topics": ["t"]} for name in "ab"}}
    named = {**plain, "members": {name: {"topics": ["t"], "client_id": "pod"} for name in "ab"}}
    answers = [
        [stage.joined for stage in rollouts.rollout(raw, [step], "eager")]
        for raw in (plain, named, {**named, "group": "other"})
        for step in ("rolling", "rolling 2")
    ]
    assert all(joined[0].startswith("pod-") for stages in answers[2:] for joined in stages if joined)
    as_written(WRITTEN, "names of those that restart", answers)


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
    both = rollouts.total_sentence(rollouts.rollout(one, ["rolling", "join 1"]))
    as_written(WRITTEN, "total of a rolling restart", both)


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
    as_written(WRITTEN, f"client id of {n}", str(error.value))


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
    as_written(WRITTEN, "lag of no partition", str(error.value))
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


def test_after_a_plan_withheld_partitions_are_nobodys_and_once_settled_the_new_owners() -> None:
    stages = [*pairwise([p for _, p in whatif.what_if(RAW, ["join 2", "leave x", "join 1 like y"])])]
    answers = [
        [whatif.after(p).owner.tolist(), whatif.settled(p).owner.tolist(), p.withheld.tolist()] for p, _ in stages
    ]
    kept = whatif.settled(apportion.plan(STREAMS, "streams"))
    as_written(WRITTEN, "after and settled", [answers, group_to_dict(kept)])


def plans(answers: dict[str, list[int]], raw: dict[str, Any]) -> list[Plan]:
    """Plans of known names with owners made by hand."""
    group = read_group(raw)
    return [
        Plan(group, name, {}, Answer(np.array(owner)), name.startswith("cooperative"))
        for name, owner in answers.items()
    ]  # fmt: skip


def advised(answers: dict[str, list[int]], lags: list[int | None], **said: Any) -> list[Any]:
    """What is best and what is advised, of plans made by hand for three members."""
    entries = [{"partition": p, **({} if lag is None else {"lag": lag})} for p, lag in enumerate(lags)]
    owned = {"a": [0, 1], "b": [2, 3], "c": [4, 5]}
    members = {m: {"topics": ["t"], "owned": {"t": p}, "generation": 1} for m, p in owned.items()}
    made = plans(answers, {"topics": {"t": entries}, "members": members})
    compared = comparison.Comparison(made[0].group, made, {}, **said)
    return [compared.best, comparison.advice(compared)]


NOW = [0, 0, 1, 1, 2, 2]
LESS = [0, 1, 1, 1, 2, 2]
"""One partition more on another member."""
OTHER = [1, 0, 0, 1, 2, 2]
CASES: dict[str, tuple[dict[str, list[int]], list[int | None]]] = {
    "worth exactly": ({"sticky": NOW, "lag-aware": LESS}, [20, 80, 0, 0, 80, 0]),
    "worth one more": ({"sticky": NOW, "lag-aware": LESS}, [20, 81, 0, 0, 80, 0]),
    "worth one less": ({"sticky": NOW, "lag-aware": LESS}, [21, 80, 0, 0, 79, 0]),
    "nearly exactly": ({"sticky": NOW, "lag-aware": LESS, "failover": [1, 0, 2, 1, 2, 2]}, [90, 100, 0, 0, 0, 0]),
    "nearly not": ({"sticky": NOW, "lag-aware": LESS, "failover": [1, 0, 2, 1, 2, 2]}, [80, 100, 0, 0, 0, 0]),
    "of equals": ({"sticky": NOW, "cooperative-sticky": NOW, "range": NOW}, [1] * 6),
    "moves": ({"range": OTHER, "sticky": NOW, "roundrobin": [1, 1, 2, 2, 0, 0]}, [None] * 6),
    "nobody's": ({"range": [0, 0, 1, 1, 2, -1], "sticky": NOW, "lag-aware": [-1] * 6}, [5] * 6),
    "lag of some": ({"range": [0, 0, 1, 1, -1, 2], "sticky": [0, 0, 1, 1, 2, -1]}, [None] * 5 + [4]),
    "broker": ({"broker-uniform": NOW, "broker-range": OTHER, "range": NOW}, [None] * 6),
    "state": ({"streams": NOW, "failover": OTHER}, [9, 9, 0, 0, 0, 0]),
    "uneven": ({"range": LESS, "sticky": [0, 1, 1, 1, 1, 2]}, [None] * 6),
}


@pytest.mark.parametrize("case", CASES)
def test_the_advice_on_both_sides_of_each_bound(case: str) -> None:
    answers, lags = CASES[case]
    said: list[Any] = []
    for kind in (None, "classic", "consumer"):
        for running in (None, *answers, "uniform"):
            said.append(advised(answers, lags, kind=kind, running=running))
            said.append(advised(dict(reversed(answers.items())), lags, kind=kind, running=running))
    as_written(WRITTEN, f"advice {case}", said)


def test_a_comparison_as_json_says_its_group_its_failures_and_what_was_saved() -> None:
    saved = read_plan(apportion.plan(HOSTS, "range").to_dict())
    compared = comparison.compare(HOSTS, ["sticky", Wrong(None)], saved)  # type: ignore[list-item]
    said = compared.to_dict()
    assert (said["version"], said["group"], [plan["assignor"] for plan in said["plans"]]) == (1, "hosts", ["sticky"])
    as_written(
        WRITTEN, "comparison as json", [said["best"], said["failed"], said["saved"], comparison.advice(compared)]
    )
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
    answers = []
    wrong: tuple[Any, ...] = (
        np.array([0, 0, 1, 0, 0, -1]), np.array([3, 0, 1, 1, 2, -2]), np.array([-5, 0, 1, 1, 2, 2]), np.zeros((6, 1)),
        np.array([True] * 6), np.array([0, 0, 1, 1, 2, 2], dtype=np.uint8), [0] * 6, np.array([0, 1, 0]),
    )  # fmt: skip
    for owner in wrong:
        with pytest.raises(BrokenAssignor) as error:
            planning.check_owners("made", group, owner)
        answers.append(str(error.value))
    nothing = read_group({"topics": {}, "members": {"a": {"topics": []}}})
    planning.check_owners("made", nothing, np.array([], dtype=np.int64))
    as_written(WRITTEN, "answers that are none", answers)


@pytest.mark.parametrize("seed", [30, 31, 32])
def test_steps_one_after_the_other_are_what_was_written_down(seed: int) -> None:
    group, steps = drawn(seed)
    able: list[str] = []
    for step in steps:
        try:
            whatif.what_if(group, [*able, step], "sticky")
        except ApportionError:
            continue
        able.append(step)
    answers: list[Any] = []
    for protocol in rollouts.PROTOCOLS:
        stages = rollouts.rollout(group, able, protocol)  # type: ignore[arg-type]
        answers.append(whole(stages, Times()))
    as_written(WRITTEN, f"one after the other {seed}", answers)

"""Rollouts of hosts, of several steps and of state, and advice on both sides of each bound, whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.whatif.test_whatif import RAW
from tests.whatif.test_whole_answers import Wrong

import apportion
from apportion import comparison, rollouts, whatif
from apportion.errors import ApportionError
from apportion.model.group_json import read_group
from apportion.rollouts import MembershipChange, Times

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


def test_newcomers_are_told_apart_from_whoever_has_such_a_name() -> None:
    raw = {"topics": {"t": 4}, "members": {f"join-{n}": {"topics": ["t"]} for n in (1, 2, 3, 5)}}
    assert whatif.join(read_group(raw), 3).members == tuple(f"join-{n}" for n in range(1, 8))
    with pytest.raises(ApportionError, match=r"^join: found 0; needed how many members come, from 1 to 100000\.$"):
        whatif.join(read_group(raw), 0)
    assert whatif.join(read_group(RAW)).members == ("y", "join-1", "x", "z")


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

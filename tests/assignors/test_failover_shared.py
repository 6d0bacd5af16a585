"""Failover whose work several share: against every spread of small groups, in two rounds, and in words."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

import apportion
from apportion import whatif
from apportion.assignors import find
from apportion.model.group_json import read_group
from apportion.strategy.traits import traits_of
from apportion.tasks import place as placing


def drawn(rng: random.Random) -> dict[str, Any]:
    """At most four topics and four members of two priorities on two hosts, some of which hold some topics."""
    sizes = {f"t{n}": rng.randint(1, 3) for n in range(rng.randint(1, 4))}
    members: dict[str, Any] = {}
    names = [f"m{m}" for m in range(rng.randint(1, 4))]
    owner = {topic: rng.choice([*names, None]) for topic in sizes}
    for name in names:
        wants = sorted(t for t in sizes if rng.random() < 0.8)
        owned = {t: list(range(sizes[t])) for t in wants if owner[t] == name}
        members[name] = {"topics": wants, "owned": owned, "generation": 2, "host": rng.choice("hk")}
        if rng.random() < 0.8:
            members[name]["priority"] = rng.choice([5, 5, 5, 1])
    return {"topics": sizes, "members": members}


def candidates(raw: dict[str, Any], topic: str) -> list[str]:
    """The subscribers of the highest priority."""
    want = [m for m, fields in raw["members"].items() if topic in fields["topics"]]
    best = max((raw["members"][m].get("priority", -(10**12)) for m in want), default=0)
    return [m for m in want if raw["members"][m].get("priority", -(10**12)) == best]


def worth(raw: dict[str, Any], owner: dict[str, str]) -> tuple[int, int]:
    """Squares of topics held, and partitions that leave their owner."""
    held = [list(owner.values()).count(member) for member in raw["members"]]
    moves = sum(
        len(ids)
        for member, fields in raw["members"].items()
        for t, ids in fields["owned"].items()
        if owner[t] != member
    )
    return sum(number**2 for number in held), moves


@pytest.mark.parametrize("name", ["failover", "cooperative-failover"])
@pytest.mark.parametrize("solver", [True, False])
def test_no_spread_of_whole_topics_over_equals_is_better(
    name: str, solver: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With OR-tools and without; the next round gives the same and withholds nothing."""
    if not solver:
        monkeypatch.setattr(placing, "solver", lambda: None)
    rng = random.Random(9)
    for _ in range(150):
        raw = drawn(rng)
        plan = apportion.plan(raw, name, {"active": "equals"})
        assert set(plan.proof.values()) == {"optimal"}
        open_to = {topic: members for topic in raw["topics"] if (members := candidates(raw, topic))}
        given = {
            topic: member
            for member, held in (plan.target if plan.cooperative else plan.assignment).items()
            for topic in held
        }
        assert given.keys() == open_to.keys()
        assert all(given[topic] in members for topic, members in open_to.items())
        every = itertools.product(*open_to.values())
        assert worth(raw, given) == min(worth(raw, dict(zip(open_to, owner, strict=True))) for owner in every)
        again = apportion.plan(whatif.after(plan), name, {"active": "equals"})
        assert again.owner.tolist() == plan.owner.tolist()


def test_all_work_is_on_one_host_as_far_as_it_wants_it() -> None:
    """Every topic that somebody on the best host wants is there alone, shared as evenly as can be."""
    rng = random.Random(10)
    for _ in range(200):
        raw = drawn(rng)
        plan = apportion.plan(raw, "failover", {"active": "host"})
        rank = {
            h: max((f.get("priority", -9) for f in raw["members"].values() if f["host"] == h), default=-99)
            for h in "hk"
        }
        for topic in raw["topics"]:
            hosts = {raw["members"][m]["host"] for m, held in plan.assignment.items() if topic in held}
            wanting = {f["host"] for f in raw["members"].values() if topic in f["topics"]}
            assert len(hosts) <= 1
            assert not wanting or rank[hosts.pop()] == max(rank[host] for host in wanting)


def test_the_reasons_name_the_host() -> None:
    members = {f"m{n}": {"topics": ["t"], "host": "h1", "priority": 5} for n in range(3)}
    group: dict[str, Any] = {"topics": {"t": 6}, "members": {**members, "z": {"topics": ["t"], "host": "h2"}}}
    assert apportion.plan(group, "failover", {"active": "host"}).explain() == [
        "t: the host of 'm0' is of the highest priority, 5; 3 consumers there share it."
    ]
    group["members"]["z"] |= {"owned": {"t": [0, 1]}, "generation": 1}
    assert apportion.plan(group, "failover", {"active": "host", "preempt": "false"}).explain() == [
        "t: the host of 'z' holds most of it and is left alone; 1 consumer share it."
    ]


def test_brokers_keep_topics_whole_but_where_a_hosts_consumers_share_them() -> None:
    kept = [traits_of(find("failover", {"active": active})).kept_whole for active in ("member", "equals", "host")]
    assert kept == ["topics", "topics", ""]


def test_the_default_is_one_member_a_topic_as_before() -> None:
    raw = drawn(random.Random(3))
    plain, named = find("failover"), find("failover", {"active": "member"})
    assert plain == named
    assert (
        apportion.plan(read_group(raw), plain).owner.tolist() == apportion.plan(read_group(raw), named).owner.tolist()
    )


@pytest.mark.parametrize("empty", [1, 2, 3])
@pytest.mark.parametrize("first", ["a", "z"])
def test_a_topic_without_partitions_is_no_burden_for_an_equal(empty: int, first: str) -> None:
    """Two equals get one of the two topics each, however many topics of nothing stand before or behind them."""
    topics = {"t": 2, "u": 1, **{f"{first}{n}": 0 for n in range(empty)}}
    group = {"topics": topics, "members": {m: {"topics": list(topics), "priority": 1} for m in ("m0", "m1")}}
    plan = apportion.plan(group, "failover", {"active": "equals"})
    assert {member: list(held) for member, held in plan.assignment.items()} == {"m0": ["t"], "m1": ["u"]}

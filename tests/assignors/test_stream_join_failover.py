"""Stream join and failover keep their promises on random groups, by plain rules and by looking at every sharing."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

import pytest

import apportion
from apportion.model.group import java_order
from apportion.testing import Kinds, many_groups


def ids(group: dict[str, Any], topic: str) -> set[int]:
    what = group["topics"][topic]
    return set(range(what)) if isinstance(what, int) else {entry["partition"] for entry in what}


def common_numbers(group: dict[str, Any]) -> tuple[set[str], list[int]]:
    wanted = {t for fields in group["members"].values() for t in fields["topics"]} & set(group["topics"])
    numbers = set.intersection(*(ids(group, topic) for topic in wanted)) if wanted else set()
    return wanted, sorted(numbers)


def past_numbers(group: dict[str, Any], topics: set[str], numbers: list[int], joins: set[str]) -> dict[int, str]:
    """Who holds which number: the newest epoch, alone, of a member that still joins."""
    claims: dict[int, dict[str, int]] = {}
    for member, fields in group["members"].items():
        for topic in topics & set(fields.get("owned") or {}):
            for number in fields["owned"][topic]:
                if number in numbers:
                    epoch = fields.get("generation")
                    claims.setdefault(number, {})[member] = -1 if epoch is None else epoch
    held = {}
    for number, epochs in claims.items():
        newest = [member for member, epoch in epochs.items() if epoch == max(epochs.values())]
        if len(newest) == 1 and newest[0] in joins:
            held[number] = newest[0]
    return held


def numbers_of(plan: apportion.Plan, numbers: list[int]) -> dict[int, set[str]]:
    """The owners seen of each number."""
    owners: dict[int, set[str]] = {number: set() for number in numbers}
    for member, topics in plan.assignment.items():
        for partitions in topics.values():
            for number in partitions:
                owners[number].add(member)
    return owners


@pytest.mark.slow
@pytest.mark.parametrize("subscriptions", [("equal",), ("equal", "unequal", "nested", "disjoint")])
def test_a_number_has_one_owner_who_reads_it_in_every_topic_it_wants(subscriptions: tuple[str, ...]) -> None:
    for group in many_groups(1500, seed=2, kinds=Kinds(topics=3, members=4, subscriptions=subscriptions)):
        plan = apportion.plan(group, "sticky-stream-join")
        topics, numbers = common_numbers(group)
        joins = {member for member, fields in group["members"].items() if topics & set(fields["topics"])}
        epochs = [fields.get("generation") for fields in group["members"].values()]
        assert plan.to_dict()["epoch"] == max(-1 if epoch is None else epoch for epoch in epochs) + 1
        owners = numbers_of(plan, numbers)
        for number, members in owners.items():
            assert len(members) <= 1
            for member in members:
                wanted = topics & set(group["members"][member]["topics"])
                assert {t for t, held in plan.assignment[member].items() if number in held} == wanted
        assert set(owners) >= {n for held in plan.assignment.values() for ps in held.values() for n in ps}
        if numbers and joins:
            assert all(owners.values()), "every number has an owner, and everybody who joins wants something"
            counts = Counter(dict.fromkeys(joins, 0))
            counts.update(member for members in owners.values() for member in members)
            assert max(counts.values()) - min(counts.values()) <= 1
            assert set(counts) == joins


def test_no_fair_sharing_moves_fewer_numbers() -> None:
    """Every fair sharing of up to seven numbers is looked at."""
    looked = 0
    for group in many_groups(600, seed=3, kinds=Kinds(topics=2, partitions=7, members=4)):
        topics, numbers = common_numbers(group)
        joins = sorted(m for m, fields in group["members"].items() if topics & set(fields["topics"]))
        if not numbers or len(joins) < 2 or len(joins) ** len(numbers) > 5000:
            continue
        held = past_numbers(group, topics, numbers, set(joins))
        best = max(
            sum(held.get(n) == member for n, member in zip(numbers, sharing, strict=True))
            for sharing in itertools.product(joins, repeat=len(numbers))
            if max(c := [sharing.count(m) for m in joins]) - min(c) <= 1
        )
        owners = numbers_of(apportion.plan(group, "sticky-stream-join"), numbers)
        assert sum(held.get(n) in members for n, members in owners.items()) == best
        looked += len(held) > 0
    assert looked > 100


def test_a_second_round_moves_nothing() -> None:
    for group in many_groups(200, seed=4, kinds=Kinds(subscriptions=("equal",))):
        first = apportion.plan(group, "sticky-stream-join")
        for member, fields in group["members"].items():
            fields.update(owned=first.assignment[member], generation=first.to_dict()["epoch"])
        again = apportion.plan(group, "sticky-stream-join")
        assert again.assignment == first.assignment
        assert again.to_dict()["epoch"] == first.to_dict()["epoch"] + 1


def in_member_order(group: dict[str, Any]) -> list[str]:
    def place(member: str) -> tuple[bool, bytes]:
        instance = group["members"][member].get("instance_id")
        return (not instance, java_order(instance or member))

    return sorted(group["members"], key=place)


def rank(group: dict[str, Any], standing: int, member: str, preempt: bool) -> tuple[int, float]:
    priority = group["members"][member].get("priority")
    return (0 if preempt else -standing, float("inf") if priority is None else -priority)


@pytest.mark.slow
@pytest.mark.parametrize("preempt", [True, False])
def test_failover_chooses_the_winner_of_the_plain_rule(preempt: bool) -> None:
    for group in many_groups(1500, seed=5):
        plan = apportion.plan(group, "failover", {"preempt": preempt})
        order = in_member_order(group)
        standing = Counter()  # type: ignore[var-annotated]
        for p, owner in enumerate(plan.group.owner.tolist()):
            if owner >= 0:
                standing[plan.group.name_of(p)[0], plan.group.members[owner]] += 1
        for topic in group["topics"]:
            wanting = [member for member in order if topic in group["members"][member]["topics"]]

            ranks = {member: rank(group, standing[topic, member], member, preempt) for member in wanting}
            winner = min(wanting, key=ranks.__getitem__, default=None)
            for member in group["members"]:
                expected = sorted(ids(group, topic)) if member == winner else []
                assert plan.assignment[member].get(topic, []) == expected


def test_large_groups_are_planned_at_once() -> None:
    rng = random.Random(6)
    topics = [f"t{t:04}" for t in range(1000)]
    members = {f"m{m:05}": {"topics": topics, "priority": rng.randint(0, 9)} for m in range(2000)}
    group = apportion.read_group({"topics": dict.fromkeys(topics, 500), "members": members})
    for name in ("range", "roundrobin", "sticky-stream-join", "failover"):
        owner = apportion.plan(group, name).owner
        assert len(owner) == 500_000
        assert owner.min() >= 0

"""Sticky is never worse than Kafka's own sticky assignor or kafka-python's, and the table of how often they are worse.

By default 2,000 random groups; with APPORTION_THOROUGH=1 10,000. Better means: fairer; as fair and fewer rack misses;
as fair and near and fewer moves. Run with ``-s`` to see the table.
"""

from __future__ import annotations

import logging
import os
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pytest

import apportion
from apportion.model.plan import Plan
from apportion.testing.peers import JavaAssignors

from . import sticky_judge as judge
from .sticky_groups import random_group

THOROUGH = os.environ.get("APPORTION_THOROUGH") == "1"
GROUPS = 10_000 if THOROUGH else 2_000
SMALLER = 1_500 if THOROUGH else 300
ORDER = ("balance", "racks", "moves")
Assignment = Mapping[str, Mapping[str, list[int]]]


@pytest.fixture(scope="module")
def kafka(jars: str) -> Iterator[JavaAssignors]:
    with JavaAssignors() as assignors:
        yield assignors


def kind(raw: Mapping[str, Any], plan: Plan) -> str:
    """The row of the table that the group belongs to."""
    if not all(member["topics"] for member in raw["members"].values()):
        return "a member wants nothing"
    equal = "equal" if len(plan.group.subscriptions) == 1 else "unequal"
    racks = "racks" if plan.group.racks is not None and plan.group.racks.known else "no racks"
    return f"{equal}, {racks}, {'fallen' if plan.ignored else 'clean'} claims"


def compare(raw: Mapping[str, Any], plan: Plan, theirs: Assignment | None) -> str:
    """What the other's plan is beside ours; fails where ours is worse."""
    ours = judge.score(raw, judge.owners(raw, plan.assignment), ORDER)
    if theirs is None:
        return "throws"
    try:
        named = {m: {t: sorted(ps) for t, ps in topics.items() if ps} for m, topics in theirs.items()}
        owner = judge.owners(raw, named)
    except (AssertionError, KeyError):
        return "no valid plan"
    other = judge.score(raw, owner, ORDER)
    assert ours <= other, raw
    if ours == other:
        return "as good"
    worse = next(goal for goal, a, b in zip(ORDER, ours, other, strict=True) if a < b)
    return {"balance": "less fair", "racks": "more misses", "moves": "more moves"}[worse]


def table(groups: Iterable[Mapping[str, Any]], answers: Iterable[Assignment | None]) -> dict[str, Counter[str]]:
    """How often the other's plans are what, by kind of group."""
    rows: dict[str, Counter[str]] = {}
    for raw, theirs in zip(groups, answers, strict=True):
        plan = apportion.plan(dict(raw), "sticky")
        rows.setdefault(kind(raw, plan), Counter())[compare(raw, plan, theirs)] += 1
    return rows


def show(title: str, rows: Mapping[str, Counter[str]]) -> None:
    columns = ("as good", "less fair", "more misses", "more moves", "no valid plan", "throws")
    print(f"\n{title}\n{'':36}{'groups':>8}" + "".join(f"{column:>15}" for column in columns))
    for row in sorted(rows):
        print(f"{row:36}{rows[row].total():>8}" + "".join(f"{rows[row][column]:>15}" for column in columns))


@pytest.mark.timeout(900)  # 20 s of computing, but machines are shared
def test_on_thousands_of_groups_sticky_is_never_worse_than_kafkas_own(kafka: JavaAssignors) -> None:
    groups = [random_group(random.Random(seed), gaps=False) for seed in range(GROUPS)]
    answers = kafka.ask_all({"assignor": "sticky", "group": raw} for raw in groups)
    rows = table(groups, [answer.get("assignment") for answer in answers])
    show("Apache Kafka's sticky assignor beside the best plan", rows)
    assert sum(rows.values(), Counter())["as good"] > GROUPS // 2, "the comparison compares something"
    easy = rows["equal, no racks, clean claims"]
    assert easy["as good"] == easy.total(), "there Kafka is optimal, and so are we"


@pytest.mark.slow
def test_on_many_groups_sticky_is_never_worse_than_kafka_pythons_own() -> None:
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    groups = [random_group(random.Random(seed), gaps=False) for seed in range(SMALLER)]
    rows = table(groups, map(kafka_python, groups))
    show("kafka-python's sticky assignor beside the best plan", rows)
    assert sum(rows.values(), Counter())["as good"] > SMALLER // 4


class BrokerCluster:
    """As much of kafka-python's cluster metadata as an assignor asks for."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.ids = {
            topic: set(range(what)) if isinstance(what, int) else {entry["partition"] for entry in what}
            for topic, what in raw["topics"].items()
        }

    def topics(self) -> list[str]:
        return list(self.ids)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return self.ids.get(topic)


def kafka_python(raw: Mapping[str, Any]) -> Assignment | None:
    """What kafka-python's own assignor gives, with each member's past in its own user data; None where it throws."""
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from kafka.structs import TopicPartition

    class Member:
        def __init__(self, name: str, member: Mapping[str, Any]) -> None:
            held = [TopicPartition(t, p) for t, ps in (member.get("owned") or {}).items() for p in ps]
            generation = member.get("generation")
            self.member_id, self.group_instance_id = name, member.get("instance_id")
            self.metadata = StickyPartitionAssignor._metadata(
                member["topics"], held, -1 if generation is None else generation
            )

    try:
        given = StickyPartitionAssignor().assign(BrokerCluster(raw), [Member(*item) for item in raw["members"].items()])
    except Exception:  # whatever it throws is its answer
        return None
    plan: dict[str, dict[str, list[int]]] = {}
    for name, assignment in given.items():
        plan[name] = {}
        for topic, partitions in assignment.assigned_partitions:
            plan[name].setdefault(topic, []).extend(partitions)
    return plan

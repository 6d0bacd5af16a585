"""Calls of Kafka's own tests of task assignors, said in group.json, and what these tests ask of the answer."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import apportion
from apportion import whatif
from apportion.assignors.streams import Streams
from apportion.model.group_json import read_group
from apportion.model.plan import Plan

CALLS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "kafka_calls.json").read_text())["calls"]


def pair(task: str) -> tuple[str, int]:
    """The partition that a task reads: a topic for each sub-topology."""
    subtopology, number = task.split("_")
    return f"s{subtopology}", int(number)


def by_topic(tasks: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, number in map(pair, tasks.split()):
        found.setdefault(topic, []).append(number)
    return found


def group_of(call: dict[str, Any]) -> dict[str, Any]:
    """The call as group.json: a member for each thread, the first of which tells the process's state."""
    topics = {t: [{"partition": p} for p in sorted(ids)] for t, ids in by_topic(call["tasks"]).items()}
    members: dict[str, Any] = {}
    for process, told in call["processes"].items():
        defaults: list[Any] = [1, "", "", {}, {}]
        threads, active, standby, lag, tags = [*told, *defaults[len(told) :]]
        for i in range(threads):
            members[f"{process}-{i:03}"] = {"topics": sorted(topics), "host": process, "tags": tags, "generation": 1}
        lags: dict[str, list[dict[str, int]]] = {}
        for task in call["tasks"].split() if "*" in lag else lag:
            topic, number = pair(task)
            lags.setdefault(topic, []).append({"partition": number, "lag": lag.get(task, lag.get("*", 0))})
        members[f"{process}-000"] |= {"standby": by_topic(standby), "recovery_lag": lags}
        for n, task in enumerate(active.split()):  # as a process shares its tasks among its threads
            topic, number = pair(task)
            owned = members[f"{process}-{n % threads:03}"].setdefault("owned", {})
            owned.setdefault(topic, []).append(number)
    return {"topics": topics, "members": members}


def plans(call: dict[str, Any]) -> list[Plan]:
    """The plan of the call, and those after it where its test speaks of what is settled at once."""
    strategy = Streams(
        stateless=tuple(by_topic(call.get("stateless", ""))),
        process="host",
        num_standby_replicas=call.get("standbys", 0),
        max_warmup_replicas=call.get("warmups", 2),
        acceptable_recovery_lag=call.get("lag", 10_000),
        rack_aware_assignment_tags=tuple(call.get("tags", "").split()),
    )
    first = apportion.plan(read_group(group_of(call)), strategy)
    return whatif.rounds(first, strategy) if call.get("settles") else [first]


def held(plan: Plan, role: str) -> dict[str, set[str]]:
    """Process to its tasks in a role, by the names of the call."""
    topics = sorted(plan.group.topics)
    return {
        process: {_named(task, topics) for tasks in hands.values() for task in tasks}
        for process, hands in plan.answer.extra["tasks"][role].items()
    }


def _named(task: str, topics: list[str]) -> str:
    """A task of the plan, whose sub-topologies are the topics in order, as the call names it."""
    subtopology, number = task.split("_")
    return f"{topics[int(subtopology)].removeprefix('s')}_{number}"


@pytest.mark.parametrize("call", CALLS, ids=lambda call: str(call["test"]).partition(".")[2])
def test_what_kafkas_own_tests_ask_for_holds(call: dict[str, Any]) -> None:
    plan = plans(call)[-1]
    active, standby, warmup = (held(plan, role) for role in ("active", "standby", "warmup"))
    tasks, stateless = set(call["tasks"].split()), set(call.get("stateless", "").split())
    assert Counter(task for run in active.values() for task in run) == Counter(tasks), "every task runs once"
    assert not any(active[q] & (standby[q] | warmup[q]) or standby[q] & warmup[q] for q in active)
    assert not stateless & set().union(*standby.values(), *warmup.values())
    for role, exact in (("active", active), ("standby", standby)):
        for process, wanted in call.get(role, {}).items():
            assert exact[process] == set(wanted.split()), (role, process)
    for field, numbers in (("counts", active), ("standby_counts", standby), ("warmup_counts", warmup)):
        assert {q: len(numbers[q]) for q in call.get(field, {})} == call.get(field, {}), field
    if "spread" in call:
        assert sorted(map(len, active.values())) == call["spread"]
    if "assigned" in call:
        assert [len(active[q] | standby[q] | warmup[q]) for q in call["processes"]] == call["assigned"]
    for process, wanted in call.get("has", {}).items():
        assert set(wanted.split()) <= active[process]
    for process, unwanted in call.get("lacks", {}).items():
        assert not set(unwanted.split()) & active[process]
    if "probing" in call:
        assert plan.answer.waits == call["probing"]
    check_the_rest(call, plan, active, standby, warmup)


Held = dict[str, set[str]]


def check_the_rest(call: dict[str, Any], plan: Plan, active: Held, standby: Held, warmup: Held) -> None:
    """What few tests ask for: copies, sub-topologies, threads, tags, moves."""
    tasks = set(call["tasks"].split())
    if call.get("standby_once"):
        assert Counter(task for kept in standby.values() for task in kept) == Counter(tasks)
    assert max(map(len, standby.values())) <= call.get("standby_most", len(tasks))
    assert sum(map(len, warmup.values())) <= call.get("warmups_most", len(tasks))
    if call.get("each_subtopology"):
        kinds = {task.split("_")[0] for task in tasks}
        assert all({task.split("_")[0] for task in run} == kinds for run in active.values())
    if call.get("all_differ"):
        everything = [frozenset(active[q] | standby[q] | warmup[q]) for q in active]
        assert len(set(everything)) == len(everything)
    if "least" in call:
        assert min(map(len, active.values())) >= call["least"]
    if "thread_load" in call:
        assert sorted({sum(map(len, held.values())) for held in plan.target.values()}) == call["thread_load"]
    if "moves" in call:
        assert plans(call)[0].measures["moves"] + plan.measures["moves"] <= call["moves"]
    if call.get("apart"):
        tags = {process: told[4] for process, told in call["processes"].items()}
        for task in tasks:
            copies = [q for q in tags if task in active[q] | standby[q]]
            for tag in call["tags"].split():
                assert len({tags[q][tag] for q in copies}) == len(copies), task

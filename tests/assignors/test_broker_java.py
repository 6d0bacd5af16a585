"""broker-uniform and broker-range give what Kafka's own group coordinator gives, asked in one JVM on random groups.

By default 600 groups of each kind; with APPORTION_THOROUGH=1 all 10,000.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.support import java_artifacts

import apportion
from apportion.server_side.java_hash import string_hash, timeline_rank
from apportion.testing import jars
from apportion.testing.plugin import needs_java

GROUPS = 10_000 if os.environ.get("APPORTION_THOROUGH") == "1" else 600
EXACT = {"prediction": "exact"}
Json = dict[str, Any]
Coordinator = Callable[[list[Json]], Iterator[dict[str, dict[str, list[int]]]]]


@pytest.fixture(scope="module", params=jars.KAFKA)
def coordinator(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Coordinator:
    """Ask Kafka, each release: requests ``{"assignor", "group", "joins"}`` give assignments."""
    needs_java(request.param)
    source = Path(__file__).with_name("GroupCoordinator.java")
    path = java_artifacts.compile_program(source, tmp_path_factory.mktemp("coordinator"), request.param)
    command = [jars.java(), "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", path, "GroupCoordinator"]

    def ask(requests: list[Json]) -> Iterator[dict[str, dict[str, list[int]]]]:
        lines = "".join(json.dumps(request) + "\n" for request in requests)
        finished = subprocess.run(command, input=lines.encode(), capture_output=True, check=True)
        answers = [json.loads(line) for line in finished.stdout.decode().splitlines()]
        assert len(answers) == len(requests), finished.stderr.decode()[-2000:]
        for answer in answers:
            assert "error" not in answer, answer
            yield answer["assignment"]

    return ask


def topic_id(rng: Random) -> str:
    return base64.urlsafe_b64encode(rng.randbytes(16)).decode().rstrip("=")


def close_ids(rng: Random, count: int) -> list[str]:
    """Topic ids whose hashes fall into few bins, some of them equal, some above the sign bit."""
    words = [(rng.choice((0, 1, 2**63, 2**64 - 1)), rng.choice((0, 1, 16, 32, 2**63))) for _ in range(40)]
    made = dict.fromkeys(
        base64.urlsafe_b64encode((high << 64 | low).to_bytes(16, "big")).decode()[:22] for high, low in words
    )
    return list(made)[:count]


def member_ids(rng: Random, count: int) -> list[str]:
    """As Java's clients, confluent-kafka's and kafka-python's; or such that all have one hash code."""
    kind = rng.choice(("uuid", "uuid", "named", "colliding", "short"))
    if kind == "uuid":
        return [topic_id(rng) for _ in range(count)]
    if kind == "named":
        return [f"consumer-{n}-{topic_id(rng)}" for n in range(count)]
    if kind == "colliding":
        size = max(3, count.bit_length())
        return ["".join(("Aa", "BB")[n >> bit & 1] for bit in range(size)) for n in rng.sample(range(2**size), count)]
    return [f"{rng.choice(('m', 'Größe', chr(0xFF5E), chr(0x1F6D2)))}{n}" for n in range(count)]


def fresh(rng: Random, equal: bool) -> Json:
    """A group without a past."""
    count, size = rng.randint(1, rng.choice((3, 6, 14, 30))), rng.choice((1, 2, 4, 12, 13, 26))
    names = rng.sample([f"topic-{n}" for n in range(40)] + ["Größe", "日本", chr(0xFF5E), chr(0x1F6D2)], size)
    ids = close_ids(rng, size) if size < 5 and rng.random() < 0.4 else [topic_id(rng) for _ in names]
    topics = {name: rng.randint(1, rng.choice((2, 6, 30))) for name in names[: len(ids)]}
    wished = [*topics, "nowhere"] if rng.random() < 0.1 else list(topics)
    some = wished if rng.random() < 0.7 else rng.sample(wished, rng.randint(1, len(wished)))
    static = rng.random() < 0.3
    members: Json = {}
    for n, member in enumerate(member_ids(rng, count)):
        wants = some if equal else rng.sample(wished, rng.randint(0, len(wished)))
        members[member] = {"topics": sorted(wants), **({"instance_id": f"i{count - n}"} if static and n % 3 else {})}
    return {"topics": topics, "topic_ids": dict(zip(topics, ids, strict=False)), "members": members}


def with_past(rng: Random, group: Json, equal: bool) -> Json:
    """The same group after something happened to it: what members hold is what the broker gave before, or anything."""
    before = apportion.plan(group, "broker-uniform").assignment
    if rng.random() < 0.3:  # as after a conversion from a classic group, whatever its strategy gave
        before = {member: {} for member in group["members"]}
        for topic, size in group["topics"].items():
            for p in range(size):
                if rng.random() < 0.9:
                    before[rng.choice(list(before))].setdefault(topic, []).append(p)
    members = {member: {**fields, "owned": before[member]} for member, fields in group["members"].items()}
    topics, ids = dict(group["topics"]), dict(group["topic_ids"])
    for change in rng.sample(("leave", "join", "grow", "vanish", "subscribe", "restart"), rng.randint(0, 3)):
        if change == "leave" and len(members) > 1:
            for member in rng.sample(list(members), rng.randint(1, max(1, len(members) // 3))):
                del members[member]
        elif change == "join":
            like = rng.choice(list(members.values()))
            for _ in range(rng.randint(1, 3)):
                members[topic_id(rng)] = {"topics": like["topics"]}
        elif change == "grow":
            topics[rng.choice(list(topics))] += rng.randint(1, 5)
        elif change == "vanish" and len(topics) > 1:
            gone = rng.choice(list(topics))
            del topics[gone], ids[gone]
        elif change == "subscribe":
            topics["new"], ids["new"] = rng.randint(1, 8), topic_id(rng)
            for fields in members.values() if equal else rng.sample(list(members.values()), 1):
                fields["topics"] = sorted({*fields["topics"], "new"})
        elif change == "restart":  # a static member comes back under another id and inherits
            statics = [member for member, fields in members.items() if "instance_id" in fields]
            if statics:
                members[topic_id(rng)] = members.pop(rng.choice(statics))
    return {"topics": topics, "topic_ids": ids, "members": members}


def random_groups(seed: int, count: int, equal: bool) -> list[Json]:
    """Half of them fresh, half with a past; a partition is in one previous target at most."""
    rng = Random(seed)
    made = []
    while len(made) < count:
        group = fresh(rng, equal)
        made.append(group if rng.random() < 0.25 else with_past(rng, group, equal))
    return made


def as_loaded(group: Json) -> Json:
    """The group as a coordinator holds it that has just read its log: lists of previous targets in the maps' order."""
    return {"group": group, "joins": list(group["members"])}


def wanted(assignment: dict[str, dict[str, list[int]]], members: Json) -> dict[str, dict[str, list[int]]]:
    return {member: assignment.get(member, {}) for member in sorted(members)}


def loads(assignment: dict[str, dict[str, list[int]]]) -> list[int]:
    return sorted(sum(map(len, held.values())) for held in assignment.values())


def moves(group: Json, assignment: dict[str, dict[str, list[int]]]) -> int:
    """Partitions that a member of the group held and another one gets."""
    owner = {(t, p): m for m, held in assignment.items() for t, ids in held.items() for p in ids}
    before = {(t, p): m for m, f in group["members"].items() for t, ids in f.get("owned", {}).items() for p in ids}
    return sum(place in owner and owner[place] != member for place, member in before.items())


@pytest.mark.parametrize(("equal", "seed"), [(True, 1), (False, 2)])
def test_uniform_is_the_coordinators_own_on_random_groups(coordinator: Coordinator, equal: bool, seed: int) -> None:
    """To the partition where the prediction is exact, in whatever order members joined; loads and moves always."""
    rng = Random(seed)
    groups = random_groups(seed, GROUPS, equal)
    requests = [
        {"assignor": "uniform", "group": group, "joins": rng.sample(list(group["members"]), len(group["members"]))}
        for group in groups
    ]
    count: dict[str, int] = {"exact": 0, "likely": 0, "shape": 0}
    right = dict(count)
    for group, theirs in zip(groups, coordinator(requests), strict=True):
        plan = apportion.plan(group, "broker-uniform")
        prediction = plan.to_dict()["prediction"]
        theirs = wanted(theirs, group["members"])
        same = wanted(plan.assignment, group["members"]) == theirs
        assert same or prediction != "exact", json.dumps(group)
        count[prediction] += 1
        right[prediction] += same
        if equal:
            assert loads(plan.assignment) == loads(theirs), json.dumps(group)
            assert plan.measures["moves"] == moves(group, theirs), json.dumps(group)
            nameless = apportion.plan({**group, "topic_ids": {}}, "broker-uniform")
            assert nameless.to_dict()["prediction"] == "shape" or not any(plan.group.wanted)
            assert loads(nameless.assignment) == loads(theirs), json.dumps(group)
            assert nameless.measures["moves"] == moves(group, theirs), json.dumps(group)
    print(f"equal={equal}: {count}, right to the partition {right}")
    assert count["exact"] > GROUPS / 3
    assert right["likely"] > count["likely"] / 2


@pytest.mark.parametrize(("equal", "seed"), [(True, 3), (False, 4)])
def test_range_is_the_coordinators_own_on_random_groups(coordinator: Coordinator, equal: bool, seed: int) -> None:
    groups = random_groups(seed, GROUPS, equal)
    requests = [{"assignor": "range", "group": group, "joins": list(group["members"])} for group in groups]
    for group, theirs in zip(groups, coordinator(requests), strict=True):
        plan = apportion.plan(group, "broker-range")
        assert wanted(plan.assignment, group["members"]) == wanted(theirs, group["members"]), json.dumps(group)
        assert plan.to_dict()["prediction"] == "exact"


def test_the_worked_examples_are_the_coordinators_own(coordinator: Coordinator) -> None:
    """Every group of tests/cases/broker-*.toml: to the partition where the prediction is exact."""
    for name in ("uniform", "range"):
        text = (Path(__file__).parents[1] / "cases" / f"broker-{name}.toml").read_text(encoding="utf-8")
        groups = [json.loads(case["group"]) for case in tomllib.loads(text)["case"]]
        for group in groups:
            group.setdefault("topic_ids", {topic: topic_id(Random(topic)) for topic in group["topics"]})
        plans = [apportion.plan(group, f"broker-{name}") for group in groups]
        exact = [(group, plan) for group, plan in zip(groups, plans, strict=True) if plan.answer.extra == EXACT]
        assert len(exact) >= 4
        requests = [{"assignor": name, "group": group, "joins": list(group["members"])} for group, _ in exact]
        for (group, plan), theirs in zip(exact, coordinator(requests), strict=True):
            assert wanted(plan.assignment, group["members"]) == wanted(theirs, group["members"])


def test_hash_codes_are_javas() -> None:
    """Values that the JDK prints, a pair that collides, and one beyond the sign bit."""
    assert string_hash("Aa") == string_hash("BB") == 2112
    assert string_hash("") == 0
    assert string_hash("\U0001f6d2") == (31 * 0xD83D + 0xDED2) % 2**32
    assert string_hash("polygenelubricants") == 2**31  # the smallest int
    assert timeline_rank(2**31) == (2**31 * 7046029254386353131) % 2**64

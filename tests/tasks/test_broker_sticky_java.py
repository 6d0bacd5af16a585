"""The broker's sticky task assignor is followed to the task: asked in one JVM on random streams groups.

By default 800 groups; with APPORTION_THOROUGH=1 all 10,000.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.support import java_artifacts

from apportion.server_side.java_hash import string_hash
from apportion.server_side.sticky_tasks import CoordinatorSubtopology, MemberTasks, TaskMember, sticky_tasks
from apportion.server_side.timeline import Timeline
from apportion.testing import jars
from apportion.testing.plugin import needs_java

GROUPS = 10_000 if os.environ.get("APPORTION_THOROUGH") == "1" else 800
SOURCE = Path(__file__).with_name("TaskCoordinator.java")
NAMES = ("0", "1", "2", "10", "a", "Größe", chr(0xFF5E), chr(0x1F6D2))
Json = dict[str, Any]


def hinges_on_bins(
    members: Sequence[TaskMember], subtopologies: Sequence[CoordinatorSubtopology], standbys: int = 0
) -> bool:
    """Whether another order inside the hash bins gives another answer: then the ids alone do not determine it.

    Asked with the members the other way round, and with their halves exchanged.
    """
    there, half = sticky_tasks(members, subtopologies, standbys), len(members) // 2
    others = (members[::-1], [*members[half:], *members[:half]])
    return any(sticky_tasks(other, subtopologies, standbys) != there for other in others)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Ask the coordinator of Kafka 4.3: requests give member to its active and standby tasks.

    That of 4.4 chooses otherwise (KAFKA-21001).
    """
    needs_java()
    path = java_artifacts.compile_program(SOURCE, tmp_path_factory.mktemp("tasks"))
    command = [jars.java(), "-XX:TieredStopAtLevel=1", "-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"]
    command += ["-cp", path, "TaskCoordinator"]

    def ask(requests: list[Json]) -> list[Json]:
        lines = "".join(json.dumps(request) + "\n" for request in requests)
        finished = subprocess.run(command, input=lines.encode(), capture_output=True, check=True)
        answers = [json.loads(line) for line in finished.stdout.decode().splitlines()]
        assert len(answers) == len(requests), finished.stderr.decode()[-2000:]
        assert [answer for answer in answers if "error" in answer] == []
        return [answer["assignment"] for answer in answers]

    return ask


def uuid(rng: Random) -> str:
    return base64.urlsafe_b64encode(rng.randbytes(16)).decode().rstrip("=")


def ids(rng: Random, count: int) -> list[str]:
    """As Java's Streams makes them; or such that all have one hash code, up to eight in a bin."""
    if rng.random() < 0.3 and count <= 8:
        return ["".join(("Aa", "BB")[n >> bit & 1] for bit in range(3)) for n in rng.sample(range(8), count)]
    if rng.random() < 0.2:
        return [f"{rng.choice(NAMES)}-{n}" for n in range(count)]
    return [uuid(rng) for _ in range(count)]


def past(rng: Random, members: Json, subtopologies: list[Json], standbys: int) -> None:
    """Any previous target: tasks that somebody ran, some claimed by two, some that are no more, and copies anywhere."""
    names = list(members)
    for one in subtopologies:
        for p in range(one["tasks"] + rng.choice((0, 0, 2))):
            for role, count in (("active", rng.choice((0, 1, 1, 1, 1, 2))), ("standby", rng.randint(0, standbys + 1))):
                for member in rng.sample(names, min(count, len(names))):
                    members[member][role].setdefault(one["name"], []).append(p)


def fresh(rng: Random) -> Json:
    """A group without a past, or with any."""
    count = rng.randint(1, rng.choice((2, 4, 9, 30)))
    processes = ids(rng, rng.randint(1, count))
    subtopologies = [
        {"name": name, "tasks": rng.randint(1, rng.choice((2, 6, 24))), "stateful": rng.random() < 0.6}
        for name in rng.sample(NAMES, rng.randint(1, 4))
    ]
    standbys = rng.choice((0, 0, 1, 1, 2, 3))
    members: Json = {
        member: {"process": rng.choice(processes), "active": {}, "standby": {}} for member in ids(rng, count)
    }
    for n, member in enumerate(members.values()):
        if rng.random() < 0.2:
            member["instance"] = f"i{n}"
    if rng.random() < 0.3:
        past(rng, members, subtopologies, standbys)
    joins = list(members)
    return {"joins": joins, "members": members, "subtopologies": subtopologies, "standbys": standbys}


def after(rng: Random, group: Json) -> Json:
    """The group once more, with what it was given, and something that happened to it since."""
    given = model(group)
    members = {
        member: {**fields, "active": named(given[member].active), "standby": named(given[member].standby)}
        for member, fields in group["members"].items()
    }
    changed = {**group, "members": members, "joins": list(group["joins"])}
    changed.pop("newcomer", None)
    for change in rng.sample(("leave", "join", "newcomer", "grow", "stateless", "standbys", "back"), rng.randint(0, 3)):
        alter(rng, changed, change)
    return changed


def alter(rng: Random, group: Json, change: str) -> None:
    members, joins = group["members"], group["joins"]
    if change == "leave" and len(joins) > 1:
        for member in rng.sample(joins, rng.randint(1, max(1, len(joins) // 3))):
            joins.remove(member)
            del members[member]
        if group.get("newcomer") not in members:
            group.pop("newcomer", None)
    elif change in ("join", "newcomer") and "newcomer" not in group:
        member, like = uuid(rng), rng.choice(joins)
        process = members[like]["process"] if rng.random() < 0.5 else uuid(rng)
        members[member] = {"process": process, "active": {}, "standby": {}}
        joins.append(member)
        if change == "newcomer":
            group["newcomer"] = member
    elif change == "grow":
        group["subtopologies"] = [{**one, "tasks": one["tasks"] + rng.randint(0, 3)} for one in group["subtopologies"]]
    elif change == "stateless":
        group["subtopologies"] = [{**one, "stateful": rng.random() < 0.6} for one in group["subtopologies"]]
    elif change == "standbys":
        group["standbys"] = rng.randint(0, 3)
    elif change == "back" and "newcomer" not in group:
        # All members restart, and none holds anything: the target is what the last one left behind it.
        for fields in members.values():
            fields["active"], fields["standby"] = {}, {}


def named(tasks: set[tuple[str, int]]) -> Json:
    held: Json = {}
    for name, p in sorted(tasks):
        held.setdefault(name, []).append(p)
    return held


def tasks(held: Json) -> set[tuple[str, int]]:
    return {(name, p) for name, numbers in held.items() for p in numbers}


def model(group: Json) -> dict[str, MemberTasks]:
    """What we say: members as the coordinator's table hands them on, one that joins just now last."""
    table = Timeline()
    newcomer = group.get("newcomer")
    for member in group["joins"]:
        if member != newcomer:
            table.put(member)
    order = [*table.members(), *([newcomer] if newcomer else [])]
    return sticky_tasks(task_members(group, order), topology(group), group["standbys"])


def task_members(group: Json, order: list[str]) -> list[TaskMember]:
    members = group["members"]
    return [
        TaskMember(m, members[m]["process"], tasks(members[m]["active"]), tasks(members[m]["standby"])) for m in order
    ]


def topology(group: Json) -> list[CoordinatorSubtopology]:
    return [CoordinatorSubtopology(one["name"], one["tasks"], one["stateful"]) for one in group["subtopologies"]]


def random_groups(seed: int, count: int) -> list[Json]:
    rng = Random(seed)
    groups: list[Json] = []
    while len(groups) < count:
        group = fresh(rng)
        groups.append(group)
        for _ in range(rng.randint(0, 4)):
            group = after(rng, group)
            groups.append(group)
    return groups[:count]


def test_the_model_gives_every_task_and_copy_that_kafkas_coordinator_gives(kafka: Any) -> None:
    groups = random_groups(43, GROUPS)
    assert sum("newcomer" in group for group in groups) > GROUPS / 20
    assert sum(any(tasks(m["active"]) for m in group["members"].values()) for group in groups) > GROUPS / 3
    for number, (group, theirs) in enumerate(zip(groups, kafka(groups), strict=True)):
        ours = {
            member: {"active": named(given.active), "standby": named(given.standby)}
            for member, given in model(group).items()
        }
        assert ours == theirs, f"group {number} of seed 43: {json.dumps(group)}"


def test_where_the_model_says_that_bins_do_not_matter_kafka_gives_one_answer_in_any_order_of_joining(
    kafka: Any,
) -> None:
    rng = Random(44)
    groups = random_groups(45, GROUPS // 4)
    turned = [{**group, "joins": rng.sample(group["joins"], len(group["joins"]))} for group in groups]
    hinging = 0
    for group, theirs, other in zip(groups, kafka(groups), kafka(turned), strict=True):
        if hinges_on_bins(task_members(group, group["joins"]), topology(group), group["standbys"]):
            hinging += 1
        else:
            assert theirs == other, json.dumps(group)
    assert 0 < hinging < len(groups) / 2


def test_ids_of_one_hash_code_are_told_apart_by_the_order_of_joining_alone() -> None:
    assert string_hash("AaAa") == string_hash("BBBB")
    line = [TaskMember("AaAa", "p"), TaskMember("BBBB", "p")]
    assert sticky_tasks(line, [CoordinatorSubtopology("0", 1, True)])["AaAa"].active == {("0", 0)}
    assert sticky_tasks(line[::-1], [CoordinatorSubtopology("0", 1, True)])["BBBB"].active == {("0", 0)}
    assert hinges_on_bins(line, [CoordinatorSubtopology("0", 1, True)])


def test_a_group_without_members_gives_nothing_and_one_without_tasks_nothing_to_each() -> None:
    assert sticky_tasks([], [CoordinatorSubtopology("0", 3, True)]) == {}
    assert sticky_tasks([TaskMember("a", "p")], []) == {"a": MemberTasks()}

"""What must hold of any answer of a coordinator's rules.

``tests/assignors/test_broker_java.py`` and ``tests/tasks/test_broker_sticky_java.py`` compare with Kafka's own classes.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from apportion.server_side import java_hash
from apportion.server_side.sticky_tasks import CoordinatorSubtopology, TaskMember, sticky_tasks
from apportion.server_side.uniform import UniformProblem, uniform

ALIKE = ["Aa", "BB", "C#", "AaAa", "BBBB", "AaBB", "BBAa", "C#Aa", "C#BB", "Größe", "\U0001f6d2"]
"""Ids of which many have one hash."""


def names(draw: Random, count: int) -> list[str]:
    """Member ids, some of one hash."""
    return draw.sample([*ALIKE, *(f"c-{n}-{draw.randrange(10**6)}" for n in range(60))], count)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("equal", [False, True])
def test_uniform_gives_a_partition_to_a_member_that_wants_its_topic(equal: bool, seed: int) -> None:
    draw = Random(seed)
    for _ in range(8):
        topics, members = draw.randint(1, 6), draw.randint(1, 9)
        start = np.cumsum([0, *(draw.randint(0, 9) for _ in range(topics))])
        every = list(range(topics))
        wants = [every if equal else sorted(draw.sample(every, draw.randint(0, topics))) for _ in range(members)]
        previous = np.array(
            [draw.choice((-1, *range(members), draw.randrange(members))) for _ in range(start[-1])], dtype=np.int64
        )
        if draw.random() < 0.5:
            previous[:] = np.where(previous < members // 2 + 1, previous, 0)

        def held(member: int, previous: Any = previous) -> Any:
            mine = np.flatnonzero(previous == member)
            return mine[::-1] if member % 2 else mine

        problem = UniformProblem(
            start=start, wants=[np.array(wanted, dtype=np.int64) for wanted in wants], previous=previous, equal=equal,
            members=draw.sample(range(members), members), topics=draw.sample(every, topics),
            rank=draw.sample(every, topics), held=held,
        )  # fmt: skip
        owner = uniform(problem)
        assert all(
            m == -1 or np.searchsorted(start, p, side="right") - 1 in wants[m] for p, m in enumerate(owner.tolist())
        )


@pytest.mark.parametrize("seed", range(8))
def test_every_task_runs_once(seed: int) -> None:
    draw = Random(seed)
    for _ in range(12):
        parts = [
            CoordinatorSubtopology(str(n), draw.randint(0, 7), draw.random() < 0.7) for n in range(draw.randint(1, 12))
        ]
        tasks = [(part.name, n) for part in parts for n in range(part.tasks)]
        ids, processes = names(draw, draw.randint(1, 9)), draw.randint(1, 5)
        active: dict[str, list[Any]] = {member: [] for member in ids}
        standby: dict[str, list[Any]] = {member: [] for member in ids}
        for task in tasks:
            if draw.random() < 0.8:
                active[draw.choice(ids[: draw.randint(1, len(ids))])].append(task)
            for member in draw.sample(ids, draw.randint(0, min(2, len(ids)))):
                standby[member].append(task)
        members = [
            TaskMember(member, f"p{draw.randrange(processes)}", active[member], standby[member]) for member in ids
        ]
        for standbys in (0, 1, 2):
            given = sticky_tasks(members, parts, standbys)
            assert sorted(task for one in given.values() for task in one.active) == sorted(tasks)
            members = members[1:] + members[:1] if standbys else members
    assert sticky_tasks([], [CoordinatorSubtopology("0", 3, stateful=True)]) == {}


def test_hashes_are_javas() -> None:
    assert [java_hash.string_hash(text) for text in ("", "a", "Aa", "BB", "Größe", "\U0001f6d2", "\ud800")] == [
        0, 97, 2112, 2112, java_hash.string_hash("Größe"), 31 * 0xD83D + 0xDED2, 0xD800
    ]  # fmt: skip
    texts = ["", *ALIKE, "x" * 300, ""]
    for some in (texts, texts[:5], [], [""], ["", "Aa"]):
        assert java_hash.string_hashes(some).tolist() == [java_hash.string_hash(text) for text in some]
    assert java_hash.uuid_words("AAAAAAAAAAEAAAAAAAAAAg") == (1, 2)
    assert java_hash.uuid_words("__________8AAAAAAAAAAg") == (-1, 2)
    for wrong in ("", "AAAA", "A" * 23, "A" * 21 + "!", "AAAAAAAAAAEAAAAAAAAAAgAA"):
        assert java_hash.uuid_words(wrong) is None
    assert java_hash.uuid_hash(1, 2) == 3
    assert java_hash.uuid_hash(-1, 2) == 0xFFFFFFFF ^ 0xFFFFFFFD
    assert java_hash.uuid_hash(5 << 32, 3) == 6
    ranks = [java_hash.timeline_rank(value) for value in (0, 1, 2**31 - 1, 2**31, 2**32 - 1)]
    multiplier = -7046029254386353131
    assert ranks == [value * multiplier % 2**64 for value in (0, 1, 2**31 - 1, -(2**31), -1)]
    assert java_hash.timeline_ranks(np.array([0, 1, 2**31 - 1, 2**31, 2**32 - 1], dtype=np.uint32)).tolist() == ranks
    assert java_hash.small_bins(np.array([0, 17, 1 << 16, (3 << 16) | 2], dtype=np.uint32)).tolist() == [0, 1, 1, 1]

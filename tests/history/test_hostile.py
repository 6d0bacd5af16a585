"""Records with any value that their bytes can hold: no history breaks, and every number fits its column."""

from __future__ import annotations

import random
from dataclasses import asdict
from typing import Any

import pytest
from tests.history.made import epoch, joined
from tests.support.plain_reader import what_if

from apportion.history.fold import fold
from apportion.history.present import group_json
from apportion.history.rebalance_rows import rebalances
from apportion.history.records import GroupRecord
from apportion.history.replay import replay, replay_to_dict
from apportion.wire.coordinator import GroupGeneration, Member

IDS = (0, 1, 2, 3, 7, 70, 2**31 - 1, -1, -(2**31))
NUMBERS = (0, 1, 2, 3, -1, 2**31 - 1, -(2**31))
TIMES = (None, 0, 1_000, -(2**62), 2**62)
TOPICS = ("t", "u", "", "тема", "𝄞")


def held(r: random.Random) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple((r.choice(TOPICS), tuple(r.choices(IDS, k=r.randrange(5)))) for _ in range(r.randrange(4)))


def member(r: random.Random) -> Member:
    name, instance = r.choice(("a", "b", "c", "")), r.choice((None, None, "", "pod"))
    topics = tuple(r.choices(TOPICS, k=r.randrange(4)))
    timeout = r.choice(NUMBERS)
    return Member(name, instance, "", "", timeout, timeout, r.choice((None, "r")), topics, held(r), 3, held(r))


def event(r: random.Random, offset: int) -> GroupRecord:
    at = r.choice((0, 5_000, 2**50, -(2**50)))
    if r.random() < 0.7:
        members = tuple(member(r) for _ in range(r.randrange(4)))
        kind = r.choice(("consumer", "consumer", "", "connect"))
        said = GroupGeneration("g", r.random() < 0.1, 3, r.choice(NUMBERS), kind, "x", None, r.choice(TIMES), members)
        return GroupRecord(offset, at, said, r.randrange(3))
    key_type = r.choice((3, 4, 5, 6, 7, 8))
    lists = [{"topicId": r.choice(TOPICS), "partitions": r.choices(IDS, k=3)} for _ in range(r.randrange(3))]
    body: dict[str, Any] = {
        "epoch": r.choice(NUMBERS), "assignmentEpoch": r.choice(NUMBERS), "memberEpoch": r.choice(NUMBERS),
        "topicPartitions": lists, "assignedPartitions": lists, "topics": [], **joined(r.choices(TOPICS, k=2)),
    }  # fmt: skip
    name = r.choice(("a", "b")) if key_type in (5, 7, 8) else None
    return GroupRecord(offset, at, epoch(offset, key_type, body if r.random() < 0.85 else None, name).record)


def fits(row: dict[str, Any], wide: tuple[str, ...]) -> None:
    for column, value in row.items():
        if isinstance(value, int) and not isinstance(value, bool):
            assert -(2**63) <= value < 2**63, column
            assert column in wide or -(2**31) <= value < 2**31, column


@pytest.mark.parametrize("seed", range(150))
def test_any_records_make_a_history(seed: int) -> None:
    r = random.Random(seed)
    found = fold([event(r, offset) for offset in range(r.randrange(1, 9))], {topic: topic for topic in TOPICS})
    for row in rebalances(found.generations):
        fits(asdict(row), ("source_offset", "at", "duration_ms"))
        assert row.needless is None or 0 <= row.needless <= row.moved
    document = replay_to_dict("g", "sticky", replay("g", found.generations, "sticky"))
    assert document["total"]["generations"] == len(document["generations"])
    present = group_json("g", found.present, {}, {"t": {0: -5, 3: 7}}) if found.present else None
    for answer in what_if("g", found.generations, present, {}, ["sticky", "range", "failover"]):
        fits(asdict(answer), ("moves", "moves_then", "lag_max"))
        assert answer.error is None or "\n" not in answer.error

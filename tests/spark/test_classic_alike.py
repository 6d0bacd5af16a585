"""Classic groups laid on one that is like them have the rows that they have where each is folded by itself."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from apportion.spark import by_group, classic_alike, groups, schemas, standing

Row = dict[str, Any]
PARTITIONS = 4


def generation(rng: random.Random, group: str, offset: int, number: int, members: list[str], odd: bool) -> Row:
    """One generation; an odd one may have anything that a record can have."""

    def some(usual: Any, *others: Any) -> Any:
        return rng.choice([usual] * 14 + list(others)) if odd else usual

    topics = [f"{group}-{name}" for name in ("a", "b")]
    seats = []
    for seat, member in enumerate(members):
        held = [(topic, list(range(seat, PARTITIONS, len(members)))) for topic in topics]
        held = some(held, held[::-1], held[:1], [], None, [held[0], *held], [(topics[0], [3, 0])], [(topics[0], [])])
        seats.append(
            {
                "member_id": some(member, "join-1", "instance x", "ü", members[0]),
                "instance_id": some(None, f"{group}-i{seat}", "", "ü"),
                "client_id": some(member, None),
                "host": some("/1.2.3.4", None),
                "rack": some(None, "r", ""),
                "topics": some(topics, topics[::-1], [topics[0]] * 2, [], None, ["ü"]),
                "owned": [],
                "owned_generation": some(None, number),
                "assigned": held and [{"topic": topic, "partitions": some(ids, None)} for topic, ids in held],
                "session_timeout_ms": some(45_000, None, 1),
                "unreadable": some(None, None, "why"),
            }
        )
    at = 1_700_000_000_000_000 + offset * 1_000_000
    return {
        "group": group,
        "source_offset": offset,
        "source_partition": 1,
        "at": at,
        "tombstone": some(False, True),
        "generation": some(number, number + 3, -1, None, 0, 2**31 - 1),
        "protocol_type": some("consumer", "", "connect", None),
        "protocol": some("range", None, "sticky"),
        "state_time": some(at - 5_000, None, at + 5_000, -1_000),
        "members": some(seats, None, []),
    }


def made(seed: int, odd: float, count: int = 90) -> dict[str, pa.Table]:
    """Records of groups of which each went through one of a few histories; so many of these have something odd."""
    rng = random.Random(seed)
    generations, commits, epochs, holes = [], [], [], []
    for n in range(count):
        history = random.Random(f"{seed} {rng.randrange(count // 9 + 1)}")  # the same for some groups
        group, sizes = f"g{n:02}", history.choice([(2, 3, 2), (2,), (1, 0, 1), (3, 3), (2, 3)])
        strange, offset = history.random() < odd, 100 * n
        first = rng.randrange(50)
        for turn, size in enumerate(sizes):
            offset += rng.choice([1, 1, 4])
            members = [f"{group}-m{history.choice([0, 0, 7]) * strange + seat}" for seat in range(size)]
            generations.append(generation(history, group, offset, first + turn, members, strange))
            if strange and rng.random() < 0.2:
                holes.append((group, 1, offset, rng.randrange(1, 3)))
            if strange and rng.random() < 0.1:
                commits.append((group, f"{group}-a", 0, 5, offset + 1))
        if strange and rng.random() < 0.1:
            epochs.append((group, offset + 2, 1, 1_700_000_000_000_000, False, 3, None, 9, '{"epoch": 9}'))
    of = schemas.arrow_schema(schemas.COMMITS, standing.ASKED)
    rows = [
        {"group": g, "topic": t, "partition": p, "committed": c, "source_partition": 1, "source_offset": o,
         "commit_time": 1_700_000_000_000_000, "tombstone": False}
        for g, t, p, c, o in commits
    ]  # fmt: skip
    generation_schema = schemas.arrow_schema(schemas.GENERATIONS, by_group.GENERATION)
    rng.shuffle(generations)
    return {
        "generations": pa.Table.from_pylist(generations, generation_schema),
        "commits": pa.Table.from_pylist(rows, of),
        "epochs": pa.Table.from_pylist(
            [dict(zip(by_group.EPOCH, row, strict=True)) for row in epochs],
            schemas.arrow_schema(schemas.EPOCHS, by_group.EPOCH),
        ),
        "holes": pa.Table.from_pylist(
            [dict(zip(by_group.HOLE.names, row, strict=True)) for row in holes], by_group.HOLE
        ),
    }


def both(tables: dict[str, pa.Table], monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, pa.Table], int]:
    """What groups leave, which is the same where each is folded by itself; how many were laid on others."""
    likes: list[Any] = []
    plain = classic_alike.ClassicAlike.__init__

    def counted(self: Any, *args: Any, **kinds: Any) -> None:
        plain(self, *args, **kinds)
        likes.append(self.folded)

    with monkeypatch.context() as patch:
        patch.setattr(classic_alike.ClassicAlike, "__init__", counted)
        found = by_group.left_of(tables, 0)
    with monkeypatch.context() as patch:
        patch.setattr(classic_alike, "LARGEST", -1)
        one_by_one = by_group.left_of(tables, 0)
    for name, rows in found.items():
        assert rows.schema.equals(one_by_one[name].schema), name
        assert rows.to_pylist() == one_by_one[name].to_pylist(), name
    return found, int((~np.concatenate(likes)).sum())


@pytest.mark.parametrize(("odd", "least"), [(0.0, 70), (0.3, 30), (0.9, 5)])
def test_groups_laid_on_others_have_the_rows_of_groups_folded_by_themselves(
    odd: float, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds, laid = 13, 0
    for seed in range(seeds):
        found, some = both(made(seed, odd), monkeypatch)
        laid += some
        assert min(found[name].num_rows for name in ("rebalances", "present")) > 20
    assert laid > seeds * least


def test_no_generation_at_all_and_one_alone_are_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = made(1, odd=0.0, count=1)
    assert both(tables, monkeypatch)[1] == 0
    none = {name: rows.slice(0, 0) for name, rows in tables.items()}
    assert both(none, monkeypatch)[0]["present"].num_rows == 0


def test_groups_like_one_that_cannot_be_folded_say_why_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise ValueError("a fault")

    monkeypatch.setattr(groups, "rebalances", broken)
    found, laid = both(made(3, odd=0.0), monkeypatch)
    assert laid > 40
    assert set(found["present"]["state"].to_pylist()) == {"Unreadable: ValueError: a fault"}

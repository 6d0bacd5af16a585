"""A topic in columns is read as its entries are, and a group that is built of it has the same arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from random import Random
from typing import Any

import numpy as np
import pytest

from apportion.history.structure import structure
from apportion.model.build import build
from apportion.model.group import NonexistentClaims
from apportion.model.topic_columns import TopicColumns


def columns_of(entries: Sequence[Mapping[str, Any]]) -> TopicColumns:
    """The same in columns; lists of racks that nobody has stand among those that somebody has."""
    lists: dict[tuple[str, ...], int] = {("nobody's",): 0}
    racks_of = [lists.setdefault(tuple(entry.get("racks") or ()), len(lists)) for entry in entries]
    logs = {name: [entry.get(name, -1) for entry in entries] for name in ("begin", "end", "committed")}
    whole = {name: np.array(values, dtype=np.int64) for name, values in logs.items()}
    number = np.array([entry["partition"] for entry in entries], dtype=np.int64)
    return TopicColumns(
        number, whole["begin"], whole["end"], whole["committed"], list(lists), np.array(racks_of, dtype=np.int64)
    )


def random_topic(rng: Random) -> list[dict[str, Any]]:
    """Entries with gaps in the ids, in any order, with racks, with offsets, or with nothing."""
    ids = rng.sample(range(9), rng.randrange(7))
    if rng.random() < 0.7:
        ids.sort()
    racks, logs, zero = rng.random() < 0.6, rng.random() < 0.6, rng.random() < 0.2
    entries = []
    for p in ids:
        entry: dict[str, Any] = {"partition": p}
        if racks and rng.random() < 0.8:
            entry["racks"] = rng.sample("xyz", rng.randrange(1, 3))
        for name in ("begin", "end", "committed") if logs else ():
            if rng.random() < 0.7:
                entry[name] = 0 if zero else rng.randrange(100)
        entries.append(entry)
    return entries


def plain(value: Any) -> Any:
    if isinstance(value, NonexistentClaims):
        return list(value)
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.tolist()
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, dict):
        return {name: plain(entry) for name, entry in value.items()}
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return value


@pytest.mark.parametrize("seed", range(4))
def test_groups_of_columns_are_the_groups_of_their_entries(seed: int) -> None:
    """With topics in columns alone, beside numbers of partitions, and beside topics in entries."""
    rng = Random(seed)
    for _ in range(100):
        topics: dict[str, Any] = {f"t{n}": random_topic(rng) for n in range(rng.randrange(1, 4))}
        if rng.random() < 0.3:
            topics["n"] = rng.randrange(4)
        some = {t: columns_of(one) if isinstance(one, list) else one for t, one in topics.items()}
        if rng.random() < 0.2:
            some["t0"] = topics["t0"]
        held = {t: rng.sample(range(9), 2) for t in rng.sample(sorted(topics), 1)}
        members = {"a": {"topics": sorted(topics), "owned": held, "rack": "x"}, "b": {"topics": ["t0"]}}
        by_entries = build({"topics": topics, "members": members})
        assert plain(build({"topics": some, "members": members})) == plain(by_entries), f"{topics}"


def test_the_structure_of_columns_is_that_of_entries() -> None:
    rng = Random(3)
    for _ in range(100):
        topics = {f"t{n}": random_topic(rng) for n in range(2)}
        members = {"a": {"topics": sorted(topics), "owned": {}}}
        ways = []
        for some in (topics, {t: columns_of(one) for t, one in topics.items()}):
            told = structure([], {"version": 1, "group": "g", "topics": some, "members": members}, some)
            assert told is not None
            ways.append((told.key, told.lag.tolist(), told.places.topics, told.places.number.tolist()))
        assert ways[0] == ways[1]


def test_of_a_partition_that_nothing_told_nothing_is_known() -> None:
    """Not that it was read to offset 0: its lag would be all that is in its log."""
    numbered = columns_of([{"partition": 0, "begin": 0, "end": 1, "committed": 1}]).numbered(2, offsets=True)
    assert isinstance(numbered, TopicColumns)
    told = [column.tolist() for column in (numbered.begin, numbered.end, numbered.committed)]
    assert told == [[0, -1], [1, -1], [1, -1]]

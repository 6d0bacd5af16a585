"""Commits and groups' own records of one random log, as rows of silver."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from apportion.tables.schemas import COMMITS, Table, arrow_schema

T0 = 1_763_000_000_000
TOPICS = ["a", "b", "ü", "z"]
IDS = ["A" * 22, "B" * 22, "z" * 22, None]
Row = dict[str, Any]


def moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def records(seed: int) -> tuple[list[Row], list[tuple[str, int]]]:
    """Commits and deletions, and the offsets of groups' own records between them, one after the other in one log."""
    rng = random.Random(seed)
    rows: list[Row] = []
    marks: list[tuple[str, int]] = []
    for offset in range(3_000):
        group = rng.choice(["g", "h", "only-commits", "only-deletions", "never-marked"])
        if rng.random() < 0.04 and group in ("g", "h"):
            marks.append((group, offset))
            continue
        gone = group == "only-deletions" or rng.random() < 0.15
        row: Row = dict.fromkeys(arrow_schema(COMMITS).names)
        row |= {
            "group": group, "topic": rng.choice(TOPICS), "partition": rng.choice([0, 1, 2**31 - 1, -1]),
            "tombstone": gone, "source_partition": 3, "source_offset": offset, "at": moment(T0 + offset), "key_type": 1,
        }  # fmt: skip
        if not gone:
            time = None if rng.random() < 0.1 else moment(T0 + rng.randrange(10_000))
            row |= {
                "committed": rng.choice([0, 5, -1, -(2**63), 2**63 - 1]), "commit_time": time, "metadata": "",
                "topic_id": rng.choice(IDS), "value_version": 4, "leader_epoch": rng.choice([None, 0, 7]),
            }  # fmt: skip
        rows.append(row)
    return rows, marks


def table(rows: list[Row], kind: Table, columns: tuple[str, ...] | list[str] | None = None) -> pa.Table:
    return pa.Table.from_pylist(rows, arrow_schema(kind, columns))

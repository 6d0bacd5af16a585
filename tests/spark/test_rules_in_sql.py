"""Rules that stand in SQL, as a reader of the tables would write them, give what the reader without Spark gives."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import pytest

from apportion.history.commits import topic_names
from apportion.spark import histories, schemas

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
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
        row: Row = dict.fromkeys(schemas.COMMITS.schema.names)
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


def frame(spark: Any, table: schemas.TableSchema, rows: list[Row]) -> Any:
    return spark.createDataFrame([tuple(row[name] for name in table.schema.names) for row in rows], table.schema)


def test_topic_ids_have_the_same_names_in_sql(spark: Any) -> None:
    """Of topics that are there, that are gone, that were made anew, and of hostile records that disagree."""
    rows, _ = records(seed=6)
    silver = frame(spark, schemas.COMMITS, rows)
    there: list[Row] = [
        {"topic": "now", "topic_id": "A" * 22, "partition": 0, "racks": []},
        {"topic": "a", "topic_id": "C" * 22, "partition": 0, "racks": []},
        {"topic": "b", "topic_id": "C" * 22, "partition": 0, "racks": []},
        {"topic": "nameless", "topic_id": None, "partition": 0, "racks": []},
    ]
    sql = histories.topic_names(silver, frame(spark, schemas.TOPICS, there)).collect()
    ours = topic_names(
        ((row["topic_id"], row["topic"]) for row in rows if row["topic_id"]),
        ((row["topic_id"], row["topic"]) for row in there if row["topic_id"]),
    )
    assert {row["topic_id"]: row["topic"] for row in sql} == ours
    assert ours == {"A" * 22: "now", "B" * 22: "ü", "z" * 22: "ü", "C" * 22: "b"}

"""Rules that stand in SQL, as a reader of the tables would write them, give what the reader without Spark gives."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from tests.history.made import classic

from apportion.history.commits import CommittedOffset, topic_names
from apportion.history.ends_then import SILENT
from apportion.history.group_history import GroupHistory, TopicMetadata
from apportion.spark import few_groups, histories, plan_bundles, planned_ends, schemas

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


@pytest.mark.parametrize("seed", range(3))
def test_a_group_was_last_heard_of_at_one_moment_in_sql_on_columns_and_without_spark(spark: Any, seed: int) -> None:
    """Of groups with records of some kinds, commits that do not stand, no time at all, times before 1970."""
    rng = random.Random(seed)
    names = [f"g{n}" for n in range(40)]
    kinds = {name: [kind for kind in ("generations", "epochs", "commits") if rng.random() < 0.5] for name in names}
    at = {
        kind: [(name, rng.randrange(-5_000_000, 5_000_000)) for name in names if kind in kinds[name] for _ in range(3)]
        for kind in ("generations", "epochs")
    }
    commits = [
        (name, rng.choice([None, rng.randrange(-5_000_000, 9_000_000)]), rng.random() < 0.7)
        for name in names if "commits" in kinds[name] for _ in range(3)
    ]  # fmt: skip
    standing = [(name, us) for name, us, stands in commits if stands]
    tables = [timed(at["generations"], "at"), timed(at["epochs"], "at"), timed(standing, "commit_time")]

    def by_group(table: pa.Table) -> dict[str, int]:
        return dict(zip(table["group"].to_pylist(), table["heard_ms"].to_pylist(), strict=True))

    sql = by_group(planned_ends.last_heard(*[spark.createDataFrame(table) for table in tables]).toArrow())
    assert SILENT in sql.values()
    assert min(ms for ms in sql.values() if ms != SILENT) < 0
    assert by_group(few_groups.last_heard(*tables)) == sql

    rows = [
        {"group": name, **{kind: [{"at_ms": us // 1000} for own, us in at[kind] if own == name] for kind in at}}
        for name in names
    ]
    met = pa.Table.from_pylist(rows, schema=to_arrow_schema(histories.SCHEMA))
    places = timed([one[:2] for one in commits], "commit_time").append_column("standing", [[one[2] for one in commits]])
    on_columns = plan_bundles.heard_ms(met, places).tolist()
    assert on_columns == [sql.get(name, SILENT) for name in names]

    def here(name: str) -> int:
        events = [classic(0, 1, at=us // 1000) for kind in at for own, us in at[kind] if own == name]
        own = [us for group, us in standing if group == name]
        left = {("t", p): CommittedOffset(0, None, None if us is None else us // 1000) for p, us in enumerate(own)}
        return GroupHistory(name, events, left, [], TopicMetadata()).heard_ms

    assert on_columns == [here(name) for name in names]


def timed(rows: Sequence[tuple[Any, ...]], name: str) -> pa.Table:
    """(group, time) of microseconds."""
    groups, times = ([row[n] for row in rows] for n in (0, 1))
    return pa.table({"group": groups, name: pa.array(times, pa.int64()).cast(pa.timestamp("us", tz="UTC"))})


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

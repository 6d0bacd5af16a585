"""Log ends of then, looked up on columns, are those that ``history.ends_then`` finds sample by sample."""

from __future__ import annotations

import random
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import apportion.demo
from apportion.history.ends_then import SILENT, EndSamples
from apportion.spark import job, plan_bundles, planned_ends, schemas
from apportion.spark.ends_then import topics_then
from apportion.spark.files import nulls_first
from apportion.spark.sorted_rows import coded, millis

TOPICS = schemas.arrow_schema(schemas.GROUP_STATE).field("topics").type
ENDS = schemas.arrow_schema(schemas.ENDS)


def sampled(rng: random.Random) -> pa.Table:
    """Samples of a few logs: some without a time, some at the same time, some offsets unknown."""
    rows = [
        {
            "topic": f"t{rng.randrange(4)}", "partition": rng.randrange(3), "last_stable": None,
            "begin": rng.choice([None, 0, 5]), "end": rng.choice([None, rng.randrange(100)]),
            "at": rng.choice([None, *(1_000_000 * n + rng.choice([0, 999]) for n in range(1, 6))]),
        }
        for _ in range(rng.randrange(40))
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=ENDS)


def samples_of(ends: pa.Table) -> EndSamples:
    ends = nulls_first(ends.filter(ends["at"].is_valid()), ("topic", "partition", "at", "begin", "end"))
    columns = (ends[name].to_pylist() for name in ("topic", "partition", "begin", "end"))
    ms = millis(ends["at"]).tolist()
    return EndSamples.ordered(
        (t, p, (at, begin, end)) for (t, p, begin, end), at in zip(zip(*columns, strict=True), ms, strict=True)
    )


@pytest.mark.parametrize("seed", range(40))
def test_log_ends_of_then_are_those_found_sample_by_sample(seed: int) -> None:
    rng = random.Random(seed)
    ends = sampled(rng)
    samples = samples_of(ends)

    def entry(topic: str, partition: int) -> dict[str, Any]:
        """As ``gold/group_state`` has it: with the newest sample."""
        _, begin, end = samples.of.get((topic, partition), [(0, None, None)])[-1]
        racks = rng.choice([None, [], ["a", None]])
        return {
            "partition": partition,
            "racks": racks,
            "begin": begin,
            "end": end,
            "last_stable": rng.choice([None, 3]),
        }

    def then(topic: dict[str, Any], ms: int) -> dict[str, Any]:
        return {**topic, "partitions": samples.then({topic["topic"]: topic["partitions"]}, ms)[topic["topic"]]}

    groups = [
        [
            {
                "topic": f"t{t}",
                "topic_id": rng.choice([None, "id"]),
                "partitions": [entry(f"t{t}", p) for p in range(n)],
            }
            for t in sorted(rng.sample(range(6), rng.randrange(4)))
            for n in [rng.randrange(4)]
        ]
        for _ in range(rng.randrange(6))
    ]
    heard = [rng.choice([SILENT, 0, 2000, 2001, 3000, 9000]) for _ in groups]
    expected = [[then(topic, ms) for topic in group] for group, ms in zip(groups, heard, strict=True)]
    given = pa.array([[], *groups], TOPICS).slice(1)
    shuffled = pa.array(rng.sample(range(ends.num_rows), ends.num_rows), pa.int64())
    for rows in (ends, coded(ends), ends.take(shuffled)):
        found = topics_then(given, np.array(heard, dtype=np.int64), rows)
        assert found.type == TOPICS
        assert found.to_pylist() == expected


@pytest.mark.spark
def test_tasks_find_them_in_files_as_spark_does_by_a_query(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recorded dump whose log ends were sampled three times more, each further on, while its groups were silent."""
    dump = tmp_path / "dump"
    shutil.copytree(Path(apportion.demo.__file__).parent / "dump", dump)
    ends = pq.read_table(dump / "ends.parquet")
    for hours in (0, 1, 2, 3):
        later = pc.add(ends["at"], pa.scalar(timedelta(hours=hours), pa.duration("us")))
        moved = ends.set_column(ends.schema.get_field_index("at"), "at", later.cast(ends["at"].type))
        moved = moved.set_column(ends.schema.get_field_index("end"), "end", pc.add(ends["end"], 1000 * hours))
        (dump / "samples").mkdir(exist_ok=True)
        pq.write_table(moved, dump / "samples" / f"ends-{hours}.parquet")
    pq.write_table(moved, dump / "ends.parquet")
    asked: list[Any] = []
    query = planned_ends.topics_then

    def seen(*tables: Any) -> Any:
        asked.append(tables)
        return query(*tables)

    monkeypatch.setattr(planned_ends, "topics_then", seen)
    rows = []
    for most in (plan_bundles.SAMPLES_A_TASK, 0):
        monkeypatch.setattr(plan_bundles, "SAMPLES_A_TASK", most)
        out = tmp_path / f"tables{most}"
        job.build(dump, out, spark=spark, assignors=["lag-aware", "sticky"])
        assert bool(asked) == (most == 0)
        table = pq.read_table(out / "gold" / "whatif")
        rows.append(table.sort_by([(name, "ascending") for name in schemas.WHATIF.order]).to_pylist())
    assert rows[0] == rows[1]
    assert any(row["lag_max"] for row in rows[0])

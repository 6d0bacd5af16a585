"""What is known of logs from samples of their ends, held against a plain reading of them, one sample after another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from apportion.spark import logs, schemas
from apportion.spark.sorted_rows import in_order

ENDS = schemas.arrow_schema(schemas.ENDS)
Sample = dict[str, Any]


def sampled(seed: int) -> pa.Table:
    """Samples with equal moments, ends that go back and times that are not known; by time, or in any order."""
    random = np.random.default_rng(seed)
    size = int(random.integers(0, 60))

    def numbers(low: int, high: int, unknown: float, step: int = 1) -> pa.Array:
        return pa.array(random.integers(low, high, size) * step, mask=random.random(size) < unknown)

    columns = {
        "topic": pa.array(["b", "ä", "a"]).take(pa.array(random.integers(0, 3, size))),
        "partition": numbers(-1, 3, 0), "begin": numbers(0, 9, 0.2), "end": numbers(0, 9, 0),
        "last_stable": numbers(0, 9, 0.2), "at": numbers(-3, 9, 0.1, step=400),
    }  # fmt: skip
    rows = pa.table([columns[field.name].cast(field.type) for field in ENDS], schema=ENDS)
    return rows.sort_by([("at", "ascending"), ("topic", "ascending")]) if seed % 2 else rows


def moment(row: Sample) -> list[tuple[bool, int]]:
    """By time; of one time by values, unknown ones first."""
    return [(row[name] is not None, row[name] or 0) for name in ("at", "begin", "end", "last_stable")]


def plain(rows: pa.Table, samples_max: int) -> list[Sample]:
    """``logs.described`` without its arrays, of samples alone."""
    by_log: dict[tuple[bytes, int], list[Sample]] = {}
    for row in rows.set_column(ENDS.get_field_index("at"), "at", rows["at"].cast(pa.int64())).to_pylist():
        by_log.setdefault((row["topic"].encode(), row["partition"]), []).append(row)
    answer = []
    for (topic, partition), of_log in sorted(by_log.items()):
        timed = sorted((row for row in of_log if row["at"] is not None), key=moment)
        newest = timed[-1] if timed else dict.fromkeys(ENDS.names)
        pairs = sorted({(row["at"] // 1000, row["end"]) for row in timed})
        furthest = dict(pairs[-samples_max:])
        answer.append({
            "topic": topic.decode(), "partition": partition, "sample_at": list(furthest),
            "sample_end": list(furthest.values()), "earlier_ms": pairs[-2][0] if len(pairs) > 1 else None,
            "sampled_at": newest["at"], **{name: newest[name] for name in ("begin", "end", "last_stable")},
        })  # fmt: skip
    return answer


@pytest.mark.parametrize("samples_max", [3, 1000])
def test_logs_are_described_as_their_samples_say(monkeypatch: pytest.MonkeyPatch, samples_max: int) -> None:
    """Also when they are read again, in any order, and after those that nobody looks at are gone."""
    monkeypatch.setattr(logs, "SAMPLES_MAX", samples_max)
    for seed in range(300):
        rows = sampled(seed)
        known = logs.described(rows, logs.NO_TOPICS).drop_columns(["topic_id", "racks"])
        at = known.schema.get_field_index("sampled_at")
        known = known.set_column(at, "sampled_at", known["sampled_at"].cast(pa.int64()))
        assert known.to_pylist() == [
            {name: row[name] for name in known.column_names} for row in plain(rows, samples_max)
        ]
        shuffled = rows.take(pa.array(np.random.default_rng(seed).permutation(len(rows))))
        for some in (shuffled, logs.few_samples(rows), logs.few_samples(shuffled)):
            again = logs.described(some, logs.NO_TOPICS).drop_columns(["topic_id", "racks"])
            again = again.set_column(at, "sampled_at", again["sampled_at"].cast(pa.int64()))
            every = some is shuffled or samples_max == 1000  # else too few of one moment may be left
            for name in known.column_names if every else ("sample_at", "sample_end"):
                timed = known.filter(pc.is_valid(known["sampled_at"]))
                assert again.filter(pc.is_valid(again["sampled_at"]))[name].to_pylist() == timed[name].to_pylist(), seed


def test_rows_in_order_are_those_of_a_sort_by_all_keys() -> None:
    """In runs, in order already, and in none."""
    for seed in range(300):
        random = np.random.default_rng(seed)
        keys = [random.integers(0, 1 + seed % 4, seed % 17) for _ in range(1 + seed % 3)]
        if seed % 2:
            order = np.lexsort(keys[::-1])
            keys = [np.concatenate([key[order], key[order]]) for key in keys]
        assert in_order(*keys).tolist() == np.lexsort(keys[::-1]).tolist()

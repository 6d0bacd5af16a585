"""How fast commits are decoded: in process and inside Spark, on v4 records, every bounds check on.

python -m bench.decode [rows]
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tests.support import records as write

from apportion.pipeline import decode
from apportion.spark import session, sources
from apportion.spark.arrow_rows import gathered
from apportion.spark.location import locate
from apportion.tables import schemas
from bench.meter import cpu_seconds

CHUNK = 100_000
COLD, WARM = 3, 5
"""Turns while the JVM still compiles, which do not count, and turns that do."""


def log(folder: Path, count: int) -> None:
    """A dump of v4 commits with topic ids: 1 in 50 a tombstone, 1 in 20 with metadata; 20 files' worth of groups."""
    (folder / "records").mkdir(parents=True)
    schema = schemas.arrow_schema(schemas.RECORDS)
    keys = [write.commit_key(f"team-{g % 40}.service-{g}", f"events.topic-{g % 31}", g % 24) for g in range(5000)]
    with pq.ParquetWriter(folder / "records" / "part-0.parquet", schema) as out:
        for start in range(0, count, CHUNK):
            out.write_table(_chunk(schema, keys, start, min(CHUNK, count - start)), row_group_size=CHUNK)
    pq.write_table(schemas.arrow_schema(schemas.ENDS).empty_table(), folder / "ends.parquet")


def _chunk(schema: pa.Schema, keys: list[bytes], start: int, size: int) -> pa.Table:
    numbers = range(start, start + size)
    values = [
        None
        if n % 50 == 0
        else write.commit_value(
            n, leader_epoch=5, metadata="checked" if n % 20 == 1 else "", commit_time=1_763_730_000_000 + n,
            topic_id=bytes(range(16)),
        )
        for n in numbers
    ]  # fmt: skip
    columns = [
        pa.array([keys[n * 7919 % len(keys)] for n in numbers], pa.binary()),
        pa.array(values, pa.binary()),
        pa.array(["__consumer_offsets"] * size),
        pa.array([n % 50 for n in numbers], pa.int32()),
        pa.array([n // 50 for n in numbers], pa.int64()),
        pa.array([(1_763_730_000_000 + n) * 1000 for n in numbers], pa.timestamp("us", tz="UTC")),
        pa.array([0] * size, pa.int32()),
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def in_process(folder: Path) -> float:
    """Rows a CPU second, without Spark."""
    table = pq.read_table(folder / "records").select(decode.COLUMNS)
    began = time.process_time()
    decode.decoded(table)
    return table.num_rows / (time.process_time() - began)


def counted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """How many commits the records of a task hold: they are decoded and stay in the worker."""
    for records in gathered(batches):
        rows = decode.decoded(records)["commits"].num_rows
        yield pa.RecordBatch.from_pydict({"rows": pa.array([rows], pa.int64())})


def main() -> None:
    """Print the rates."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "dump"
        log(folder, count)
        print(f"{count} commits, v4; one core in process: {in_process(folder):,.0f} rows/s")
        with session.session(quick=False) as spark:
            records = sources.open_dump(spark, locate(folder)).read("records")
            turns = []
            for turn in range(COLD + WARM):
                began, cpu = time.perf_counter(), cpu_seconds()
                records.mapInArrow(counted, "rows bigint").collect()
                turns.append((count / (time.perf_counter() - began), count / (cpu_seconds() - cpu)))
                print(f"Spark, {session.cores()} cores, turn {turn}: {_rates(*turns[-1])}", flush=True)
            wall, spent = zip(*turns[COLD:], strict=True)
            print(f"median of {WARM} turns after {COLD}: {_rates(statistics.median(wall), statistics.median(spent))}")


def _rates(wall: float, spent: float) -> str:
    return f"{wall:,.0f} rows/s by the wall, {spent:,.0f} rows a CPU second"


if __name__ == "__main__":
    main()

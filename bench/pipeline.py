"""How fast the pipeline's stages are, and what they cost, on a made-up log with the skew of real clusters.

    python -m bench.pipeline [commits] [groups] [partitions]      1,000,000 20,000 1,000,000 by default

One group has a twentieth of all partitions; the others' sizes fall off as 1/rank. Each stage is timed by the wall and
by the CPU seconds of Spark's JVM and its Python workers together, since a busy machine makes the wall say little.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from apportion.spark import decode, job, schemas, session, sources
from apportion.testing import records as write
from apportion.wire.assignment import Assignment, write_assignment
from apportion.wire.coordinator import GroupGeneration, Member
from apportion.wire.subscription import Subscription, write_subscription

START_MS = 1_763_730_000_000
CHUNK = 50_000
Pair = tuple[bytes, bytes | None]


def sizes(groups: int, partitions: int) -> list[int]:
    """Partitions of each group: one with a twentieth of all, the rest as 1/rank, each at least one."""
    big = max(1, partitions // 20)
    weights = [1 / (rank + 10) for rank in range(groups - 1)]
    scale = (partitions - big - (groups - 1)) / sum(weights)
    return [big, *(1 + int(weight * scale) for weight in weights)]


def generations(held: list[int]) -> Iterator[Pair]:
    """Three generations of each group: two members, then three, then two again."""
    for number, count in enumerate(held):
        for turn, members in enumerate((2, 3, 2)):
            yield _generation(number, count, turn + 1, min(members + count // 500, 200))


def _generation(number: int, count: int, turn: int, members: int) -> Pair:
    name, topic = group(number), f"topic-{number}"
    seats = []
    for place in range(members):
        own = ((topic, tuple(range(place, count, members))),)
        said = write_subscription(Subscription((topic,), None, own, turn - 1, None, 3))
        told = write_assignment(Assignment(own, None, 3))
        seats.append(
            Member(f"{name}-{place}", None, name, "/10.0.0.1", 60000, 45000, subscription=said, assignment=told)
        )
    time_ms = START_MS + turn * 1000
    value = GroupGeneration(name, False, 3, turn, "consumer", "range", seats[0].member_id, time_ms, tuple(seats))
    return write.group_key(name), write.group_value(value, 3)


def commits(held: list[int], count: int) -> Iterator[Pair]:
    """Commits dealt over all partitions in a fixed disorder, so each is committed at least once where they suffice."""
    owners = [(number, p) for number, size in enumerate(held) for p in range(size)]
    random.Random(1).shuffle(owners)  # noqa: S311 - the same each time
    for n in range(count):
        number, p = owners[n % len(owners)]
        key = write.commit_key(group(number), f"topic-{number}", p)
        yield key, write.commit_value(n, leader_epoch=5, commit_time=START_MS + n, topic_id=topic_id(number))


def group(number: int) -> str:
    """A name of a usual length."""
    return f"team-{number % 40}.service-{number}"


def topic_id(number: int) -> bytes:
    """16 bytes that differ from topic to topic."""
    return b"topic-id" + number.to_bytes(8, "big")


def make_dump(folder: Path, count: int, groups: int, partitions: int) -> None:
    """Commits and generations as a dump, with log ends a little ahead of the commits."""
    held = sizes(groups, partitions)
    (folder / "records").mkdir(parents=True)
    pairs = (pair for some in (generations(held), commits(held, count)) for pair in some)
    at = 0
    with pq.ParquetWriter(folder / "records" / "part-0.parquet", schemas.arrow_schema(schemas.RECORDS)) as out:
        while chunk := list(islice(pairs, CHUNK)):
            out.write_table(_records(chunk, at), row_group_size=CHUNK)
            at += len(chunk)
    rows = [(f"topic-{number}", topic_id(number), size) for number, size in enumerate(held)]
    _write_ends(folder, rows, count)


def _records(pairs: list[Pair], at: int) -> pa.Table:
    numbers = range(at, at + len(pairs))
    columns = [
        pa.array([key for key, _ in pairs], pa.binary()),
        pa.array([value for _, value in pairs], pa.binary()),
        pa.array(["__consumer_offsets"] * len(pairs)),
        # By the group, as Kafka does it: all records of a group are in one partition.
        pa.array([sum(key[4 : 4 + int.from_bytes(key[2:4], "big")]) % 50 for key, _ in pairs], pa.int32()),
        pa.array(numbers, pa.int64()),
        pa.array([(START_MS + n) * 1000 for n in numbers], pa.timestamp("us", tz="UTC")),
        pa.array([0] * len(pairs), pa.int32()),
    ]
    return pa.Table.from_arrays(columns, schema=schemas.arrow_schema(schemas.RECORDS))


def _write_ends(folder: Path, rows: list[tuple[str, bytes, int]], end: int) -> None:
    from apportion.wire.primitives import uuid_text

    names = [(name, uuid_text(raw), p) for name, raw, size in rows for p in range(size)]
    n = len(names)
    parts = pa.array([p for _, _, p in names], pa.int32())
    topics = pa.array([name for name, _, _ in names])
    whole = pa.array([end + 100] * n, pa.int64())
    at = pa.array([(START_MS + end) * 1000] * n, pa.timestamp("us", tz="UTC"))
    ends = [topics, parts, pa.array([0] * n, pa.int64()), whole, whole, at]
    pq.write_table(pa.Table.from_arrays(ends, schema=schemas.arrow_schema(schemas.ENDS)), folder / "ends.parquet")
    racks = pa.array([["a", "b"][p % 2 :] for _, _, p in names], pa.list_(pa.string()))
    known = [topics, pa.array([said for _, said, _ in names]), parts, racks]
    pq.write_table(pa.Table.from_arrays(known, schema=schemas.arrow_schema(schemas.TOPICS)), folder / "topics.parquet")


def cpu_seconds() -> float:
    """CPU spent by this process's children and theirs, those that have ended included."""
    parents: dict[int, list[int]] = {}
    spent: dict[int, float] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(stat.parent.name)
        parents.setdefault(int(fields[1]), []).append(pid)
        spent[pid] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    todo, total = list(parents.get(os.getpid(), [])), 0.0
    while todo:
        pid = todo.pop()
        total += spent.get(pid, 0.0)
        todo += parents.get(pid, [])
    return total


class Clock:
    """Prints what each stage took, by the lines that a build reports."""

    def __init__(self) -> None:
        self.stage, self.began, self.cpu = "", 0.0, 0.0

    def __call__(self, line: str) -> None:
        """The stage before this line is over."""
        now, cpu = time.perf_counter(), cpu_seconds()
        if self.stage:
            print(f"  {self.stage:28s} {now - self.began:8.1f} s wall {cpu - self.cpu:8.1f} s CPU", flush=True)
        self.stage, self.began, self.cpu = line, now, cpu


def main() -> None:
    """A dump, its decoding alone, and a whole build."""
    given = [int(word) for word in sys.argv[1:]]
    count, groups, partitions = (*given, *(1_000_000, 20_000, 1_000_000)[len(given) :])
    with tempfile.TemporaryDirectory() as name:
        dump = Path(name) / "dump"
        make_dump(dump, count, groups, partitions)
        size = sum(file.stat().st_size for file in (dump / "records").iterdir()) / 1e6
        print(
            f"{count:,} commits, {groups:,} groups, {partitions:,} partitions, {size:.0f} MB; {session.cores()} cores"
        )
        with session.session(quick=False) as spark:
            records = sources.read_dump(spark, dump).records
            for turn in range(3):
                began, cpu = time.perf_counter(), cpu_seconds()
                decode.commits(records).write.format("noop").mode("overwrite").save()
                took, spent = time.perf_counter() - began, cpu_seconds() - cpu
                print(
                    f"  decode, turn {turn}: {count / took:,.0f} rows/s wall, {count / spent:,.0f} rows/s a core",
                    flush=True,
                )
            clock = Clock()
            began, cpu = time.perf_counter(), cpu_seconds()
            job.build(dump, Path(name) / "out", spark=spark, progress=clock)
            clock("")
            print(f"  {'whole build':28s} {time.perf_counter() - began:8.1f} s wall {cpu_seconds() - cpu:8.1f} s CPU")


if __name__ == "__main__":
    main()

"""A made-up ``__consumer_offsets`` with the skew of real clusters, as a dump or in a real broker's log.

One group has a twentieth of all partitions; the others' sizes fall off as 1/rank. Each group went through three
generations, or some times as many, and then commits; the commits are dealt over all partitions in a fixed disorder.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from tests.support import records as write

from apportion.tables import schemas
from apportion.wire.assignment import Assignment, write_assignment
from apportion.wire.coordinator import GroupGeneration, Member
from apportion.wire.primitives import uuid_text
from apportion.wire.subscription import Subscription, write_subscription

START_MS = 1_763_730_000_000
OFFSETS_PARTITIONS = 50
CHUNK = 50_000
Pair = tuple[bytes, bytes | None]


@dataclass(frozen=True)
class Size:
    """How much there is; each group went through ``turns`` generations."""

    commits: int
    groups: int
    partitions: int
    turns: int = 3

    def __floordiv__(self, parts: int) -> Size:
        """A part of it."""
        return Size(self.commits // parts, self.groups // parts, self.partitions // parts, self.turns)

    @property
    def records(self) -> int:
        """Commits and generations."""
        return self.commits + self.turns * self.groups

    def held(self) -> list[int]:
        """Partitions of each group: one with a twentieth of all, the rest as 1/rank, each at least one."""
        big = max(1, self.partitions // 20)
        weights = [1 / (rank + 10) for rank in range(self.groups - 1)]
        scale = (self.partitions - big - (self.groups - 1)) / sum(weights)
        return [big, *(1 + int(weight * scale) for weight in weights)]

    def pairs(self) -> Iterator[tuple[int, Pair]]:
        """(group, record) in the order of the log."""
        held = self.held()
        return chain(_generations(held, self.turns), _commits(held, self.commits))


def _generations(held: list[int], turns: int) -> Iterator[tuple[int, Pair]]:
    """The generations of each group: two members, then three, then two again, and so on."""
    for number, count in enumerate(held):
        for turn in range(turns):
            yield number, generation(number, count, turn + 1, min(2 + turn % 2 + count // 500, 200))


def generation(number: int, count: int, turn: int, members: int) -> Pair:
    """The record of one generation: ``count`` partitions of one topic dealt to the members."""
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


def _commits(held: list[int], count: int) -> Iterator[tuple[int, Pair]]:
    """Commits dealt over all partitions in a fixed disorder, so each is committed at least once where they suffice."""
    owners = [(number, p) for number, size in enumerate(held) for p in range(size)]
    random.Random(1).shuffle(owners)  # noqa: S311 - the same each time
    for n in range(count):
        number, p = owners[n % len(owners)]
        key = write.commit_key(group(number), f"topic-{number}", p)
        yield number, (key, write.commit_value(n, leader_epoch=5, commit_time=START_MS + n, topic_id=topic_id(number)))


def group(number: int) -> str:
    """A name of a usual length."""
    return f"team-{number % 40}.service-{number}"


def topic_id(number: int) -> bytes:
    """16 bytes that differ from topic to topic."""
    return b"topic-id" + number.to_bytes(8, "big")


def write_dump(folder: Path, size: Size) -> None:
    """The log as a dump, with log ends a little ahead of the commits."""
    (folder / "records").mkdir(parents=True)
    pairs, at = size.pairs(), 0
    with pq.ParquetWriter(folder / "records" / "part-0.parquet", schemas.arrow_schema(schemas.RECORDS)) as out:
        while chunk := list(islice(pairs, CHUNK)):
            out.write_table(_records(chunk, at), row_group_size=CHUNK)
            at += len(chunk)
    write_ends(folder, size)


LATER: Final = 1_000_000_000
"""Between the first offsets of two turns of ``write_more``, and milliseconds between them."""


def write_round(folder: Path, size: Size, turn: int = 1, every: int = 100) -> None:
    """A file more in a dump: a commit of every group, and of one in so many a generation and one on each partition."""
    pairs: list[tuple[int, Pair]] = []
    for number, count in enumerate(size.held()):
        anew = number % every == every // 2
        if anew:
            pairs.append((number, generation(number, count, size.turns + turn, 2 + turn)))
        for p in range(count if anew else 1):
            key = write.commit_key(group(number), f"topic-{number}", p)
            value = write.commit_value(
                size.commits + p % 50, leader_epoch=5, commit_time=START_MS + turn * LATER, topic_id=topic_id(number)
            )
            pairs.append((number, (key, value)))
    pq.write_table(_records(pairs, turn * LATER), folder / "records" / f"part-more-{turn}.parquet")


def _records(chunk: list[tuple[int, Pair]], at: int) -> pa.Table:
    numbers = range(at, at + len(chunk))
    columns = [
        pa.array([key for _, (key, _) in chunk], pa.binary()),
        pa.array([value for _, (_, value) in chunk], pa.binary()),
        pa.array(["__consumer_offsets"] * len(chunk)),
        # By the group, as Kafka does it: all records of a group are in one partition.
        pa.array([number % OFFSETS_PARTITIONS for number, _ in chunk], pa.int32()),
        pa.array(numbers, pa.int64()),
        pa.array([(START_MS + n) * 1000 for n in numbers], pa.timestamp("us", tz="UTC")),
        pa.array([0] * len(chunk), pa.int32()),
    ]
    return pa.Table.from_arrays(columns, schema=schemas.arrow_schema(schemas.RECORDS))


def write_ends(folder: Path, size: Size, later: int = 0) -> None:
    """``ends.parquet``, a sample and ``topics.parquet`` of the made-up topics, so many turns and messages later."""
    places = [(number, p) for number, count in enumerate(size.held()) for p in range(count)]
    n = len(places)
    topics = pa.array([f"topic-{number}" for number, _ in places])
    parts = pa.array([p for _, p in places], pa.int32())
    whole = pa.array([size.commits + 100 + later] * n, pa.int64())
    at = pa.array([(START_MS + size.commits + later * LATER) * 1000] * n, pa.timestamp("us", tz="UTC"))
    ends = [topics, parts, pa.array([0] * n, pa.int64()), whole, whole, at]
    (folder / "samples").mkdir(exist_ok=True)
    for file in (folder / "ends.parquet", folder / "samples" / f"ends-{later:05d}.parquet"):
        pq.write_table(pa.Table.from_arrays(ends, schema=schemas.arrow_schema(schemas.ENDS)), file)
    ids = pa.array([uuid_text(topic_id(number)) for number, _ in places])
    racks = pa.array([["a", "b"][p % 2 :] for _, p in places], pa.list_(pa.string()))
    known = [topics, ids, parts, racks]
    pq.write_table(pa.Table.from_arrays(known, schema=schemas.arrow_schema(schemas.TOPICS)), folder / "topics.parquet")


def load(bootstrap: str, size: Size) -> None:
    """The log into a real broker's own ``__consumer_offsets``, which takes records from Kafka's admin client alone."""
    from confluent_kafka import Producer
    from kafka import KafkaConsumer, TopicPartition
    from kafka.structs import OffsetAndMetadata

    with KafkaConsumer(bootstrap_servers=bootstrap, group_id="first") as first:  # the broker makes the topic for it
        first.assign([TopicPartition("made", 0)])
        first.commit({TopicPartition("made", 0): OffsetAndMetadata(0, "", -1)})
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": "__admin_client", "linger.ms": 50})
    failed: list[object] = []
    for n, (number, (key, value)) in enumerate(size.pairs()):
        while True:
            try:
                producer.produce(
                    "__consumer_offsets", value, key, number % OFFSETS_PARTITIONS, timestamp=START_MS + n,
                    on_delivery=lambda error, _: failed.append(error) if error else None,
                )  # fmt: skip
                break
            except BufferError:
                producer.poll(0.1)
        if n % 10_000 == 0:
            producer.poll(0)
    if producer.flush(120) or failed:
        raise RuntimeError(f"the broker did not take every record: {failed[:1]}")

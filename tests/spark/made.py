"""Records of every kind for the pipeline's tests, by the writers that Kafka's own classes have judged."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tests.support import records as write
from tests.wire import share_streams_samples

from apportion.wire.assignment import Assignment, write_assignment
from apportion.wire.coordinator import GroupGeneration, Member
from apportion.wire.subscription import Subscription, write_subscription

Pair = tuple[bytes | None, bytes | None]

START_MS = 1_763_730_000_000
DAY_MS = 86_400_000


def commit(i: int, group: str = "g", topic: str = "t", partition: int = 0, **named: object) -> Pair:
    """A commit; version 4 with a topic id unless told."""
    settings = {"version": 4, "commit_time": START_MS + i, "topic_id": bytes(range(16)), **named}
    if settings["version"] != 4:
        settings.pop("topic_id")
    return write.commit_key(group, topic, partition), write.commit_value(i, **settings)  # type: ignore[arg-type]


def generation(number: int, group: str = "g", members: Sequence[str] = ("a", "b"), **named: object) -> Pair:
    """A classic generation on the topic t with two partitions a member."""
    seats = []
    for place, name in enumerate(members):
        own = (("t", (2 * place, 2 * place + 1)),)
        said = write_subscription(Subscription(("t",), b"memory", own, number - 1, "r1", 3))
        told = write_assignment(Assignment(own, None, 3))
        seats.append(
            Member(name, None, f"client-{name}", "/10.0.0.1", 60000, 45000, subscription=said, assignment=told)
        )
    told_type = str(named.pop("protocol_type", "consumer"))
    value = GroupGeneration(group, False, 3, number, told_type, "range", "a", START_MS, tuple(seats))
    return write.group_key(group), write.group_value(value, int(named.pop("version", 3)))  # type: ignore[call-overload]


def member_epoch(group: str = "k", member: str = "m") -> Pair:
    """A KIP-848 member's record, with personal data."""
    body = {
        "instanceId": None,
        "rackId": None,
        "clientId": "ann",
        "clientHost": "/10.0.0.9",
        "subscribedTopicNames": ["t"],
        "subscribedTopicRegex": "",
        "rebalanceTimeoutMs": 1000,
        "serverAssignor": None,
    }
    return write.epoch_key(5, group, member), write.epoch_value(5, body)


def every_kind() -> list[Pair]:
    """One record of each kind and version that is read, some that are counted, some that cannot be read."""
    good: list[Pair] = [
        commit(i, version=i % 5, metadata="ünï" if i % 2 else "", leader_epoch=i % 3 - 1) for i in range(10)
    ]
    good += [commit(10, metadata="x" * n) for n in (126, 127, 128, 300)]
    good += [commit(11, version=1, expire_time=START_MS), (write.commit_key("g", "t", 7), None)]
    good += [(write.commit_key("old", "t", 0, key_type=0), write.commit_value(5, version=0))]
    good += [generation(n, version=n % 5) for n in range(1, 6)]
    good += [generation(6, group="connect", protocol_type="connect"), (write.group_key("g2"), None)]
    good += [(write.epoch_key(3, "k"), write.epoch_value(3, {"epoch": 2, "metadataHash": -5})), member_epoch()]
    good += [(write.epoch_key(4, "k"), None), (write.epoch_key(5, "k", "m"), None)]
    good += [(write.epoch_key(6, "k"), write.epoch_value(6, {"assignmentEpoch": 2, "assignmentTimestamp": START_MS}))]
    good += [share_streams_samples.record(random.Random(kind), kind) for kind in (*range(10, 16), 17, *range(19, 24))]
    good += [write.other(kind) for kind in (9, 16, 18, 99)] + [write.other(16, None), (b"\xff\xff", b"\x00\x00")]
    return good + BAD


BAD: list[Pair] = [
    (None, b"\x00\x01"),
    (b"", b""),
    (b"\x00", None),
    (write.commit_key("g", "t", 0), b""),
    (write.commit_key("g", "t", 0), b"\x00\x09" + bytes(40)),
    (write.commit_key("g", "t", 0)[:-1], write.commit_value(1)),
    (write.commit_key("g", "t", 0, key_type=0), write.commit_value(1, version=1)),
    (write.group_key("g"), b"\x00\x03\x7f\xff\xff"),
    (write.epoch_key(3, "k"), b"\x00\x00\x00"),
]
"""What Kafka's own deserializer gives up on."""


def mutated(pairs: Iterable[Pair], count: int, seed: int = 1) -> list[Pair]:
    """``count`` records with some bytes changed, cut, doubled or made null."""
    rng = random.Random(seed)
    good = list(pairs)
    return [_hurt(rng, *good[rng.randrange(len(good))]) for _ in range(count)]


def _hurt(rng: random.Random, key: bytes | None, value: bytes | None) -> Pair:
    return (_hurt_one(rng, key) if rng.random() < 0.4 else key), (
        _hurt_one(rng, value) if rng.random() < 0.8 else value
    )


def _hurt_one(rng: random.Random, piece: bytes | None) -> bytes | None:
    if piece is None:
        return rng.randbytes(rng.randrange(40))
    changed = bytearray(piece)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        how, at = rng.randrange(6), rng.randrange(len(changed) + 1)
        if how == 0:
            del changed[at:]
        elif how == 1:
            changed[at:at] = rng.randbytes(rng.randrange(5))
        elif how == 2 and changed:
            changed[at % len(changed)] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF))
        elif changed:
            changed[at % len(changed)] = rng.randrange(256)
    return None if rng.random() < 0.02 else bytes(changed)


def batch(pairs: Sequence[Pair], partitions: int = 3) -> pa.RecordBatch:
    """Records as Arrow gives them to the decoders; offset n // partitions of partition n % partitions, one a second."""
    n = len(pairs)
    columns = [
        pa.array([key for key, _ in pairs], pa.binary()),
        pa.array([value for _, value in pairs], pa.binary()),
        pa.array([i % partitions for i in range(n)], pa.int32()),
        pa.array([i // partitions for i in range(n)], pa.int64()),
        pa.array([(START_MS + 1000 * i) * 1000 for i in range(n)], pa.timestamp("us", tz="UTC")),
    ]
    return pa.RecordBatch.from_arrays(columns, ["key", "value", "partition", "offset", "timestamp"])


def write_dump(folder: Path, pairs: Sequence[Pair], *, partitions: int = 3, files: int = 2, ends: bool = True) -> Path:
    """A dump of records in ``files`` files, with the log ends of a topic t and of the offsets topic."""
    (folder / "records").mkdir(parents=True, exist_ok=True)
    whole = pa.Table.from_batches([batch(pairs, partitions)])
    whole = whole.append_column("topic", pa.array(["__consumer_offsets"] * len(pairs), pa.string()))
    whole = whole.append_column("timestampType", pa.array([0] * len(pairs), pa.int32()))
    step = -(-len(pairs) // files) or 1
    for number in range(files):
        pq.write_table(whole.slice(number * step, step), folder / "records" / f"part-{number}.parquet")
    if ends:
        now = datetime(2026, 11, 21, tzinfo=UTC)
        rows = [{"topic": "t", "partition": p, "begin": 0, "end": 100, "last_stable": 100, "at": now} for p in range(4)]
        kinds = [("topic", pa.string()), ("partition", pa.int32()), ("begin", pa.int64()), ("end", pa.int64())]
        kinds += [("last_stable", pa.int64()), ("at", pa.timestamp("us", tz="UTC"))]
        pq.write_table(pa.Table.from_pylist(rows, pa.schema(kinds)), folder / "ends.parquet")
    return folder

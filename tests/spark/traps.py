"""A small dump with every trap of lag and history in it, its bytes written by the kit's record writers."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tests.support.records import (
    commit_key,
    commit_value,
    epoch_key,
    epoch_value,
    group_key,
    group_value,
    other,
    uuid_bytes,
)

from apportion.wire.assignment import Assignment, write_assignment
from apportion.wire.coordinator import GroupGeneration, Member
from apportion.wire.subscription import Subscription, write_subscription
from apportion.wire.writer import Writer

TIME = pa.timestamp("us", tz="UTC")
TEXT, LONG, INT = pa.string(), pa.int64(), pa.int32()
RECORDS = pa.schema(
    {
        "key": pa.binary(), "value": pa.binary(), "topic": TEXT, "partition": INT, "offset": LONG, "timestamp": TIME,
        "timestampType": INT,
    }
)  # fmt: skip
ENDS = pa.schema({"topic": TEXT, "partition": INT, "begin": LONG, "end": LONG, "last_stable": LONG, "at": TIME})
TOPICS = pa.schema({"topic": TEXT, "topic_id": TEXT, "partition": INT, "racks": pa.list_(TEXT)})
T0 = 1_763_000_000_000
IDS = {"orders": "A" * 21 + "A", "clicks": "B" * 21 + "A", "reborn": "C" * 21 + "A"}
OLD_ID = "D" * 21 + "A"


class Log:
    """Records as they are appended, one second apart, all groups in one partition."""

    def __init__(self) -> None:
        self.rows: list[tuple[Any, ...]] = []
        self.offset = -1

    def skip(self, n: int) -> None:
        """Offsets that compaction has taken."""
        self.offset += n

    def put(self, key: bytes, value: bytes | None) -> int:
        self.offset += 1
        self.rows.append((key, value, "__consumer_offsets", 7, self.offset, moment(self.at), 0))
        return self.offset

    @property
    def at(self) -> int:
        return T0 + self.offset * 1000

    def commit(self, group: str, topic: str, partition: int, committed: int | None, **more: Any) -> int:
        value = None if committed is None else commit_value(committed, commit_time=self.at, **more)
        return self.put(commit_key(group, topic, partition), value)

    def generation(self, group: str, number: int, *members: Member, protocol: str = "range") -> int:
        said = GroupGeneration(
            group, False, 3, number, "consumer", protocol if members else None, None, self.at - 250, members
        )
        return self.put(group_key(group), group_value(said))

    def epoch(self, group: str, key_type: int, body: dict[str, Any] | None, member: str | None = None) -> int:
        return self.put(epoch_key(key_type, group, member), None if body is None else epoch_value(key_type, body))


def moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def seat(name: str, held: dict[str, list[int]], topics: list[str] | None = None, instance: str | None = None) -> Member:
    wants = tuple(topics if topics is not None else sorted(held))
    return Member(
        name, instance, "client-" + name[0], "/10.0.0.1", 60_000, 6_000,
        subscription=write_subscription(Subscription(wants, None, (), None, "rack-a", 3)),
        assignment=write_assignment(Assignment(tuple((t, tuple(ids)) for t, ids in held.items()), None, 1)),
    )  # fmt: skip


def write(folder: Path) -> Path:
    """The dump."""
    log = Log()
    _lags(log)
    _histories(log)
    _epochs(log)
    _hostile(log)
    log.put(*other(16))
    sharer = {"rackId": None, "clientId": "c", "clientHost": "/10.0.0.1", "subscribedTopicNames": ["clicks"]}
    log.epoch("queue", 10, sharer, "member")
    log.epoch("queue", 11, {"epoch": 4, "metadataHash": 1})
    log.put(b"\x00\x01\x00\xffbroken", b"\x00\x04")
    # Names of groups: one that is no UTF-8, two whose length is a lie, one with a value that is cut off.
    log.put(b"\x00\x0b\x00\x05gr\xebp\xff", Writer().int16(0).int32(6).int64(0).tags().done())
    log.put(b"\x00\x0b\x00\xffshort", Writer().int16(0).int32(6).done())
    log.put(b"\x00\x0b\xff\xffnegative", Writer().int16(0).int32(6).done())
    log.put(b"\x00\x0b\x00\x03old", b"\x00")
    (folder / "records").mkdir(parents=True)
    half = len(log.rows) // 2
    _save(folder / "records" / "b.parquet", RECORDS, log.rows[:half])
    _save(folder / "records" / "a.parquet", RECORDS, log.rows[half:])
    # What lies beside the files is left alone: a checksum of an older file, a desktop's own, another folder.
    (folder / "records" / ".a.parquet.crc").write_bytes(b"crc\x00\x00\x00\x02\x00stale")
    (folder / "records" / "._a.parquet").write_bytes(b"no Parquet")
    (folder / "records" / "old").mkdir()
    (folder / "records" / "old" / "x.parquet").write_bytes(b"no Parquet")
    at, before = moment(T0 + 600_000), moment(T0 + 500_000)
    logs = [("orders", p, 40, 100, 95) for p in range(6)] + [("clicks", p, 0, 10, 10) for p in range(2)]
    logs.append(("reborn", 0, 0, 50, 50))
    _save(folder / "ends.parquet", ENDS, [(*row, at) for row in logs])
    # An earlier sample: 50 messages came in the 100 seconds since.
    (folder / "samples").mkdir()
    earlier = [(topic, p, begin, max(0, end - 50), max(0, end - 50), before) for topic, p, begin, end, _ in logs]
    _save(folder / "samples" / "ends-0.parquet", ENDS, earlier)
    _save(
        folder / "topics.parquet",
        TOPICS,
        [(topic, IDS[topic], p, ["rack-a"] if p % 2 else ["rack-a", "rack-b"]) for topic, p, *_ in logs],
    )
    return folder


def _lags(log: Log) -> None:
    """Group ``lags``: one partition for each status; ``mixed``: what a group of several minds commits."""
    log.generation("lags", 1, seat("m1", {"orders": [0, 1, 2, 3, 4, 5]}, ["orders", "reborn"]))
    log.commit("lags", "orders", 0, 90, topic_id=uuid_bytes(IDS["orders"]))
    log.commit("lags", "orders", 1, 103)
    log.commit("lags", "orders", 2, 10, leader_epoch=3, metadata="ü" * 64)
    log.commit("lags", "orders", 3, 50, version=1, expire_time=T0 + 10**9)
    log.commit("lags", "orders", 3, None)
    log.commit("lags", "orders", 4, 60)
    log.commit("lags", "orders", 4, None)
    log.commit("lags", "orders", 4, 70, version=3)
    log.commit("lags", "deleted", 0, 5, topic_id=uuid_bytes(OLD_ID))
    log.commit("lags", "clicks", 0, 4)
    log.commit("lags", "reborn", 0, 20, topic_id=uuid_bytes(OLD_ID))
    log.commit("simple", "clicks", 0, 4)
    log.commit("wiped", "clicks", 1, 4)
    log.commit("wiped", "clicks", 1, None)


def _hostile(log: Log) -> None:
    """What bytes can hold, whether or not a broker ever writes it."""
    log.generation("hostile", -(2**31), seat("a", {"orders": [2**31 - 1, -1, 0]}, ["orders"]))
    log.generation("hostile", 2**31 - 1, seat("b", {"orders": [2**31 - 1, -1, 0]}, ["orders"]))
    for partition, committed in ((0, -(2**63)), (1, 2**63 - 1), (-1, 0), (2**31 - 1, -1)):
        log.commit("hostile", "orders", partition, committed)
    log.put(commit_key("hostile", "orders", 2), commit_value(-5, commit_time=-(2**63)))
    log.put(commit_key("hostile", "orders", 2), commit_value(-5, commit_time=2**63 - 1))


def _histories(log: Log) -> None:
    """A group with gaps of both kinds, a static replacement, a group that is deleted, Connect, a group beyond ASCII."""
    one, two = seat("a", {"orders": [0, 1, 2]}), seat("b", {"orders": [3, 4, 5]})
    log.generation("gaps", 1, seat("a", {"orders": [0, 1, 2, 3, 4, 5]}))
    log.generation("gaps", 4, one, two)
    log.skip(3)
    log.generation("gaps", 5, seat("a", {"orders": [3, 4, 5]}), seat("b", {"orders": [0, 1, 2]}))
    log.skip(2)
    log.generation("gaps", 9, one, two)
    log.generation("static", 3, seat("s-1", {"orders": [0]}, instance="pod"))
    log.generation("static", 3, seat("s-2", {"orders": [0]}, instance="pod"))
    log.generation("deleted", 1, one)
    log.generation("deleted", 2)
    log.put(group_key("deleted"), None)
    log.generation("группа", 1, one, two)
    log.generation("группа", 2, seat("a", {"orders": [0, 1, 2, 3, 4, 5]}))
    log.generation("группа", 3)
    for i in range(3):
        worker = Member("worker", None, "connect", "/10.0.0.9", 60_000, 10_000, subscription=b"\x00\x01raw")
        said = GroupGeneration("connect", False, 3, i, "connect", "sessioned", "worker", log.at, (worker,))
        log.put(group_key("connect"), group_value(said))


def _epochs(log: Log) -> None:
    """A KIP-848 group of two members, the second one still waiting for its partitions."""
    body = {
        "instanceId": None, "rackId": "rack-b", "clientId": "c", "clientHost": "/10.0.0.2",
        "subscribedTopicNames": ["clicks"], "subscribedTopicRegex": "", "rebalanceTimeoutMs": 300_000,
        "serverAssignor": "uniform",
    }  # fmt: skip

    def held(*ids: int) -> list[dict[str, Any]]:
        return [{"topicId": IDS["clicks"], "partitions": list(ids)}] if ids else []

    def now(number: int, ids: list[dict[str, Any]], state: int = 0, revoking: Any = ()) -> dict[str, Any]:
        return {
            "memberEpoch": number, "previousMemberEpoch": 0, "state": state,
            "assignedPartitions": ids, "partitionsPendingRevocation": list(revoking),
        }  # fmt: skip

    log.epoch("new", 5, body, "x")
    log.epoch("new", 3, {"epoch": 2})
    log.epoch("new", 7, {"topicPartitions": held(1, 0)}, "x")
    log.epoch("new", 6, {"assignmentEpoch": 2})
    log.epoch("new", 8, now(2, held(1, 0)), "x")
    log.commit("new", "clicks", 0, 10, topic_id=uuid_bytes(IDS["clicks"]))
    log.epoch("new", 5, body, "y")
    log.epoch("new", 3, {"epoch": 3})
    log.epoch("new", 7, {"topicPartitions": held(0)}, "x")
    log.epoch("new", 7, {"topicPartitions": held(1)}, "y")
    log.epoch("new", 6, {"assignmentEpoch": 3})
    log.epoch("new", 8, now(2, held(0), 1, held(1)), "x")


def _save(file: Path, schema: pa.Schema, rows: list[tuple[Any, ...]]) -> None:
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), schema, strict=True)]
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), file)

"""Writes a cluster down: the records of ``__consumer_offsets``, log ends, topics; all times UTC."""

from __future__ import annotations

import time
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from apportion.errors import Unavailable
from apportion.testing.broker import Broker, BrokerCluster

OFFSETS = "__consumer_offsets"


def write_table(path: Path, rows: list[dict[str, Any]], schema: Any) -> None:
    """One Parquet file, zstd."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path, compression="zstd")


def records_schema() -> Any:
    """The columns of Spark's Kafka source."""
    import pyarrow as pa

    columns = [("key", pa.binary()), ("value", pa.binary()), ("topic", pa.string()), ("partition", pa.int32())]
    columns += [("offset", pa.int64()), ("timestamp", pa.timestamp("us", tz="UTC")), ("timestampType", pa.int32())]
    return pa.schema(columns)


def read_records(bootstrap: str, patience_s: float = 60) -> list[dict[str, Any]]:
    """All records of ``__consumer_offsets`` up to the last stable offset, as a read_committed consumer sees them."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap.split(","),
        isolation_level="read_committed",
        enable_auto_commit=False,
        fetch_max_wait_ms=100,
    )
    at = [TopicPartition(OFFSETS, number) for number in sorted(consumer.partitions_for_topic(OFFSETS))]
    consumer.assign(at)
    consumer.seek_to_beginning(*at)
    ends = consumer.end_offsets(at)
    rows: list[dict[str, Any]] = []
    until = time.monotonic() + patience_s
    while any(consumer.position(one) < ends[one] for one in at):
        if time.monotonic() > until:
            raise Unavailable(f"{OFFSETS} was not read to its end in {patience_s:.0f} s")
        for one, records in consumer.poll(200).items():
            rows += [row_of(record) for record in records if record.offset < ends[one]]
    consumer.close()
    return sorted(rows, key=lambda row: (row["partition"], row["offset"]))


def row_of(record: Any) -> dict[str, Any]:
    """One record as a row."""
    return {
        "key": record.key,
        "value": record.value,
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": datetime.fromtimestamp(record.timestamp / 1000, UTC),
        "timestampType": record.timestamp_type,
    }


def write_records(folder: Path, bootstrap: str) -> list[dict[str, Any]]:
    """``records/``, read after the last commit; and the rows themselves."""
    rows = read_records(bootstrap)
    write_table(folder / "records" / "part-0.parquet", rows, records_schema())
    return rows


def write_topics(folder: Path, cluster: Broker | BrokerCluster) -> list[tuple[str, int]]:
    """``topics.parquet``: ids and racks; and the (topic, partition) there are."""
    import pyarrow as pa

    with cluster.admin() as admin:
        racks = {one["broker_id"]: one["rack"] for one in admin.describe_cluster()["brokers"]}
        topics = sorted(admin.describe_topics(), key=lambda topic: str(topic["name"]))
    rows = [
        {
            "topic": topic["name"],
            "topic_id": printed(topic["topic_id"]),
            "partition": one["partition_index"],
            "racks": sorted({racks[node] for node in one["replica_nodes"]}),
        }
        for topic in topics
        if not topic["is_internal"]
        for one in sorted(topic["partitions"], key=lambda one: int(one["partition_index"]))
    ]
    columns = [("topic", pa.string()), ("topic_id", pa.string()), ("partition", pa.int32())]
    write_table(folder / "topics.parquet", rows, pa.schema([*columns, ("racks", pa.list_(pa.string()))]))
    return [(row["topic"], row["partition"]) for row in rows]


def printed(topic_id: Any) -> str:
    """A topic id as Kafka prints it: 22 characters of base64url."""
    return urlsafe_b64encode(UUID(str(topic_id)).bytes).decode().rstrip("=")


def write_ends(folder: Path, cluster: Broker | BrokerCluster, partitions: Iterable[tuple[str, int]]) -> None:
    """``ends.parquet``: log start, high watermark and last stable offset, sampled after the records."""
    import pyarrow as pa
    from kafka import TopicPartition
    from kafka.protocol.consumer import IsolationLevel, OffsetSpec

    at = [TopicPartition(*one) for one in partitions]
    earliest, latest = (dict.fromkeys(at, spec) for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST))
    with cluster.admin() as admin:
        begins = admin.list_partition_offsets(earliest)
        ends = admin.list_partition_offsets(latest)
        stable = admin.list_partition_offsets(latest, isolation_level=IsolationLevel.READ_COMMITTED)
    now = datetime.now(UTC)
    offsets = ("begin", begins), ("end", ends), ("last_stable", stable)
    rows = [
        {"topic": one.topic, "partition": one.partition, **{name: of[one].offset for name, of in offsets}, "at": now}
        for one in at
    ]
    columns = [("topic", pa.string()), ("partition", pa.int32())]
    columns += [(name, pa.int64()) for name, _ in offsets]
    write_table(folder / "ends.parquet", rows, pa.schema([*columns, ("at", pa.timestamp("us", tz="UTC"))]))

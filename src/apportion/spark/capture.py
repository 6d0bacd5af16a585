"""`__consumer_offsets` from a broker into a dump, before the broker forgets: as it came, each record once.

    DIR/records/batch-000000000.parquet ...   what was read; one file a batch, there whole or not at all
    DIR/ends.parquet, topics.parquet          log ends and topics, sampled after the records
    DIR/samples/ends-<milliseconds>.parquet   every sample of log ends that was taken
    DIR/capture.json, DIR/checkpoint/         whose records these are, and how far they go

Spark's checkpoint decides which offsets a batch holds, before the batch is read; a batch whose file is there is not
written again. So a capture that was killed goes on where it was, without a row lost or doubled.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from apportion.errors import BadInput, Unavailable
from apportion.inputs import cluster
from apportion.inputs.properties import Properties
from apportion.spark import schemas, session, sinks
from apportion.spark.files import MADE, writing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VERSION: Final = 1
"""Of the folder's layout; a folder of another version is refused."""

ROWS_A_BATCH: Final = 1_000_000
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Captured:
    """What one capture brought.

    records
        Records read by it.
    missing
        Offsets that it went past without finding a record: compaction, or the markers of transactions.
    lost
        Offsets that the broker had deleted before they could be read.
    """

    records: int
    missing: int
    lost: int


@dataclass(frozen=True)
class Origin:
    """Whose records a folder holds: a folder takes those of one cluster, with one number of partitions."""

    version: int
    cluster_id: str | None
    partitions: int
    source: str


def capture_once(
    spark: SparkSession,
    bootstrap: str,
    folder: Path,
    properties: Properties,
    source: str,
    progress: Progress,
    rows_a_batch: int = ROWS_A_BATCH,
) -> Captured:
    """Everything that is there now and was not captured yet.

    Raises
        Unavailable: the broker, or the right to read; BadInput: the folder holds something else.
    """
    with sinks.parquet(folder) as place, cluster.connect(bootstrap, properties) as there:
        before = _offsets_ends(there, bootstrap)
        origin = Origin(VERSION, there.cluster_id(), len(before), source)
        _settle_origin(folder, origin)
        old = position(folder)
        lost = _lost(folder, before, old)
        progress(f"reading __consumer_offsets of {bootstrap}: {_waiting(before, old)} offsets to go")
        _run(_stream(spark, bootstrap, properties, origin, rows_a_batch), folder, place.staging)
        new = position(folder)
        _must_have_read(before, new, folder)
        records, missing = _judge(folder, before, old, new)
        progress(f"{records} records read; sampling log ends")
        _sample(there, folder)
    if lost or missing:
        progress(_hidden(missing, lost))
    return Captured(records, missing, lost)


def capture_on(once: Callable[[], Captured], interval_s: float, progress: Progress) -> Iterator[Captured]:
    """One capture after another, ``interval_s`` from start to start, until the caller stops asking.

    What keeps the first from working is raised; later ones may fail, for a broker that restarts is no reason to end.
    """
    worked = False
    while True:
        began = time.monotonic()
        try:
            found = once()
        except Unavailable as error:
            if not worked:
                raise
            progress(f"{error}; trying again in {interval_s:.0f} s")
        else:
            worked = True
            yield found
        time.sleep(max(0.0, interval_s - (time.monotonic() - began)))


# -- before ----------------------------------------------------------------------------------------------------------


def _offsets_ends(there: cluster.Cluster, bootstrap: str) -> list[cluster.LogEnds]:
    partitions = there.partitions([cluster.OFFSETS])
    if not partitions:
        what = "no group has ever committed there, or this user may not see the topic (ACL Describe)"
        raise Unavailable(f"{bootstrap} shows no __consumer_offsets: {what}")
    if headless := [one.partition for one in partitions if not one.led]:
        raise Unavailable(f"{bootstrap}: partitions {headless} of __consumer_offsets have no leader just now")
    return there.ends(partitions)


def _settle_origin(folder: Path, origin: Origin) -> None:
    """Write whose records these will be, or refuse a folder that holds something else."""
    file = folder / "capture.json"
    if not file.exists():
        if (folder / "records").exists() or (folder / "checkpoint").exists():
            raise BadInput(str(folder), "records, but no capture.json", "an empty folder, or one that a capture made")
        _replace(file, lambda draft: draft.write_text(json.dumps(asdict(origin)) + "\n"))
        return
    hint = "; capture into a new folder, the old one stays readable"
    found = read_origin(folder)
    for name, was, now in (
        ("cluster", found.cluster_id, origin.cluster_id),
        ("partitions of __consumer_offsets", found.partitions, origin.partitions),
        ("source", found.source, origin.source),
    ):
        if was != now:
            raise BadInput(f"{folder}: {name}", f"{was} when the capture began", f"{now}, as it is now{hint}")
    if any((folder / "records").glob("batch-*.parquet")) and not (folder / "checkpoint" / "offsets").is_dir():
        raise BadInput(f"{folder}/checkpoint", "nothing", "the checkpoint of the records that are there")


def read_origin(folder: Path) -> Origin:
    """What ``capture.json`` says; refuses that of another version."""
    file = folder / "capture.json"
    try:
        said = json.loads(file.read_text())
        version = said["version"]
        if version == VERSION:
            return Origin(version, said["cluster_id"], int(said["partitions"]), str(said["source"]))
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(str(file), "no description of a capture", "what the capture wrote; take a new folder") from error
    raise BadInput(str(file), f"version {version}", f"version {VERSION}; capture into a new folder")


def position(folder: Path) -> dict[int, int]:
    """Partition -> next offset, as of the last batch that was finished; empty before the first."""
    checkpoint = folder / "checkpoint"
    done = [int(file.name) for file in (checkpoint / "commits").glob("*") if file.name.isdigit()]
    if not done:
        return {}
    try:
        said = json.loads((checkpoint / "offsets" / str(max(done))).read_text().splitlines()[-1])
    except (OSError, ValueError, IndexError) as error:
        raise BadInput(str(checkpoint), "a checkpoint that cannot be read", "one of this version's") from error
    said = said.get(cluster.OFFSETS, said)
    return {int(number): int(offset) for number, offset in said.items()}


def _lost(folder: Path, ends: list[cluster.LogEnds], old: dict[int, int]) -> int:
    """Offsets deleted before they were read; refuses a topic that is shorter than what was read of it."""
    for end in ends:
        if old.get(end.partition, 0) > end.end:
            what = f"offset {old[end.partition]} of partition {end.partition} was captured"
            needed = f"a log that goes so far; it ends at {end.end}, so the topic was made anew: take a new folder"
            raise BadInput(f"{folder}: __consumer_offsets", what, needed)
    return sum(max(0, end.begin - old[end.partition]) for end in ends if end.partition in old)


def _waiting(ends: list[cluster.LogEnds], old: dict[int, int]) -> int:
    return sum(max(0, end.last_stable - max(end.begin, old.get(end.partition, 0))) for end in ends)


# -- reading ---------------------------------------------------------------------------------------------------------


def _stream(
    spark: SparkSession, bootstrap: str, properties: Properties, origin: Origin, rows_a_batch: int
) -> DataFrame:
    if origin.source == "python":
        from apportion.spark.python_source import NAME, OffsetsSource

        spark.dataSource.register(OffsetsSource)
        options = {"bootstrap": bootstrap, "password_properties": json.dumps(dict(properties.settings))}
        return spark.readStream.format(NAME).options(**options, max_rows=str(rows_a_batch)).load()
    # Spark asks the admin client for partitions by default, and that one leaves internal topics out without a word.
    spark.conf.set("spark.sql.streaming.kafka.useDeprecatedOffsetFetching", "true")
    options = {
        **properties.spark(),
        "kafka.bootstrap.servers": bootstrap,
        "kafka.isolation.level": "read_committed",
        # Given partitions, no subscription: a member of a group of its own would write into the topic it reads.
        "assign": json.dumps({cluster.OFFSETS: list(range(origin.partitions))}),
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(rows_a_batch),
        # What retention took is found and told by ``_lost``; what is left must still be read.
        "failOnDataLoss": "false",
    }
    return spark.readStream.format("kafka").options(**options).load()


def _run(stream: DataFrame, folder: Path, staging: Path) -> None:
    """Read until what was there at the start is in files."""
    records = folder / "records"
    records.mkdir(exist_ok=True)

    def keep(batch: DataFrame, number: int) -> None:
        _keep(batch, number, folder, staging)

    query = (
        stream.writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    finally:
        query.stop()


def _keep(batch: DataFrame, number: int, folder: Path, staging: Path) -> None:
    """One batch as one file; nothing to do where it is there already."""
    file = folder / "records" / f"batch-{number:09d}.parquet"
    if file.exists():
        return
    stage = Path(tempfile.mkdtemp(prefix=f"batch-{number}-", dir=staging))
    schema = schemas.arrow_schema(schemas.RECORDS)
    columns = batch.select(*[field.name for field in schemas.RECORDS.schema])
    sorted_rows = columns.repartition(1).sortWithinPartitions(*schemas.RECORDS.order)
    for made in sorted_rows.mapInArrow(writing(stage, schema, None), MADE).collect():
        os.replace(stage / made["file"], file)


# -- after -----------------------------------------------------------------------------------------------------------


def _must_have_read(before: list[cluster.LogEnds], new: dict[int, int], folder: Path) -> None:
    """A source that sees less than the broker has must not pass for an empty topic."""
    short = [end for end in before if end.last_stable > max(end.begin, new.get(end.partition, 0))]
    if short:
        one = short[0]
        what = f"partition {one.partition} of __consumer_offsets ends at {one.last_stable}"
        raise Unavailable(
            f"{what}, but the source read it to {new.get(one.partition, 0)}: nothing is lost, run it again"
        )
    there = sum(end.last_stable - end.begin for end in before)
    if there and not any((folder / "records").glob("batch-*.parquet")):
        what = "the source read no record of them; may this user read the topic?"
        raise Unavailable(f"__consumer_offsets holds {there} offsets, but {what}")


def _judge(folder: Path, before: list[cluster.LogEnds], old: dict[int, int], new: dict[int, int]) -> tuple[int, int]:
    """Records of this capture, and offsets in its range that have none."""
    start = np.zeros(1 + max(end.partition for end in before), np.int64)
    for end in before:
        start[end.partition] = max(end.begin, old.get(end.partition, 0))
    records = 0
    for file in sorted((folder / "records").glob("batch-*.parquet"), reverse=True):
        table = pq.read_table(file, columns=["partition", "offset"])
        fresh = int((table["offset"].to_numpy() >= start[table["partition"].to_numpy()]).sum())
        records += fresh
        if not fresh:
            break
    passed = sum(max(0, offset - int(start[number])) for number, offset in new.items())
    return records, passed - records


def _hidden(missing: int, lost: int) -> str:
    found = []
    if missing:
        found.append(f"{missing} offsets held no record any more (compaction, or markers of transactions)")
    if lost:
        found.append(f"{lost} offsets were deleted before they could be read")
    return "; ".join(found) + ": what happened there is not known, and gold marks it as not complete"


def _sample(there: cluster.Cluster, folder: Path) -> None:
    """Topics and log ends as they are now."""
    partitions = there.partitions()
    ends = there.ends(partitions)
    rows: list[dict[str, Any]] = [asdict(end) for end in ends]
    table = pa.Table.from_pylist(rows, schema=schemas.arrow_schema(schemas.ENDS))
    known = [
        {"topic": one.topic, "topic_id": one.topic_id, "partition": one.partition, "racks": list(one.racks)}
        for one in partitions
    ]
    samples = folder / "samples"
    samples.mkdir(exist_ok=True)
    stamp = int(datetime.now(UTC).timestamp() * 1000)
    _replace(samples / f"ends-{stamp}.parquet", lambda draft: pq.write_table(table, draft))
    topics = pa.Table.from_pylist(known, schema=schemas.arrow_schema(schemas.TOPICS))
    _replace(folder / "topics.parquet", lambda draft: pq.write_table(topics, draft))
    _replace(folder / "ends.parquet", lambda draft: pq.write_table(table, draft))


def _replace(file: Path, write: Callable[[Path], Any]) -> None:
    """Write a file whole or not at all."""
    draft = file.with_name(f".{file.name}.draft")
    write(draft)
    os.replace(draft, file)


def chosen_source(told: str) -> str:
    """``connector`` or ``python``: what was told, else the connector where its jars are or can be fetched."""
    if told != "auto":
        return told
    return "connector" if session.connector_jars() else "python"

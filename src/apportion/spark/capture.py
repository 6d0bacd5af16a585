"""`__consumer_offsets` from a broker into a dump, before the broker forgets: as it came, each record once.

    DIR/records/batch-000000000.parquet ...   what was read; one file a batch, there whole or not at all
    DIR/ends.parquet, topics.parquet          log ends and topics, sampled after the records
    DIR/samples/ends-<milliseconds>.parquet   every sample of log ends that was taken
    DIR/capture.json, DIR/checkpoint/         whose records these are, and how far they go

Spark's checkpoint decides which offsets a batch holds, before the batch is read; a batch whose file is there is not
written again. So a capture that was killed goes on where it was, without a row lost or doubled. Elsewhere than in plain
files of a local folder the same is kept as Delta tables (see ``bronze.py``), whose log remembers the batches.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from apportion.errors import BadInput, Unavailable, UnknownName
from apportion.sources import cluster
from apportion.sources.properties import Properties
from apportion.spark import bronze, errors, packages, session, settings
from apportion.spark.bronze import Bronze, Origin
from apportion.spark.location import Location
from apportion.spark.session import Progress
from apportion.tables import schemas
from apportion.wording import count

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Captured:
    """One capture's records.

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


def capture_once(
    spark: SparkSession, bootstrap: str, location: Location, properties: Properties, source: str, progress: Progress,
    rows_a_batch: int, form: str,
) -> Captured:  # fmt: skip
    """Everything that is there now and was not captured yet.

    Raises
        Unavailable: the broker, or the right to read; BadInput: the place holds something else.
    """
    with bronze.opened(spark, location, form, progress) as dump, cluster.connect(bootstrap, properties) as client:
        ends = _offsets_ends(client, bootstrap)
        origin = Origin(bronze.VERSION, client.cluster_id(), len(ends), source)
        _settle_origin(dump, origin)
        start = dump.position()
        lost = _lost(location, ends, start)
        progress(f"reading __consumer_offsets of {bootstrap}: {count(_waiting(ends, start), 'offset')} to go")
        dump.take(_stream(spark, bootstrap, properties, origin, rows_a_batch))
        read_to = dump.position()
        _must_have_read(ends, read_to, dump)
        records, missing = _judge(dump, ends, start, read_to)
        progress(f"{count(records, 'record')} read; sampling log ends")
        _sample(client, dump)
    if lost or missing:
        progress(_hidden(missing, lost))
    return Captured(records, missing, lost)


def capture_on(
    once: Callable[[], Captured], spark: SparkSession, interval_s: float, progress: Progress
) -> Iterator[Captured]:
    """One capture after another, ``interval_s`` from start to start, until the caller stops asking.

    What keeps the first from working is raised; later ones may fail, for a broker that restarts is no reason to end. A
    Spark that has ended is one: what starts this process anew starts another.
    """
    worked = False
    while True:
        began = time.monotonic()
        try:
            captured = once()
        except Unavailable as error:
            if not worked:
                raise
            must_live(spark, error)
            progress(f"{error}; trying again in {interval_s:.0f} s")
        else:
            worked = True
            yield captured
        time.sleep(max(0.0, interval_s - (time.monotonic() - began)))


def must_live(spark: SparkSession, error: Exception) -> None:
    """Raise if it is of no use to try again after an error, since Spark has ended."""
    if session.has_ended(spark):
        raise Unavailable(f"{errors.SPARK_ENDED}; nothing is lost, run it again") from error


# -- before ----------------------------------------------------------------------------------------------------------


def _offsets_ends(client: cluster.Cluster, bootstrap: str) -> list[cluster.LogEnds]:
    partitions = client.partitions([cluster.OFFSETS])
    if not partitions:
        why = "no group has ever committed there, or this user may not see the topic (ACL Describe)"
        raise Unavailable(f"{bootstrap} shows no __consumer_offsets: {why}")
    if headless := [partition.partition for partition in partitions if not partition.led]:
        raise Unavailable(f"{bootstrap}: partitions {headless} of __consumer_offsets have no leader just now")
    return client.ends(partitions)


def _settle_origin(dump: Bronze, origin: Origin) -> None:
    """Write whose records these will be, or refuse a place that holds something else."""
    recorded = dump.origin()
    if recorded is None:
        if dump.holds_records() or dump.has_checkpoint():
            raise BadInput(
                str(dump.location), "records, but no capture.json", "an empty place, or one that a capture made"
            )
        dump.begin(origin)
        return
    hint = "; capture into a new place, the old one stays readable"
    for name, was, now in (
        ("cluster", recorded.cluster_id, origin.cluster_id),
        ("partitions of __consumer_offsets", recorded.partitions, origin.partitions),
        ("source", recorded.source, origin.source),
    ):
        if was != now:
            raise BadInput(f"{dump.location}: {name}", f"{was} when the capture began", f"{now}, as it is now{hint}")
    if dump.holds_records() and not dump.has_checkpoint():
        raise BadInput(f"{dump.location}: checkpoint", "nothing", "the checkpoint of the records that are there")


def _lost(location: Location | Path, ends: list[cluster.LogEnds], start: dict[int, int]) -> int:
    """Offsets deleted before they were read; refuses a topic that is shorter than the part already read."""
    for end in ends:
        if start.get(end.partition, 0) > end.end:
            captured = f"offset {start[end.partition]} of partition {end.partition} was captured"
            needed = f"a log that goes so far; it ends at {end.end}, so the topic was recreated: use a new folder"
            raise BadInput(f"{location}: __consumer_offsets", captured, needed)
    return sum(max(0, end.begin - start[end.partition]) for end in ends if end.partition in start)


def _waiting(ends: list[cluster.LogEnds], start: dict[int, int]) -> int:
    return sum(max(0, end.last_stable - max(end.begin, start.get(end.partition, 0))) for end in ends)


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
    spark.conf.set(settings.OLD_FETCHING, "true")
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


# -- after -----------------------------------------------------------------------------------------------------------


def _must_have_read(ends: list[cluster.LogEnds], read_to: dict[int, int], dump: Bronze) -> None:
    """A source that sees less than the broker has must not pass for an empty topic."""
    short = [end for end in ends if end.last_stable > max(end.begin, read_to.get(end.partition, 0))]
    if short:
        first = short[0]
        why = f"partition {first.partition} of __consumer_offsets ends at {first.last_stable}"
        raise Unavailable(
            f"{why}, but the source read it to {read_to.get(first.partition, 0)}: nothing is lost, run it again"
        )
    offsets = sum(end.last_stable - end.begin for end in ends)
    if offsets and not dump.holds_records():
        why = "the source read no record of them; may this user read the topic?"
        raise Unavailable(f"__consumer_offsets holds {offsets} offsets, but {why}")


def _judge(
    dump: Bronze, ends: list[cluster.LogEnds], start: dict[int, int], read_to: dict[int, int]
) -> tuple[int, int]:
    """Records of this capture, and offsets in its range that have none."""
    begin = {end.partition: max(end.begin, start.get(end.partition, 0)) for end in ends}
    records = dump.count_from(begin)
    passed = sum(max(0, offset - begin.get(number, 0)) for number, offset in read_to.items())
    return records, passed - records


def _hidden(missing: int, lost: int) -> str:
    sentences = []
    if missing:
        sentences.append(f"{missing} offsets held no record any more (compaction, or markers of transactions)")
    if lost:
        sentences.append(f"{lost} offsets were deleted before they could be read")
    return "; ".join(sentences) + ": what happened there is not known, and gold marks it as not complete"


def _sample(client: cluster.Cluster, dump: Bronze) -> None:
    """Topics and log ends as they are now."""
    partitions = client.partitions()
    ends = [asdict(end) for end in client.ends(partitions)]
    topics = [asdict(partition) for partition in partitions]
    dump.sample(
        pa.Table.from_pylist(ends, schema=schemas.arrow_schema(schemas.ENDS)),
        pa.Table.from_pylist(topics, schema=schemas.arrow_schema(schemas.TOPICS)),
    )


SOURCES: Final = ("auto", "connector", "python")


def chosen_source(name: str, location: Location) -> str:
    """``connector`` or ``python``: the one that is named, else the folder's first one, else the connector.

    Into a local folder the source in Python stands in for a connector whose jars are not here; elsewhere, where an
    executor would have to have a Kafka client of Python's, the jars are fetched.
    """
    if name not in SOURCES:
        raise UnknownName("source", name, SOURCES)
    if name != "auto":
        return name
    if location.kind != "folder":
        return "connector"
    if (location.folder / "capture.json").exists():
        return bronze.read_origin(location.folder).source
    return "connector" if packages.local_jars(packages.KAFKA) else "python"

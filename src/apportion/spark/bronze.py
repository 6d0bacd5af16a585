"""The storage of a capture's records: plain files of a local folder, or Delta tables anywhere, each record once.

    in plain files                     as tables below a URI            in a catalog
    records/batch-000000000.parquet    records                          bronze_records
    ends.parquet, samples/ends-*       ends: every sample               bronze_ends
    topics.parquet                     topics: the newest               bronze_topics
    capture.json                       apportion_capture                apportion_capture
    checkpoint/                        checkpoint/                      below spark.sql.streaming.checkpointLocation

Spark's checkpoint decides which offsets a batch holds before it is read. A batch whose file is there is not written
again; Delta remembers the batches of a stream in its own log.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as sql

from apportion.errors import BadInput
from apportion.sources import cluster
from apportion.spark import folder as folders
from apportion.spark import lake, lock
from apportion.spark.files import SHOWN, drafted, sync, write_rows
from apportion.spark.location import Location
from apportion.spark.schemas import schema_of
from apportion.spark.session import AS_IT_STANDS, is_connect
from apportion.spark.shelves import HadoopShelf
from apportion.tables import schemas

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

VERSION: Final = 1
"""Of a dump's layout; one of another version is refused."""

CAPTURE: Final = "apportion_capture"
LOCKS: Final = "apportion_capture_lock"
_ORIGIN: Final = "capture.json"
_CHECKPOINTS: Final = "spark.sql.streaming.checkpointLocation"
_FILES: Final = 2
"""Files that a batch of the stream becomes."""


@dataclass(frozen=True)
class Origin:
    """Whose records a dump holds: it takes those of one cluster, with one number of partitions."""

    version: int
    cluster_id: str | None
    partitions: int
    source: str


# -- plain files -----------------------------------------------------------------------------------------------------


class FolderBronze:
    """Plain files of a local folder; each appears whole, and is on the disk before Spark is told that it is there."""

    def __init__(self, location: Location, staging: Path) -> None:
        self.location, self._folder, self._staging = location, location.folder, staging

    def origin(self) -> Origin | None:
        """The content of ``capture.json``."""
        return read_origin(self._folder) if (self._folder / _ORIGIN).exists() else None

    def begin(self, origin: Origin) -> None:
        """Write ``capture.json``."""
        with self._drafted(_ORIGIN) as draft:
            draft.write_text(json.dumps(asdict(origin)) + "\n")

    def holds_records(self) -> bool:
        """Whether there is a file of records, of a capture or of anybody."""
        return any((self._folder / "records").glob(SHOWN))

    def has_checkpoint(self) -> bool:
        """Whether a batch was ever begun."""
        return bool(self._batches("offsets"))

    def position(self) -> dict[int, int]:
        """By the newest commit of the checkpoint."""
        return _position(str(self._folder / "checkpoint"), self._batches)

    def _batches(self, name: str) -> dict[int, str]:
        """The files of a log of the checkpoint, by the number of their batch."""
        files = (self._folder / "checkpoint" / name).glob("*")
        return {int(file.name): file.read_text(errors="replace") for file in files if file.name.isdigit()}

    def take(self, stream: DataFrame) -> None:
        """A file a batch."""
        (self._folder / "records").mkdir(exist_ok=True)

        checkpoint = self._folder / "checkpoint"
        if not self.has_checkpoint():
            # Spark begins in empty folders alone, and one that is killed while it writes its first plan leaves a draft.
            shutil.rmtree(checkpoint, ignore_errors=True)
        writer = stream.writeStream.foreachBatch(self._keep).option("checkpointLocation", str(checkpoint))
        _finish(writer.trigger(availableNow=True).start())
        _sync_checkpoint(checkpoint)

    def _keep(self, batch: DataFrame, number: int) -> None:
        """One batch as one file; nothing to do if it is there already."""
        file = self._folder / "records" / f"batch-{number:09d}.parquet"
        if file.exists():
            return
        stage = str(Path(tempfile.mkdtemp(prefix=f"batch-{number}-", dir=self._staging)) / file.name)
        columns = batch.select(*schema_of(schemas.RECORDS).names).repartition(1)
        columns = columns.sortWithinPartitions(*schemas.RECORDS.order)
        columns.mapInArrow(partial(_as_file, stage), "rows bigint").collect()
        # What the batch holds must outlast its file: planned anew after a power cut, it might hold more than the file.
        _sync_checkpoint(self._folder / "checkpoint")
        if Path(stage).exists():  # a batch may have no rows
            os.replace(stage, file)
        sync(file.parent)

    def count_from(self, start: dict[int, int]) -> int:
        """From the newest file back to one that has none."""
        begin = np.zeros(1 + max(start), np.int64)
        for partition, offset in start.items():
            begin[partition] = offset
        records = 0
        for file in sorted((self._folder / "records").glob("batch-*.parquet"), reverse=True):
            table = pq.read_table(file, columns=["partition", "offset"])
            fresh = int((table["offset"].to_numpy() >= begin[table["partition"].to_numpy()]).sum())
            records += fresh
            if not fresh:
                break
        return records

    def sample(self, ends: pa.Table, topics: pa.Table) -> None:
        """A file of its own for each sample."""
        (self._folder / "samples").mkdir(exist_ok=True)
        stamp = int(datetime.now(UTC).timestamp() * 1000)
        tables = {f"samples/ends-{stamp}.parquet": ends, "topics.parquet": topics, "ends.parquet": ends}
        for name, table in tables.items():
            with self._drafted(name) as draft:
                pq.write_table(table, draft)

    @contextmanager
    def _drafted(self, name: str) -> Iterator[Path]:
        """The block's output becomes a file of the dump, whole or not at all, and is on the disk then."""
        file = self._folder / name
        with drafted(file, self._staging) as draft:
            yield draft
        sync(file.parent)


def _as_file(file: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """All rows of a task as one file."""
    rows = pa.Table.from_batches(batches, schema=schemas.arrow_schema(schemas.RECORDS))
    if rows.num_rows:
        write_rows(Path(file), rows)
    yield pa.RecordBatch.from_pydict({"rows": pa.array([rows.num_rows], pa.int64())})


def read_origin(folder: Path) -> Origin:
    """The content of ``capture.json``; refuses that of another version."""
    file = folder / _ORIGIN
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        actual = f"what cannot be read ({error})"
        raise BadInput(str(file), actual, "the capture's files; use a new place") from error
    return _origin_of(str(file), text)


def _origin_of(where: str, text: str) -> Origin:
    try:
        fields = json.loads(text)
        version = fields["version"]
        if version == VERSION:
            return Origin(version, fields["cluster_id"], int(fields["partitions"]), str(fields["source"]))
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(where, "no description of a capture", "the capture's files; use a new place") from error
    raise BadInput(where, f"version {version}", f"version {VERSION}; capture into a new place")


def _position(checkpoint: str, batches: Callable[[str], dict[int, str]]) -> dict[int, int]:
    """Partition -> next offset, as of the last batch that was finished; empty before the first.

    batches
        Gives the files of one of the checkpoint's logs, by the numbers of batches.
    """
    finished = batches("commits")
    try:
        if not finished:
            return {}
        # An offsets file of Spark's: its last line is that of the only source.
        offsets = json.loads(batches("offsets")[max(finished)].splitlines()[-1])
        return {int(number): int(offset) for number, offset in offsets.get(cluster.OFFSETS, offsets).items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise BadInput(checkpoint, "a checkpoint that cannot be read", "one of this version's") from error


def _finish(query: StreamingQuery) -> None:
    try:
        query.awaitTermination()
    finally:
        query.stop()


def _sync_checkpoint(checkpoint: Path) -> None:
    """The newest batch that was planned and the newest that was finished are on the disk."""
    for folder in (checkpoint, checkpoint / "offsets", checkpoint / "commits"):
        with suppress(FileNotFoundError):
            files = [file for file in folder.iterdir() if file.is_file() and not file.name.startswith(".")]
            for file in sorted(files, key=lambda file: file.stat().st_mtime)[-2:]:
                sync(file)
            sync(folder)


# -- tables ----------------------------------------------------------------------------------------------------------


class LakeBronze:
    """Tables below a URI or in a catalog: records by Structured Streaming, with its checkpoint next to them."""

    def __init__(
        self, spark: SparkSession, location: Location, tables: lake.Tables, checkpoint: str, held: lock.Held
    ) -> None:
        self.location, self._spark, self._tables = location, spark, tables
        self._checkpoint, self._lock = checkpoint, held
        named = partial(lake.in_dump, location)
        self._records, self._ends, self._topics = map(named, ("records", "ends", "topics"))
        self._before: int | None = None
        """Records that were there when ``take`` began, if all of them are of batches that were finished."""

    def origin(self) -> Origin | None:
        """The first capture's files."""
        text = lake.Manifest.read(self._spark, self._tables, CAPTURE).texts.get(_ORIGIN)
        return None if text is None else _origin_of(f"{self.location}: {_ORIGIN}", text)

    def begin(self, origin: Origin) -> None:
        """Keep it next to the tables."""
        lake.Manifest({}, {_ORIGIN: json.dumps(asdict(origin))}).write(self._spark, self._tables, CAPTURE)

    def holds_records(self) -> bool:
        """Whether there is a row."""
        if not lake.is_there(self._spark, self._tables, self._records):
            return False
        return bool(self._tables.read(self._spark, self._records, None).limit(1).count())

    def has_checkpoint(self) -> bool:
        """Whether a batch was ever begun."""
        return bool(self._batches("offsets"))

    def position(self) -> dict[int, int]:
        """By the newest commit of the checkpoint, read by Spark: it can read all that it can write."""
        return _position(self._checkpoint, self._batches)

    def _batches(self, name: str) -> dict[int, str]:
        """The files of a log of the checkpoint, by the number of their batch."""
        reader = self._spark.read.option("wholetext", "true").options(**AS_IT_STANDS)
        try:
            rows = reader.text(f"{self._checkpoint}/{name}").select("value", "_metadata.file_name").collect()
        except Exception as error:
            if lake.is_missing(error):
                return {}
            raise
        return {int(row["file_name"]): row["value"] for row in rows if row["file_name"].isdigit()}

    def take(self, stream: DataFrame) -> None:
        """An append a batch, which Delta makes once, however often Spark asks."""
        self._lock.check()
        if not self.has_checkpoint() and not is_connect(self._spark):  # as in a folder
            HadoopShelf(self._spark, self._checkpoint).clear()
        half_done = set(self._batches("offsets")) - set(self._batches("commits"))
        exists = lake.is_there(self._spark, self._tables, self._records)
        self._before = None if half_done else self._count() if exists else 0
        rows = stream.select(*schema_of(schemas.RECORDS).names).repartition(_FILES)
        writer = rows.writeStream.outputMode("append").option("checkpointLocation", self._checkpoint)
        _finish(self._tables.stream(writer.trigger(availableNow=True), self._records))

    def _count(self) -> int:
        return self._tables.read(self._spark, self._records, None).count()

    def count_from(self, start: dict[int, int]) -> int:
        """By the tables' own counts; row by row only after a capture that died in the middle of a batch."""
        if not lake.is_there(self._spark, self._tables, self._records):
            return 0
        if self._before is not None:
            return self._count() - self._before
        begin = self._spark.createDataFrame(list(start.items()), "partition int, start bigint")
        rows = self._tables.read(self._spark, self._records, None).select("partition", "offset")
        return rows.join(sql.broadcast(begin), "partition").where("offset >= start").count()

    def sample(self, ends: pa.Table, topics: pa.Table) -> None:
        """Ends are added to those of before, topics replaced; topics first, so that a log end has its topic."""
        self._lock.check()
        described = self._spark.createDataFrame(topics.to_pylist(), schema_of(schemas.TOPICS)).coalesce(1)
        self._tables.overwrite(self._topics, described)
        sampled = self._spark.createDataFrame(ends.to_pylist(), schema_of(schemas.ENDS)).coalesce(1)
        there = lake.is_there(self._spark, self._tables, self._ends)
        (self._tables.append if there else self._tables.overwrite)(self._ends, sampled)


Bronze = FolderBronze | LakeBronze


@contextmanager
def opened(
    spark: SparkSession, location: Location, form: str, progress: Callable[[str], None] = lambda line: None
) -> Iterator[Bronze]:
    """A place for one capture, which is alone with it."""
    if location.kind == "folder" and form == "parquet":
        with folders.staged(location.folder, progress) as (staging, _):
            yield FolderBronze(location, staging)
        return
    tables = lake.tables_of(location, form)
    checkpoint = _checkpoint(spark, location)
    lake.make_schema(spark, location)
    with lock.held(lake.shelf_of(spark, location, form, LOCKS), str(location), progress=progress) as held:
        yield LakeBronze(spark, location, tables, checkpoint, held)
        held.finished = True


def _checkpoint(spark: SparkSession, location: Location) -> str:
    if location.kind != "catalog":
        return location.path("checkpoint")
    root = spark.conf.get(_CHECKPOINTS, None)
    if not root:
        needed = f"a folder for its checkpoint: {_CHECKPOINTS}=URI in APPORTION_SPARK_CONF"
        raise BadInput(str(location), "a catalog, which has no place for files", needed)
    return f"{root.rstrip('/')}/{location.root}"

"""Bronze to silver: records to commits, generations, epochs, rejects, counts and gaps.

Each function is tables to table. Spark sorts the records by the first two bytes of their key, Arrow carries batches
to ``rows.py``, and nothing but bytes and numbers crosses the border. A record lands in exactly one place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as sql
from pyspark.sql.window import Window

from apportion.errors import BadInput
from apportion.spark import rows
from apportion.spark.schemas import COMMITS, COUNTS, EPOCHS, GAPS, GENERATIONS, REJECTS
from apportion.spark.session import ROWS_A_BATCH

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

BATCH_BYTES = 64 << 20
"""Spark's own: ``spark.sql.execution.arrow.maxBytesPerBatch``."""
_PLACE = ("partition", "offset")
_NEEDED = ("key", "value", "partition", "offset", "timestamp")


@dataclass(frozen=True)
class Seen:
    """What one look at all records tells.

    twice
        Some stand twice: a capture that was killed between two steps wrote them again.
    largest_commit
        Bytes of the largest record of a committed offset, key and value.
    """

    twice: bool
    largest_commit: int

    @property
    def light(self) -> bool:
        """Whether a batch of commits fits into memory however its rows are dealt."""
        return self.largest_commit * ROWS_A_BATCH <= BATCH_BYTES


def scan(records: DataFrame) -> Seen:
    """One look at all records.

    Raises
        BadInput: two records of one place differ, so the folder holds records of two clusters.
    """
    content = sql.xxhash64("key", "value", sql.isnull("key"))  # a hash passes over nulls
    size = sql.length("key") + sql.coalesce(sql.length("value"), sql.lit(0))
    places = records.groupBy(*_PLACE).agg(
        sql.count(sql.lit(1)).alias("n"),
        sql.min(content).alias("a"),
        sql.max(content).alias("b"),
        sql.max(sql.when(_key_type(0, 1), size)).alias("size"),
    )
    twice = sql.col("n") > 1
    seen = places.agg(
        sql.count(sql.when(twice, 1)).alias("twice"),
        sql.count(sql.when(twice & (sql.col("a") != sql.col("b")), 1)).alias("differ"),
        sql.coalesce(sql.max("size"), sql.lit(0)).alias("size"),
    ).collect()[0]
    if seen["differ"]:
        raise BadInput(
            "records", f"{seen['differ']} offsets with two different records", "records of one cluster alone"
        )
    return Seen(bool(seen["twice"]), seen["size"])


def deduplicate(records: DataFrame, seen: Seen | None = None) -> DataFrame:
    """Each (partition, offset) once: records themselves, unless some stand twice. Raises as ``scan``."""
    return records.dropDuplicates(list(_PLACE)) if (seen or scan(records)).twice else records


def commits(records: DataFrame) -> DataFrame:
    """Every committed offset and its deletion: the columns of ``silver/commits``."""
    return _decoded(records.where(_key_type(0, 1)), lambda batch: iter([rows.commit_rows(batch)]), COMMITS.schema)


def generations(records: DataFrame) -> DataFrame:
    """Every record of a classic group: the columns of ``silver/generations``."""
    return _decoded(records.where(_key_type(2)), rows.generation_rows, GENERATIONS.schema)


def epochs(records: DataFrame) -> DataFrame:
    """Every record of a KIP-848, share or streams group: the columns of ``silver/epochs``."""
    return _decoded(records.where(_key_type(3, 23)), rows.epoch_rows, EPOCHS.schema)


def rejects(records: DataFrame) -> DataFrame:
    """Every record that cannot be read, with the reason: the columns of ``silver/rejects``."""
    return _decoded(records, lambda batch: iter([rows.reject_rows(batch)]), REJECTS.schema)


def counts(commits: DataFrame, generations: DataFrame, epochs: DataFrame, records: DataFrame) -> DataFrame:
    """How many records of each kind were read: (key_type, value_version, tombstone, records)."""
    kinds = ("key_type", "value_version", "tombstone")
    one = sql.lit(1).cast("bigint").alias("records")
    read = commits.select(*kinds, one).unionByName(epochs.select(*kinds, one))
    read = read.unionByName(generations.select(sql.lit(2).alias("key_type"), *kinds[1:], one))
    other = records.where(~sql.coalesce(_key_type(0, 8), sql.lit(False)))
    read = read.unionByName(_decoded(other, lambda batch: iter([rows.other_counts(batch)]), COUNTS.schema))
    return read.groupBy(*kinds).agg(sql.sum("records").alias("records"))


def gaps(records: DataFrame, read: Mapping[int, int] | None = None) -> DataFrame:
    """Offsets that no record has: (source_partition, after_offset, before_offset, missing).

    read
        The last offset before these records in each partition that has one.
    """
    line = Window.partitionBy("partition").orderBy("offset")
    first = sql.lit(-1).cast("bigint")
    if read:
        last = sql.create_map(*[sql.lit(number) for pair in sorted(read.items()) for number in pair])
        first = sql.coalesce(sql.try_element_at(last, sql.col("partition")), first).cast("bigint")
    before = sql.coalesce(sql.lag("offset").over(line), first)
    ordered = records.select("partition", "offset").withColumn("before", before)
    return ordered.where(sql.col("offset") > sql.col("before") + 1).select(
        sql.col("partition").alias(GAPS.schema[0].name),
        sql.col("before").alias("after_offset"),
        sql.col("offset").alias("before_offset"),
        (sql.col("offset") - sql.col("before") - 1).alias("missing"),
    )


def _key_type(first: int, last: int | None = None) -> Column:
    """Whether a key begins with one of these types, all from first to last; null where there is no key.

    Whole keys are compared, byte by byte from the left: that takes no copy, and lets Parquet leave row groups out.
    """
    after = (first if last is None else last) + 1
    low, high = (sql.lit(number.to_bytes(2, "big")) for number in (first, after))
    return (sql.col("key") >= low) & (sql.col("key") < high)


Rows = Callable[[pa.RecordBatch], Iterator[pa.RecordBatch]]


def _decoded(records: DataFrame, rows: Rows, schema: StructType) -> DataFrame:
    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from rows(batch)

    return records.select(*_NEEDED).mapInArrow(decode, schema)

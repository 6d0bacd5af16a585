"""Bronze to silver: records to commits, generations, epochs, rejects, counts and gaps.

Each function is tables to table. Spark sorts the records by the first two bytes of their key, Arrow carries batches
to ``rows.py``, and nothing but bytes and numbers crosses the border. A record lands in exactly one place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as sql
from pyspark.sql.window import Window

from apportion.errors import BadInput
from apportion.spark import rows
from apportion.spark.schemas import COMMITS, COUNTS, EPOCHS, GAPS, GENERATIONS, REJECTS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

_NEEDED = ("key", "value", "partition", "offset", "timestamp")


def once(records: DataFrame) -> DataFrame:
    """Each (partition, offset) once: records themselves, unless some stand twice.

    Raises
        BadInput: two records of one place differ, so the folder holds records of two clusters.
    """
    place = ("partition", "offset")
    twice = records.groupBy(*place).agg(
        sql.count(sql.lit(1)).alias("n"),
        sql.min(sql.xxhash64("key", "value")).alias("a"),
        sql.max(sql.xxhash64("key", "value")).alias("b"),
    )
    twice = twice.where("n > 1")
    seen = twice.agg(
        sql.count(sql.lit(1)).alias("n"), sql.sum((sql.col("a") != sql.col("b")).cast("int")).alias("differ")
    ).first()
    if seen is None or not seen["n"]:
        return records
    if seen["differ"]:
        raise BadInput(
            "records", f"{seen['differ']} offsets with two different records", "records of one cluster alone"
        )
    return records.dropDuplicates(list(place))


def commits(records: DataFrame) -> DataFrame:
    """Every committed offset and its deletion: the columns of ``silver/commits``."""
    return _decoded(records.where(_key_type(0, 1)), lambda batch: iter([rows.commit_rows(batch)]), COMMITS.schema)


def generations(records: DataFrame) -> DataFrame:
    """Every record of a classic group: the columns of ``silver/generations``."""
    return _decoded(records.where(_key_type(2)), rows.generation_rows, GENERATIONS.schema)


def epochs(records: DataFrame) -> DataFrame:
    """Every record of a KIP-848 group: the columns of ``silver/epochs``."""
    return _decoded(records.where(_key_type(3, 8)), rows.epoch_rows, EPOCHS.schema)


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


def gaps(records: DataFrame) -> DataFrame:
    """Offsets that no record has: (source_partition, after_offset, before_offset, missing)."""
    line = Window.partitionBy("partition").orderBy("offset")
    before = sql.coalesce(sql.lag("offset").over(line), sql.lit(-1).cast("bigint"))
    found = records.select("partition", "offset").withColumn("before", before)
    return found.where(sql.col("offset") > sql.col("before") + 1).select(
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


def _decoded(records: DataFrame, made: Rows, schema: StructType) -> DataFrame:
    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from made(batch)

    return records.select(*_NEEDED).mapInArrow(decode, schema)

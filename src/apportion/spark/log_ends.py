"""The samples of log ends that plans are judged by, and when the newest of all was taken."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from apportion.history.lag_time import SAMPLES_MAX, WINDOW_S
from apportion.spark.bundles import files_of
from apportion.spark.histories import millis

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def samples(ends: DataFrame) -> DataFrame:
    """(topic, partition, samples array<struct<at_ms, end>>): the newest samples of each log's end, oldest first."""
    sample = F.struct(millis("at").alias("at_ms"), F.col("end"))
    every = ends.groupBy("topic", "partition").agg(F.sort_array(F.collect_set(sample)).alias("samples"))
    newest = F.slice("samples", F.greatest(F.size("samples") - SAMPLES_MAX + 1, F.lit(1)), SAMPLES_MAX)
    return every.select("topic", "partition", newest.alias("samples"))


def since(now_ms: int) -> int:
    """Where the window begins in which is looked how fast a group reads."""
    return now_ms - round(WINDOW_S * 1000)


def now_ms(ends: DataFrame) -> int:
    """When any log end was sampled last; 0 where none was since 1970.

    Of plain files of this machine one column is read here: Spark would be asked for longer than that takes.
    """
    if (files := files_of(ends)) is not None:
        return max((_newest_ms(file) for file in files), default=0)
    newest = ends.agg(F.max(millis("at")).alias("now_ms")).collect()[0]["now_ms"]
    return max(0, int(newest or 0))


def _newest_ms(file: Path) -> int:
    """The newest sample of a file, rounded down; 0 where it has none."""
    import pyarrow.parquet as pq  # only here: see ``slices.batches_of``

    newest = 0
    with pq.ParquetFile(file) as opened:
        for some in opened.iter_batches(columns=["at"]):
            micros = pc.max(some["at"].cast(pa.int64())).as_py()
            newest = newest if micros is None else max(newest, micros // 1000)
    return newest

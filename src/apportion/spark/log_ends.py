"""The samples of log ends that plans are judged by, and when the newest of all was taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from apportion.history.lag_time import SAMPLES_MAX
from apportion.spark.histories import millis

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def samples(ends: DataFrame) -> DataFrame:
    """(topic, partition, samples array<struct<at_ms, end>>): the newest samples of each log's end, oldest first."""
    sample = F.struct(millis("at").alias("at_ms"), F.col("end"))
    every = ends.groupBy("topic", "partition").agg(F.sort_array(F.collect_set(sample)).alias("samples"))
    newest = F.slice("samples", F.greatest(F.size("samples") - SAMPLES_MAX + 1, F.lit(1)), SAMPLES_MAX)
    return every.select("topic", "partition", newest.alias("samples"))


def now_ms(ends: DataFrame) -> int:
    """When any log end was sampled last; 0 where none was."""
    newest = ends.agg(F.max(millis("at")).alias("now_ms")).collect()[0]["now_ms"]
    return int(newest or 0)

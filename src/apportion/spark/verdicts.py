"""Burrow's verdicts on every partition, from the last commits and the log ends around them; the rule is ``history``'s.

Which commits are looked at is SQL; what they say is asked on Arrow's columns, some thousand partitions at a time.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from apportion.history import verdicts as rule
from apportion.history.verdicts import WINDOW, WORST
from apportion.spark import schemas
from apportion.spark.batches import known, lists, map_columns
from apportion.spark.commits import KEY, in_order
from apportion.spark.histories import millis

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def verdicts(commits: DataFrame, lag: DataFrame, ends_now: DataFrame, allowed_lag: int = 0) -> DataFrame:
    """``gold/verdicts``: (group, topic, partition, verdict, lag, window, first_commit, last_commit).

    commits
        ``silver/commits``; the last ten of each partition since its last tombstone count.
    lag
        ``gold/lag``, for the partitions whose log ends are known.
    allowed_lag
        Messages that count as none.
    """
    judged = lag.where("committed is not null and sampled_at is not null").select(
        *KEY, "lag", millis("sampled_at").alias("now_ms"), "seconds"
    )
    samples = ends_now.select("topic", "partition", "samples")
    whole = judged.join(windows(commits), list(KEY), "inner").join(samples, ["topic", "partition"], "left")
    first, last = (F.timestamp_millis(F.element_at("window", position)["at_ms"]) for position in (1, -1))
    rows = whole.select(
        *KEY, "lag", "now_ms", "seconds",
        F.col("window.at_ms").alias("commit_at"), F.col("window.committed").alias("commit_offset"),
        F.col("samples.at_ms").alias("at_ms"), F.col("samples.end").alias("ends"),
        F.size("window").alias("window"), first.alias("first_commit"), last.alias("last_commit"),
    )  # fmt: skip
    return map_columns(rows, partial(_judged, allowed_lag=allowed_lag), schemas.VERDICTS.schema)


def _judged(batch: pa.RecordBatch, allowed_lag: int) -> dict[str, pa.Array]:
    """The verdicts on some partitions."""
    window, ends = lists(batch, "commit_at", "commit_offset"), lists(batch, "at_ms", "ends")
    now, seconds = (np.asarray(batch.column(name), dtype=np.float64) for name in ("now_ms", "seconds"))
    since = now - np.floor(seconds * 1000)
    words = rule.verdicts(window, rule.lags_left(window, ends), known(batch, "lag"), now, since, allowed_lag)
    return {"verdict": pa.array(np.array(WORST)[words])}


def windows(commits: DataFrame) -> DataFrame:
    """The last commits of each partition: (group, topic, partition, window array<struct<offset, at_ms, committed>>)."""
    newest_first = Window.partitionBy(*KEY).orderBy(*[column.desc() for column in in_order()])
    since = F.max(F.col("tombstone").cast("int")).over(newest_first.rowsBetween(Window.unboundedPreceding, 0))
    row = F.struct("source_offset", millis("commit_time").alias("at_ms"), "committed")
    return (
        commits.withColumn("deleted", since)
        .withColumn("n", F.row_number().over(newest_first))
        .where(f"deleted = 0 and n <= {WINDOW}")
        .groupBy(*KEY)
        .agg(F.sort_array(F.collect_list(row)).alias("window"))
    )

"""Burrow's verdicts on every partition, from the last commits and the log ends around them; ``history.verdicts`` rules.

All in the JVM: a million partitions have a million short windows, too many to be Python objects one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from apportion.history.verdicts import OK, REWIND, STALL, STOP, WARN, WINDOW
from apportion.spark.commits import KEY
from apportion.spark.histories import millis

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


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
    judged = whole.withColumn("lags", _lags_then()).withColumn("verdict", verdict(allowed_lag))
    first, last = (F.timestamp_millis(F.element_at("window", position)["at_ms"]) for position in (1, -1))
    return judged.select(
        *KEY, "verdict", "lag", F.size("window").alias("window"), first.alias("first_commit"), last.alias("last_commit")
    )


def windows(commits: DataFrame) -> DataFrame:
    """The last commits of each partition: (group, topic, partition, window array<struct<offset, at_ms, committed>>)."""
    newest_first = Window.partitionBy(*KEY).orderBy(F.col("source_offset").desc())
    since = F.max(F.col("tombstone").cast("int")).over(newest_first.rowsBetween(Window.unboundedPreceding, 0))
    row = F.struct("source_offset", millis("commit_time").alias("at_ms"), "committed")
    return (
        commits.withColumn("deleted", since)
        .withColumn("n", F.row_number().over(newest_first))
        .where(f"deleted = 0 and n <= {WINDOW}")
        .groupBy(*KEY)
        .agg(F.sort_array(F.collect_list(row)).alias("window"))
    )


def _lags_then() -> Column:
    """The lag that each commit left, by the last log end sampled before it; null where there is none."""

    def then(commit: Column) -> Column:
        before = F.filter("samples", lambda sample: sample["at_ms"] <= commit["at_ms"])
        end = F.when(F.size(before) > 0, F.element_at(before, -1)["end"])
        behind = F.try_subtract(end, commit["committed"])
        return F.when(behind.isNotNull(), F.greatest(behind, F.lit(0).cast("bigint")))

    return F.transform("window", then)


def verdict(allowed_lag: int) -> Column:
    """``history.verdicts.verdict`` of the columns window, lags, lag, now_ms and seconds."""
    first, last = F.element_at("window", 1), F.element_at("window", -1)
    committed = F.transform("window", lambda commit: commit["committed"])
    known = F.filter("lags", lambda lag: lag.isNotNull())
    since = F.col("now_ms") - F.floor(F.coalesce("seconds", F.lit(0.0)) * 1000).cast("bigint")
    woke = F.greatest(last["at_ms"], F.when(F.col("seconds").isNotNull(), since))
    one, silent = F.size("window") < 2, F.col("now_ms") - woke > last["at_ms"] - first["at_ms"]
    return (
        F.when(F.col("lag").isNull() | (F.col("lag") <= allowed_lag), OK)
        .when(~one & silent, STOP)
        .when(F.array_max(committed) > last["committed"], REWIND)
        .when(one | F.exists(known, lambda lag: lag <= allowed_lag), OK)
        .when(F.array_min(committed) == F.array_max(committed), STALL)
        .when((F.size(known) > 1) & (known == F.array_sort(known)), WARN)
        .otherwise(OK)
    )

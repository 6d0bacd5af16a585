"""Burrow's verdicts on every partition, from the last commits and the log ends around them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from apportion.history.verdicts import WINDOW, Commit, verdict
from apportion.spark import schemas
from apportion.spark.batches import each
from apportion.spark.commits import KEY
from apportion.spark.histories import millis

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ENOUGH: Final = "size(window) > 0"


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
    whole = judged.join(_windows(commits), list(KEY), "inner").join(samples, ["topic", "partition"], "left")
    return each(whole, partial(_judge, allowed_lag), schemas.VERDICTS.schema)


def _windows(commits: DataFrame) -> DataFrame:
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


def _judge(allowed_lag: int, row: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    samples = [(s["at_ms"], s["end"]) for s in row["samples"] or ()]
    times = [at for at, _ in samples]
    window = [
        Commit(c["at_ms"], c["committed"], _lag_then(samples, times, c["at_ms"], c["committed"])) for c in row["window"]
    ]
    since = None if row["seconds"] is None else int(row["now_ms"] - row["seconds"] * 1000)
    yield {
        **{name: row[name] for name in (*KEY, "lag")},
        "verdict": verdict(window, row["lag"], row["now_ms"], allowed_lag, since),
        "window": len(window),
        "first_commit": window[0].at * 1000,
        "last_commit": window[-1].at * 1000,
    }


def _lag_then(samples: list[tuple[int, int]], times: list[int], at: int, committed: int) -> int | None:
    """The lag that a commit left, by the last log end sampled before it; None where there is none."""
    i = bisect_right(times, at)
    return max(0, samples[i - 1][1] - committed) if i else None

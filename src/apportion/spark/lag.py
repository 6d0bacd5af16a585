"""How far behind every group is on every partition, in messages and, where the log ends were sampled twice, in time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from apportion.arrays import UNKNOWN
from apportion.history.lag_time import SAMPLES_MAX, WINDOW_S, LagTimes, Samples, lag_times
from apportion.history.lags import Known, Lags, lags
from apportion.spark import schemas
from apportion.spark.batches import known, lists, map_columns
from apportion.spark.facts import lag_columns, time_columns
from apportion.spark.histories import millis

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PLACE: Final = ("topic", "partition")
_BESIDE: Final = ("at_ms", "ends", "now_ms", "commit_at", "commit_offset")


def ends_now(ends: DataFrame, topics: DataFrame) -> DataFrame:
    """Every known partition with the newest sample of its log: what the group's side is joined with.

    (topic, partition, topic_id, racks, begin, end, last_stable, sampled_at, samples)

    samples
        array<struct<at_ms, end>>, oldest first.
    """
    row = F.struct("begin", "end", "last_stable", "at")
    sample = F.struct(millis("at").alias("at_ms"), F.col("end"))
    logs = ends.select(*_PLACE, F.col("at"), row.alias("row"), sample.alias("sample"))
    described = topics.select(*_PLACE, "topic_id", "racks")
    joined = (
        logs.unionByName(described, allowMissingColumns=True)
        .groupBy(*_PLACE)
        .agg(
            F.max_by("row", F.col("at")).alias("now"), F.sort_array(F.collect_set("sample")).alias("samples"),
            F.max("topic_id").alias("topic_id"), F.first("racks", ignorenulls=True).alias("racks"),
        )
    )  # fmt: skip
    newest = F.slice("samples", F.greatest(F.size("samples") - SAMPLES_MAX + 1, F.lit(1)), SAMPLES_MAX)
    return joined.select(
        *_PLACE, "topic_id", "racks", "now.begin", "now.end", "now.last_stable", F.col("now.at").alias("sampled_at"),
        newest.alias("samples"),
    )  # fmt: skip


def now_ms(ends: DataFrame) -> int:
    """When any log end was sampled last; 0 where none was."""
    newest = ends.agg(F.max(millis("at")).alias("now_ms")).collect()[0]["now_ms"]
    return int(newest or 0)


def topic_rows(ends_now: DataFrame) -> DataFrame:
    """One row a topic: (topic, topic_id, partitions array<struct<partition, racks, begin, end, last_stable>>)."""
    partition = F.struct(*[F.col(name) for name in schemas.PARTITION.names])
    return ends_now.groupBy("topic").agg(
        F.max("topic_id").alias("topic_id"), F.array_sort(F.collect_list(partition)).alias("partitions")
    )


def lag(newest: DataFrame, wanted: DataFrame, ends_now: DataFrame, commits: DataFrame) -> DataFrame:
    """``gold/lag``: a row for each standing commit, and for each partition of a wanted topic without one.

    newest
        ``gold/commits``.
    wanted
        (group, wants array<string>): the topics that a group's living members subscribe to.
    commits
        ``silver/commits`` of these groups: how fast they read.
    """
    now = ends_now.agg(F.coalesce(F.max(millis("sampled_at")), F.lit(0)).alias("now_ms"))
    every = wanted.select("group", F.explode("wants").alias("topic"))
    never = every.join(ends_now.where("sampled_at is not null").select(*_PLACE), "topic", "inner")
    committed = newest.select("group", *_PLACE, F.struct("committed", "commit_time", "topic_id").alias("commit"))
    rows = (
        committed.unionByName(never, allowMissingColumns=True)
        .groupBy("group", *_PLACE)
        .agg(F.first("commit", ignorenulls=True).alias("commit"))
        .select("group", *_PLACE, "commit.committed", "commit.commit_time", F.col("commit.topic_id").alias("said_id"))
    )
    logs = ends_now.withColumns({"at_ms": F.col("samples.at_ms"), "ends": F.col("samples.end")})
    joined = (
        rows.join(logs, [*_PLACE], "left")
        .join(wanted, "group", "left")
        .join(recent_commits(commits, now), ["group", *_PLACE], "left")
        .crossJoin(F.broadcast(now))
    )
    same = F.coalesce(F.col("said_id") == F.col("topic_id"), F.lit(True)).alias("same_topic")
    wants = F.coalesce(F.array_contains("wants", F.col("topic")), F.lit(True)).alias("wanted")
    asked = ("committed", "begin", "end", "last_stable", "commit_time", "sampled_at", *_BESIDE)
    return map_columns(joined.select("group", *_PLACE, *asked, same, wants), _judged, schemas.LAG.schema)


def recent_commits(commits: DataFrame, now: DataFrame) -> DataFrame:
    """(group, topic, partition, commit_at, commit_offset): each partition's commits in the window, oldest first.

    now
        One row (now_ms): the newest sample of any log.

    The last one before the window is there too; of one moment the furthest offset.
    """
    since = F.col("now_ms") - F.lit(round(WINDOW_S * 1000))
    sample = F.struct(millis("commit_time").alias("at_ms"), F.col("committed"))
    inside = millis("commit_time") >= since
    kept = commits.where("not tombstone and commit_time is not null and committed is not null")
    gathered = (
        kept.crossJoin(F.broadcast(now))
        .groupBy("group", *_PLACE)
        .agg(
            F.sort_array(F.collect_set(F.when(inside, sample))).alias("inside"),
            F.max(F.when(~inside, sample)).alias("before"),
        )
    )
    all_of_them = F.concat(F.when(F.col("before").isNull(), F.array()).otherwise(F.array("before")), F.col("inside"))
    rows = gathered.select("group", *_PLACE, all_of_them.alias("rows"))
    return rows.select(
        "group", *_PLACE, F.col("rows.at_ms").alias("commit_at"), F.col("rows.committed").alias("commit_offset")
    )


def _judged(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """What ``history``'s rules make of commits with log ends and samples beside them."""
    committed, begin, end, last_stable = (known(batch, name) for name in ("committed", "begin", "end", "last_stable"))
    same, wanted = (np.asarray(batch.column(name)) for name in ("same_topic", "wanted"))
    behind = lags(committed, begin, end, last_stable, same, wanted)
    return {**lag_columns(behind), **time_columns(_times(batch, committed, behind))}


def _times(batch: pa.RecordBatch, committed: Known, behind: Lags) -> LagTimes:
    begin, lag = (np.where(one.there, one.value, UNKNOWN) for one in (behind.begin, behind.lag))
    unread = np.where(committed.there, np.maximum(committed.value, begin), UNKNOWN)
    now_ms = float(pc.max(batch.column("now_ms")).as_py() or 0)
    ends, commits = (_samples(batch, *names) for names in (("at_ms", "ends"), ("commit_at", "commit_offset")))
    return lag_times(ends, commits, unread, lag, now_ms, now_ms - WINDOW_S * 1000)


def _samples(batch: pa.RecordBatch, at: str, offset: str) -> Samples:
    """Two list columns of one shape; of equal moments the last stays."""
    whole = lists(batch, at, offset)
    again = np.zeros(len(whole.at), dtype=np.bool_)
    again[:-1] = whole.at[1:] == whole.at[:-1]
    again[whole.start[1:][whole.start[1:] > 0] - 1] = False
    kept = np.concatenate(([0], np.cumsum(~again)))
    return Samples(whole.at[~again], whole.offset[~again], kept[whole.start])

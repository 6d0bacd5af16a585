"""How far behind every group is on every partition, in messages and, where the log ends were sampled twice, in time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from apportion.arrays import UNKNOWN, Longs
from apportion.history.lag_time import SAMPLES_MAX, WINDOW_S, Samples, lag_times
from apportion.spark import schemas
from apportion.spark.histories import millis

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

AT_ONCE: Final = 2_000
"""Rows whose samples are in memory at one time."""
_PLACE: Final = ("topic", "partition")


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
    return _in_time(joined.select(*_columns()))


def _columns() -> list[Column]:
    begin, end, committed = F.col("begin"), F.col("end"), F.col("committed")
    status = (
        F.when(committed.isNull(), "never_committed")
        .when(end.isNull() | begin.isNull(), "unknown_topic")
        .when(F.col("said_id") != F.col("topic_id"), "invalid")
        .when(committed > end, "ahead")
        .when(committed < begin, "expired_data")
        .when(~F.array_contains("wants", F.col("topic")), "unsubscribed")
        .otherwise("ok")
    )
    lost = F.when(committed < begin, F.try_subtract(begin, committed)).when(
        committed.isNotNull() & begin.isNotNull(), 0
    )
    return [
        F.col("group"), *[F.col(name) for name in _PLACE], committed, begin, end, F.col("last_stable"),
        F.try_subtract(end, committed).alias("raw_lag"),
        _readable(end).alias("lag"),
        status.alias("status"),
        _readable(F.greatest(F.least("last_stable", "end"), "begin")).alias("stable_lag"),
        lost.cast("bigint").alias("lost"),
        F.col("commit_time"), F.col("sampled_at"), F.col("at_ms"), F.col("ends"), F.col("now_ms"),
        F.col("commit_at"), F.col("commit_offset"),
    ]  # fmt: skip


def _readable(end: Column) -> Column:
    """Messages from the commit, or the log's start if that is later, to ``end``; the rule of ``history.lags``."""
    committed, begin, none = F.col("committed"), F.col("begin"), F.lit(0).cast("bigint")
    whole = F.try_subtract(end, begin)
    # From the log's start on, so that a commit far below 0 has a lag although no 64 bits hold its raw one.
    behind = F.when(committed <= begin, whole).otherwise(F.try_subtract(end, committed))
    return F.when(behind.isNull() | whole.isNull(), None).otherwise(
        F.least(F.greatest(behind, none), F.greatest(whole, none))
    )


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


def _in_time(rows: DataFrame) -> DataFrame:
    """``gold/lag`` from its rows with samples beside them; the rule is ``history.lag_time``'s, some rows at a time."""
    from pyspark.sql.pandas.types import to_arrow_schema

    arrow = to_arrow_schema(schemas.LAG.schema, timezone="UTC")

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for first in range(0, batch.num_rows, AT_ONCE):
                yield _with_times(batch.slice(first, AT_ONCE), arrow)

    return rows.mapInArrow(run, schemas.LAG.schema)


def _with_times(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Some rows with their columns of time."""
    committed, begin, lag = (_longs(batch.column(name)) for name in ("committed", "begin", "lag"))
    known = ~np.asarray(batch.column("committed").is_null())
    unread = np.where(known, np.maximum(committed, begin), UNKNOWN)
    lag = np.where(known, lag, UNKNOWN)
    now_ms = float(pc.max(batch.column("now_ms")).as_py() or 0)
    ends, commits = (_samples(batch, *names) for names in (("at_ms", "ends"), ("commit_at", "commit_offset")))
    times = lag_times(ends, commits, unread, lag, now_ms, now_ms - WINDOW_S * 1000)
    columns = {
        "seconds": times.seconds, "seconds_least": times.at_least, "seconds_most": times.at_most,
        "written": times.written, "read": times.read, "trend": times.written - times.read,
        "catch_up_s": np.where(np.isinf(times.catch_up_s), np.nan, times.catch_up_s),
    }  # fmt: skip
    answers = {name: pa.array(values, from_pandas=True) for name, values in columns.items()}
    answers["in_words"] = pa.array(times.words())
    return pa.RecordBatch.from_arrays(
        [
            answers[field.name] if field.name in answers else batch.column(field.name).cast(field.type)
            for field in schema
        ],
        schema=schema,
    )


def _longs(column: pa.Array) -> Longs:
    return np.asarray(column.fill_null(UNKNOWN).to_numpy(zero_copy_only=False), dtype=np.int64)


def _samples(batch: pa.RecordBatch, at: str, offset: str) -> Samples:
    """Two list columns of one shape; of equal moments the last stays."""
    column, offsets = batch.column(at), batch.column(offset)
    counts = _longs(column.value_lengths())
    start = np.concatenate(([0], np.cumsum(np.maximum(counts, 0))))
    moments = column.flatten().to_numpy(zero_copy_only=False).astype(np.float64)
    values = np.asarray(offsets.flatten().to_numpy(zero_copy_only=False), dtype=np.int64)
    again = np.zeros(len(moments), dtype=np.bool_)
    again[:-1] = moments[1:] == moments[:-1]
    again[start[1:][start[1:] > 0] - 1] = False
    kept = np.concatenate(([0], np.cumsum(~again)))
    return Samples(moments[~again], values[~again], kept[start])

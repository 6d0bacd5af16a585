"""How far behind every group is on every partition, in messages and, where the log ends were sampled twice, in time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from apportion.spark import schemas
from apportion.spark.histories import millis

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SAMPLES: Final = 1_000
"""The newest samples of a log end that are looked at."""
_PLACE: Final = ("topic", "partition")


def ends_now(ends: DataFrame, topics: DataFrame) -> DataFrame:
    """Every known partition with the newest sample of its log: what the group's side is joined with.

    (topic, partition, topic_id, racks, begin, end, last_stable, sampled_at, samples)

    samples
        array<struct<at_ms, end>>, oldest first, where there is more than one; else empty.
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
    newest = F.slice("samples", F.greatest(F.size("samples") - SAMPLES + 1, F.lit(1)), SAMPLES)
    return joined.select(
        *_PLACE, "topic_id", "racks", "now.begin", "now.end", "now.last_stable", F.col("now.at").alias("sampled_at"),
        F.when(F.size("samples") > 1, newest).otherwise(F.slice("samples", 1, 0)).alias("samples"),
    )  # fmt: skip


def topic_rows(ends_now: DataFrame) -> DataFrame:
    """One row a topic: (topic, topic_id, partitions array<struct<partition, racks, begin, end, last_stable>>)."""
    partition = F.struct(*[F.col(name) for name in schemas.PARTITION.names])
    return ends_now.groupBy("topic").agg(
        F.max("topic_id").alias("topic_id"), F.array_sort(F.collect_list(partition)).alias("partitions")
    )


def lag(newest: DataFrame, wanted: DataFrame, ends_now: DataFrame) -> DataFrame:
    """``gold/lag``: a row for each standing commit, and for each partition of a wanted topic without one.

    newest
        ``gold/commits``.
    wanted
        (group, wants array<string>): the topics that a group's living members subscribe to.
    """
    every = wanted.select("group", F.explode("wants").alias("topic"))
    never = every.join(ends_now.where("sampled_at is not null").select(*_PLACE), "topic", "inner")
    committed = newest.select("group", *_PLACE, F.struct("committed", "commit_time", "topic_id").alias("commit"))
    rows = (
        committed.unionByName(never, allowMissingColumns=True)
        .groupBy("group", *_PLACE)
        .agg(F.first("commit", ignorenulls=True).alias("commit"))
        .select("group", *_PLACE, "commit.committed", "commit.commit_time", F.col("commit.topic_id").alias("said_id"))
    )
    return rows.join(ends_now, [*_PLACE], "left").join(wanted, "group", "left").select(*_columns())


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
        _seconds().alias("seconds"),
        lost.cast("bigint").alias("lost"),
        F.col("commit_time"),
        F.col("sampled_at"),
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


def _seconds() -> Column:
    """Seconds since the log end passed the commit, between the two samples around that moment; null if unknown."""
    below = F.filter("samples", lambda s: s["end"] <= F.col("committed"))
    # array access gives null where there is nothing; element_at would fail under ANSI.
    low = F.when(F.size(below) > 0, F.element_at(below, -1))
    above = F.filter("samples", lambda s: s["at_ms"] > low["at_ms"])
    high = F.when(F.size(above) > 0, F.element_at(above, 1))
    share = F.try_subtract(F.col("committed"), low["end"]) / (high["end"] - low["end"])
    passed_ms = low["at_ms"] + share * (high["at_ms"] - low["at_ms"])
    known = F.when(high["end"] > low["end"], (F.unix_millis("sampled_at") - passed_ms) / 1000.0)
    caught_up = F.col("committed") >= F.col("end")
    return F.when(F.size("samples") < 2, None).when(caught_up, 0.0).otherwise(known).cast("double")

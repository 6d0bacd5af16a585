"""``gold/group_state`` with the log ends that plans are made with; the rule is ``history.ends_then``'s.

Most groups were heard of after all samples but the newest one, and have the right log ends already. The others' topics
alone are joined with samples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from apportion.history.ends_then import SILENT
from apportion.spark import schemas
from apportion.spark.histories import millis

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def last_heard(generations: DataFrame, epochs: DataFrame, newest: DataFrame) -> DataFrame:
    """(group, heard_ms): when each group left its newest record; ``history.ends_then``'s rule in SQL.

    generations, epochs
        The silver tables.
    newest
        ``gold/commits``.
    """
    times = [table.select("group", millis("at").alias("ms")) for table in (generations, epochs)]
    times.append(newest.select("group", millis("commit_time").alias("ms")))
    every = times[0].unionByName(times[1]).unionByName(times[2])
    return every.groupBy("group").agg(F.coalesce(F.max("ms"), F.lit(SILENT)).alias("heard_ms"))


def earlier_of(samples: DataFrame) -> DataFrame:
    """(topic, earlier_ms): when the last sample but one of a partition was taken, of the topic's the latest.

    samples
        As ``log_ends.samples`` gives them.
    """
    before_newest = F.try_element_at("samples", F.lit(-2))["at_ms"]
    return samples.groupBy("topic").agg(F.max(before_newest).alias("earlier_ms"))


def as_planned(state: DataFrame, heard: DataFrame, ends: DataFrame, earlier: DataFrame) -> DataFrame:
    """The state of all groups, ``begin`` and ``end`` of its partitions those that plans are made with.

    state
        ``gold/group_state``, with the newest log ends.
    heard
        As ``last_heard`` gives it.
    ends
        ``silver/ends``.
    earlier
        As ``earlier_of`` gives it.
    """
    named = state.select("group", F.explode("topics.topic").alias("topic"))
    older = (
        named.join(earlier.where("earlier_ms is not null"), "topic", "inner")
        .join(heard, "group", "inner")
        .where("earlier_ms >= heard_ms")
        .select("group", "heard_ms")
        .distinct()
    )
    then = topics_then(state.join(older, "group", "inner"), ends)
    whole = state.join(then, "group", "left").withColumn("topics", F.coalesce("then", "topics"))
    return whole.select(*state.columns)


def unsettled(state: DataFrame, heard: DataFrame, samples: DataFrame, before_ms: int) -> DataFrame:
    """(group): groups whose log ends for plans may be others by samples newer than ``before_ms``.

    A partition that was sampled after the group was heard of keeps that sample.

    samples
        As ``log_ends.samples`` gives them.
    """
    old = F.filter("samples", lambda sample: sample["at_ms"] <= before_ms)
    seen = F.when(F.size("samples") > 0, F.coalesce(F.try_element_at(old, F.lit(-1))["at_ms"], F.lit(SILENT)))
    covered = samples.groupBy("topic").agg(F.min(seen).alias("covered_ms")).where("covered_ms is not null")
    named = state.select("group", F.explode("topics.topic").alias("topic"))
    both = named.join(covered, "topic", "inner").join(heard, "group", "inner")
    never = F.col("covered_ms") == SILENT
    return both.where(never | (F.col("covered_ms") < F.col("heard_ms"))).select("group").distinct()


def topics_then(older: DataFrame, ends: DataFrame) -> DataFrame:
    """(group, then): topics as in ``gold/group_state``, with the log ends sampled first after ``heard_ms``.

    older
        (group, heard_ms, topics); other columns are not looked at.
    ends
        ``silver/ends``.
    """
    topic = older.select("group", "heard_ms", F.explode("topics").alias("t"))
    places = topic.select("group", "heard_ms", "t.topic", "t.topic_id", F.explode("t.partitions").alias("one"))
    known = ends.where("at is not null").join(places.select("topic").distinct(), "topic", "left_semi")
    sample = F.struct(millis("at").alias("at_ms"), F.col("at"), "begin", "end")
    samples = known.groupBy("topic", "partition").agg(F.sort_array(F.collect_list(sample)).alias("samples"))
    joined = places.withColumn("partition", F.col("one.partition")).join(samples, ["topic", "partition"], "left")
    later = F.filter("samples", lambda sample: sample["at_ms"] >= F.col("heard_ms"))
    chosen = F.coalesce(F.try_element_at(later, F.lit(1)), F.try_element_at("samples", F.lit(-1)))
    fields = [
        (chosen[name] if name in ("begin", "end") else F.col("one")[name]).alias(name)
        for name in schemas.PARTITION.names
    ]
    whole = joined.select("group", "topic", "topic_id", F.struct(*fields).alias("one"))
    by_topic = whole.groupBy("group", "topic").agg(
        F.max("topic_id").alias("topic_id"), F.array_sort(F.collect_list("one")).alias("partitions")
    )
    columns = F.struct(*[F.col(name) for name in schemas.TOPIC.names])
    return by_topic.groupBy("group").agg(F.sort_array(F.collect_list(columns)).alias("then"))

"""All that a group left in the topic, in one row: what the history of one group is made from, wherever it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_MEMBER: Final = (
    "member_id", "instance_id", "client_id", "host", "rack", "topics", "owned", "owned_generation", "assigned",
    "session_timeout_ms", "unreadable",
)  # fmt: skip


def millis(column: str) -> Column:
    """A timestamp as milliseconds since 1970."""
    return F.unix_millis(F.col(column))


def histories(
    generations: DataFrame, epochs: DataFrame, commits: DataFrame, gaps: DataFrame, topics: DataFrame
) -> DataFrame:
    """One row a group that left any record, from the silver tables.

    (group, generations array<struct>, epochs array<struct>, habits array<struct>, names map<string, string>)

    generations, epochs
        Its records by offset, times in milliseconds, each with ``holes``: offsets missing before it in its partition.
    habits
        Its commits counted between its records: after, topic, partition, n, first, last (see ``history.cause``).
    names
        Ids of topics that its epochs speak of, to names.
    """
    marks = _marks(generations, epochs)
    whole = (
        commits.select("group").distinct()
        .join(_classic(generations, _holes(marks, gaps)), "group", "full")
        .join(_epochs(epochs, _holes(marks, gaps)), "group", "full")
        .join(_habits(commits, marks), "group", "left")
        .join(_names(epochs, commits, topics), "group", "left")
    )  # fmt: skip
    return whole.select(
        "group",
        *[F.coalesce(F.col(name), F.array()).alias(name) for name in ("generations", "epochs", "habits")],
        "names",
    )


def _marks(generations: DataFrame, epochs: DataFrame) -> DataFrame:
    """Where each group's own records stand: (group, source_partition, source_offset)."""
    columns = ("group", "source_partition", "source_offset")
    return generations.select(*columns).unionByName(epochs.select(*columns))


def _holes(marks: DataFrame, gaps: DataFrame) -> DataFrame:
    """Offsets missing before each record: (source_partition, source_offset, holes)."""
    missing = gaps.select("source_partition", F.col("before_offset").alias("source_offset"), "missing")
    places = marks.select("source_partition", "source_offset", F.lit(0).cast("bigint").alias("missing"))
    before = Window.partitionBy("source_partition").orderBy("source_offset")
    summed = F.sum("missing").over(before.rangeBetween(Window.unboundedPreceding, 0)).alias("holes")
    both = places.withColumn("mark", F.lit(True)).unionByName(missing.withColumn("mark", F.lit(False)))
    found = both.select("mark", "source_partition", "source_offset", summed)
    return found.where("mark").drop("mark").distinct()


def _classic(generations: DataFrame, holes: DataFrame) -> DataFrame:
    members = F.transform("members", lambda m: F.struct(*[m[name].alias(name) for name in _MEMBER])).alias("members")
    row = F.struct(
        "source_offset", millis("at").alias("at_ms"), "holes", "tombstone", "generation", "protocol_type", "protocol",
        millis("state_time").alias("state_ms"), members,
    )  # fmt: skip
    return _by_group(generations, holes, row, "generations")


def _epochs(epochs: DataFrame, holes: DataFrame) -> DataFrame:
    row = F.struct(
        "source_offset", millis("at").alias("at_ms"), "holes", "tombstone", "key_type", "member_id", "epoch", "body"
    )
    return _by_group(epochs, holes, row, "epochs")


def _by_group(records: DataFrame, holes: DataFrame, row: Column, name: str) -> DataFrame:
    """(group, name array<struct> by offset)."""
    placed = records.join(holes, ["source_partition", "source_offset"], "left")
    return placed.groupBy("group").agg(F.sort_array(F.collect_list(row)).alias(name))


def _habits(commits: DataFrame, marks: DataFrame) -> DataFrame:
    """(group, habits): each group's commits, counted per partition between two of its own records."""
    standing = commits.where("not tombstone").select(
        "group", "topic", "partition", "source_offset", millis("commit_time").alias("ms")
    )
    # Only a group with records of its own can have lost a member.
    mine = standing.join(marks.select("group").distinct(), "group", "left_semi")
    places = marks.select("group", "source_offset", F.col("source_offset").alias("mark"))
    both = mine.unionByName(places, allowMissingColumns=True)
    before = Window.partitionBy("group").orderBy("source_offset").rowsBetween(Window.unboundedPreceding, 0)
    after = F.coalesce(F.last("mark", ignorenulls=True).over(before), F.lit(-1)).alias("after")
    counted = (
        both.select("group", "topic", "partition", "ms", after)
        .where("topic is not null")
        .groupBy("group", "after", "topic", "partition")
        .agg(F.count("*").alias("n"), F.min("ms").alias("first"), F.max("ms").alias("last"))
    )
    row = F.struct("after", "topic", "partition", "n", "first", "last")
    return counted.groupBy("group").agg(F.sort_array(F.collect_list(row)).alias("habits"))


def _names(epochs: DataFrame, commits: DataFrame, topics: DataFrame) -> DataFrame:
    """(group, names): the ids in a group's epochs, named by the topics, else by commits that carried the id."""
    ids = F.explode(F.expr('regexp_extract_all(body, \'"topicId":"([A-Za-z0-9_-]{22})"\', 1)')).alias("topic_id")
    spoken = epochs.where("key_type in (7, 8) and body is not null").select("group", ids).distinct()
    known = topics.where("topic_id is not null").select("topic_id", "topic", F.lit(1).alias("sure"))
    told = commits.where("topic_id is not null").select("topic_id", "topic", F.lit(0).alias("sure"))
    name = F.max_by("topic", F.struct("sure", "topic")).alias("topic")
    named = known.unionByName(told).groupBy("topic_id").agg(name)
    pairs = spoken.join(named, "topic_id", "inner").groupBy("group")
    return pairs.agg(F.map_from_entries(F.sort_array(F.collect_list(F.struct("topic_id", "topic")))).alias("names"))

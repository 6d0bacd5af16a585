"""All that a group left in the topic, in one row: what the history of one group is made from, wherever it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from apportion.spark import schemas

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MEMBER: Final = (
    "member_id", "instance_id", "client_id", "host", "rack", "topics", "owned", "owned_generation", "assigned",
    "session_timeout_ms", "unreadable",
)  # fmt: skip
"""Fields of a member that a history is made from."""


def _struct(**kinds: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in kinds.items()])


_LONG, _INT, _TEXT, _BOOLEAN = LongType(), IntegerType(), StringType(), BooleanType()
GENERATION: Final = _struct(
    source_offset=_LONG, at_ms=_LONG, tombstone=_BOOLEAN, generation=_INT, protocol_type=_TEXT, protocol=_TEXT,
    state_ms=_LONG, members=ArrayType(_struct(**{name: schemas.MEMBER[name].dataType for name in MEMBER})), holes=_LONG,
)  # fmt: skip
EPOCH: Final = _struct(
    source_offset=_LONG, at_ms=_LONG, tombstone=_BOOLEAN, key_type=_INT, member_id=_TEXT, epoch=_INT, body=_TEXT,
    holes=_LONG,
)  # fmt: skip
SCHEMA: Final = _struct(
    group=_TEXT, generations=ArrayType(GENERATION), epochs=ArrayType(EPOCH), names=MapType(_TEXT, _TEXT)
)
"""Columns of ``histories`` but for ``habits``."""
SPEAK_OF_TOPICS: Final = (7, 8, 13, 14)
"""Types of keys whose bodies name topics by their ids."""
TOPIC_ID: Final = '"topicId":"([A-Za-z0-9_-]{22})"'
"""A pattern of an id in such a body."""


def millis(column: str) -> Column:
    """A timestamp as milliseconds since 1970."""
    return F.unix_millis(F.col(column))


def histories(
    generations: DataFrame, epochs: DataFrame, commits: DataFrame, gaps: DataFrame, names: DataFrame
) -> DataFrame:
    """One row a group that left any record, from the silver tables.

    (group, generations array<struct>, epochs array<struct>, habits array<struct>, names map<string, string>)

    generations, epochs
        Its records by offset, times in milliseconds, each with ``holes``: offsets missing before it in its partition.
    habits
        Its commits counted between its records: after, topic, partition, n, first, last (see ``history.cause``).
    names
        Ids of topics that its epochs speak of, to names; taken from those that ``topic_names`` knows.
    """
    records = _with_holes(_classic(generations).unionByName(_epochs(epochs), allowMissingColumns=True), gaps)
    pieces = [
        records.select("group", "generation", "epoch"),
        _habits(commits, records.select("group", "source_offset")).select("group", "habit"),
        names_of(epochs, names).select("group", "name"),
    ]
    whole = pieces[0]
    for piece in pieces[1:]:
        whole = whole.unionByName(piece, allowMissingColumns=True)
    # collect_list leaves nulls out: each piece fills its own column.
    gathered = whole.groupBy("group").agg(
        F.sort_array(F.collect_list("generation")).alias("generations"),
        F.sort_array(F.collect_list("epoch")).alias("epochs"),
        F.sort_array(F.collect_list(F.when(F.col("habit.after").isNotNull(), F.col("habit")))).alias("habits"),
        F.map_from_entries(F.sort_array(F.collect_list("name"))).alias("names"),
    )
    return gathered.select("group", "generations", "epochs", "habits", "names")


def _classic(generations: DataFrame) -> DataFrame:
    """(group, source_partition, source_offset, generation struct) of classic records."""
    members = F.transform("members", lambda m: F.struct(*[m[name].alias(name) for name in MEMBER])).alias("members")
    row = F.struct(
        "source_offset", millis("at").alias("at_ms"), "tombstone", "generation", "protocol_type", "protocol",
        millis("state_time").alias("state_ms"), members,
    )  # fmt: skip
    return generations.select("group", "source_partition", "source_offset", row.alias("generation"))


def _epochs(epochs: DataFrame) -> DataFrame:
    """(group, source_partition, source_offset, epoch struct) of KIP-848 records."""
    row = F.struct("source_offset", millis("at").alias("at_ms"), "tombstone", "key_type", "member_id", "epoch", "body")
    return epochs.select("group", "source_partition", "source_offset", row.alias("epoch"))


def _with_holes(records: DataFrame, gaps: DataFrame) -> DataFrame:
    """The records, each struct with ``holes``: offsets missing before it in its partition."""
    missing = gaps.select("source_partition", F.col("before_offset").alias("source_offset"), "missing")
    both = records.unionByName(missing, allowMissingColumns=True)
    # rangeBetween: a gap that ends right before a record stands at the record's own offset.
    before = Window.partitionBy("source_partition").orderBy("source_offset")
    holes = F.coalesce(F.sum("missing").over(before.rangeBetween(Window.unboundedPreceding, 0)), F.lit(0))
    counted = both.withColumn("holes", holes.cast("bigint")).where(F.col("group").isNotNull())
    for name in ("generation", "epoch"):
        counted = counted.withColumn(name, F.when(F.col(name).isNotNull(), F.struct(f"{name}.*", "holes")))
    return counted


def _habits(commits: DataFrame, marks: DataFrame) -> DataFrame:
    """(group, habit): each group's commits, counted per partition between two of its own records.

    A group without commits that stand has none; one that only has tombstones has a habit of nulls, so that it is there.
    """
    standing = commits.select(
        "group", "topic", "partition", "source_offset", F.when(~F.col("tombstone"), millis("commit_time")).alias("ms")
    )
    both = standing.unionByName(marks.withColumn("mark", F.col("source_offset")), allowMissingColumns=True)
    before = (
        Window.partitionBy("group")
        .orderBy("source_offset", F.asc_nulls_last("mark"))
        .rowsBetween(Window.unboundedPreceding, 0)
    )
    after = F.coalesce(F.last("mark", ignorenulls=True).over(before), F.lit(-1).cast("bigint")).alias("after")
    counted = (
        both.select("group", "topic", "partition", "ms", after)
        .where("topic is not null")
        .groupBy("group", "after", "topic", "partition")
        .agg(F.count("ms").alias("n"), F.min("ms").alias("first"), F.max("ms").alias("last"))
    )
    # Only a member can be missed: commits before a group's first record say nothing.
    known = F.when(
        (F.col("n") > 0) & (F.col("after") >= 0), F.struct("after", "topic", "partition", "n", "first", "last")
    )
    return counted.select("group", known.alias("habit"))


def topic_names(commits: DataFrame, topics: DataFrame) -> DataFrame:
    """(topic_id, topic): ids named by the topics that are there, else by commits that carried the id."""
    known = topics.where("topic_id is not null").select("topic_id", "topic", F.lit(1).alias("sure"))
    named = commits.where("topic_id is not null").select("topic_id", "topic", F.lit(0).alias("sure"))
    best = F.max_by("topic", F.struct("sure", "topic")).alias("topic")
    return known.unionByName(named).groupBy("topic_id").agg(best)


def spoken_ids(epochs: DataFrame) -> DataFrame:
    """(group, topic_id): the ids of topics in a group's epochs, each once."""
    ids = F.explode(F.expr(f"regexp_extract_all(body, '{TOPIC_ID}', 1)")).alias("topic_id")
    speak = epochs.where(F.col("key_type").isin(*SPEAK_OF_TOPICS) & F.col("body").isNotNull())
    return speak.select("group", ids).distinct()


def names_of(epochs: DataFrame, names: DataFrame) -> DataFrame:
    """(group, name struct<topic_id, topic>): the ids in a group's epochs with their names, as far as they have one."""
    named = spoken_ids(epochs).join(names, "topic_id", "inner")
    return named.select("group", F.struct("topic_id", "topic").alias("name"))

"""All that a group left in the topic, in one row: what the history of one group is made from, wherever it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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
"""Columns of the bundles ``histories``."""
SPEAK_OF_TOPICS: Final = (7, 8, 13, 14)
"""Types of keys whose bodies name topics by their ids."""
TOPIC_ID: Final = '"topicId":"([A-Za-z0-9_-]{22})"'
"""A pattern of an id in such a body."""


def millis(column: str) -> Column:
    """A timestamp as milliseconds since 1970."""
    return F.unix_millis(F.col(column))


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

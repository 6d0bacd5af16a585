"""The newest commit that stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

KEY: Final = ("group", "topic", "partition")


def in_order() -> list[Column]:
    """What commits of one place are ordered by, the newest last.

    A broker writes a group to one partition of its topic, so the offset is enough. Where a hostile log has a group in
    several, offsets meet.
    """
    return [F.col("source_offset"), F.col("commit_time"), F.coalesce("committed", F.lit(0)), F.col("source_partition")]


def newest(commits: DataFrame) -> DataFrame:
    """``gold/commits`` from ``silver/commits``: the last record of each group and partition, unless it is a tombstone.

    (group, topic, partition, committed, leader_epoch, metadata, commit_time, topic_id, source_partition, source_offset)
    """
    fields = ["tombstone", "committed", "leader_epoch", "metadata", "commit_time", "topic_id"]
    fields += ["source_partition", "source_offset"]
    last = F.max_by(F.struct(*fields), F.struct(*in_order())).alias("last")
    return (
        commits.groupBy(*KEY)
        .agg(last)
        .where("not last.tombstone")
        .select(*KEY, *[F.col(f"last.{name}").alias(name) for name in fields[1:]])
    )

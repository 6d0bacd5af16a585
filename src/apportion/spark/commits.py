"""The newest commit that stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEY: Final = ("group", "topic", "partition")


def newest(commits: DataFrame) -> DataFrame:
    """``gold/commits`` from ``silver/commits``: the last record of each group and partition, unless it is a tombstone.

    (group, topic, partition, committed, leader_epoch, metadata, commit_time, topic_id, source_partition, source_offset)
    """
    fields = ["tombstone", "committed", "leader_epoch", "metadata", "commit_time", "topic_id"]
    fields += ["source_partition", "source_offset"]
    last = F.max_by(F.struct(*fields), F.col("source_offset")).alias("last")
    return (
        commits.groupBy(*KEY)
        .agg(last)
        .where("not last.tombstone")
        .select(*KEY, *[F.col(f"last.{name}").alias(name) for name in fields[1:]])
    )

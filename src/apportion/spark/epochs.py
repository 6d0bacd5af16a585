"""Each epoch of a KIP-848 or streams group with what its members were given, from the records of a group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import LongType, StructField, StructType

from apportion.history import rows
from apportion.history.epochs import epoch_rows
from apportion.history.fold import fold
from apportion.spark import schemas
from apportion.spark.batches import map_groups

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROW: Final = StructType(
    [field for field in schemas.GOLD_EPOCHS.schema.fields if field.name != "at"] + [StructField("at_ms", LongType())]
)


def epochs(histories: DataFrame) -> DataFrame:
    """``gold/epochs``: a row for each epoch that has a target, or that left its group empty.

    histories
        As ``histories.histories`` gives them; only groups whose broker assigns are folded again.
    """
    assigned = histories.where(F.size("epochs") > 0).select("group", "epochs", "names")
    return map_groups(assigned, of_group, ROW).withColumn("at", F.timestamp_millis("at_ms")).drop("at_ms")


def of_group(row: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The epochs of one row of ``histories``: the columns of ``ROW``."""
    try:
        folded = fold(rows.events(row["group"], (), row["epochs"]), row["names"] or {})
    except Exception:  # the group's row in gold/groups says what could not be read
        return
    yield from epoch_rows(row["group"], folded.generations)

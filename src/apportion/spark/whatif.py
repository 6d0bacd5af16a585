"""What every strategy would have done, and would do, for every group: one pass a group, errors in a column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from apportion.history import rows
from apportion.history.fold import fold
from apportion.history.scenarios import sentence, what_if
from apportion.history.stored import group_json_of
from apportion.spark import schemas
from apportion.spark.batches import map_groups

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def whatif(
    group_state: DataFrame, histories: DataFrame, assignors: Sequence[str] | None = None, tasks: int | None = None
) -> DataFrame:
    """``gold/whatif``: a row for each group, strategy and scenario.

    group_state
        ``gold/group_state``.
    assignors
        Names of strategies; all known ones by default.
    tasks
        Into how many pieces the groups are dealt; by default Spark decides. More pieces than cores even out groups of
        very different sizes.
    """
    # Groups that are gone keep their history: what another strategy would have done with it can still be asked.
    whole = histories.drop("habits").join(group_state, "group", "left")
    if tasks:
        whole = whole.repartition(tasks, "group")
    return map_groups(whole, partial(_answers, assignors), schemas.WHATIF.schema)


def _answers(assignors: Sequence[str] | None, row: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    name = row["group"]
    try:
        history = fold(rows.events(name, row["generations"], row["epochs"]), row["names"] or {}).generations
        present = group_json_of(row) if row["type"] is not None and row["readable"] else None
        known = {topic["topic"]: topic["partitions"] for topic in row["topics"] or ()}
        topics = {**known, **(present["topics"] if present else {})}
        for answer in what_if(name, history, present, topics, assignors):
            yield {"group": name, **asdict(answer)}
    except Exception as error:  # one group must not stop the others
        empty = dict.fromkeys(schemas.WHATIF.schema.names)
        yield {**empty, "group": name, "assignor": "", "scenario": "", "generations": 0, "error": sentence(error)}

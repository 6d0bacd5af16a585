"""What every strategy would have done, and would do, for every group: groups of one structure together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from apportion.assignors import known
from apportion.history import rows
from apportion.history.fold import OTHERS, fold
from apportion.history.scenarios import sentence
from apportion.history.shared_plans import COLUMNS, Columns, SharedPlans
from apportion.history.stored import group_json_of
from apportion.history.task_replay import task_results
from apportion.spark import schemas
from apportion.spark.batches import BYTES_AT_ONCE, OUT, pieces

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TASKS: Final = "streams"
"""The strategy that stands for our task assignor, whatever its standbys."""
LARGE: Final = 10_000
"""Partitions of a group that holds up others for seconds."""
LARGE_TASKS: Final = 8
"""Tasks that have nothing but such groups; they are begun first."""


def whatif(
    group_state: DataFrame, histories: DataFrame, assignors: Sequence[str] | None = None, tasks: int | None = None
) -> DataFrame:
    """``gold/whatif``: a row for each group, strategy and scenario.

    group_state
        ``gold/group_state``.
    assignors
        Names of strategies; all known ones by default.
    tasks
        Into how many pieces the groups are dealt; by default Spark decides.
    """
    # Groups that are gone keep their history: what another strategy would have done with it can still be asked.
    whole = histories.drop("habits").join(group_state, "group", "left")
    if tasks:
        whole = whole.repartitionById(tasks + LARGE_TASKS, _task(tasks))
    strategies = tuple(known() if assignors is None else assignors)
    return whole.mapInArrow(_run(strategies), schemas.WHATIF.schema)


def _task(tasks: int) -> Column:
    """The task of a group: those that may be of one structure meet in one, and large ones are by themselves.

    A group of 50,000 partitions takes seconds. Tasks are begun in the order of their numbers, so it is begun first, and
    nobody waits behind it.
    """
    partitions = F.coalesce(
        F.aggregate("topics", F.lit(0), lambda total, topic: total + F.size(topic["partitions"])), F.lit(0)
    )
    members = F.coalesce(F.size("members"), F.lit(0))
    alike = F.xxhash64(partitions, members, F.size("generations"), F.size("epochs"))
    small = LARGE_TASKS + F.pmod(alike, F.lit(tasks))
    return F.when(partitions >= LARGE, F.pmod(F.xxhash64("group"), F.lit(LARGE_TASKS))).otherwise(small).cast("int")


def seen_by_plans() -> Column:
    """A hash of a row of ``gold/group_state`` as far as ``whatif`` looks at it."""
    fields = ("partition", "racks", "begin", "end")
    topics = F.transform(
        "topics",
        lambda topic: F.struct(
            topic["topic"],
            topic["topic_id"],
            F.transform(topic["partitions"], lambda one: F.struct(*[one[name] for name in fields])),
        ),
    )
    seen = F.to_json(F.struct("type", "readable", "generation", "members", topics.alias("topics"), "commits"))
    return F.sha2(seen, 256)


@cache
def _plans(assignors: tuple[str, ...]) -> SharedPlans:
    """The plans that a worker keeps from task to task."""
    return SharedPlans(assignors)


def _run(assignors: tuple[str, ...]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    from pyspark.sql.pandas.types import to_arrow_schema

    arrow = to_arrow_schema(schemas.WHATIF.schema, timezone="UTC")

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plans = _plans(assignors)
        columns_out: dict[str, list[Any]] = {name: [] for name in arrow.names}
        for batch in batches:
            for few in pieces(batch):
                for row in few.to_pylist(maps_as_pydicts="strict"):
                    columns = _answers(plans, row)
                    columns_out["group"].extend([row["group"]] * len(columns["assignor"]))
                    for name in COLUMNS:
                        columns_out[name].extend(columns[name])
                if len(columns_out["group"]) >= OUT or few.nbytes > BYTES_AT_ONCE // 4:
                    yield _packed(columns_out, arrow)
                    columns_out = {name: [] for name in arrow.names}
        yield _packed(columns_out, arrow)

    return run


def _packed(columns: Mapping[str, Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(columns[f.name], f.type) for f in schema], schema=schema)


def _answers(plans: SharedPlans, row: Mapping[str, Any]) -> Columns:
    name = row["group"]
    try:
        history = fold(rows.events(name, row["generations"], row["epochs"]), row["names"] or {}).generations
        present = group_json_of(row) if row["readable"] and row["type"] not in OTHERS else None
        known = {topic["topic"]: topic["partitions"] for topic in row["topics"] or ()}
        topics = {**known, **(present["topics"] if present else {})}
        columns = plans.columns(name, history, present, topics)
        results = task_results(history) if TASKS in plans.assignors else []
        return {column: [*columns[column], *(getattr(result, column) for result in results)] for column in COLUMNS}
    except Exception as error:  # one group must not stop the others
        failed = {"assignor": "", "scenario": "", "generations": 0, "error": sentence(error)}
        return {column: [failed.get(column)] for column in COLUMNS}

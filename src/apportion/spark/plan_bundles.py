"""``gold/whatif`` by bundles: what a group's plans are made from goes to the task that plans its like, rows come back.

Groups of one structure are planned together (see ``whatif``), and are in as many tasks of the passes before as their
names say. So each task puts together all that is asked about its groups, and hands it on by structure; each planning
task hands its rows back by the group's name, where they are sorted and written. Spark copies bytes.

A group is planned with the log ends sampled first after its newest record. Those of groups at work are the newest ones.
Those of the others, ``older``, are looked up: by each task in the files of ``silver/ends``, as ``ends_then`` does, or
where these are not on this machine, or too large, by a query of ``planned_ends``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import LongType, StructField, StructType

from apportion.arrays import Bools, Ints, Longs
from apportion.history.ends_then import SILENT, last_heard
from apportion.spark import ends_then, planned_ends, schemas, whatif
from apportion.spark.bundles import BUNDLE, TASK, Bundled, Tables, bundled, files_of, for_tasks, met, task_of, unpacked
from apportion.spark.slices import Batches
from apportion.spark.sorted_rows import flattened, longs, millis, one, ranked, there, with_columns, with_fields

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_STATE: Final = schemas.arrow_schema(schemas.GROUP_STATE)
_OLDER: Final = StructType(
    [
        schemas.GROUP_STATE.schema["group"],
        StructField("heard_ms", LongType()),
        schemas.GROUP_STATE.schema["topics"],
    ]
)
"""Columns of the bundles ``older`` that log ends are looked up with."""
_WHATIF: Final = schemas.arrow_schema(schemas.WHATIF)
SELDOM_ALIKE: Final = 200
"""Partitions of a group that has hardly its like, and is then planned by itself."""
SAMPLES_A_TASK: Final = 5_000_000
"""Samples of log ends, by the mean of the tasks, up to which each looks its own up in memory."""
_MIX: Final = np.int64(0x9E3779B97F4A7C1)
"""An odd number that spreads small ones over 64 bits."""


def asked(left: DataFrame, facts: DataFrame, tasks: int, planners: int, shelf: Path | None = None) -> DataFrame:
    """Bundles ``asked``, for the tasks that plan, and ``older``, where they came together: rows of what-if's input.

    left, facts
        As ``by_group.left`` and ``facts.facts`` give them, dealt among ``tasks``.
    planners
        Tasks that plan groups below ``whatif.LARGE`` partitions.
    shelf
        As ``bundles.bundled`` takes it, here and below.
    """
    mine = left.where("kind in ('histories', 'places')")
    stand = facts.where("kind in ('group_state', 'earlier')")
    return met([mine, stand], tasks, partial(asked_of, planners=planners), shelf=shelf)


def asked_of(tables: Tables, planners: int) -> dict[str, pa.Table]:
    """What ``asked`` gives, of one task."""
    if "histories" not in tables:  # a task without groups
        return {}
    state = tables["group_state"] if "group_state" in tables else _STATE.empty_table()
    whole = whatif.beside(_without_owned(tables["histories"]), state)
    heard = heard_ms(tables["histories"], tables["places"])
    old = (
        _older(state, tables["earlier"], one(whole["group"]), heard)
        if "earlier" in tables
        else np.zeros(len(heard), bool)
    )
    older = with_columns(whole, heard_ms=pa.array(heard)).filter(pa.array(old))
    return {"asked": _dealt(whole.filter(pa.array(~old)) if old.any() else whole, planners), "older": older}


def _without_owned(histories: pa.Table) -> pa.Table:
    """Histories without what members said that they owned, which no plan looks at: a quarter of all bytes."""
    generations = one(histories["generations"])
    members = pc.struct_field(generations.values, "members")
    fields = dict.fromkeys(("owned", "owned_generation"))
    few = with_fields(members.values, fields)
    lists = pa.ListArray.from_arrays(members.offsets, few, mask=members.is_null() if members.null_count else None)
    whole = pa.ListArray.from_arrays(generations.offsets, with_fields(generations.values, {"members": lists}))
    return histories.set_column(histories.schema.get_field_index("generations"), "generations", whole)


def heard_ms(histories: pa.Table, places: pa.Table) -> Longs:
    """(rows of ``histories``,) when each group left its newest record, by ``history.ends_then``."""
    records = []
    for name in ("generations", "epochs"):
        lists = one(histories[name])
        at = pc.struct_field(lists.flatten(), "at_ms")
        records.append((longs(pc.list_parent_indices(lists)), longs(at), there(at)))
    group = longs(pc.fill_null(pc.index_in(one(places["group"]), one(histories["group"])), -1))
    time = places["commit_time"]
    stands = np.asarray(places["standing"], dtype=np.bool_)
    return last_heard(histories.num_rows, *records, (group, millis(time), there(time) & stands & (group >= 0)))


def _older(state: pa.Table, earlier: pa.Table, groups: pa.Array, heard: Longs) -> Bools:
    """(groups,) whether the last sample but one of a topic that a group names is no older than its newest record."""
    old = np.zeros(len(groups), dtype=np.bool_)
    if not earlier.num_rows:
        return old
    pairs = flattened(state, "topics", "topic")
    (topic, known), names = ranked(pairs["topic"], earlier["topic"])
    latest = np.full(len(names), SILENT, dtype=np.int64)
    sampled = np.zeros(len(names), dtype=np.bool_)
    latest[known], sampled[known] = longs(earlier["earlier_ms"]), True
    group = longs(pc.index_in(one(pairs["group"]), groups))
    old[group[sampled[topic] & (latest[topic] >= heard[group])]] = True
    return old


def _dealt(rows: pa.Table, planners: int) -> pa.Table:
    """Rows of what-if's input with the task that plans each: see ``whatif.task_of``."""
    topics = one(rows["topics"])
    sizes = one(pc.list_value_length(pc.struct_field(topics.flatten(), "partitions")))
    partitions = np.bincount(
        np.asarray(pc.list_parent_indices(topics), dtype=np.int64), weights=longs(sizes), minlength=rows.num_rows
    ).astype(np.int64)
    mixed = partitions
    for name in ("members", "generations", "epochs"):
        mixed = mixed * _MIX + longs(pc.list_value_length(one(rows[name])))
    mixed = mixed * _MIX
    mixed = (mixed >> 32) & 0x7FFFFFFF
    # Tasks are begun in the order of their numbers: those at the end have none of the groups that take long.
    task = whatif.LARGE_TASKS + mixed % np.where(partitions >= SELDOM_ALIKE, -(-planners // 2), planners)
    alone = longs(task_of(rows["group"], whatif.LARGE_TASKS))
    task = np.where(partitions >= whatif.LARGE, alone, task)
    return rows.append_column(TASK, pa.array(task, pa.int32()))


def settled(asked: DataFrame, ends: DataFrame, tasks: int, planners: int, shelf: Path | None = None) -> DataFrame:
    """The bundles ``asked`` of all groups: those of ``older`` ones with the log ends of then.

    asked
        What the function ``asked`` gives; it is looked at several times.
    ends
        ``silver/ends``.
    """
    ready, older = (asked.where(F.col("kind") == kind) for kind in ("asked", "older"))
    files = files_of(ends)
    if files is not None and _samples_in(files) <= tasks * SAMPLES_A_TASK:
        return ready.unionByName(met([older], tasks, partial(_found_then, files=files, planners=planners), shelf=shelf))
    if older.mapInArrow(_some_rows, "task int").isEmpty():
        return ready
    then = planned_ends.topics_then(Bundled(asked, "older", _OLDER, _looked_up).rows(), ends)
    columns = bundled(then, ["group", "then"], "then", "group", tasks, shelf)
    return ready.unionByName(met([older, columns], tasks, partial(_with_then, planners=planners), shelf=shelf))


def _some_rows(bundles: Batches) -> Iterator[pa.RecordBatch]:
    """(task) of the bundles that have rows."""
    tasks = [task for task, _, rows in unpacked(bundles) if rows.num_rows]
    yield pa.RecordBatch.from_arrays([pa.array(tasks, pa.int32())], names=["task"])


def _looked_up(older: pa.Table) -> pa.Table:
    return older.select(_OLDER.names)


def _samples_in(files: Sequence[Path]) -> int:
    from apportion.spark.other_groups import rows_in  # only here: a cluster's tasks may lack what Arrow's Parquet needs

    return rows_in(files)


def _found_then(tables: Tables, files: Sequence[Path], planners: int) -> dict[str, pa.Table]:
    """Groups of one task with the topics as they were then, by the files of ``silver/ends``."""
    if "older" not in tables or not tables["older"].num_rows:
        return {}
    from apportion.spark.other_groups import rows_with  # only here, as above

    older = tables["older"]
    names = pc.struct_field(one(older["topics"]).flatten(), "topic").unique().drop_null().to_pylist()
    ends = rows_with(files, schemas.arrow_schema(schemas.ENDS), "topic", names, ends_then.ASKED, words=True)
    assert ends is not None  # noqa: S101 - no limit was given
    topics = ends_then.topics_then(older["topics"], longs(older["heard_ms"]), ends)
    older = older.set_column(older.schema.get_field_index("topics"), "topics", topics)
    return {"asked": _dealt(older.drop_columns(["heard_ms"]), planners)}


def _with_then(tables: Tables, planners: int) -> dict[str, pa.Table]:
    """Groups of one task with the topics as they were then."""
    older, then = tables["older"].drop_columns(["heard_ms"]), tables.get("then")
    if then is not None:
        row_of = one(pc.index_in(one(older["group"]), one(then["group"])))
        topics = one(then["then"]).cast(_STATE.field("topics").type).take(row_of)
        column = older.schema.get_field_index("topics")
        older = older.set_column(column, "topics", pc.coalesce(topics, one(older["topics"])))
    return {"asked": _dealt(older, planners)}


def planned(
    asked: DataFrame, assignors: Sequence[str] | None, tasks: int, planners: int, shelf: Path | None = None
) -> Bundled:
    """``gold/whatif`` of the groups in bundles, dealt among ``tasks`` by their names."""
    plan = whatif.runner(assignors)

    def run(bundles: Batches) -> Iterator[pa.RecordBatch]:
        for groups in _together(bundles):
            rows = pa.Table.from_batches(plan(groups), schema=_WHATIF)
            yield from for_tasks(rows.append_column(TASK, task_of(rows["group"], tasks)), "whatif", shelf)

    dealt = asked.repartitionById(planners + whatif.LARGE_TASKS, F.col("task")).mapInArrow(run, BUNDLE)
    return Bundled(met([dealt], tasks, _sorted, shelf=shelf), "whatif", schemas.WHATIF.schema)


def _together(bundles: Batches) -> Iterator[list[pa.RecordBatch]]:
    """The rows of bundles in batches of their own, as large as are planned together."""
    some: list[pa.Table] = []
    rows = size = 0
    for _, _, table in unpacked(bundles):
        if some and (rows + table.num_rows > whatif.GROUPS_AT_ONCE or size + table.nbytes > whatif.COLUMNS_AT_ONCE):
            yield pa.concat_tables(some).combine_chunks().to_batches()
            some, rows, size = [], 0, 0
        some.append(table)
        rows, size = rows + table.num_rows, size + table.nbytes
    if some:
        yield pa.concat_tables(some).combine_chunks().to_batches()


def _sorted(tables: Tables) -> dict[str, pa.Table]:
    """The rows of a task in the table's order."""
    rows = tables["whatif"]
    keys = [ranked(rows[name])[0][0] for name in reversed(schemas.WHATIF.order)]
    order: Ints = np.lexsort(keys)
    return {"whatif": rows.take(pa.array(order))}

"""The gold rows of a few groups from what the silver tables hold of them, in this process: Arrow's columns, no job.

A build of which a hundredth of the groups is new would spend its time on starting some hundred jobs of Spark, on tables
of millions of rows of which it needs thousands. Which rows meet is worked out here on sorted columns, as the SQL of the
modules beside says it; what they mean is asked of the same functions that Spark's workers call. ``few_update`` takes
this way for few groups, and a test holds the rows of both equal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from apportion.history.commits import topic_names
from apportion.history.ends_then import SILENT
from apportion.spark import epochs, groups, schemas, whatif
from apportion.spark.batches import map_groups
from apportion.spark.commits import KEY
from apportion.spark.few_logs import Logs
from apportion.spark.histories import MEMBER
from apportion.spark.in_process import mapped
from apportion.spark.python_rows import rows_of
from apportion.spark.schemas import TABLES, arrow_schema
from apportion.spark.sorted_rows import (
    by_group,
    codes,
    distinct,
    flattened,
    in_order,
    millis,
    one,
    runs,
    timestamps,
    with_columns,
)

Row = dict[str, Any]
SPEAK_OF_TOPICS: Final = (7, 8, 13, 14)
"""Types of keys whose bodies name topics by their ids."""
TOPIC_ID: Final = re.compile('"topicId":"([A-Za-z0-9_-]{22})"')
STATE: Final = ("group", "type", "state", "protocol", "generation", "readable", "members")
"""Columns of ``gold/group_state`` that a group's own records tell."""
_STATE_SCHEMA: Final = pa.schema([arrow_schema(TABLES["gold/group_state"]).field(name) for name in STATE])
_WANTS: Final = ["group", "topic"]
_PAIRS: Final = pa.schema([("group", pa.string()), ("topic", pa.string())])
_NAMES: Final = pa.map_(pa.string(), pa.string())


@dataclass(frozen=True)
class Silver:
    """Rows of the silver tables that belong to some groups: all of ``commits``, ``generations`` and ``epochs``.

    gaps
        Of the partitions that these groups' records are in.
    names
        Topic id to name, of those that the groups' epochs speak of.
    """

    commits: pa.Table
    generations: pa.Table
    epochs: pa.Table
    gaps: pa.Table
    names: Mapping[str, str]


# -- commits and histories -------------------------------------------------------------------------------------------


def newest(commits: pa.Table) -> pa.Table:
    """``gold/commits``: see ``spark.commits.newest``."""
    ordered = in_order(commits, *KEY, "source_offset")
    last = ordered.take(pa.array(runs(ordered, *KEY)[1:] - 1))
    return last.filter(pc.invert(last["tombstone"])).select(TABLES["gold/commits"].schema.names).combine_chunks()


def spoken_ids(epoch_rows: pa.Table) -> dict[str, set[str]]:
    """Group to the ids of topics in its epochs; only groups with some."""
    ids: dict[str, set[str]] = {}
    speak = epoch_rows.filter(pc.is_in(epoch_rows["key_type"], pa.array(SPEAK_OF_TOPICS, pa.int32())))
    for group, body in zip(speak["group"].to_pylist(), speak["body"].to_pylist(), strict=True):
        if body is not None and (spoken := TOPIC_ID.findall(body)):
            ids.setdefault(group, set()).update(spoken)
    return ids


def names_among(commits: pa.Table, topics: pa.Table) -> dict[str, str]:
    """Topic id to name by ``history``'s rule, from rows with (topic_id, topic) of the two silver tables."""
    pairs = [zip(*(one[name].to_pylist() for name in ("topic_id", "topic")), strict=True) for one in
             (_distinct(commits), _distinct(topics))]  # fmt: skip
    return topic_names(*pairs)


def _distinct(rows: pa.Table) -> pa.Table:
    return distinct(rows.filter(rows["topic_id"].is_valid()), "topic_id", "topic")


def histories(silver: Silver) -> pa.Table:
    """One row a group: (group, generations, epochs, habits, names), see ``spark.histories.histories``."""
    classic, assigned = (_records(rows, silver.gaps) for rows in (silver.generations, silver.epochs))
    pieces = [rows.select(["group"]) for rows in (classic, assigned, silver.commits)]
    every = pa.array(sorted(pa.concat_tables(pieces)["group"].unique().to_pylist()), pa.string())
    spoken = spoken_ids(silver.epochs)
    names = [
        sorted((one, silver.names[one]) for one in spoken.get(group, ()) if one in silver.names)
        for group in every.to_pylist()
    ]
    columns = {
        "group": every,
        "generations": by_group(every, classic["group"], _generation(classic)),
        "epochs": by_group(every, assigned["group"], _epoch(assigned)),
        "habits": _habits(every, silver.commits, (classic, assigned)),
        "names": pa.array(names, _NAMES),
    }
    return pa.table(columns)


def _records(rows: pa.Table, gaps: pa.Table) -> pa.Table:
    """Records by group and offset, with ``holes``: offsets missing before each in its partition."""
    rows = in_order(rows, "group", "source_offset")
    ordered = in_order(gaps, "source_partition", "before_offset")
    partition, offset = (rows[f"source_{name}"].to_numpy() for name in ("partition", "offset"))
    of, before, missing = (ordered[name].to_numpy() for name in ("source_partition", "before_offset", "missing"))
    holes = np.zeros(rows.num_rows, dtype=np.int64)
    for number in np.unique(partition).tolist():
        mine, there = of == number, partition == number
        total = np.concatenate(([0], np.cumsum(missing[mine])))
        holes[there] = total[np.searchsorted(before[mine], offset[there], "right")]
    return with_columns(rows, holes=pa.array(holes), at_ms=millis(rows["at"]))


def _generation(rows: pa.Table) -> pa.Array:
    """A struct for each classic record."""
    rows = with_columns(rows, state_ms=millis(rows["state_time"]))
    members = one(rows["members"])
    flat = members.flatten()
    kept = pa.StructArray.from_arrays([pc.struct_field(flat, name) for name in MEMBER], names=list(MEMBER))
    counts = pc.fill_null(pc.list_value_length(members), 0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate(([0], np.cumsum(counts))), pa.int32())
    columns = {name: one(rows[name]) for name in (
        "source_offset", "at_ms", "tombstone", "generation", "protocol_type", "protocol", "state_ms")}  # fmt: skip
    columns["members"] = pa.ListArray.from_arrays(offsets, kept)
    columns["holes"] = one(rows["holes"])
    return pa.StructArray.from_arrays(list(columns.values()), names=list(columns))


def _epoch(rows: pa.Table) -> pa.Array:
    names = ("source_offset", "at_ms", "tombstone", "key_type", "member_id", "epoch", "body", "holes")
    return pa.StructArray.from_arrays([one(rows[name]) for name in names], names=list(names))


def _habits(every: pa.Array, commits: pa.Table, records: Sequence[pa.Table]) -> pa.Array:
    """Each group's commits, counted per partition between two of its own records."""
    marks = pa.concat_tables([rows.select(["group", "source_offset"]) for rows in records])
    mark, of_mark = marks["source_offset"].to_numpy(), codes(every, marks["group"])
    offset, of_commit = commits["source_offset"].to_numpy(), codes(every, commits["group"])
    order = np.lexsort((mark, of_mark))
    mark, first = mark[order], np.searchsorted(of_mark[order], np.arange(len(every) + 1))
    mine = np.argsort(of_commit, kind="stable")
    bounds = np.searchsorted(of_commit[mine], np.arange(len(every) + 1))
    # Only a member can be missed: commits before a group's first record say nothing.
    after = np.full(commits.num_rows, -1, dtype=np.int64)
    for group in range(len(every)):
        some, own = mine[bounds[group] : bounds[group + 1]], mark[first[group] : first[group + 1]]
        if len(own):
            before = np.searchsorted(own, offset[some])
            after[some] = np.where(before > 0, own[np.maximum(before - 1, 0)], -1)
    ms = millis(commits["commit_time"])
    known = pc.and_(pc.and_(pc.invert(one(commits["tombstone"])), ms.is_valid()), pa.array(after >= 0))
    rows = pa.table(
        {"of": of_commit, "after": after, "topic": commits["topic"], "partition": commits["partition"], "ms": ms}
    ).filter(known)
    counted = rows.group_by(["of", "after", "topic", "partition"]).aggregate(
        [("ms", "count"), ("ms", "min"), ("ms", "max")]
    )
    counted = in_order(counted, "of", "after", "topic", "partition")
    names = {"after": "after", "topic": "topic", "partition": "partition", "n": "ms_count", "first": "ms_min",
             "last": "ms_max"}  # fmt: skip
    structs = pa.StructArray.from_arrays([one(counted[name]) for name in names.values()], names=list(names))
    bounds = np.searchsorted(counted["of"].to_numpy(), np.arange(len(every) + 1))
    return pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), structs)


# -- what the groups are ---------------------------------------------------------------------------------------------


def folded(some: pa.Table) -> pa.Table:
    """``groups.folded`` of rows of ``histories``."""
    rows: Any = groups.folded(mapped(some))
    return rows


def rebalances(folded_rows: pa.Table) -> pa.Table:
    """``gold/rebalances``: see ``groups.rebalances_of``."""
    lists = one(folded_rows["rebalances"])
    flat = lists.flatten()
    whose = folded_rows["group"].take(pc.list_parent_indices(lists))
    names = [name for name in TABLES["gold/rebalances"].schema.names if name not in ("group", "at")]
    columns = {"group": whose, **{name: pc.struct_field(flat, name) for name in names}}
    return pa.table({**columns, "at": timestamps(pc.struct_field(flat, "at_ms"))})


def gold_epochs(some: pa.Table) -> pa.Table:
    """``gold/epochs`` of rows of ``histories``."""
    assigned = some.filter(pc.greater(pc.list_value_length(some["epochs"]), 0))
    rows: Any = map_groups(mapped(assigned.select(["group", "epochs", "names"])), epochs.of_group, epochs.ROW)
    return with_columns(rows.drop_columns(["at_ms"]), at=timestamps(one(rows["at_ms"])))


def present(some: Iterable[str], folded_rows: pa.Table, state_before: pa.Table, committed: Iterable[str]) -> pa.Table:
    """Groups that are not gone, by name: as folded now, as before, or as commits alone tell; see ``groups.present``.

    state_before
        ``gold/group_state`` of groups that were not folded now.
    committed
        Groups with a commit that stands.
    """
    stand = {row["group"]: row for row in _rows(folded_rows.select(list(STATE)))}
    stand |= {row["group"]: row for row in _rows(state_before.select(list(STATE))) if row["type"] != "simple"}
    simple = set(committed)
    living = []
    for group in sorted(some):
        row = stand.get(group, dict.fromkeys(STATE))
        kind = row["type"] if row["type"] is not None else "simple" if group in simple else None
        if kind is not None:
            living.append({
                **row, "group": group, "type": kind, "state": _or(row["state"], "Empty"),
                "readable": _or(row["readable"], True), "members": row["members"] or [],
            })  # fmt: skip
    return pa.Table.from_pylist(living, schema=_STATE_SCHEMA)


def _or(value: Any, otherwise: Any) -> Any:
    return otherwise if value is None else value


def _rows(rows: pa.Table) -> list[Row]:
    return [row for batch in rows.combine_chunks().to_batches() for row in rows_of(batch)]


def gold_groups(living: pa.Table) -> pa.Table:
    """``gold/groups`` of rows of ``present``."""
    schema = arrow_schema(TABLES["gold/groups"])
    return pa.Table.from_pylist(_rows(living), schema=schema)


def wanted(living: pa.Table) -> tuple[pa.Table, pa.Array]:
    """(group, topic) that a group's living members subscribe to, and all groups of which that is known."""
    known = pc.and_(living["readable"], pc.greater(pc.list_value_length(living["members"]), 0))
    some = living.filter(known).combine_chunks()
    return distinct(flattened(some, "members", "topics").rename_columns(_WANTS), *_WANTS), one(some["group"])


def named_topics(living: pa.Table, silver: Silver, standing: pa.Table) -> pa.Table:
    """(group, topic) that its members want, that it ever wanted, that its epochs name, or that it has commits on."""
    pieces = [
        flattened(rows.combine_chunks(), "members", "topics").rename_columns(_WANTS)
        for rows in (living, silver.generations)
    ]
    spoken = [
        {"group": group, "topic": silver.names[one_id]}
        for group, ids in spoken_ids(silver.epochs).items()
        for one_id in ids
        if one_id in silver.names
    ]
    pieces += [standing.select(_WANTS), pa.Table.from_pylist(spoken, schema=_PAIRS)]
    every = distinct(pa.concat_tables([one_piece.cast(_PAIRS) for one_piece in pieces]), *_WANTS)
    return every.filter(every["topic"].is_valid())


def group_state(living: pa.Table, named: pa.Table, standing: pa.Table, logs: Logs) -> pa.Table:
    """``gold/group_state`` of rows of ``present``: see ``groups.group_state``.

    named
        As ``named_topics`` gives it.
    """
    every = one(living["group"])
    entries = logs.entries()
    alive = pc.is_in(named["group"], every)
    pairs = in_order(named.filter(pc.and_(alive, pc.is_in(named["topic"], entries.field("topic")))), *_WANTS)
    commits = in_order(standing.filter(pc.is_in(standing["group"], every)), *KEY)
    structs = pa.StructArray.from_arrays(
        [one(commits[name]) for name in schemas.COMMITTED.names], names=list(schemas.COMMITTED.names)
    )
    topics = entries.take(pc.index_in(one(pairs["topic"]), entries.field("topic")))
    whole = with_columns(
        living, topics=by_group(every, pairs["group"], topics), commits=by_group(every, commits["group"], structs)
    )
    return whole.cast(arrow_schema(TABLES["gold/group_state"]))


# -- what-if ---------------------------------------------------------------------------------------------------------


def last_heard(generations: pa.Table, epoch_rows: pa.Table, standing: pa.Table) -> pa.Table:
    """(group, heard_ms): when each group left its newest record: see ``planned_ends.last_heard``."""
    pieces = [
        pa.table({"group": rows["group"], "ms": millis(rows[time])})
        for rows, time in ((generations, "at"), (epoch_rows, "at"), (standing, "commit_time"))
    ]
    newest_of = pa.concat_tables(pieces).group_by("group").aggregate([("ms", "max")])
    return pa.table({"group": newest_of["group"], "heard_ms": pc.fill_null(newest_of["ms_max"], SILENT)})


def as_planned(state: pa.Table, heard: pa.Table, logs: Logs) -> pa.Table:
    """The state of some groups with the log ends that plans are made with: see ``planned_ends.as_planned``."""
    earlier = logs.earlier_ms()
    heard_ms = dict(zip(heard["group"].to_pylist(), heard["heard_ms"].to_pylist(), strict=True))
    pairs = flattened(state, "topics", "topic")
    older = {
        group
        for group, topic in zip(pairs["group"].to_pylist(), pairs["topic"].to_pylist(), strict=True)
        if topic in earlier and group in heard_ms and earlier[topic] >= heard_ms[group]
    }
    if not older:
        return state
    rows = _rows(state)
    asked = [row for row in rows if row["group"] in older]
    samples = logs.samples_of({topic["topic"] for row in asked for topic in row["topics"]})
    for row in asked:
        for topic in row["topics"]:
            then = samples.then({topic["topic"]: topic["partitions"]}, heard_ms[row["group"]])
            topic["partitions"] = then[topic["topic"]]
    return pa.Table.from_pylist(rows, schema=state.schema)


def unsettled(state: pa.Table, heard: pa.Table, logs: Logs, before_ms: int) -> set[str]:
    """Groups whose log ends for plans may be others by newer samples: see ``planned_ends.unsettled``."""
    moments = one(logs.rows["at_ms"])
    at, whose = moments.flatten(), pc.list_parent_indices(moments)
    old = pc.fill_null(pc.less_equal(at, before_ms), False)
    seen = pa.table({
        "topic": one(logs.rows["topic"]).take(whose), "place": whose,
        "ms": pc.if_else(old, at, SILENT),
    }).group_by(["topic", "place"]).aggregate([("ms", "max")])  # fmt: skip
    covered = seen.group_by("topic").aggregate([("ms_max", "min")])
    named = distinct(flattened(state, "topics", "topic"), "group", "topic")
    both = named.join(covered, keys="topic", join_type="inner").join(heard, keys="group", join_type="inner")
    until = both["ms_max_min"]
    again = both.filter(pc.or_(pc.equal(until, SILENT), pc.less(until, both["heard_ms"])))
    return set(again["group"].unique().to_pylist())


def gold_whatif(state: pa.Table, some: pa.Table, assignors: Sequence[str] | None) -> pa.Table:
    """``gold/whatif`` of rows of ``histories``.

    state
        As ``as_planned`` gives it.
    """
    row_of = pc.index_in(some["group"], one(state["group"]))
    whole = some.drop_columns(["habits"])
    for name in state.column_names[1:]:
        whole = whole.append_column(name, one(state[name]).take(one(row_of)))
    rows: Any = whatif.planned(mapped(whole), assignors)
    return rows

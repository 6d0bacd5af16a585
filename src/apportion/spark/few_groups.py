"""The gold rows of a few groups from what the silver tables hold of them, in this process: Arrow's columns, no job.

A build of which a hundredth of the groups is new would spend its time on starting some hundred jobs of Spark, on tables
of millions of rows of which it needs thousands. The passes are those of a full build (``by_group``, ``logs`` and
``facts``), called with tables that are here instead of those that met in a task.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from apportion.history import ends_then
from apportion.history.commits import topic_names
from apportion.history.ends_then import SILENT
from apportion.spark import by_group, facts, logs, whatif
from apportion.spark.ends_then import topics_then
from apportion.spark.histories import SPEAK_OF_TOPICS, TOPIC_ID
from apportion.spark.log_ends import since
from apportion.spark.sorted_rows import (
    ascending,
    distinct,
    flattened,
    longs,
    millis,
    one,
    ranked,
    there,
    with_columns,
)

Row = dict[str, Any]
_TOPIC_ID: Final = re.compile(TOPIC_ID)
_NEVER: Final = 2**63 - 1
"""Milliseconds: of a topic without samples."""
FOLLOW: Final = ("lag", "group_state", "verdicts")
"""Tables that follow the log ends."""


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


def spoken_ids(epoch_rows: pa.Table) -> dict[str, set[str]]:
    """Group to the ids of topics in its epochs; only groups with some."""
    ids: dict[str, set[str]] = {}
    speak = epoch_rows.filter(pc.is_in(epoch_rows["key_type"], pa.array(SPEAK_OF_TOPICS, pa.int32())))
    for group, body in zip(speak["group"].to_pylist(), speak["body"].to_pylist(), strict=True):
        if body is not None and (spoken := _TOPIC_ID.findall(body)):
            ids.setdefault(group, set()).update(spoken)
    return ids


def names_among(commits: pa.Table, topics: pa.Table) -> dict[str, str]:
    """Topic id to name by ``history``'s rule, from rows with (topic_id, topic) of the two silver tables."""
    pairs = [zip(*(pair[name].to_pylist() for name in ("topic_id", "topic")), strict=True) for pair in
             (_distinct(commits), _distinct(topics))]  # fmt: skip
    return topic_names(*pairs)


def _distinct(rows: pa.Table) -> pa.Table:
    return distinct(rows.filter(rows["topic_id"].is_valid()), "topic_id", "topic")


def left(silver: Silver, now_ms: int) -> dict[str, pa.Table]:
    """What ``by_group.left`` leaves of these groups: ``places``, ``present``, ``named``, ``rebalances`` and more.

    now_ms
        When any log end was sampled last; 0 where none was.
    """
    tables = {
        "commits": silver.commits, "generations": silver.generations, "epochs": silver.epochs,
        "holes": holes([silver.generations, silver.epochs], silver.gaps),
        "names": names_of(silver.epochs, silver.names),
    }  # fmt: skip
    return by_group.left_of(tables, since(now_ms))


def names_of(epoch_rows: pa.Table, names: Mapping[str, str]) -> pa.Table:
    """(group, topic_id, topic) of the ids that a group's epochs speak of, if they have a name."""
    rows = [
        {"group": group, "topic_id": spoken, "topic": names[spoken]}
        for group, ids in sorted(spoken_ids(epoch_rows).items())
        for spoken in sorted(ids & names.keys())
    ]
    return pa.Table.from_pylist(rows, schema=by_group.NAME)


def holes(records: Sequence[pa.Table], gaps: pa.Table) -> pa.Table:
    """(group, source_partition, source_offset, holes): records before which offsets are missing in their partition.

    gaps
        Rows of ``silver/gaps``, all of the partitions of the records.
    """
    columns = by_group.HOLE.names[:-1]
    rows = pa.concat_tables([rows.select(columns) for rows in records])
    partition, offset = (rows[f"source_{name}"].to_numpy() for name in ("partition", "offset"))
    of, before, missing = (gaps[name].to_numpy() for name in ("source_partition", "before_offset", "missing"))
    if len(of):
        order = np.argsort(of, kind="stable")  # of files that are sorted this is next to nothing
        if not ascending(of[order], before[order]):
            order = np.lexsort((before, of))
        of, before, missing = of[order], before[order], missing[order]
    total = np.concatenate(([0], np.cumsum(missing)))
    counts = np.zeros(rows.num_rows, dtype=np.int64)
    for number in np.unique(partition).tolist():
        first, behind = np.searchsorted(of, [number, number + 1])
        there = np.flatnonzero(partition == number)
        last = first + np.searchsorted(before[first:behind], offset[there], "right")
        counts[there] = total[last] - total[first]
    return with_columns(rows, holes=pa.array(counts)).filter(pa.array(counts > 0)).cast(by_group.HOLE)


def follow(known: Mapping[str, pa.Table], now_ms: int, allowed_lag: int) -> dict[str, pa.Table]:
    """The gold tables of some groups that follow the log ends, by their names in ``FOLLOW``.

    known
        ``places``, ``present`` and ``named`` as ``left`` gives them, and ``logs``, as ``logs.described`` does.
    """
    asked = {name: known[name] for name in ("places", "present", "named", "logs")}
    tables = facts.facts_of(asked, now_ms, allowed_lag)
    return {name: tables[name] for name in FOLLOW}


# -- what-if ---------------------------------------------------------------------------------------------------------


def last_heard(generations: pa.Table, epoch_rows: pa.Table, standing: pa.Table) -> pa.Table:
    """(group, heard_ms): when each group left its newest record, by ``history.ends_then``.

    standing
        Commits that stand: (group, commit_time).
    """
    times = [generations.column("at"), epoch_rows.column("at"), standing.column("commit_time")]
    codes, names = ranked(*[rows["group"] for rows in (generations, epoch_rows, standing)])
    records = [(code, millis(time), there(time)) for code, time in zip(codes, times, strict=True)]
    return pa.table({"group": names, "heard_ms": ends_then.last_heard(len(names), *records)})


def as_planned(
    state: pa.Table, heard: pa.Table, ends: pa.Table, topics: pa.Table, every: Callable[[set[str]], pa.Table]
) -> pa.Table:
    """The state of some groups with the log ends that plans are made with: see ``planned_ends.as_planned``.

    ends, topics
        Rows of the silver tables, of all topics that the groups name: of ``silver/ends`` at least the two newest.
    every
        All rows of ``silver/ends`` of some topics.
    """
    known = facts.earlier(logs.described(ends, topics))
    earlier = dict(zip(known["topic"].to_pylist(), known["earlier_ms"].to_pylist(), strict=True))
    heard_ms = dict(zip(heard["group"].to_pylist(), heard["heard_ms"].to_pylist(), strict=True))
    pairs = flattened(state, "topics", "topic")
    older = {
        group
        for group, topic in zip(pairs["group"].to_pylist(), pairs["topic"].to_pylist(), strict=True)
        if topic in earlier and group in heard_ms and earlier[topic] >= heard_ms[group]
    }
    if not older:
        return state
    is_older = np.asarray(pc.is_in(one(state["group"]), pa.array(sorted(older), state["group"].type)))
    asked = state.filter(pa.array(is_older))
    topics = pc.struct_field(one(asked["topics"]).flatten(), "topic").drop_null().unique().to_pylist()
    heard = np.array([heard_ms[group] for group in asked["group"].to_pylist()], dtype=np.int64)
    then = topics_then(asked["topics"], heard, every(set(topics)))
    row = np.where(is_older, state.num_rows + np.cumsum(is_older) - 1, np.arange(state.num_rows))
    whole = pa.concat_arrays([one(state["topics"]), then]).take(pa.array(row))
    return state.set_column(state.schema.get_field_index("topics"), "topics", whole)


def unsettled(state: pa.Table, heard: pa.Table, known: pa.Table, before_ms: int) -> set[str]:
    """Groups whose log ends for plans may be others by newer samples: see ``planned_ends.unsettled``.

    known
        As ``logs.described`` gives it.
    """
    moments = one(known["sample_at"])
    at, count = longs(moments.flatten()), longs(pc.list_value_length(moments))
    sampled = np.flatnonzero(count)
    first = (np.cumsum(count) - count)[sampled]
    newest_old = np.maximum.reduceat(np.where(at <= before_ms, at, SILENT), first) if len(first) else first
    named = flattened(state, "topics", "topic")
    (of_log, topic), topics = ranked(known["topic"], named["topic"])
    until = np.full(len(topics), _NEVER)
    np.minimum.at(until, of_log[sampled], newest_old)
    (group, of_heard), groups = ranked(named["group"], heard["group"])
    heard_ms = np.full(len(groups), SILENT)
    heard_ms[of_heard] = longs(heard["heard_ms"])
    again = (until[topic] == SILENT) | (until[topic] < heard_ms[group])
    return set(groups.take(pa.array(np.unique(group[again]))).to_pylist())


def gold_whatif(state: pa.Table, histories: pa.Table, assignors: Sequence[str] | None) -> pa.Table:
    """``gold/whatif`` of groups.

    state
        As ``as_planned`` gives it.
    histories
        As ``left`` gives them.
    """
    return whatif.planned_here(whatif.beside(histories, state), assignors)


def chunks(groups: Iterable[str], commits: Mapping[str, int], most: int) -> list[list[str]]:
    """The names in their order, so many together that they have at most so many commits; or one."""
    runs: list[list[str]] = []
    size = most
    for group in sorted(groups):
        if size + commits.get(group, 0) >= most:
            runs.append([])
            size = 0
        runs[-1].append(group)
        size += commits.get(group, 0) + 1
    return runs

"""The facts known about topics' logs: their newest ends, samples of them, and the sample behind a group's plans.

Each task that has a group of a topic gets the topic's log, once: a topic that a thousand groups read would else be
copied a thousand times.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from apportion.arrays import Bools, Ints, Longs
from apportion.history.lag_time import thinned
from apportion.pipeline.columns import (
    TASK,
    in_order,
    listed,
    longs,
    numbered,
    piece_of,
    ranked,
    spans,
    starts_of,
    united,
    unnumbered,
    valid,
    with_fields,
)
from apportion.pipeline.digests import row_digests
from apportion.tables import schemas

ENDS: Final = schemas.arrow_schema(schemas.ENDS)
TOPICS: Final = schemas.arrow_schema(schemas.TOPICS)
SHAPES: Final = pa.schema([("topic", pa.string()), ("digest", pa.uint64())])
READERS: Final = pa.schema([("topic", pa.string()), ("bucket", pa.int32())])


def logs_of(tables: Mapping[str, pa.Table], ends_at_us: int | None) -> dict[str, pa.Table]:
    """The logs of some topics, for the buckets of groups that read them.

    tables
        ``ends``, samples, and ``topics``: new ones; ``known_ends``, ``known_topics`` and ``shapes``: what this kept
        before; ``readers``: (topic, bucket). One that is not there has no rows.
    ends_at_us
        The newest sample that was known before; None: none is known.
    Returns
        ``logs`` as ``described`` gives them, with the bucket as ``TASK``; ``known_ends``, ``known_topics`` and
        ``shapes``; rows for ``silver/ends`` and ``silver/topics``; ``reshaped``, (topic): those with other partitions
        or racks than before.
    """
    new = _each_once(tables.get("ends", ENDS.empty_table()))
    if ends_at_us is not None:
        new = new.filter(pc.fill_null(pc.greater(new["at"].cast(pa.int64()), ends_at_us), False))
    samples = pa.concat_tables([tables.get("known_ends", ENDS.empty_table()), new]).combine_chunks()
    samples = thinned_samples(samples) if new.num_rows else samples
    topics = tables.get("topics", tables.get("known_topics", TOPICS.empty_table())).combine_chunks()
    logs = described(samples, topics)
    shapes = _shapes(logs)
    readers = tables.get("readers", READERS.empty_table()).group_by(READERS.names).aggregate([]).combine_chunks()
    return {
        "logs": _for_readers(logs, readers),
        "known_ends": samples, "known_topics": topics, "silver/ends": new,
        "shapes": shapes, "reshaped": _others(shapes, tables.get("shapes", SHAPES.empty_table())),
        "silver/topics": tables.get("topics", TOPICS.empty_table()),
    }  # fmt: skip


def _each_once(ends: pa.Table) -> pa.Table:
    return ends.group_by(ENDS.names, use_threads=False).aggregate([]).select(ENDS.names).combine_chunks()


def _shapes(logs: pa.Table) -> pa.Table:
    """(topic, digest) of the partitions and racks of each topic, which histories are planned with."""
    digests = row_digests(logs.select(["partition", "racks"]))
    (topic,), names = ranked(logs["topic"])
    sums = np.zeros(len(names), dtype=np.uint64)
    np.add.at(sums, topic, digests)
    return pa.table([names, pa.array(sums)], schema=SHAPES)


def _others(shapes: pa.Table, before: pa.Table) -> pa.Table:
    """(topic): topics of which another shape, or none, was known, and those that are gone."""
    same = shapes.join(before.combine_chunks(), SHAPES.names, join_type="inner")["topic"].combine_chunks()
    topics = pa.chunked_array([*shapes["topic"].chunks, *before["topic"].chunks], pa.string()).unique()
    return pa.table({"topic": topics.filter(pc.invert(pc.is_in(topics, value_set=same)))})


def _for_readers(rows: pa.Table, readers: pa.Table) -> pa.Table:
    """Rows of topics, for each bucket that reads them."""
    (of_row, of_reader), names = ranked(rows["topic"], readers["topic"])
    order = np.argsort(of_row, kind="stable")
    start = np.searchsorted(of_row[order], np.arange(len(names) + 1))
    bucket = longs(readers["bucket"])
    by_bucket = np.lexsort((of_reader, bucket))
    wanted, bucket = of_reader[by_bucket], bucket[by_bucket]
    counts = (start[1:] - start[:-1])[wanted]
    chosen = rows.take(pa.array(order[spans(start[:-1][wanted], counts)]))
    return chosen.append_column(TASK, pa.array(np.repeat(bucket, counts).astype(np.int32)))


def described(ends: pa.Table, topics: pa.Table) -> pa.Table:
    """A row a partition, by topic and partition: its newest log ends, and the samples of its end.

    Of several samples of one microsecond the newest is the one with the greatest begin, then end, then last stable.

    (topic, partition, topic_id, racks, begin, end, last_stable, sampled_at, sample_at, sample_begin, sample_end,
    earlier_ms)

    sample_at, sample_begin, sample_end
        Lists: milliseconds, ascending, and where the log began and ended then; of one moment the furthest.
    earlier_ms
        When the last sample but one was taken; null where there is none.
    """
    (of_end, of_topic), names = ranked(ends["topic"], topics["topic"])
    log_of_end, log_of_topic = (
        numbered(code, longs(table["partition"])) for code, table in ((of_end, ends), (of_topic, topics))
    )
    order = in_order(log_of_end)
    log_of_end = log_of_end[order]
    every = united(log_of_end[starts_of(log_of_end)[:-1]], log_of_topic)
    topic, partition = unnumbered(every)
    columns: dict[str, Any] = {"topic": names.take(pa.array(topic)), "partition": pa.array(partition, pa.int32())}
    row = np.searchsorted(every, log_of_topic)
    rank = ranked(topics["topic_id"])[0][0]
    columns["topic_id"] = topics["topic_id"].take(_last(row, rank, len(every), rank >= 0))
    racked = valid(topics["racks"])
    columns["racks"] = topics["racks"].take(_last(row, -np.arange(len(racked)), len(every), racked))
    return pa.table(columns | _sampled(ends, order, log_of_end, every))


def thinned_samples(ends: pa.Table) -> pa.Table:
    """Samples of each partition, each moment and end once, the older the fewer (``lag_time.thinned``)."""
    (topic,), _ = ranked(ends["topic"])
    log, end = numbered(topic, longs(ends["partition"])), longs(ends["end"])
    at = np.where(valid(ends["at"]), longs(ends["at"].cast(pa.int64())), -(2**63))
    order = in_order(log, at // 1000, end, at, *_among_equal(ends))
    log, at, end = log[order], at[order] // 1000, end[order]
    last = starts_of(log, at, end)[1:] - 1
    return ends.take(pa.array(order[last[thinned(log[last], at[last])]])).combine_chunks()


def _last(row: Ints, by: Longs, count: int, known: Any) -> pa.Array:
    """For each of some rows the place of its greatest entry among the known ones; null if it has none."""
    entries = np.flatnonzero(known)
    entries = entries[in_order(row[entries], by[entries])]
    best = np.full(count, -1)
    best[row[entries]] = entries  # of those of one row the last assignment stays
    return pa.array(best, mask=best < 0)


def _among_equal(ends: pa.Table) -> list[Longs]:
    """Keys that sort samples of one moment: unknown values first."""
    columns = [ends[name] for name in ("begin", "end", "last_stable")]
    return [key for column in columns for key in (valid(column).astype(np.int64), longs(column))]


def _sampled(ends: pa.Table, order: Ints, log: Longs, every: Longs) -> dict[str, pa.Array]:
    """The columns of ``described`` that come from samples.

    order, log
        (N,) the samples by partition, else in their order, and the number of the partition of each.
    every
        All such numbers, ascending.
    """
    timed = valid(ends["at"])[order]
    order, log = order[timed], log[timed]
    at_us = longs(ends["at"].cast(pa.int64()))[order]
    # Of samples of one moment the greatest is the newest, whichever build wrote it down first.
    by_value = in_order(log, at_us, *[key[order] for key in _among_equal(ends)])
    order, log, at_us = order[by_value], log[by_value], at_us[by_value]
    start = np.append(np.searchsorted(log, every), len(log))
    newest = pa.array(np.append(order, -1)[start[1:] - 1], mask=np.diff(start) == 0)
    columns = {name: ends[name].take(newest) for name in ("begin", "end", "last_stable")}
    columns["sampled_at"] = ends["at"].take(newest)

    row, at, end = np.repeat(np.arange(len(every)), np.diff(start)), at_us // 1000, longs(ends["end"])[order]
    by_end = in_order(row, at, end)
    distinct = by_end[starts_of(row[by_end], at[by_end], end[by_end])[:-1]]
    row, at, order = row[distinct], at[distinct], order[distinct]
    counts = np.bincount(row, minlength=len(every))
    behind = np.cumsum(counts)
    several = counts > 1
    earlier = np.zeros(len(every), dtype=np.int64)
    earlier[several] = at[behind[several] - 2]
    last = starts_of(row, at)[1:] - 1
    counts = np.bincount(row[last], minlength=len(every))
    lists = {"sample_at": listed(counts, pa.array(at[last]))}
    for name in ("begin", "end"):
        lists[f"sample_{name}"] = listed(counts, pa.array(longs(ends[name])[order[last]]))
    return {**columns, **lists, "earlier_ms": pa.array(earlier, mask=~several)}


# -- then ------------------------------------------------------------------------------------------------------------


def topics_then(topics: pa.ChunkedArray | pa.Array, heard_ms: Longs, logs: pa.Table) -> pa.Array:
    """Topics as in ``gold/group_state``, with the log ends sampled first at a moment or after it, else with the newest.

    topics
        (groups,) lists of structs.
    heard_ms
        (groups,) the moments: when each group left its newest record.
    logs
        As ``described`` gives them, of all these topics.
    """
    lists = piece_of(topics)
    named = lists.flatten()
    held = pc.struct_field(named, "partitions")
    places = held.flatten()
    entry = longs(pc.list_parent_indices(held))
    (of_entry, of_log), _ = ranked(pc.struct_field(named, "topic"), logs["topic"])
    log = numbered(of_entry[entry], longs(pc.struct_field(places, "partition")))
    heard = heard_ms[longs(pc.list_parent_indices(lists))[entry]]
    lists_at = piece_of(logs["sample_at"])
    counts = longs(pc.list_value_length(lists_at))
    of = np.repeat(numbered(of_log, longs(logs["partition"])), counts)
    row, is_sampled = _first_after(log, heard, of, longs(lists_at.flatten()))
    sample, is_known = pa.array(row, pa.int64(), mask=~is_sampled), pa.array(is_sampled, pa.bool_())
    then = {}
    for name in ("begin", "end"):
        offsets = piece_of(logs[f"sample_{name}"]).flatten()
        then[name] = pc.if_else(is_known, offsets.take(sample), pc.struct_field(places, name))
    whole = _relisted(held, with_fields(places, then))
    return _relisted(lists, with_fields(named, {"partitions": whole})).cast(lists.type)


def _first_after(log: Longs, heard: Longs, of: Longs, at: Longs) -> tuple[Ints, Bools]:
    """(Q,) the row of the first sample of each log at its moment or after it, else of its last; whether it has any."""
    if not len(of):
        return np.zeros(len(log), dtype=np.int64), np.zeros(len(log), dtype=np.bool_)
    order = in_order(of, at)
    of, at = of[order], at[order]
    start = starts_of(of)
    logs = of[start[:-1]]
    which = np.minimum(np.searchsorted(logs, log), len(logs) - 1)
    # A log's number and its sample's among all moments make one number, by which all is in order.
    moments = np.unique(at)
    rank = np.repeat(np.arange(len(logs)), np.diff(start)) * (len(moments) + 1) + np.searchsorted(moments, at)
    wanted = which * (len(moments) + 1) + np.searchsorted(moments, heard)
    first = np.minimum(np.searchsorted(rank, wanted), start[which + 1] - 1)
    return order[first], logs[which] == log


def _relisted(lists: pa.ListArray, values: pa.Array) -> pa.ListArray:
    """The same lists of other values."""
    ends = np.cumsum(longs(pc.list_value_length(lists)))
    offsets = pa.array(np.concatenate(([0], ends)), pa.int32())
    return pa.ListArray.from_arrays(offsets, values, mask=lists.is_null() if lists.null_count else None)

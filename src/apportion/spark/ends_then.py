"""The log ends that plans are made with, looked up on columns: ``history.ends_then``'s rule for many groups at once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from apportion.arrays import Bools, Ints, Longs
from apportion.spark.sorted_rows import in_order, longs, millis, numbered, one, ranked, starts_of, there, with_fields

ASKED = ("topic", "partition", "begin", "end", "at")
"""Columns of ``silver/ends`` that are looked at."""


def topics_then(topics: pa.ChunkedArray | pa.Array, heard_ms: Longs, ends: pa.Table) -> pa.Array:
    """Topics as in ``gold/group_state``, with the log ends sampled first at a moment or after it, else with the newest.

    topics
        (groups,) lists of structs.
    heard_ms
        (groups,) the moments: when each group left its newest record.
    ends
        Rows of ``silver/ends``, all of these topics, in any order. Samples without a time do not count.
    """
    lists = one(topics)
    named = lists.flatten()
    held = pc.struct_field(named, "partitions")
    places = held.flatten()
    entry = longs(pc.list_parent_indices(held))
    samples = ends.filter(ends["at"].is_valid())
    (of_entry, of_sample), _ = ranked(pc.struct_field(named, "topic"), samples["topic"])
    log = numbered(of_entry[entry], longs(pc.struct_field(places, "partition")))
    heard = heard_ms[longs(pc.list_parent_indices(lists))[entry]]
    row, is_sampled = _first_after(log, heard, numbered(of_sample, longs(samples["partition"])), samples)
    sample, known = pa.array(row, pa.int64(), mask=~is_sampled), pa.array(is_sampled, pa.bool_())
    then = {}
    for name in ("begin", "end"):
        then[name] = pc.if_else(known, one(samples[name]).take(sample), pc.struct_field(places, name))
    whole = _relisted(held, with_fields(places, then))
    return _relisted(lists, with_fields(named, {"partitions": whole})).cast(lists.type)


def _first_after(log: Longs, heard: Longs, of: Longs, samples: pa.Table) -> tuple[Ints, Bools]:
    """(Q,) the row of the first sample of each log at its moment or after it, else of its last; whether it has any."""
    if not len(of):
        return np.zeros(len(log), dtype=np.int64), np.zeros(len(log), dtype=np.bool_)
    offsets = [key(samples[name]).astype(np.int64) for name in ("begin", "end") for key in (there, longs)]
    order = in_order(of, longs(samples["at"].cast(pa.int64())), *offsets)
    of, at = of[order], millis(samples["at"])[order]
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

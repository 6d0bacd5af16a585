"""What is known of topics' logs, brought to the tasks whose groups ask for it; each task gets a topic once.

A topic that a thousand groups read would be copied a thousand times if logs were joined with groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from apportion.arrays import Ints, Longs
from apportion.history.lag_time import SAMPLES_MAX
from apportion.spark import schemas
from apportion.spark.bundles import TASK, Tables, bundled, met, unpacked
from apportion.spark.slices import Batches
from apportion.spark.sorted_rows import (
    ascending,
    in_order,
    listed,
    longs,
    numbered,
    ranked,
    spans,
    starts_of,
    there,
    united,
    unnumbered,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ENDS: Final = ("topic", "partition", "begin", "end", "last_stable", "at")
_TOPICS: Final = ("topic", "partition", "topic_id", "racks")
NO_ENDS: Final = schemas.arrow_schema(schemas.ENDS, _ENDS).empty_table()
NO_TOPICS: Final = schemas.arrow_schema(schemas.TOPICS, _TOPICS).empty_table()
_ASKED: Final = pa.schema([("topic", pa.string()), ("target", pa.int32())])


def logs(left: DataFrame, ends: DataFrame, topics: DataFrame, tasks: int, shelf: Path | None = None) -> DataFrame:
    """Bundles ``logs`` for the tasks of ``left``: a row for each partition of a topic that a group there names.

    left
        As ``by_group.left`` gives them.
    ends, topics
        The silver tables.
    shelf
        As ``bundled`` takes it.
    """
    asked = left.where("kind = 'named'").mapInArrow(_asked, "topic string, target int")
    sides = {"ends": (ends, _ENDS), "topics": (topics, _TOPICS), "asked": (asked, _ASKED.names)}
    bundles = [bundled(table, columns, kind, "topic", tasks, shelf) for kind, (table, columns) in sides.items()]
    return met(bundles, tasks, _logs, {"ends": few_samples}, shelf)


def _asked(bundles: Batches) -> Iterator[pa.RecordBatch]:
    """(topic, target): the topics that the groups of a task name, each once."""
    for task, _, named in unpacked(bundles):
        topics = named["topic"].combine_chunks().unique()
        yield pa.RecordBatch.from_arrays([topics, pa.array([task] * len(topics), pa.int32())], schema=_ASKED)


def _logs(tables: Tables) -> Tables:
    """The logs of the topics of a task, each for those that ask for it."""
    ends, topics = tables.get("ends", NO_ENDS), tables.get("topics", NO_TOPICS)
    asked = tables.get("asked", _ASKED.empty_table())
    known = described(ends, topics)
    (of_log, of_asked), names = ranked(known["topic"], asked["topic"])
    start = np.searchsorted(of_log, np.arange(len(names) + 1))
    target = longs(asked["target"])
    order = np.lexsort((of_asked, target))
    wanted, target = of_asked[order], target[order]
    counts = (start[1:] - start[:-1])[wanted]
    rows = known.take(pa.array(spans(start[:-1][wanted], counts)))
    return {"logs": rows.append_column(TASK, pa.array(np.repeat(target, counts).astype(np.int32)))}


def described(ends: pa.Table, topics: pa.Table) -> pa.Table:
    """A row a partition, by topic and partition: its newest log ends, and the samples of its end.

    Of several samples of one microsecond the newest is the one with the greatest begin, then end, then last stable.

    (topic, partition, topic_id, racks, begin, end, last_stable, sampled_at, sample_at, sample_end, earlier_ms)

    sample_at, sample_end
        Lists: milliseconds, ascending, and the log's end then; of one moment the furthest, and the newest of them all.
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
    racked = there(topics["racks"])
    columns["racks"] = topics["racks"].take(_last(row, -np.arange(len(racked)), len(every), racked))
    return pa.table(columns | _sampled(ends, order, log_of_end, every))


def few_samples(ends: pa.Table) -> pa.Table:
    """Log ends without the samples that nobody looks at: of each partition the newest stay, each once."""
    (topic,), _ = ranked(ends["topic"])
    log, end = numbered(topic, longs(ends["partition"])), longs(ends["end"])
    at = np.where(there(ends["at"]), longs(ends["at"].cast(pa.int64())), -(2**63))
    order = in_order(log, at // 1000, end, at, *_among_equal(ends))
    log, at, end = log[order], at[order] // 1000, end[order]
    last = starts_of(log, at, end)[1:] - 1
    of_log = starts_of(log[last])
    left = np.repeat(of_log[1:], np.diff(of_log)) - np.arange(len(last))
    return ends.take(pa.array(order[last[left <= SAMPLES_MAX]])).combine_chunks()


def _last(row: Ints, by: Longs, count: int, known: Any) -> pa.Array:
    """For each of some rows the place of its greatest entry among the known ones; null where it has none."""
    entries = np.flatnonzero(known)
    entries = entries[in_order(row[entries], by[entries])]
    best = np.full(count, -1)
    best[row[entries]] = entries  # of those of one row the last assignment stays
    return pa.array(best, mask=best < 0)


def _among_equal(ends: pa.Table) -> list[Longs]:
    """Keys that sort samples of one moment: unknown values first."""
    columns = [ends[name] for name in ("begin", "end", "last_stable")]
    return [key for column in columns for key in (there(column).astype(np.int64), longs(column))]


def _sampled(ends: pa.Table, order: Ints, log: Longs, every: Longs) -> dict[str, pa.Array]:
    """The columns of ``described`` that come from samples.

    order, log
        (N,) the samples by partition, else in their order, and the number of the partition of each.
    every
        All such numbers, ascending.
    """
    # Mostly there is nothing to leave out or to sort below, which is seen sooner than columns are copied.
    if ends["at"].null_count:
        timed = there(ends["at"])[order]
        order, log = order[timed], log[timed]
    at_us = longs(ends["at"].cast(pa.int64()))[order]
    if not ascending(log, at_us):
        by_time = in_order(log, at_us)
        order, log, at_us = order[by_time], log[by_time], at_us[by_time]
    if ((log[1:] == log[:-1]) & (at_us[1:] == at_us[:-1])).any():
        # Of samples of one moment the greatest is the newest, whichever build wrote it down first.
        by_value = in_order(log, at_us, *[key[order] for key in _among_equal(ends)])
        order, log, at_us = order[by_value], log[by_value], at_us[by_value]
    start = np.append(np.searchsorted(log, every), len(log))
    newest = pa.array(np.append(order, -1)[start[1:] - 1], mask=np.diff(start) == 0)
    columns = {name: ends[name].take(newest) for name in ("begin", "end", "last_stable")}
    columns["sampled_at"] = ends["at"].take(newest)

    row, at, end = np.repeat(np.arange(len(every)), np.diff(start)), at_us // 1000, longs(ends["end"])[order]
    if not ascending(row, at, end):
        by_end = in_order(row, at, end)
        row, at, end = row[by_end], at[by_end], end[by_end]
    distinct = starts_of(row, at, end)[:-1]
    if len(distinct) < len(row):
        row, at, end = row[distinct], at[distinct], end[distinct]
    counts = np.bincount(row, minlength=len(every))
    behind = np.cumsum(counts)
    several = counts > 1
    earlier = np.zeros(len(every), dtype=np.int64)
    earlier[several] = at[behind[several] - 2]
    if counts.max(initial=0) > SAMPLES_MAX:
        chosen = behind[row] - np.arange(len(row)) <= SAMPLES_MAX
        row, at, end = row[chosen], at[chosen], end[chosen]
    last = starts_of(row, at)[1:] - 1
    counts = np.bincount(row[last], minlength=len(every))
    lists = {"sample_at": listed(counts, pa.array(at[last])), "sample_end": listed(counts, pa.array(end[last]))}
    return {**columns, **lists, "earlier_ms": pa.array(earlier, mask=~several)}

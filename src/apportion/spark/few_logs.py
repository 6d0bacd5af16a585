"""Log ends of some topics, and what they make of commits: ``gold/lag`` and ``gold/verdicts`` without Spark's jobs.

See ``few_groups``. The rules are those of ``lag`` and ``verdicts``, on rows that are found here.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from apportion.history.ends_then import EndSamples
from apportion.history.lag_time import SAMPLES_MAX, WINDOW_S
from apportion.history.verdicts import WINDOW
from apportion.spark import lag, schemas, verdicts
from apportion.spark.batches import map_columns
from apportion.spark.commits import KEY
from apportion.spark.in_process import mapped
from apportion.spark.schemas import arrow_schema
from apportion.spark.sorted_rows import distinct, in_order, index_of, millis, one, runs, spans, timestamps, with_columns

_PLACE: Final = ("topic", "partition")
_PLACES: Final = pa.schema([("topic", pa.string()), ("partition", pa.int32())])
_RACKS: Final = arrow_schema(schemas.TOPICS).field("racks").type


class Logs:
    """Every known partition of some topics, with the newest sample of its log: ``lag.ends_now`` on columns.

    rows
        (topic, partition, topic_id, racks, begin, end, last_stable, sampled_at, at_ms, ends), by topic and partition.
    """

    def __init__(self, ends: pa.Table, topics: pa.Table) -> None:
        """Take rows of ``silver/ends`` and ``silver/topics``."""
        self._ends = ends
        sampled, described = _sampled(ends), _described(topics)
        places = in_order(
            distinct(pa.concat_tables([table.select(_PLACE).cast(_PLACES) for table in (sampled, described)]), *_PLACE),
            *_PLACE,
        )
        rows = places
        for table in (described, sampled):
            row_of = index_of(places, table, _PLACE)
            for name in table.column_names[2:]:
                rows = rows.append_column(name, one(table[name]).take(row_of))
        self.rows = rows.combine_chunks()

    def entries(self) -> pa.Array:
        """A struct for each topic, as in ``gold/group_state``: see ``lag.topic_rows``."""
        bounds = runs(self.rows, "topic")
        ids = in_order(self.rows.select(["topic", "topic_id"]), "topic", "topic_id")
        partitions = pa.StructArray.from_arrays(
            [one(self.rows[name]) for name in schemas.PARTITION.names], names=list(schemas.PARTITION.names)
        )
        columns = {
            "topic": one(self.rows["topic"]).take(pa.array(bounds[:-1])),
            "topic_id": one(ids["topic_id"]).take(pa.array(bounds[1:] - 1)),
            "partitions": pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), partitions),
        }
        return pa.StructArray.from_arrays([columns[name] for name in schemas.TOPIC.names], names=schemas.TOPIC.names)

    def sampled(self) -> pa.Table:
        """(topic, partition) whose log was sampled."""
        return self.rows.filter(self.rows["sampled_at"].is_valid()).select(_PLACE)

    def earlier_ms(self) -> dict[str, int]:
        """Topic to the newest moment at which a log of it was sampled that was sampled again since."""
        moments = one(self.rows["at_ms"])
        many = pc.greater(pc.fill_null(pc.list_value_length(moments), 0), 1)
        some = self.rows.filter(many).combine_chunks()
        last = np.cumsum(pc.list_value_length(some["at_ms"]).to_numpy()) - 1
        before = one(some["at_ms"]).flatten().take(pa.array(last.astype(np.int64) - 1))
        newest = pa.table({"topic": some["topic"], "ms": before}).group_by("topic").aggregate([("ms", "max")])
        pairs = zip(newest["topic"].to_pylist(), newest["ms_max"].to_pylist(), strict=True)
        return {topic: ms for topic, ms in pairs if ms is not None}

    def samples_of(self, topics: set[str]) -> EndSamples:
        """Every sample with a time of some topics."""
        ends = self._ends.filter(pc.is_in(self._ends["topic"], pa.array(sorted(topics), pa.string())))
        ends = ends.filter(ends["at"].is_valid())
        ends = in_order(with_columns(ends, at_ms=millis(ends["at"])), *_PLACE, "at", "begin", "end")
        columns = (ends[name].to_pylist() for name in (*_PLACE, "at_ms", "begin", "end"))
        return EndSamples.ordered(
            (topic, p, (at, begin, end)) for topic, p, at, begin, end in zip(*columns, strict=True)
        )


def _sampled(ends: pa.Table) -> pa.Table:
    """The newest sample of each log, and the last ones in lists."""
    by_time = in_order(ends, *_PLACE, "at")
    newest = by_time.take(pa.array(runs(by_time, *_PLACE)[1:] - 1)).combine_chunks()
    known = newest["at"].is_valid()
    samples = pa.table({"topic": ends["topic"], "partition": ends["partition"], "at_ms": millis(ends["at"]),
                        "end": ends["end"]})  # fmt: skip
    samples = in_order(distinct(samples, *samples.column_names), *_PLACE, "at_ms", "end")
    bounds = runs(samples, *_PLACE)
    first = np.maximum(bounds[:-1], bounds[1:] - SAMPLES_MAX)
    return pa.table({
        **{name: newest[name] for name in _PLACE},
        **{name: pc.if_else(known, newest[name], None) for name in ("begin", "end", "last_stable")},
        "sampled_at": newest["at"],
        "at_ms": spans(one(samples["at_ms"]), first, bounds[1:]),
        "ends": spans(one(samples["end"]), first, bounds[1:]),
    })  # fmt: skip


def _described(topics: pa.Table) -> pa.Table:
    """(topic, partition, topic_id, racks), one row each."""
    ids = in_order(topics, *_PLACE, "topic_id")
    bounds = runs(ids, *_PLACE)
    there = in_order(with_columns(topics, missing=topics["racks"].is_null().cast(pa.int8())), *_PLACE, "missing")
    last = ids.take(pa.array(bounds[1:] - 1))
    return pa.table({
        **{name: last[name] for name in _PLACE}, "topic_id": last["topic_id"],
        "racks": there["racks"].take(pa.array(bounds[:-1])).cast(_RACKS),
    })  # fmt: skip


def gold_lag(
    standing: pa.Table, wants: pa.Table, wanting: pa.Array, logs: Logs, commits: pa.Table, now_ms: int
) -> tuple[pa.Table, pa.Table]:
    """``gold/lag``: see ``lag.lag``; and beside each row the samples of its log, ``at_ms`` and ``ends``.

    wants, wanting
        As ``few_groups.wanted`` gives them.
    commits
        ``silver/commits`` of these groups.
    now_ms
        The newest sample of any log of all groups.
    """
    committed = standing.select(list(KEY))
    every = wants.join(logs.sampled(), keys="topic", join_type="inner").select(list(KEY))
    never = every.join(committed, keys=list(KEY), join_type="left anti").select(list(KEY))
    keys = pa.concat_tables([committed, never.cast(committed.schema)]).combine_chunks()
    commit = standing.take(pa.array(np.arange(keys.num_rows), mask=np.arange(keys.num_rows) >= committed.num_rows))
    beside = logs.rows.take(index_of(keys, logs.rows, _PLACE))
    recent = _recent(commits, now_ms)
    lists = recent.take(index_of(keys, recent, KEY))
    known = pc.is_in(keys["group"], wanting)
    there = index_of(keys, wants, ("group", "topic")).is_valid()
    rows = pa.table({
        **{name: keys[name] for name in KEY},
        "committed": commit["committed"], "begin": beside["begin"], "end": beside["end"],
        "last_stable": beside["last_stable"], "commit_time": commit["commit_time"], "sampled_at": beside["sampled_at"],
        "at_ms": beside["at_ms"], "ends": beside["ends"],
        "now_ms": pa.array(np.full(keys.num_rows, now_ms, dtype=np.int64)),
        "commit_at": lists["commit_at"], "commit_offset": lists["commit_offset"],
        "same_topic": pc.fill_null(pc.equal(commit["topic_id"], beside["topic_id"]), True),
        "wanted": pc.or_(pc.invert(known), there),
    })  # fmt: skip
    answer: Any = map_columns(mapped(rows), lag._judged, schemas.LAG.schema)
    return answer, rows.select(["at_ms", "ends"])


def _recent(commits: pa.Table, now_ms: int) -> pa.Table:
    """(group, topic, partition, commit_at, commit_offset): see ``lag.recent_commits``."""
    timed = pc.and_(commits["commit_time"].is_valid(), commits["committed"].is_valid())
    kept = commits.filter(pc.and_(pc.invert(commits["tombstone"]), timed))
    rows = with_columns(kept.select([*KEY, "committed"]), at_ms=millis(kept["commit_time"]))
    rows = in_order(distinct(rows, *KEY, "at_ms", "committed"), *KEY, "at_ms", "committed")
    bounds = runs(rows, *KEY)
    before = rows["at_ms"].to_numpy() < now_ms - round(WINDOW_S * 1000)
    outside = np.concatenate(([0], np.cumsum(before)))
    skipped = np.maximum(outside[bounds[1:]] - outside[bounds[:-1]] - 1, 0)
    first, last = bounds[:-1] + skipped, bounds[1:]
    return with_columns(
        rows.select(list(KEY)).take(pa.array(bounds[:-1])),
        commit_at=spans(one(rows["at_ms"]), first, last),
        commit_offset=spans(one(rows["committed"]), first, last),
    )


def gold_verdicts(commits: pa.Table, lag_rows: pa.Table, samples: pa.Table, allowed_lag: int) -> pa.Table:
    """``gold/verdicts``: see ``verdicts.verdicts``.

    samples
        As ``gold_lag`` gives them.
    """
    windows = _windows(commits)
    asked = pc.and_(lag_rows["committed"].is_valid(), lag_rows["sampled_at"].is_valid())
    beside = {name: samples[name] for name in ("at_ms", "ends")}
    known = with_columns(lag_rows.select([*KEY, "lag", "sampled_at", "seconds"]), **beside).filter(asked)
    places = index_of(known, windows, KEY)
    known, windows = known.filter(places.is_valid()).combine_chunks(), windows.take(places.drop_null())
    rows = pa.table({
        **{name: known[name] for name in (*KEY, "lag", "seconds", "at_ms", "ends")},
        "now_ms": millis(known["sampled_at"]), **{name: windows[name] for name in windows.column_names[3:]},
    })  # fmt: skip
    judged = partial(verdicts._judged, allowed_lag=allowed_lag)
    answer: Any = map_columns(mapped(rows), judged, schemas.VERDICTS.schema)
    return answer


def _windows(commits: pa.Table) -> pa.Table:
    """(group, topic, partition, commit_at, commit_offset, window, first_commit, last_commit) of each partition."""
    rows = in_order(commits, *KEY, "source_offset")
    bounds = runs(rows, *KEY)
    deleted = np.flatnonzero(one(rows["tombstone"]).to_numpy(zero_copy_only=False))
    latest = np.concatenate(([-1], deleted))[np.searchsorted(deleted, bounds[1:])]
    first = np.maximum(np.maximum(bounds[:-1], latest + 1), bounds[1:] - WINDOW)
    some = first < bounds[1:]
    first, last = first[some], bounds[1:][some]
    at_ms = millis(rows["commit_time"])
    return with_columns(
        rows.select(list(KEY)).take(pa.array(bounds[:-1][some])),
        commit_at=spans(at_ms, first, last),
        commit_offset=spans(one(rows["committed"]), first, last),
        window=pa.array(last - first, pa.int32()),
        first_commit=timestamps(at_ms.take(pa.array(first))),
        last_commit=timestamps(at_ms.take(pa.array(last - 1))),
    )

"""``gold/lag``, ``gold/verdicts`` and ``gold/group_state`` of many groups at once.

The rules are ``history``'s, on whole columns; what stands here is which rows they are asked about. Names are ranks, so
that a place of a group and a partition of a log find each other by numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise, starmap
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from apportion.arrays import UNKNOWN, Bools, Ints, Longs
from apportion.history import verdicts as rule
from apportion.history.lag_columns import STATUSES, Known, Lags, lags
from apportion.history.lag_time import IN_WORDS, LagTimes, Samples, lag_times
from apportion.history.verdicts import WORST
from apportion.model.lag import WINDOW_S
from apportion.pipeline.columns import (
    ascending,
    in_order,
    listed,
    longs,
    member_topics,
    millis,
    numbered,
    ranked,
    samples,
    spans,
    starts_of,
    united,
    unnumbered,
    valid,
)
from apportion.tables import schemas

SAMPLES_AT_ONCE: Final = 4_000_000
"""Samples of log ends and commits that are laid beside rows at one time; a row may have more."""


def lag_tables(tables: Mapping[str, pa.Table], now_ms: int, allowed_lag: int) -> dict[str, pa.Table]:
    """``lag``, ``verdicts`` and ``group_state``, in the order of these tables.

    tables
        ``places``, ``present`` and ``named`` of some groups, and ``logs`` as ``end_samples.described`` gives them.
    now_ms
        When any log end was sampled last; 0 where none was.
    allowed_lag
        Messages that count as none.
    """
    lag_rows = LagRows.of(tables)
    pieces = [lag_rows.judged(rows, now_ms, allowed_lag) for rows in lag_rows.pieces()]
    whole = {name: pa.concat_tables([piece[name] for piece in pieces]) for name in ("lag", "verdicts")}
    return {**whole, "group_state": lag_rows.group_state()}


@dataclass(frozen=True, eq=False)
class LagRows:
    """The rows of ``gold/lag`` of a task, and the columns next to each.

    places, logs, present
        The tables; logs are those of the topics that a group here names, by topic and partition.
    groups, topics
        All names, by their bytes: a rank is a place here.
    group, topic, partition
        (N,) of each row; they are sorted by these.
    in_places, in_logs
        (N,) its row in ``places`` and ``logs``; -1 none.
    stands
        (N,) whether a commit stands there.
    wanted
        (N,) False where the group has living members and none of them names the topic.
    named
        Groups and topics in pairs: what a group wants, ever wanted, or has commits on.
    of_present, of_place
        The group of each row of ``present`` and ``places``.
    log_start
        (topics + 1,) where the rows of each topic begin in ``logs``.
    """

    places: pa.Table
    logs: pa.Table
    present: pa.Table
    groups: pa.Array
    topics: pa.Array
    group: Ints
    topic: Ints
    partition: Longs
    in_places: Ints
    in_logs: Ints
    stands: Bools
    wanted: Bools
    named: tuple[Longs, Longs]
    of_present: Longs
    of_place: Longs
    log_start: Ints

    @classmethod
    def of(cls, tables: Mapping[str, pa.Table]) -> LagRows:
        """From the tables of a task."""
        places, present, named = tables["places"], tables["present"], tables["named"]
        logs = tables["logs"]
        row, wants = member_topics(present["members"])
        (g_place, g_present, g_named), groups = ranked(places["group"], present["group"], named["group"])
        (t_place, t_log, t_wants, t_named), topics = ranked(
            places["topic"], logs["topic"], wants, named["topic"]
        )  # fmt: skip
        if not ascending(t_log, longs(logs["partition"])):
            order = in_order(t_log, longs(logs["partition"]))
            logs, t_log = logs.take(pa.array(order)), t_log[order]
        logs = logs.combine_chunks()
        log_start, width = np.searchsorted(t_log, np.arange(len(topics) + 1)), max(1, len(topics))

        # Pairs of group and topic as one number, whose order is that of the names.
        living = _living(present, g_present, len(groups))
        g_wants = g_present[np.asarray(row)]
        wants_pairs = united((g_wants * width + t_wants)[living[g_wants] & (t_wants >= 0)])
        place_pairs = g_place * width + t_place
        pairs = united(place_pairs, wants_pairs)

        # The partitions that commits stand on, and of wanted topics those whose log was sampled.
        place_key = numbered(np.searchsorted(pairs, place_pairs), longs(places["partition"]))
        standing = np.asarray(places["standing"])
        counts = np.diff(np.append(log_start, log_start[-1]))[wants_pairs % width]
        of_logs = spans(log_start[wants_pairs % width], counts)
        never = numbered(np.repeat(np.searchsorted(pairs, wants_pairs), counts), longs(logs["partition"])[of_logs])
        key = united(place_key[standing], never[valid(logs["sampled_at"])[of_logs]])

        of_pair, partition = unnumbered(key)
        pair = pairs[of_pair]
        group, topic = pair // width, pair % width
        in_places = _found(place_key, key)
        in_logs = _found(numbered(t_log, longs(logs["partition"])), numbered(topic, partition))
        stands = (in_places >= 0) & np.append(standing, False)[in_places]
        wanted = ~living[group] | np.isin(pair, wants_pairs)
        return cls(
            places, logs, present, groups, topics, group, topic, partition, in_places, in_logs, stands, wanted,
            (g_named, t_named), g_present, g_place, log_start,
        )  # fmt: skip

    def pieces(self) -> Iterator[slice]:
        """Runs of rows with so many samples together as memory should hold at one time."""
        counts = np.zeros(len(self.in_logs), dtype=np.int64)
        for table, rows, name in ((self.logs, self.in_logs, "sample_at"), (self.places, self.in_places, "recent_at")):
            lengths = np.asarray(pc.list_value_length(table[name].combine_chunks()), dtype=np.int64)
            counts += np.append(lengths, 0)[rows]
        piece = np.cumsum(counts) // SAMPLES_AT_ONCE
        yield from starmap(slice, pairwise(starts_of(piece).tolist() if len(piece) else [0, 0]))

    def judged(self, rows: slice, now_ms: int, allowed_lag: int) -> dict[str, pa.Table]:
        """``lag`` and ``verdicts`` of some rows."""
        in_places, in_logs, stands = self.in_places[rows], self.in_logs[rows], self.stands[rows]
        commit, log = _taker(self.places, np.where(stands, in_places, -1)), _taker(self.logs, in_logs)
        key = {
            "group": self.groups.take(pa.array(self.group[rows])),
            "topic": self.topics.take(pa.array(self.topic[rows])),
            "partition": pa.array(self.partition[rows], pa.int32()),
        }  # fmt: skip
        committed, begin, end, last_stable = (
            Known(longs(column), valid(column))
            for column in (commit("committed"), log("begin"), log("end"), log("last_stable"))
        )
        same = np.asarray(pc.equal(commit("topic_id"), log("topic_id")).fill_null(True))
        behind = lags(committed, begin, end, last_stable, same, self.wanted[rows])
        ends = _samples(self.logs, "sample_at", "sample_end").of_columns(in_logs)
        recent = _samples(self.places, "recent_at", "recent_offset").of_columns(in_places)
        begun, lag = (np.where(number.is_known, number.value, UNKNOWN) for number in (behind.begin, behind.owed))
        unread = np.where(committed.is_known, np.maximum(committed.value, begun), UNKNOWN)
        since_ms = now_ms - WINDOW_S * 1000
        times = lag_times(ends, recent, unread, lag, float(now_ms), since_ms)
        columns = {**key, "committed": commit("committed"), "commit_time": commit("commit_time")}
        columns |= {"sampled_at": log("sampled_at"), **lag_columns(behind), **time_columns(times)}
        lag_table = _table(schemas.LAG, columns)
        judged = np.flatnonzero(stands & valid(log("sampled_at")))
        at_samples = ends.of_columns(judged), recent.of_columns(judged), since_ms
        owed = behind.owed.value[judged], behind.owed.is_known[judged]
        table = self._verdicts(judged, in_places[judged], at_samples, Known(*owed), lag_table, allowed_lag)
        return {"lag": lag_table, "verdicts": table}

    def _verdicts(
        self, rows: Ints, in_places: Ints, samples: tuple[Samples, Samples, float], owed: Known, lag: pa.Table,
        allowed_lag: int,
    ) -> pa.Table:  # fmt: skip
        """Those of some rows of a piece that have a standing commit and a log end.

        in_places
            Their rows in ``places``.
        samples
            Of these rows: log ends, the commits of the window of rates, and where (ms) that begins.
        owed
            Messages that the group still has to read.
        """
        window = _samples(self.places, "window_at", "window_offset", in_places)
        owing = lag.select(["group", "topic", "partition", "lag", "sampled_at", "seconds", "seconds_least"])
        owing = owing.take(pa.array(rows))
        now = millis(owing["sampled_at"]).astype(np.float64)
        # By the lower bound: nobody is called stopped for a time in which there may have been nothing to read.
        seconds, least = (np.asarray(owing[name].to_numpy(), dtype=np.float64) for name in ("seconds", "seconds_least"))
        since = np.where(np.isnan(seconds), np.nan, now - np.floor(least * 1000))
        ends, recent, since_ms = samples
        lags_left, sampled = rule.lags_left(window, ends), (rule.lags_at(ends, recent, since_ms), ends.start)
        words = rule.verdicts(window, lags_left, owed, now, since, sampled, allowed_lag)
        moments = self.places["window_at"].combine_chunks()
        taken = pc.list_flatten(moments.take(pa.array(in_places)))
        micros = pc.multiply(taken, 1000).cast(pa.timestamp("us", tz="UTC"))
        columns = {name: owing[name] for name in ("group", "topic", "partition", "lag")} | {
            "verdict": pa.array(WORST, pa.string()).take(pa.array(words)),
            "window": pa.array(np.diff(window.start), pa.int32()),
            "first_commit": micros.take(pa.array(window.start[:-1])),
            "last_commit": micros.take(pa.array(window.start[1:] - 1)),
        }
        return _table(schemas.VERDICTS, columns)

    def group_state(self) -> pa.Table:
        """``gold/group_state`` of all groups that are there."""
        columns = {name: self.present[name] for name in self.present.column_names}
        return _table(schemas.GROUP_STATE, columns | {"topics": self._topics(), "commits": self._commits()})

    def _topics(self) -> pa.Array:
        """For each group that is there the topics that it names and that are known, by name."""
        width, size = len(self.topics), np.diff(self.log_start)
        group, topic = self.named
        known = (topic >= 0) & (np.append(size, 0)[topic] > 0)
        pairs = united((group * width + topic)[known])
        group, topic = (pairs // width, pairs % width) if width else (pairs, pairs)
        there_is = np.isin(group, self.of_present)
        group, topic = group[there_is], topic[there_is]
        rows = spans(self.log_start[:-1][topic], size[topic])
        fields = schemas.arrow_schema(schemas.GROUP_STATE).field("topics").type.value_type
        inside = fields.field("partitions").type.value_type
        columns = [self.logs[column.name].combine_chunks().take(pa.array(rows)).cast(column.type) for column in inside]
        partitions = listed(size[topic], pa.StructArray.from_arrays(columns, fields=list(inside)))
        ids = self._topic_ids().take(pa.array(topic))
        whole = {"topic": self.topics.take(pa.array(topic)), "topic_id": ids, "partitions": partitions}
        structs = pa.StructArray.from_arrays(
            [whole[column.name].cast(column.type) for column in fields], fields=list(fields)
        )  # fmt: skip
        return listed(self._per_present(group), structs)

    def _topic_ids(self) -> pa.Array:
        """The greatest id that a partition of each topic names; null if none does."""
        (rank,), ids = ranked(self.logs["topic_id"])
        best = np.full(len(self.topics), -1)
        sized = np.flatnonzero(np.diff(self.log_start) > 0)
        if len(sized):
            best[sized] = np.maximum.reduceat(rank, self.log_start[:-1][sized])
        return ids.take(pa.array(best, mask=best < 0))

    def _commits(self) -> pa.Array:
        """For each group that is there its standing commits."""
        standing = np.flatnonzero(np.asarray(self.places["standing"]))
        fields = schemas.arrow_schema(schemas.GROUP_STATE).field("commits").type.value_type
        columns = [
            self.places[field.name].combine_chunks().take(pa.array(standing)).cast(field.type) for field in fields
        ]
        structs = pa.StructArray.from_arrays(columns, fields=list(fields))
        return listed(self._per_present(self.of_place[standing]), structs)

    def _per_present(self, group: Longs) -> Ints:
        """How many entries, which are sorted by group, each present group has."""
        counts: Ints = np.bincount(group, minlength=len(self.groups))[self.of_present]
        return counts


def lag_columns(behind: Lags) -> dict[str, pa.Array]:
    """The columns of ``gold/lag`` that follow from a commit and its log's ends."""
    columns = {
        "begin": behind.begin, "end": behind.end, "last_stable": behind.last_stable, "raw_lag": behind.raw,
        "lag": behind.lag, "stable_lag": behind.stable, "lost": behind.lost,
    }  # fmt: skip
    answers = {name: pa.array(number.value, mask=~number.is_known) for name, number in columns.items()}
    return {**answers, "status": pa.array(STATUSES, pa.string()).take(pa.array(behind.status))}


def time_columns(times: LagTimes) -> dict[str, pa.Array]:
    """Its columns of time."""
    columns = {
        "seconds": times.seconds, "seconds_least": times.at_least, "seconds_most": times.at_most,
        "written": times.written, "read": times.read, "trend": times.written - times.read,
        "catch_up_s": np.where(np.isinf(times.catch_up_s), np.nan, times.catch_up_s),
    }  # fmt: skip
    answers = {name: pa.array(values, from_pandas=True) for name, values in columns.items()}
    return {**answers, "in_words": pa.array(IN_WORDS, pa.string()).take(pa.array(times.states()))}


def _taker(table: pa.Table, rows: Ints) -> Any:
    """Columns of a table at some rows; -1 is null."""
    indices = pa.array(rows, mask=rows < 0)
    return lambda name: table[name].combine_chunks().take(indices)


def _samples(table: pa.Table, at: str, offset: str, rows: Ints | None = None) -> Samples:
    """Two columns of lists as samples; of some rows, in their order."""
    lists = [table[name].combine_chunks() for name in (at, offset)]
    if rows is not None:
        lists = [column.take(pa.array(rows)) for column in lists]
    return samples(*lists)


def _living(present: pa.Table, group: Longs, count: int) -> Bools:
    """Groups whose members name their topics."""
    members = np.asarray(pc.list_value_length(present["members"].combine_chunks()))
    living = np.zeros(count, dtype=np.bool_)
    living[group] = np.asarray(present["readable"]) & (members > 0)
    return living


def _found(sorted_keys: Longs, keys: Longs) -> Ints:
    """(N,) the place of each key among the sorted ones; -1 for none."""
    if not len(sorted_keys):
        return np.full(len(keys), -1)
    at = np.minimum(np.searchsorted(sorted_keys, keys), len(sorted_keys) - 1)
    return np.where(sorted_keys[at] == keys, at, -1)


def _table(table: schemas.Table, columns: dict[str, Any]) -> pa.Table:
    schema = schemas.arrow_schema(table)
    return pa.Table.from_arrays([columns[field.name].cast(field.type) for field in schema], schema=schema)

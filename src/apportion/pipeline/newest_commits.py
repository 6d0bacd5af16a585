"""Commits of many groups at once, by place: the newest at each, and the commits that show how it is read.

A place is a partition that a group ever committed on. Names become their ranks once, so that one sort of numbers puts
all commits in order, and each question below is a pass or two over whole columns.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from apportion.arrays import Bools, Ints, Longs
from apportion.history.verdicts import WINDOW
from apportion.pipeline.columns import (
    in_order,
    listed,
    longs,
    millis,
    millis_or_null,
    numbered,
    piece_of,
    ranked,
    spans,
    starts_of,
    united,
    valid,
)
from apportion.tables.schemas import COMMITS, NEWEST, arrow_schema

KEY: Final = ("group", "topic", "partition")
COMMIT: Final = (
    "committed", "leader_epoch", "metadata", "commit_time", "topic_id", "source_partition", "source_offset",
)  # fmt: skip
COLUMNS: Final = (*KEY, *COMMIT, "tombstone")
"""Columns of ``silver/commits`` that are looked at."""
_NEWEST: Final = [*KEY, *COMMIT, "standing"]
_LIST: Final = pa.list_(pa.int64())
SCHEMA: Final = pa.schema(
    [
        *arrow_schema(COMMITS, (*KEY, *COMMIT)),
        pa.field("standing", pa.bool_()),
        *[pa.field(name, _LIST) for name in ("window_at", "window_offset", "recent_at", "recent_offset")],
    ]
)
"""Of ``places``; times in lists are milliseconds."""


def sorted_commits(commits: pa.Table) -> pa.Table:
    """By group, topic, partition and offset."""
    (group,), _ = ranked(commits["group"])
    (topic,), topics = ranked(commits["topic"])
    pairs = group * (len(topics) + 1) + topic + 1
    at_place = numbered(np.searchsorted(united(pairs), pairs), longs(commits["partition"]))
    keys = (at_place, longs(commits["source_offset"]))
    order = in_order(*keys)
    if len(starts_of(*[key[order] for key in keys])) <= len(order):
        # A broker writes a group to one partition of its topic. Where a hostile log has it in several, offsets meet.
        at = np.where(valid(commits["commit_time"]), millis(commits["commit_time"]), -(2**63))
        order = np.lexsort((longs(commits["source_partition"]), longs(commits["committed"]), at, *keys[::-1]))
    return commits.take(pa.array(order)).combine_chunks()


def places(commits: pa.Table, since_ms: int, before: pa.Table | None = None) -> pa.Table:
    """A row a place, by group, topic and partition.

    commits
        New ones, as ``sorted_commits`` gives them; all there are where nothing stood before.
    since_ms
        Where the window begins in which is looked how fast a group reads. It never goes back.
    before
        What this gave of all commits before those.
    Returns
        The columns of its newest commit; ``standing``, whether that is no deletion; ``window_at`` and
        ``window_offset``, the last ten commits since the last deletion; ``recent_at`` and ``recent_offset``, those in
        the window and the last one before it, of one moment the furthest.
    """
    before = SCHEMA.empty_table() if before is None else before
    new, old, count = _numbers(commits, before)
    of_commits = {**{name: commits[name] for name in (*KEY, *COMMIT)}, "standing": pc.invert(commits["tombstone"])}
    whole = pa.concat_tables([before.select(_NEWEST), pa.table(of_commits)]).combine_chunks()
    row = np.full(count, -1)
    row[old] = np.arange(len(old))
    row[new] = len(old) + np.arange(len(new))  # sorted: of one place the newest stays
    newest = whole.take(pa.array(row))

    lists, places_of = _flat(before, "window_at", "window_offset")
    gone = np.flatnonzero(~np.asarray(before["standing"]))
    at = pa.concat_arrays([lists[0], pa.nulls(len(gone), pa.int64()), millis_or_null(commits["commit_time"])])
    offset = np.concatenate((longs(lists[1]), np.zeros(len(gone), np.int64), longs(commits["committed"])))
    deleted = np.repeat([False, True], [len(places_of), len(gone)])
    deleted = np.concatenate((deleted, np.asarray(commits["tombstone"])))
    columns = _windows(np.concatenate((old[places_of], old[gone], new)), at, offset, deleted, count)

    lists, places_of = _flat(before, "recent_at", "recent_offset")
    counts = ~np.asarray(commits["tombstone"]) & valid(commits["commit_time"]) & valid(commits["committed"])
    rows = np.concatenate((old[places_of], new[counts]))
    at_ms = np.concatenate((longs(lists[0]), millis(commits["commit_time"])[counts]))
    offset = np.concatenate((longs(lists[1]), longs(commits["committed"])[counts]))
    columns |= _recent(rows, at_ms, offset, since_ms, count)
    return pa.table({name: newest[name] for name in _NEWEST} | columns).cast(SCHEMA)


def are_astray(commits: pa.Table, before: pa.Table) -> bool:
    """Whether a new commit does not come after the one at its place, as in a log that has a group in two partitions.

    commits, before
        As ``places`` takes them.
    """
    new, old, count = _numbers(commits, before)
    last = np.full((2, count), -1)
    last[:, old] = [longs(before[name]) for name in ("source_partition", "source_offset")]
    stood = last[0][new] >= 0
    strange = (longs(commits["source_partition"]) != last[0][new]) | (longs(commits["source_offset"]) <= last[1][new])
    return bool((stood & strange).any())


def _numbers(commits: pa.Table, before: pa.Table) -> tuple[Ints, Ints, int]:
    """The number of each commit's place, and of each row's of ``before``; how many places there are."""
    (g_new, g_old), _ = ranked(commits["group"], before["group"])
    (t_new, t_old), topics = ranked(commits["topic"], before["topic"])
    width = len(topics) + 1
    pairs = united(g_new * width + t_new, g_old * width + t_old)
    keys = [
        numbered(np.searchsorted(pairs, group * width + topic), longs(rows["partition"]))
        for group, topic, rows in ((g_new, t_new, commits), (g_old, t_old, before))
    ]
    every = united(*keys)
    return np.searchsorted(every, keys[0]), np.searchsorted(every, keys[1]), len(every)


def _flat(before: pa.Table, *names: str) -> tuple[list[pa.Array], Ints]:
    """The values of two columns of lists, and the row of each."""
    lists = [piece_of(before[name]) for name in names]
    return [column.flatten() for column in lists], longs(pc.list_parent_indices(lists[0]))


def _windows(row: Ints, at: pa.Array, offset: Longs, deleted: Bools, count: int) -> dict[str, pa.Array]:
    order = np.argsort(row, kind="stable")
    row, deleted = row[order], deleted[order]
    behind_deletion = np.maximum.accumulate(np.where(deleted, np.arange(1, len(deleted) + 1), 0))
    bounds = np.searchsorted(row, np.arange(count + 1))
    begin, behind = bounds[:-1], bounds[1:]
    first = np.maximum.reduce([behind_deletion[behind - 1], begin, behind - WINDOW])
    rows = order[spans(first, behind - first)]
    return {
        "window_at": listed(behind - first, at.take(pa.array(rows))),
        "window_offset": listed(behind - first, pa.array(offset[rows])),
    }


def _recent(row: Ints, at: Longs, offset: Longs, since_ms: int, count: int) -> dict[str, pa.Array]:
    order = in_order(row, at, offset)
    row, at, offset = row[order], at[order], offset[order]
    last = np.ones(len(row), dtype=np.bool_)
    last[:-1] = (row[1:] != row[:-1]) | (at[1:] != at[:-1])
    row, at, offset = row[last], at[last], offset[last]
    inside = at >= since_ms
    before = np.ones(len(row), dtype=np.bool_)
    before[:-1] = (row[1:] != row[:-1]) | inside[1:]
    chosen = inside | before
    counts = np.bincount(row[chosen], minlength=count)
    return {
        "recent_at": listed(counts, pa.array(at[chosen])),
        "recent_offset": listed(counts, pa.array(offset[chosen])),
    }


def newest(of_places: pa.Table) -> pa.Table:
    """``gold/commits``."""
    return of_places.select(arrow_schema(NEWEST).names).filter(of_places["standing"])


def cadence(commits: pa.Table, marks: pa.Table) -> pa.Table:
    """Commits counted between two records of their group: (group, after, topic, partition, n, first, last).

    commits
        As ``sorted_commits`` gives them.
    marks
        (group, source_offset) of the groups' own records, sorted.

    Those before a group's first record say nothing of a member. Those after its last one belong to no change; they are
    most of a compacted log, and are left out.
    """
    counted = ~np.asarray(commits["tombstone"]) & valid(commits["commit_time"])
    (of_commit, of_mark), _ = ranked(commits["group"], marks["group"])
    offset, mark = longs(commits["source_offset"]), longs(marks["source_offset"])
    # Marks and commits in one line: by group, offset, and a mark before what stands at its own offset.
    line = np.lexsort((
        np.concatenate((np.zeros(len(mark)), np.ones(len(offset)))),
        np.concatenate((mark, offset)), np.concatenate((of_mark, of_commit)),
    ))  # fmt: skip
    is_mark = line < len(mark)
    passed = np.empty(len(line), dtype=np.int64)
    passed[line] = np.cumsum(is_mark)
    passed = passed[len(mark) :]
    group = np.concatenate((of_mark, [-1]))
    inside = (passed > 0) & (group[passed - 1] == of_commit) & (group[np.minimum(passed, len(mark))] == of_commit)
    rows = np.flatnonzero(counted & inside)
    after = mark[passed[rows] - 1]
    (topic,), _ = ranked(commits["topic"])
    keys = (of_commit[rows], after, topic[rows], longs(commits["partition"])[rows])
    order = np.lexsort(keys[::-1])
    rows, keys = rows[order], tuple(key[order] for key in keys)  # type: ignore[assignment]
    start = starts_of(*keys)
    at = millis(commits["commit_time"])[rows]
    places: Any = commits.select(["group", "topic", "partition"]).take(pa.array(rows[start[:-1]]))
    return (
        places.append_column("after", pa.array(keys[1][start[:-1]]))
        .append_column("n", pa.array(np.diff(start)))
        .append_column("first", pa.array(_reduced(np.minimum, at, start)))
        .append_column("last", pa.array(_reduced(np.maximum, at, start)))
    )


def _reduced(by: np.ufunc, values: Longs, start: Ints) -> Longs:
    return by.reduceat(values, start[:-1]) if len(values) else values

"""Commits of many groups at once, sorted into places: what stands at each, and the commits that tell how it is read.

A place is a partition that a group ever committed on. Names become their ranks once, so that one sort of numbers puts
all commits in order, and each question below is a pass or two over whole columns.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from apportion.arrays import Ints, Longs
from apportion.history.verdicts import WINDOW
from apportion.spark import schemas
from apportion.spark.sorted_rows import listed, longs, millis, millis_or_null, numbered, ranked, spans, starts_of, there

KEY: Final = ("group", "topic", "partition")
COMMIT: Final = (
    "committed", "leader_epoch", "metadata", "commit_time", "topic_id", "source_partition", "source_offset",
)  # fmt: skip
ASKED: Final = (*KEY, *COMMIT, "tombstone")
"""Columns of ``silver/commits`` that are looked at."""


def sorted_commits(commits: pa.Table) -> pa.Table:
    """By group, topic, partition and offset."""
    (group,), groups = ranked(commits["group"])
    (topic,), topics = ranked(commits["topic"])
    keys = (longs(commits["source_offset"]), longs(commits["partition"]), topic, group)
    order = _by_place(*keys) if len(groups) * (len(topics) + 1) < 2**31 else np.lexsort(keys)
    if len(starts_of(*[key[order] for key in keys])) <= len(order):
        # A broker writes a group to one partition of its topic. Where a hostile log has it in several, offsets meet.
        at = np.where(there(commits["commit_time"]), millis(commits["commit_time"]), -(2**63))
        order = np.lexsort((longs(commits["source_partition"]), longs(commits["committed"]), at, *keys))
    return commits.take(pa.array(order)).combine_chunks()


def _by_place(offset: Longs, partition: Longs, topic: Longs, group: Longs) -> Ints:
    """``np.lexsort`` of these, where group and topic together are a number of 31 bits."""
    at_place = numbered(group * (int(topic.max(initial=0)) + 2) + topic, partition)
    # The tables' files have the records of a partition by offset: then one stable sort is enough.
    order = np.argsort(at_place, kind="stable")
    offset, at_place = offset[order], at_place[order]
    if ((at_place[1:] == at_place[:-1]) & (offset[1:] < offset[:-1])).any():
        order = order[np.lexsort((offset, at_place))]
    return order


def places(commits: pa.Table, since_ms: int) -> pa.Table:
    """A row a place, from commits as ``sorted_commits`` gives them.

    since_ms
        Where the window begins in which is looked how fast a group reads.
    Returns
        The columns of its newest commit; ``standing``, whether that is no deletion; ``window_at`` and
        ``window_offset``, the last ten commits since the last deletion; ``recent_at`` and ``recent_offset``, those in
        the window and the last one before it, of one moment the furthest.
    """
    (group,), _ = ranked(commits["group"])
    (topic,), _ = ranked(commits["topic"])
    start = starts_of(group, topic, longs(commits["partition"]))
    newest = commits.take(pa.array(start[1:] - 1))
    columns = {name: newest[name] for name in (*KEY, *COMMIT)}
    columns["standing"] = pc.invert(newest["tombstone"])
    columns |= _windows(commits, start) | _recent(commits, start, since_ms)
    return pa.table(columns)


def _windows(commits: pa.Table, start: Ints) -> dict[str, pa.Array]:
    deleted = np.asarray(commits["tombstone"])
    last = np.maximum.accumulate(np.where(deleted, np.arange(len(deleted)), -1)) if len(deleted) else deleted
    begin, behind = start[:-1], start[1:]
    after = np.maximum(last[behind - 1] + 1, begin) if len(begin) else begin
    first = np.maximum(after, behind - WINDOW)
    rows = spans(first, behind - first)
    at = millis_or_null(commits["commit_time"]).take(pa.array(rows))
    counts = behind - first
    return {
        "window_at": listed(counts, at),
        "window_offset": listed(counts, pa.array(longs(commits["committed"])[rows])),
    }


def _recent(commits: pa.Table, start: Ints, since_ms: int) -> dict[str, pa.Array]:
    place_of = np.repeat(np.arange(len(start) - 1), np.diff(start))
    kept = ~np.asarray(commits["tombstone"]) & there(commits["commit_time"]) & there(commits["committed"])
    place_of, at, offset = place_of[kept], millis(commits["commit_time"])[kept], longs(commits["committed"])[kept]
    again = place_of[1:] == place_of[:-1]
    if (again & ((at[1:] < at[:-1]) | ((at[1:] == at[:-1]) & (offset[1:] < offset[:-1])))).any():
        order = np.lexsort((offset, at, place_of))
        place_of, at, offset = place_of[order], at[order], offset[order]
    last = np.ones(len(place_of), dtype=np.bool_)
    last[:-1] = (place_of[1:] != place_of[:-1]) | (at[1:] != at[:-1])
    place_of, at, offset = place_of[last], at[last], offset[last]
    inside = at >= since_ms
    before = np.ones(len(place_of), dtype=np.bool_)
    before[:-1] = (place_of[1:] != place_of[:-1]) | inside[1:]
    chosen = inside | before
    counts = np.bincount(place_of[chosen], minlength=len(start) - 1)
    return {
        "recent_at": listed(counts, pa.array(at[chosen])),
        "recent_offset": listed(counts, pa.array(offset[chosen])),
    }


def newest(of_places: pa.Table) -> pa.Table:
    """``gold/commits``."""
    return of_places.select(schemas.NEWEST.schema.names).filter(of_places["standing"])


def cadence(commits: pa.Table, marks: pa.Table) -> pa.Table:
    """Commits counted between two records of their group: (group, after, topic, partition, n, first, last).

    commits
        As ``sorted_commits`` gives them.
    marks
        (group, source_offset) of the groups' own records, sorted.

    Those before a group's first record say nothing of a member. Those after its last one belong to no change; they are
    most of a compacted log, and are left out.
    """
    counted = ~np.asarray(commits["tombstone"]) & there(commits["commit_time"])
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
    known = np.concatenate((of_mark, [-1]))
    inside = (passed > 0) & (known[passed - 1] == of_commit) & (known[np.minimum(passed, len(mark))] == of_commit)
    rows = np.flatnonzero(counted & inside)
    after = mark[passed[rows] - 1]
    (topic,), _ = ranked(commits["topic"])
    keys = (of_commit[rows], after, topic[rows], longs(commits["partition"])[rows])
    order = np.lexsort(keys[::-1])
    rows, keys = rows[order], tuple(key[order] for key in keys)  # type: ignore[assignment]
    start = starts_of(*keys)
    at = millis(commits["commit_time"])[rows]
    some: Any = commits.select(["group", "topic", "partition"]).take(pa.array(rows[start[:-1]]))
    return (
        some.append_column("after", pa.array(keys[1][start[:-1]]))
        .append_column("n", pa.array(np.diff(start)))
        .append_column("first", pa.array(_reduced(np.minimum, at, start)))
        .append_column("last", pa.array(_reduced(np.maximum, at, start)))
    )


def _reduced(by: np.ufunc, values: Longs, start: Ints) -> Longs:
    return by.reduceat(values, start[:-1]) if len(values) else values

"""The lag of one group at the last rounds, of its members and of its partitions: the lines of the live page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from apportion.arrays import NOBODY, UNKNOWN, Floats, Longs
from apportion.serve.end_times import SAMPLES, EndTimes
from apportion.serve.snapshot import GroupState
from apportion.sighting.oddities import member_labels

MOST_LINES: Final = 40
"""Members, and partitions, that have a line: those with most to read."""


def lag_then(state: GroupState, ends: Mapping[str, EndTimes]) -> tuple[Floats, Longs]:
    """When (S,) in milliseconds, and (S, P) messages left to read then by the offsets alone; -1 unknown."""
    at, committed = state.commits.at[-SAMPLES:], state.commits.offsets[-SAMPLES:]
    lag = np.full(committed.shape, UNKNOWN, dtype=np.int64)
    group = state.group
    for t, topic in enumerate(group.topics):
        table, mine = ends.get(topic), group.partitions(t)
        columns = None if table is None else table.rows(group.number[mine])
        if table is None or columns is None or not len(table.times):
            continue
        rows = np.minimum(np.searchsorted(table.times, at), len(table.times) - 1)
        end = np.where((table.times[rows] == at)[:, None], table.ends[rows][:, columns], UNKNOWN)
        known = (end != UNKNOWN) & (committed[:, mine] != UNKNOWN)
        lag[:, mine] = np.where(known, np.maximum(end - committed[:, mine], 0), UNKNOWN)
    return at, lag


def whole_line(state: GroupState, ends: Mapping[str, EndTimes]) -> list[list[int]]:
    """Milliseconds and the messages behind then, over all partitions whose lag was known."""
    at, lag = lag_then(state, ends)
    known = lag != UNKNOWN
    seen = known.any(axis=1)
    total = np.where(known, lag, 0).sum(axis=1)
    return [list(pair) for pair in zip(at[seen].round().astype(np.int64).tolist(), total[seen].tolist(), strict=True)]


def lines(state: GroupState, ends: Mapping[str, EndTimes]) -> dict[str, Any]:
    """The page's data: moments, and a line a member and a partition, most lag first; nothing before a second round."""
    at, lag = lag_then(state, ends)
    if len(at) < 2 or not (lag != UNKNOWN).any():
        return {}
    group = state.group
    last = np.where(lag[-1] == UNKNOWN, 0, lag[-1])
    heavy = np.argsort(-last, kind="stable")[:MOST_LINES].tolist()
    partitions = [["{}-{}".format(*group.name_of(p)), _line(lag[:, p])] for p in heavy]
    held = np.bincount(group.owner[group.owner != NOBODY], weights=last[group.owner != NOBODY], minlength=group.M)
    labels = member_labels(group)
    members = []
    for m in np.argsort(-held, kind="stable")[:MOST_LINES].tolist():
        mine = lag[:, group.owner == m]
        known = mine != UNKNOWN
        sums = np.where(known, mine, 0).sum(axis=1)
        members.append([labels[m], _line(np.where(known.any(axis=1), sums, UNKNOWN))])
    return {"lines": {"at": at.round().astype(np.int64).tolist(), "members": members, "partitions": partitions}}


def _line(lag: Longs) -> list[int | None]:
    return [None if value == UNKNOWN else value for value in lag.tolist()]

"""A group's like partitions as rows and like members as columns: size hardly matters to what works on those."""

from __future__ import annotations

import numpy as np

from apportion.arrays import CELLS, NOBODY, Bools, Ints
from apportion.model.group import Group
from apportion.solvers.cycle_canceling import misses
from apportion.solvers.problem import Problem


def problem_of(group: Group, with_racks: bool) -> Problem:
    """The group's like partitions as rows and like members as columns."""
    row, open = _topic_rows(group)
    column, miss = group.subscription_of, None
    if with_racks:
        row, column, open, miss = _rack_cells(group, row, open)
    contested = None
    if len(group.claims.member):
        contested = np.zeros(group.P, dtype=np.bool_)
        contested[group.claims.partition] = True
    return Problem(row, column, open, miss, group.owner, contested, group.topic_of, group.number)


def _topic_rows(group: Group) -> tuple[Ints, Bools]:
    """(P,) rows of partitions whose topics the same members want, -1 nobody; (I, K) which subscriptions want them."""
    if len(group.subscriptions) == 1:
        row = np.zeros(group.P, dtype=np.int64)
        if not group.wanted_topic.all():
            row[~group.wanted] = -1
        return row, np.ones((1, 1), dtype=np.bool_)
    wants = group.wants.T
    packed = np.ascontiguousarray(np.packbits(wants, axis=1))
    _, first, kind = np.unique(
        packed.view(np.dtype((np.void, packed.shape[1]))).ravel(), return_index=True, return_inverse=True
    )
    open = wants[first]
    wanted = open.any(axis=1)
    number = np.cumsum(wanted) - 1
    number[~wanted] = -1
    return np.repeat(number[kind], np.diff(group.start)), open[wanted]


def _rack_cells(group: Group, row: Ints, open: Bools) -> tuple[Ints, Ints, Bools, Bools | None]:
    """Rows, columns and cells told apart by racks too, and the cells that miss one; as they were if too many."""
    racks = group.racks
    if racks is None:
        return row, group.subscription_of, open, None
    sets, places = len(racks.sets) + 1, len(racks.names) + 1
    rows, new_row = _kinds(np.where(row >= 0, row * sets + racks.set_of + 1, NOBODY))
    columns, column = _kinds(group.subscription_of * places + racks.of_member + 1)
    if max(len(rows) * len(columns), len(racks.sets) * len(racks.names)) > CELLS:
        return row, group.subscription_of, open, None
    open = open[rows // sets][:, columns // places]
    miss = misses(racks.near, columns % places - 1, rows % sets - 1) & open
    return new_row, column, open, miss if miss.any() else None


def _kinds(key: Ints) -> tuple[Ints, Ints]:
    """Distinct keys from 0 on, ascending, and which of them each place has, -1 for -1."""
    if int(key.max(initial=0)) > CELLS:
        kinds, kind = np.unique(key, return_inverse=True)
        below = int((kinds < 0).sum())
        return kinds[below:], kind - below
    present = np.zeros(int(key.max(initial=0)) + 1, dtype=np.bool_)
    present[key[key >= 0]] = True
    number = np.append(np.cumsum(present) - 1, NOBODY)
    return np.flatnonzero(present), number[key]

"""A group's like partitions as rows and like members as columns: size hardly matters to work on those.

The problem: a plan of P partitions and M members has P x M places, too many to look at one by one in a large group.

Why classes are enough. Partitions that the same members want and whose replicas stand in the same racks can be
exchanged in any plan without a change of loads and misses; so can members that want the same, in one rack, with one
capacity. So for balance and racks a plan is the table of how many partitions of each row go to each column, and the
loads of each column's members; any such table is dealt out at once (``dealing``). Claims do tell partitions apart: they
stay arrays by partition, and a row and a member give their number where they count (``retention``,
``assignment_network``).

The price: a sort of T rows of K bits, for T topics and K subscriptions, and a few passes over partitions and members.
There are as many rows as sets of subscribers x sets of racks that occur. Where telling racks apart makes more than
``CELLS`` cells, the table is made without racks, and says so.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from apportion.arrays import CELLS, NOBODY, UNKNOWN, Bools, Ints
from apportion.model.group import Group, Racks
from apportion.solvers.goals import RACKS, SPREAD, Order
from apportion.solvers.problem import Problem

DENSE = 16
"""Up to so many values that a key could have for each key there is a table of them all is faster than a sort."""


def problem_of(group: Group, order: Order) -> Problem:
    """The group's like partitions as rows and like members as columns; racks are kept apart if they are a goal.

    >>> from apportion.model.group_json import read_group
    >>> members = {"a": {"topics": ["t"], "owned": {"t": [0, 1, 2]}}, "b": {"topics": ["t"]}}
    >>> group = read_group({"topics": {"t": 4}, "members": members})
    >>> problem = problem_of(group, ())
    >>> problem.row, problem.column, problem.claim
    (array([0, 0, 0, 0]), array([0, 0]), array([ 0,  0,  0, -1]))
    """
    row, eligible = _topic_rows(group)
    column, miss, racks_told = group.subscription_of, None, True
    if not group.equal_capacities:
        sizes, size = np.unique(group.capacity, return_inverse=True)
        kinds, column = distinct_kinds(column * len(sizes) + size)
        eligible = eligible[:, kinds // len(sizes)]
    if RACKS in order and group.racks is not None:
        row, column, eligible, miss, racks_told = _rack_cells(group.racks, row, column, eligible)
    spread = SPREAD in order and group.T * group.M <= CELLS
    past = group.owner, group.claimed_by != NOBODY, group.home
    names = group.topic_of, group.number
    return Problem(row, column, eligible, miss, *past, *names, group.capacity, racks_told, spread)


def topics_apart(problem: Problem) -> Problem:
    """The same with rows of one topic each, also of topics that the same members want; topics come in their order.

    >>> from apportion.model.group_json import read_group
    >>> group = read_group({"topics": {"t": 2, "u": 1}, "members": {"a": {"topics": ["t", "u"]}}})
    >>> problem_of(group, ()).row, topics_apart(problem_of(group, ())).row
    (array([0, 0, 0]), array([0, 0, 1]))
    """
    rows = len(problem.eligible)
    kinds, row = distinct_kinds(np.where(problem.row >= 0, problem.topic * rows + problem.row, NOBODY))
    of = kinds % max(rows, 1)
    miss = None if problem.miss is None else problem.miss[of]
    return replace(problem, row=row, eligible=problem.eligible[of], miss=miss)


def _topic_rows(group: Group) -> tuple[Ints, Bools]:
    """(P,) rows of partitions whose topics the same members want, -1 for none; (I, K) which subscriptions want them."""
    row, eligible = _topic_kinds(group.wants)
    return row.repeat(group.start[1:] - group.start[:-1]), eligible


def _topic_kinds(wants: Bools) -> tuple[Ints, Bools]:
    """(T,) rows of topics by ``wants`` (K, T), -1 if no member wants one; (I, K) which subscriptions want them."""
    wants = wants.T
    packed = np.ascontiguousarray(np.packbits(wants, axis=1))
    # Any topic of a kind will do for ``first``.
    _, first, kind = np.unique(packed.view(f"S{packed.shape[1]}").ravel(), return_index=True, return_inverse=True)
    eligible = wants[first]
    wanted = eligible.any(axis=1)
    number = wanted.cumsum() - 1
    number[~wanted] = NOBODY
    return number[kind], eligible[wanted]


def _rack_cells(racks: Racks, row: Ints, column: Ints, eligible: Bools) -> tuple[Ints, Ints, Bools, Bools | None, bool]:
    """Rows, columns and cells kept apart by racks too, the cells that miss one, and True; as they were if too many."""
    sets, places = len(racks.sets) + 1, len(racks.names) + 1
    rows, new_row = distinct_kinds(np.where(row >= 0, row * sets + racks.set_of + 1, NOBODY))
    columns, new_column = distinct_kinds(column * places + racks.of_member + 1)
    if max(len(rows) * len(columns), len(racks.sets) * len(racks.names)) > CELLS:
        return row, column, eligible, None, False
    eligible = eligible[rows // sets][:, columns // places]
    rack, replicas = columns % places - 1, rows % sets - 1  # where either is unknown, nothing is missed
    miss = eligible & ~racks.near[rack, replicas[:, None]] & (rack != UNKNOWN) & (replicas != UNKNOWN)[:, None]
    return new_row, new_column, eligible, miss if miss.any() else None, True


def distinct_kinds(key: Ints) -> tuple[Ints, Ints]:
    """Distinct keys from 0 on, ascending, and which of them each place has, -1 for -1.

    >>> distinct_kinds(np.array([7, -1, 3, 7]))
    (array([3, 7]), array([ 1, -1,  0,  1]))
    """
    if int(key.max(initial=0)) > DENSE * len(key):
        kinds, kind = np.unique(key, return_inverse=True)
        below = int((kinds < 0).sum())
        return kinds[below:], kind - below
    present = np.zeros(int(key.max(initial=0)) + 1, dtype=np.bool_)
    present[key[key >= 0]] = True
    number = np.append(present.cumsum() - 1, NOBODY)
    return present.nonzero()[0], number[key]

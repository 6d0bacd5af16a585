"""Hand out in laps: the next partition to the next member that still needs one."""

from __future__ import annotations

import numpy as np

from apportion.arrays import Ints


def laps(need: Ints, column: Ints, load: Ints) -> Ints:
    """Members in the order in which they are served: column by column, in each the one that holds fewest first.

    need
        (M,) partitions that each member still gets.
    column, load
        (M,) its column, and how many it holds by now.
    Returns
        (sum of need,) members.

    >>> laps(np.array([2, 1, 3]), np.array([0, 0, 0]), np.array([0, 1, 0]))
    array([0, 2, 0, 1, 2, 2])
    """
    member = np.repeat(np.arange(len(need)), need)
    level = np.arange(len(member)) + np.repeat(load - np.cumsum(need) + need, need)
    key = column[member] * (int(level.max(initial=0)) + 1) + level
    return member[stable_order(key)]


def deal(row: Ints, table: Ints, need: Ints, column: Ints, load: Ints) -> Ints:
    """(S,) the member for each partition, where ``table`` (I, J) says how many of each row go to which column.

    row
        (S,) row of each partition, in the order in which they are dealt.
    need, column, load
        (M,) partitions that each member gets, its column, and how many it holds by now.
    """
    turns = laps(need, column, load)
    if table.shape[1] == 1:
        return turns
    by_row = stable_order(row)
    into = np.empty(len(row), dtype=np.int64)
    into[by_row] = np.concatenate([interleave(amounts) for amounts in table])
    owner = np.empty(len(row), dtype=np.int64)
    owner[stable_order(into)] = turns
    return owner


def stable_order(key: Ints) -> Ints:
    """Positions in ascending order of small keys, equal ones as they come; short keys are sorted by radix."""
    if len(key) and int(key.max()) < 1 << 15:
        key = key.astype(np.int16)
    return np.argsort(key, kind="stable")


def interleave(amounts: Ints) -> Ints:
    """Columns for the partitions of a row, ``amounts`` (J,) of each, spread as evenly as can be.

    >>> interleave(np.array([2, 4]))
    array([1, 0, 1, 1, 0, 1])
    """
    columns = np.flatnonzero(amounts)
    if len(columns) == 1:
        return np.repeat(columns, amounts[columns])
    counts = amounts[columns]
    label = np.repeat(columns, counts)
    turn = np.arange(len(label)) - np.repeat(np.cumsum(counts) - counts, counts)
    return label[np.argsort((turn + 0.5) / amounts[label], kind="stable")]

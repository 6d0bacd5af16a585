"""Tasks with state on processes that are all alike, placed on arrays of tasks, without a table of tasks x processes.

Each process has one thread and may run every task, and there are no standbys. A task is cheapest where it runs and
costs the same everywhere else, so that loads decide alone: how many tasks each process gives and gets follows from
counting.
What ``assign_tasks`` finds by flows is as good in every goal; of equals it may take another one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apportion.arrays import NOBODY, Bools, Ints
from apportion.tasks.place import Placing, place, place_at_previous, stay_most
from apportion.tasks.settings import TaskSettings


class NotCounted(Exception):
    """Copies leave a choice that counting does not settle, or without a solver nothing is proved."""


@dataclass(frozen=True, eq=False)
class IdenticalState:
    """N tasks with state on Q processes.

    ran
        (N,) the process that ran each task and has all its state; -1 nobody.
    task, process, lag
        (C,) further copies: of which task, where, and the messages that it lacks.
    """

    ran: Ints
    processes: int
    task: Ints
    process: Ints
    lag: Ints


def target_of(state: IdenticalState, active: Ints, settings: TaskSettings) -> tuple[Ints, Ints]:
    """(N,) who should run each task once its state is warm there, and (W,) the tasks to be warmed up for that.

    active
        (N,) who runs each now, as ``active_of`` gives it.
    """
    load = np.bincount(active, minlength=state.processes)
    if load.max() <= load.min() + 1:
        return active, np.empty(0, dtype=np.int64)
    low = len(active) // state.processes
    # A move to a place with state would come before others: that takes the flow.
    moved = np.flatnonzero((state.ran != NOBODY) & (state.ran != active))
    task, place_of = np.concatenate([state.task, moved]), np.concatenate([state.process, state.ran[moved]])
    if ((load[active[task]] > low) & (load[place_of] <= low)).any():
        raise NotCounted
    target = stay_most(active, state.processes)
    waiting = np.flatnonzero(active != target)
    # One of each process that gives tasks away comes before the second, as in ``assign_tasks``.
    order = np.argsort(active[waiting], kind="stable")
    turn = np.empty_like(order)
    turn[order] = np.arange(len(order)) - np.searchsorted(active[waiting][order], active[waiting][order])
    return target, waiting[np.lexsort((waiting, turn))][: settings.max_warmup_replicas]


def active_of(state: IdenticalState, settings: TaskSettings) -> Ints:
    """(N,) the most even placing where each task is caught up, with fewest moves; ``NotCounted`` without a proof."""
    may = _choices(state, settings)
    if not may.any():
        placed = place_at_previous(state.ran, state.processes)
        if placed is None:
            raise NotCounted
        return placed
    free = np.zeros(len(state.ran), dtype=np.bool_)
    free[state.task[may]] = True
    roams = (state.ran == NOBODY) & ~free
    rest = np.flatnonzero(free | roams)
    home = np.flatnonzero(state.ran[rest] != NOBODY)
    # Processes that no free task may go to have the loads that they have.
    near = np.concatenate([state.process[may], state.ran[rest[home]]])
    columns = np.arange(state.processes) if roams.any() else np.unique(near)
    eligible = np.repeat(roams[rest][:, None], len(columns), axis=1)
    eligible[np.searchsorted(rest, state.task[may]), np.searchsorted(columns, state.process[may])] = True
    cost = np.ones(eligible.shape, dtype=np.int64)
    at = np.searchsorted(columns, state.ran[rest[home]])
    eligible[home, at], cost[home, at] = True, 0
    load = np.bincount(state.ran[~free & ~roams], minlength=state.processes)[columns].astype(np.int64)
    owner, proved = place(Placing(eligible, cost, np.ones(len(columns), dtype=np.int64), load))
    if not proved:
        raise NotCounted
    active = state.ran.copy()
    active[rest] = columns[owner]
    return active


def _choices(state: IdenticalState, settings: TaskSettings) -> Bools:
    """(C,) whether the task may run at the copy at once: within the lag, or where least is missing if it is nowhere."""
    near: Bools = state.lag <= settings.acceptable_recovery_lag
    least = np.full(len(state.ran), np.iinfo(np.int64).max)
    np.minimum.at(least, state.task, state.lag)
    warm = state.ran != NOBODY
    warm[state.task[near]] = True
    may: Bools = near | (~warm[state.task] & (state.lag == least[state.task]))
    return may

"""Tasks with state on processes that are all alike, placed on arrays of tasks, without a table of tasks x processes.

Each process has one thread and may run every task. A task is cheapest where it runs and costs the same everywhere else,
so that loads decide alone: how many tasks each process gives and gets follows from counting. Where copies leave a
choice, cycles that save something are cancelled until none is left, from a placing that is nearly best.
What ``assign_tasks`` finds by flows is as good in every goal; of equals it may take another one. A plan of 10,000 tasks
on 1,000 processes takes 2 ms instead of 8.5 s, and a rollout makes thousands of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from apportion.arrays import NOBODY, Bools, Ints
from apportion.solvers.network import shortest_distances
from apportion.tasks.assignor import in_turn
from apportion.tasks.place import place_at_previous, stay_most
from apportion.tasks.settings import TaskSettings

CHOICES_MAX: Final = 200_000
"""Pairs of a task and a place that it may go to: with more the flows on a table take less time."""
_FAR: Final = np.iinfo(np.int64).max


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

    def copies(self, active: Ints) -> tuple[Ints, Ints, Ints]:
        """Task, process and lag of all state that is not where the task runs now (N,)."""
        moved = np.flatnonzero((self.ran != NOBODY) & (self.ran != active))
        task, process = np.append(self.task, moved), np.append(self.process, self.ran[moved])
        lag = np.append(self.lag, np.zeros_like(moved))
        beside = process != active[task]
        return task[beside], process[beside], lag[beside]

    def missing(self, task: Ints, process: Ints) -> Ints:
        """(K,) messages that the state of a task lacks on a process; as many as can be if there is none."""
        known, place_of, lag = self.copies(np.full_like(self.ran, NOBODY))
        # Each pair stands once, and behind all one that is no pair.
        pairs = np.append(known * self.processes + place_of, _FAR)
        order = np.argsort(pairs)
        wanted = task * self.processes + process
        at = order[np.searchsorted(pairs, wanted, sorter=order)]
        return np.where(pairs[at] == wanted, np.append(lag, _FAR)[at], _FAR)


@dataclass(frozen=True, eq=False)
class Copies:
    """Copies that are kept and restored in addition to the active tasks.

    standby
        (N,) the process that keeps a copy of each task; None where no standbys are asked for.
    task, process
        (W,) warm-ups.
    even
        Whether no standby should move once its state is warm elsewhere.
    """

    standby: Ints | None
    task: Ints
    process: Ints
    even: bool


def active_of(state: IdenticalState, settings: TaskSettings) -> Ints:
    """(N,) the most even placing with each task caught up, with fewest moves; ``NotCounted`` without a proof."""
    may = _choices(state.task, state.lag, state.ran != NOBODY, settings)
    if not may.any():
        placed = place_at_previous(state.ran, state.processes)
        if placed is None:
            raise NotCounted
        return placed
    home = np.flatnonzero(state.ran != NOBODY)
    task, process = np.append(home, state.task[may]), np.append(state.ran[home], state.process[may])
    roaming, place_of = _anywhere(state, task)
    cost = np.ones(len(task) + len(roaming), dtype=np.int64)
    cost[: len(home)] = 0
    none = np.zeros(state.processes, dtype=np.int64)
    return _cheapest(None, np.append(task, roaming), np.append(process, place_of), cost, none)


def target_of(state: IdenticalState, active: Ints) -> Ints:
    """(N,) who should run each task once its state is warm there.

    active
        (N,) who runs each now, as ``active_of`` gives it.
    """
    load = np.bincount(active, minlength=state.processes)
    if load.max() <= load.min() + 1:
        return active
    gives, gets = _gives_and_gets(load)
    # A move to a place with state would come before others: that takes the flow.
    task, process, _ = state.copies(active)
    if (gives[active[task]] & gets[process]).any():
        raise NotCounted
    return stay_most(active, state.processes)


def copies_of(state: IdenticalState, active: Ints, target: Ints, settings: TaskSettings) -> Copies:
    """The standby of each task if one is asked for, and the copies restored for standbys and targets to come."""
    standby = coming = None
    if settings.num_standby_replicas:
        if state.processes == 1:
            raise NotCounted
        standby, bound = _standbys(state, active, target, settings)
        coming = _coming(state, active, target, standby) if bound else None
    waiting = np.flatnonzero(active != target if standby is None else (active != target) & (standby != target))
    task = in_turn(active, waiting, -np.bincount(active)[active[waiting]])[: settings.max_warmup_replicas]
    process = target[task]
    if standby is None or coming is None:
        return Copies(standby, task, process, True)
    moves = np.flatnonzero((coming != standby) & (coming != active))
    missing = state.missing(moves, coming[moves])
    near = int((missing <= settings.acceptable_recovery_lag).sum())
    first = moves[np.lexsort((moves, missing))][: near + max(0, settings.max_warmup_replicas - len(task))]
    # Each that is restored makes the standbys more even in the next round, so that the rounds end.
    if (active == target).all() and (near or not len(first)):
        raise NotCounted
    return Copies(standby, np.append(task, first), np.append(process, coming[first]), False)


def _standbys(state: IdenticalState, active: Ints, target: Ints, settings: TaskSettings) -> tuple[Ints, bool]:
    """(N,) standbys caught up, balanced, then cheapest, as ``assign_tasks`` has them; whether the first bound any."""
    task, process, lag = state.copies(active)
    may = _choices(task, lag, np.zeros(len(active), dtype=np.bool_), settings)
    task, process = task[may], process[may]
    choices = np.bincount(task)
    bound = bool(((choices > 0) & (choices < state.processes - 1)).any())
    roaming, place_of = _anywhere(state, task)
    beside = place_of != active[roaming]
    cost = np.append(np.ones_like(task), np.full(int(beside.sum()), 5))
    task, process = np.append(task, roaming[beside]), np.append(process, place_of[beside])
    cost += 2 * (process == target[task]) - (process == (active[task] + 1) % state.processes)
    return _cheapest(None, task, process, cost, np.bincount(active, minlength=state.processes)), bound


def _coming(state: IdenticalState, active: Ints, target: Ints, standby: Ints) -> Ints | None:
    """(N,) where copies should be if all state were warm everywhere; None if ``standby`` is as good."""
    load = np.bincount(target, minlength=state.processes) + np.bincount(standby, minlength=state.processes)
    if load.max() <= load.min() + 1:
        return None
    gives, gets = _gives_and_gets(load)
    rows, places = np.flatnonzero(gives[standby]), np.flatnonzero(gets)
    task, process = rows.repeat(len(places)), np.tile(places, len(rows))
    warm = state.missing(task, process) < _FAR
    open_to = process != target[task]
    cost = np.concatenate([np.where(warm, 1, 2)[open_to], np.zeros_like(rows)])
    task, process = np.concatenate([task[open_to], rows]), np.concatenate([process[open_to], standby[rows]])
    base = np.bincount(target, minlength=state.processes)
    if base.max() > load.sum() // state.processes:
        raise NotCounted
    start = stay_most(standby, state.processes, base)
    start = np.where(start == target, standby, start)
    coming = _cheapest(start, task, process, cost, base)
    load = base + np.bincount(coming, minlength=state.processes)
    if load.max() > load.min() + 1:
        raise NotCounted
    return coming


def _gives_and_gets(load: Ints) -> tuple[Bools, Bools]:
    """(Q,) which processes may give a task, and get one, so that loads are even after the fewest moves."""
    low, odd = divmod(int(load.sum()), len(load))
    if int((load > low).sum()) >= odd:
        return load > low, load < low
    return load > low + 1, load <= low


def _anywhere(state: IdenticalState, placed: Ints) -> tuple[Ints, Ints]:
    """Every pair of a process and a task that is not among those placed."""
    tasks = np.flatnonzero(np.bincount(placed, minlength=len(state.ran)) == 0)
    if len(tasks) * state.processes > CHOICES_MAX:
        raise NotCounted
    return tasks.repeat(state.processes), np.tile(np.arange(state.processes), len(tasks))


def _cheapest(start: Ints | None, task: Ints, process: Ints, cost: Ints, base: Ints) -> Ints:
    """(N,) the most even placing of tasks on these places, of those the cheapest.

    start
        (N,) a placing to begin with; None: the first of each task's cheapest places.
    task, process, cost
        (K,) the places of each task, that of ``start`` among them; a task without any stays there.
    base
        (Q,) tasks that the processes have beside these.

    A placing is best exactly if no cycle of moves costs less than nothing (``solvers.network``): a process takes one
    task more and gives one away, or its load changes, which costs more than all places together.
    """
    if len(task) > CHOICES_MAX:
        raise NotCounted
    order = np.argsort((task * (int(cost.max(initial=0)) + 1) + cost) * len(base) + process)
    task, process, cost = task[order], process[order], cost[order]
    tasks, first = np.unique(task, return_index=True)
    owner = process[first] if start is None else start.copy()
    cheapest, paid = np.zeros((2, len(owner)), dtype=np.int64)
    cheapest[tasks] = cost[first]
    stays = process == owner[task]
    paid[task[stays]] = cost[stays]
    load, each = np.bincount(owner, minlength=len(base)) + base, np.arange(len(base))
    if load.max() <= load.min() + 1 and (paid == cheapest).all():
        return owner
    choice = np.bincount(task)[task] > 1
    task, process, cost = task[choice], process[choice], cost[choice]
    dear = np.int64(int(cost.max(initial=0)) * len(owner) + 1)
    door = np.full_like(each, len(base))
    distance = np.append(np.full_like(each, -dear * (2 * (load.sum() // len(base)) + 1)), 0)
    while True:
        other = np.flatnonzero(process != owner[task])
        moving, to = task[other], process[other]
        price = (cost[other] - paid[moving], dear * (2 * load + 1), -dear * (2 * load - 1))
        tail, head = np.concatenate([owner[moving], each, door]), np.concatenate([to, door, each])
        distance, cycles = shortest_distances(tail, head, np.concatenate(price), distance)
        if not cycles:
            return owner
        for n, arc in ((int(moving[arc]), arc) for cycle in cycles for arc in cycle if arc < len(other)):
            load[owner[n]] -= 1
            load[to[arc]] += 1
            owner[n], paid[n] = to[arc], cost[other[arc]]


def _choices(task: Ints, lag: Ints, warm: Bools, settings: TaskSettings) -> Bools:
    """(C,) whether a copy is within the lag, or has the least missing of a task that is not ``warm`` (N,) by one."""
    near: Bools = lag <= settings.acceptable_recovery_lag
    least = np.full(len(warm), _FAR)
    np.minimum.at(least, task, lag)
    warm = warm.copy()
    warm[task[near]] = True
    may: Bools = near | (~warm[task] & (lag == least[task]))
    return may

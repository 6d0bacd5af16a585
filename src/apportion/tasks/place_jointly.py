"""Tasks with and without state placed together: one network, goal after goal, so that equal choices stay open.

Where the tasks with state alone are placed first, any of their best placings is taken, and only some of those leave
room for the best placing of all. So both kinds are in one network, whose layers bear the goals' convex costs:

    class of like tasks --cost--> with state --its threads--> a column's tasks --its threads--> process --> sink
                          \\-------- without state ----------/

The least cost for one goal is kept while the next one is sought (``solvers.network``): no weights, which would pass 64
bits at a hundred tasks. The search begins at a placing that is nearly best.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np

from apportion.arrays import Bools, Ints
from apportion.solvers.network import Cost, network_of
from apportion.tasks.place import Placing, deal_seats, like_rows

ARCS_MAX: Final = 60_000
"""Pairs of a class and a column, and of threads: larger networks are not made, since a search takes seconds there."""


_Arcs = tuple[Ints, Ints | int, Ints | int, Ints | int, Ints]
"""Tail, head, least and most units, and flow, as ``network_of`` takes them."""


class _Joint:
    """The network of a placing, with the flow that ``start`` (N,) means.

    classes
        As ``_classes`` gives them.
    stateful
        (N,) which tasks have state; tasks of one kind all have, or none.
    """

    def __init__(self, placing: Placing, classes: tuple[Ints, Ints], stateful: Bools, start: Ints) -> None:
        columns = len(placing.threads)
        table, self.class_of = classes
        self.with_state, price = table[:, 0].astype(np.bool_), table[:, 2:]
        self.classes, self.columns = len(table), columns
        process_of = np.arange(columns) if placing.process_of is None else placing.process_of
        kinds, of_class = np.unique(table[:, 1], return_inverse=True)
        nodes = np.cumsum([0, self.classes, columns, columns, columns, int(process_of.max()) + 1, 1])
        with_state, deal, whole, process, sink = nodes[1:-1].tolist()
        door = int(nodes[-1])
        self.c, self.q = np.nonzero(price >= 0)
        self.price = price[self.c, self.q]
        entry = np.where(self.with_state, with_state, whole)
        inside = np.arange(columns)
        held = np.bincount(start[stateful], minlength=columns)
        load = np.bincount(start, minlength=columns)
        of_pair = np.bincount(self.class_of * columns + start, minlength=self.classes * columns)
        supply, most = np.bincount(self.class_of), len(start)
        into = (door + of_class[self.c] * columns if placing.kind is not None else entry[self.c]) + self.q
        parts: list[_Arcs] = [(self.c, into, 0, supply[self.c], of_pair[self.c * columns + self.q])]
        doors = np.zeros(0, dtype=np.int64)
        behind = of_kind = doors
        if placing.kind is not None:
            doors = door + np.arange(len(kinds) * columns)
            entry_of = np.zeros(len(kinds), dtype=np.int64)
            entry_of[of_class] = entry
            behind = (entry_of[:, None] + inside).ravel()
            of_kind = np.bincount(of_class[self.class_of] * columns + start, minlength=len(doors))
        parts.append((doors, behind, 0, most, of_kind))
        parts.append((with_state + inside, deal + inside, 0, most, held))
        thread = inside.repeat(placing.threads)
        first = (placing.threads.cumsum() - placing.threads).repeat(placing.threads)
        rank = np.arange(len(thread)) - first
        for tail, head, tasks in ((deal, whole + thread, held), (whole, process + process_of[thread], load)):
            share, odd = np.divmod(tasks, placing.threads)
            parts.append((tail + thread, head, 0, most, share[thread] + (rank < odd[thread])))
        each = np.arange(sink - process)
        of_process = np.bincount(process_of, load, len(each)).astype(np.int64)
        parts.append((process + each, np.full(len(each), sink), 0, most, of_process))
        ends = np.cumsum([0] + [len(part[0]) for part in parts]).tolist()
        names = ("price", "kinds", "held", "stateful threads", "threads", "processes")
        self.arcs = {name: slice(a, b) for name, (a, b) in zip(names, pairwise(ends), strict=True)}
        self.network = network_of(door + len(doors), *parts)

    def cost(self, goal: str) -> Cost:
        """The costs of the arcs' units for a goal: squares, or prices."""
        first, slope = np.zeros((2, len(self.network.tail)), dtype=np.int64)
        if goal in self.arcs and goal != "price":
            first[self.arcs[goal]], slope[self.arcs[goal]] = 1, 2
        else:
            first[self.arcs["price"]] = self.price if goal == "price" else self.price * self.with_state[self.c]
        return Cost(first, slope)

    def best(self, goals: tuple[str, ...], start: Ints) -> Ints:
        """(N,) the columns of a best placing; of like tasks as many as can stay where they are in ``start`` (N,)."""
        for n, goal in enumerate(goals):
            cost, later = self.cost(goal), goals[n + 1 :]
            potential = self.network.minimize(cost, slopes_to_come=bool(later))
            if later:
                self.network.narrow(cost, potential)
        count = np.zeros(self.classes * self.columns, dtype=np.int64)
        count[self.c * self.columns + self.q] = self.network.flow[self.arcs["price"]]
        pair = self.class_of * self.columns + start
        order = np.argsort(pair, kind="stable")
        rank = np.empty(len(pair), dtype=np.int64)
        rank[order] = np.arange(len(pair)) - np.searchsorted(pair[order], pair[order])
        goes = np.flatnonzero(rank >= count[pair])
        missing = np.maximum(count - np.bincount(pair, minlength=len(count)), 0)
        owner = start.copy()
        seats = deal_seats(np.arange(len(count)) % self.columns, missing, np.arange(len(count)) // self.columns)
        owner[goes[np.argsort(self.class_of[goes], kind="stable")]] = seats
        return owner


def _classes(placing: Placing, stateful: Bools) -> tuple[Ints, Ints]:
    """Each class of like tasks as a row: with state, kind, price on each column (-1: not there); (N,) each task's."""
    kind = np.zeros(len(stateful), dtype=np.int64) if placing.kind is None else placing.kind
    return like_rows(np.column_stack([stateful, kind, np.where(placing.eligible, placing.cost, -1)]))


def place_jointly(placing: Placing, stateful: Bools, start: Ints) -> Ints | None:
    """(N,) the column of each task; None if the network would be too large.

    Goals in order: least sum of squared loads of threads, of the tasks with state and of all; that of processes; spread
    of kinds; cost; cost of the tasks with state; squares of the tasks with state on each column.

    placing
        All tasks, each of which may go somewhere, on empty processes.
    start
        (N,) a placing to begin with.
    """
    classes = _classes(placing, stateful)
    if int(np.count_nonzero(classes[0][:, 2:] >= 0)) + 2 * int(placing.threads.sum()) > ARCS_MAX:
        return None
    kinds = () if placing.kind is None else ("kinds",)
    goals = ("stateful threads", "threads", "processes", *kinds, "price", "stateful price", "held")
    return _Joint(placing, classes, stateful, start).best(goals, start)

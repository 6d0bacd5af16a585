"""A network whose arcs bear convex costs, made least goal after goal: exact, in whole numbers, proved as it ends.

The problem: send what every node supplies through arcs with bounds, so that a first cost is least, of those flows a
second one, and so on. Each cost is a sum over arcs of a convex function of the arc's flow: ``first`` for the first unit
and ``slope`` more for each further one, so that ``slope`` 0 is a plain price and ``slope`` 2a with ``first`` a is
a times the square of the flow.

Why the method is right. A flow is best exactly if no cycle of its residual network costs less than nothing (Klein 1967;
with convex costs a residual arc costs what the next unit costs, or saves what the last one cost: Ahuja, Magnanti and
Orlin, "Network Flows", theorem 14.1). ``minimize`` looks for such cycles by Bellman and Ford and cancels them until
there is none. The distances that are left are the dual: the potential of each node.

The step between goals is complementary slackness. Let d be the difference of the potentials at an arc's ends. The
best flows are exactly those feasible ones in which every arc whose next unit costs more than d gets no more than it
has, and every arc whose last unit cost less than d no less; so an arc may change only where a unit's cost equals d.
``narrow`` writes this into the arcs' bounds, and no more than two values remain to an arc with a slope. After that
*any* flow within the bounds is best for the goal, its costs can be forgotten, and the next goal is sought on the same
network. (To add the goal's optimum as a row instead would give a matrix that is no network's, and fractions.) No
weights are needed, so the numbers stay as small as a single goal's; where capacities make them pass 62 bits, Python's
integers step in.

The price: a round of Bellman and Ford looks at every arc, a search takes as many rounds as the longest path has arcs,
and all cycles found in one search are cancelled together. Of large networks with plain prices, before no goal with
slopes, OR-tools makes a cheapest flow, where it is installed; the potentials are found here all the same, and show it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

import numpy as np

from apportion.arrays import Ints, Numbers, distinct
from apportion.solvers import min_cost_flow

WIDE = 1 << 62
"""Sums of costs that may pass this are made of Python's integers."""
NO_ARC = -1
OWN_ARCS_MAX = 2_000
"""From so many arcs with plain prices on OR-tools is faster, if a few searches for cycles were not enough."""
OWN_SEARCHES = 4


@dataclass(frozen=True, eq=False)
class Cost:
    """The costs of each arc's units: the k-th one ``first`` + (k - 1) ``slope``, both (A,)."""

    first: Numbers
    slope: Numbers

    def next_unit(self, flow: Ints) -> Numbers:
        """(A,) the cost of one more unit; of one less in the flow, the cost of the last unit."""
        marginal: Numbers = self.first + self.slope * flow
        return marginal


@dataclass(eq=False)
class Network:
    """Arcs with bounds, and a flow that keeps them.

    tail, head
        (A,) nodes, from 0 to ``nodes`` - 1.
    low, high, flow
        (A,) the least and most units of each arc, and what it has now. ``minimize`` and ``narrow`` write into them.
    """

    nodes: int
    tail: Ints
    head: Ints
    low: Ints
    high: Ints
    flow: Ints

    def minimize(self, cost: Cost, potential: Numbers | None = None, slopes_to_come: bool = False) -> Numbers:
        """Make the cost least by changing ``flow``; returns the potentials (nodes,) that show it to be least.

        potential
            Potentials to begin the search with: of a flow that was best before a few arcs changed.
        slopes_to_come
            Whether a later goal has slopes. Then OR-tools is not asked: its flow is any cheapest one, and to even that
            out again takes longer than all searches from a flow that was nearly even.
        """
        cost = self._exact(cost)
        distance = np.zeros(self.nodes, dtype=cost.first.dtype) if potential is None else potential
        for searches in count(1):
            distance, cycles = self._search(cost, distance)
            if not cycles:
                break
            plain = not slopes_to_come and not cost.slope.any()
            large = searches == OWN_SEARCHES and len(self.tail) > OWN_ARCS_MAX
            if plain and large and min_cost_flow.solver() is not None:
                self.flow = self.low + self._by_ortools(cost.first)
                continue
            for arcs, sign in cycles:
                # One unit where some price changes with it, else as many as go.
                room = np.where(sign > 0, self.high[arcs] - self.flow[arcs], self.flow[arcs] - self.low[arcs])
                self.flow[arcs] += sign * (1 if cost.slope[arcs].any() else room.min())
        return distance

    def _by_ortools(self, price: Numbers) -> Ints:
        """(A,) a cheapest flow of plain prices, beyond the least units."""
        sent = self.flow - self.low
        supply = np.bincount(self.tail, sent, self.nodes) - np.bincount(self.head, sent, self.nodes)
        status, flow = min_cost_flow.solve_flow(
            self.tail, self.head, self.high - self.low, price, supply.astype(np.int64)
        )
        if status != "OPTIMAL":
            raise ArithmeticError(f"the flow of {len(price)} arcs ended with status {status}; please report this group")
        return flow

    def potentials(self, goals: list[tuple[int, Cost]]) -> Numbers | None:
        """(nodes,) potentials that show the flow to be best for goals of these weights; None if it is not."""
        first, slope = np.zeros((2, len(self.tail)), dtype=object)
        for weight, cost in goals:
            first, slope = first + weight * cost.first.astype(object), slope + weight * cost.slope.astype(object)
        cost = self._exact(Cost(first, slope))
        distance, cycles = self._search(cost, np.zeros(self.nodes, dtype=cost.first.dtype))
        return None if cycles else distance

    def _search(self, cost: Cost, distance: Numbers) -> tuple[Numbers, list[tuple[Ints, Ints]]]:
        """``shortest_distances`` of arcs that may still change; cycles as arcs: 1 if one gets more, -1 if less."""
        more, less = np.flatnonzero(self.flow < self.high), np.flatnonzero(self.flow > self.low)
        tail = np.concatenate([self.tail[more], self.head[less]])
        head = np.concatenate([self.head[more], self.tail[less]])
        price = np.concatenate([cost.next_unit(self.flow)[more], -cost.next_unit(self.flow - 1)[less]])
        distance, cycles = shortest_distances(tail, head, price, distance)
        arc, sign = np.concatenate([more, less]), np.ones(len(tail), dtype=np.int64)
        sign[len(more) :] = -1
        return distance, [(arc[cycle], sign[cycle]) for cycle in cycles]

    def narrow(self, cost: Cost, potential: Numbers) -> None:
        """Leave within the bounds just those flows that are best for the cost, by the potentials of a best one."""
        cost = self._exact(cost)
        drop = potential[self.head] - potential[self.tail]
        rises = (cost.next_unit(self.flow) == drop).astype(np.bool_) & (self.flow < self.high)
        falls = (cost.next_unit(self.flow - 1) == drop).astype(np.bool_) & (self.flow > self.low)
        curved = (cost.slope > 0).astype(np.bool_)
        # An arc with a slope can rise by one unit at its price; a plain one by as many as there are.
        self.high = np.where(rises, np.where(curved, self.flow + 1, self.high), self.flow)
        self.low = np.where(falls, np.where(curved, self.flow - 1, self.low), self.flow)

    def _exact(self, cost: Cost) -> Cost:
        """The same cost in numbers wide enough for the sum along any path."""
        units = int(self.flow.max(initial=0)) + 2
        largest = int(np.abs(cost.first).max(initial=0)) + int(cost.slope.max(initial=0)) * units
        width = np.int64 if largest * (self.nodes + 1) < WIDE // 2 else object
        return Cost(cost.first.astype(width, copy=False), cost.slope.astype(width, copy=False))


def network_of(nodes: int, *parts: tuple[Ints, Ints | int, Ints | int, Ints | int, Ints]) -> Network:
    """The network of some groups of arcs: tail, head, low, high and flow of each; a number holds for all its arcs.

    >>> arcs = np.array([0, 0]), np.array([1, 2])
    >>> network_of(3, (*arcs, 0, 5, np.array([2, 1]))).high
    array([5, 5])
    """

    def column(n: int) -> Ints:
        """(A,) the n-th field of all arcs."""
        fields = [np.full(len(part[0]), part[n]) if isinstance(part[n], int) else part[n] for part in parts]
        return np.concatenate(fields).astype(np.int64, copy=False)

    return Network(nodes, *map(column, range(5)))


def shortest_distances(tail: Ints, head: Ints, cost: Numbers, distance: Numbers) -> tuple[Numbers, list[list[int]]]:
    """Distances that no arc can shorten, and no cycle; or, if they would fall for ever, cycles that cost less than 0.

    distance
        (nodes,) to begin with; any will do.
    Returns
        The cycles as arcs in order; no two of them share a node.

    Bellman and Ford, all arcs at once. An arc is remembered only when it shortens its head's distance, so whatever
    closes to a circle among remembered arcs costs less than nothing.

    >>> tail, head, cost = np.array([0, 1, 2]), np.array([1, 2, 0]), np.array([2, -3, 4])
    >>> shortest_distances(tail, head, cost, np.zeros(3, dtype=np.int64))
    (array([ 0,  0, -3]), [])
    >>> shortest_distances(tail, head, np.array([2, -3, 0]), np.zeros(3, dtype=np.int64))[1]
    [[0, 1, 2]]
    """
    nodes = len(distance)
    distance = distance.copy()
    came_by = np.full(nodes, NO_ARC, dtype=np.int64)
    fresh = np.ones(nodes, dtype=np.bool_)
    wait = 1
    for turn in range(1, 2 * nodes + 2):
        arcs = np.flatnonzero(fresh[tail])
        reached = distance[tail[arcs]] + cost[arcs]
        shorter = np.flatnonzero(reached < distance[head[arcs]])
        if not len(shorter):
            return distance, []
        arcs, reached = arcs[shorter], reached[shorter]
        np.minimum.at(distance, head[arcs], reached)
        best = arcs[reached == distance[head[arcs]]][::-1]
        fresh = np.zeros(nodes, dtype=np.bool_)
        fresh[head[best]] = True
        came_by[head[best]] = best  # of several the first: the last one written
        if turn >= wait:
            cycles = _cycles(came_by, tail)
            if cycles:
                return distance, cycles
            wait = turn + 1 + turn // 4
    raise ArithmeticError("distances fall without a cycle; please report this group")


def _cycles(came_by: Ints, tail: Ints) -> list[list[int]]:
    """All circles among the remembered arcs, each as arcs in order."""
    # Where remembered arcs come from, and those again: all chains end, most of them soon, and only circles go on.
    nodes = np.flatnonzero(came_by >= 0)
    while len(nodes):
        before = tail[came_by[nodes]]
        further = distinct(before[came_by[before] >= 0])
        if len(further) == len(nodes):
            break
        nodes = further
    unvisited, cycles = set(nodes.tolist()), []
    while unvisited:
        node, arcs = min(unvisited), list[int]()
        while node in unvisited:
            unvisited.remove(node)
            arcs.append(int(came_by[node]))
            node = int(tail[arcs[-1]])
        cycles.append(arcs[::-1])
    return cycles

"""Any of the four goals in any order as one network: class of partitions to (topic, member) to member to the sink.

The problem: give every partition to a member that is eligible for it, so that the goals are best one after the other.
Each goal is a sum of convex costs over one layer of arcs, so each is a min-cost flow with whole numbers, and so is the
next one among the best flows of the goals before it (see ``network``):

    claimed class --moves--> like partitions --racks--> (topic, member) --spread--> member --balance--> sink
        \\--------------- to whom it belonged, no move ------^

A class that somebody claimed has an arc of its own to where it may stay, and one to where it may come home. Where
spread is no goal the layer of (topic, member) vanishes: partitions whose topics the same members want are alike then,
and the racks' arcs lead to the members' columns.

What is fixed first stays: ``complete`` hands out the rest around it, as a function of what is fixed and what is free
alone. A second cooperative round keeps all that the first one left, so it finds the same rest, and ends at the same
plan.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from apportion.arrays import CELLS, NOBODY, Ints
from apportion.solvers.dealing import HandOut, claimed_last, deal
from apportion.solvers.goals import BALANCE, MOVES, RETURNED, SPREAD, Goal, Order
from apportion.solvers.network import Cost, network_of
from apportion.solvers.partition_classes import distinct_kinds
from apportion.solvers.problem import Problem
from apportion.solvers.retention import first_ones

ARCS_MAX = 4_000_000
"""Larger networks than this are not made: a gigabyte, and a minute."""


def fits_network(problem: Problem) -> bool:
    """Whether the network with a layer of (topic, member) is small enough; ``problem`` has a row for each topic.

    >>> from apportion.model.group_json import read_group
    >>> members = {"a": {"topics": ["t"], "owned": {"t": [0, 1, 2]}}, "b": {"topics": ["t"]}}
    >>> group = read_group({"topics": {"t": 4}, "members": members})
    >>> from apportion.solvers.partition_classes import problem_of
    >>> problem = problem_of(group, ())
    >>> fits_network(problem)
    True
    """
    size = np.bincount(problem.column, minlength=problem.eligible.shape[1])
    arcs = 2 * int((problem.eligible @ size).sum()) + len(problem.row)  # nearly
    return arcs <= ARCS_MAX and (problem.miss is None or problem.eligible.size <= CELLS)


class AssignmentNetwork:
    """The network for some free partitions around fixed ones.

    start
        (P,) some plan, in which all that is fixed stands where it is.
    order
        The goals: they say whether the layer of (topic, member) is there, and whether it counts who held a partition
        before and to whom it would come home.
    owner
        (P,) who owns what is fixed; -1 what is free. All that anybody wants is free if nothing is given.
    apart
        Whether members are told apart though no goal asks for it.
    """

    def __init__(
        self, problem: Problem, start: Ints, order: Order, owner: Ints | None = None, apart: bool = False
    ) -> None:
        owner = np.full(len(problem.row), NOBODY, dtype=np.int64) if owner is None else owner
        self.problem, self.order = problem, order
        self.spread = spread = apart or SPREAD in order
        self.members, self.rows = len(problem.column), len(problem.eligible)
        # Members apart where they bear a cost of their own with each topic; else like members together.
        self.slot = np.arange(self.members) if spread else problem.column
        columns = problem.column if spread else np.arange(problem.eligible.shape[1])
        wanted = np.flatnonzero(problem.row >= 0)
        used = np.zeros((self.rows, 1), dtype=np.bool_)
        used[problem.row[wanted]] = True
        self.eligible = (problem.eligible & used)[:, columns]
        self.miss = np.zeros_like(self.eligible) if problem.miss is None else problem.miss[:, columns]
        self.free = free = wanted[owner[wanted] == NOBODY]
        self._classes(*(held[free] for held in held_before(problem, order)))
        self._nodes(wanted)
        self._arcs(start, wanted, wanted[owner[wanted] != NOBODY])

    def _classes(self, claim: Ints, home: Ints) -> None:
        """Like partitions among the free ones that are known: of one row, claimed by one member, at home with one."""
        row = self.problem.row[self.free]
        known = (claim != NOBODY) | (home != NOBODY)
        claims, homes = self.members + 1, int(home.max(initial=NOBODY)) + 2
        values, self.kind = distinct_kinds(np.where(known, (row * claims + claim + 1) * homes + home + 1, NOBODY))
        self.count = np.bincount(self.kind[known], minlength=len(values))
        self.kind_row = values // homes // claims
        self.kind_claim, self.kind_home = values // homes % claims - 1, values % homes - 1

    def _nodes(self, wanted: Ints) -> None:
        """Rows, then claimed classes, then cells (topic, member) or like members, then members, then the sink."""
        problem, topic = self.problem, np.zeros(self.rows, dtype=np.int64)
        if self.spread:
            topic[problem.row[wanted]] = problem.topic[wanted]  # rows are topics apart
        topics, self.line = np.unique(topic, return_inverse=True)
        has_cell = np.zeros((len(topics), self.eligible.shape[1]), dtype=np.bool_)
        np.logical_or.at(has_cell, self.line, self.eligible)
        line, self.cell_member = np.nonzero(has_cell)
        self.cell_topic = topics[line]
        self.first_cell = self.rows + len(self.kind_row)
        self.cell_of = np.full(has_cell.shape, NOBODY, dtype=np.int64)
        self.cell_of[has_cell] = self.first_cell + np.arange(len(line))
        self.first_member = self.first_cell + len(line)
        self.sink = self.first_member + self.members

    def into(self, row: Ints, member: Ints) -> Ints:
        """The node in which a unit of the row that stays with a member, or comes home, arrives."""
        return self.cell_of[self.line[row], member] if self.spread else self.first_member + member

    def _arcs(self, start: Ints, wanted: Ints, fixed: Ints) -> None:
        """All arcs with the flow of ``start`` (P,); the fixed partitions are the least on the arcs that they share."""
        row, at = self.problem.row, start[self.free]
        kinds, slots, many = len(self.kind_row), self.eligible.shape[1], len(row)
        known = np.flatnonzero(self.kind >= 0)
        of_kind = self.kind[known]
        at_claim = at[known] == self.kind_claim[of_kind]
        at_previous = ~at_claim & (at[known] == self.kind_home[of_kind])
        own = np.stack([np.bincount(of_kind[mask], minlength=kinds) for mask in (at_claim, at_previous)])
        self.comes, self.of = np.nonzero(np.stack([self.kind_claim, self.kind_home]) != NOBODY)
        self.to = np.where(self.comes, self.kind_home[self.of], self.kind_claim[self.of])
        by_row = np.ones(len(at), dtype=np.bool_)
        by_row[known] = ~(at_claim | at_previous)
        elsewhere = self.free[by_row]
        i, j = self.row_arc = np.nonzero(self.eligible)
        from_row = np.bincount(row[elsewhere] * slots + self.slot[start[elsewhere]], minlength=self.eligible.size)
        line, member = np.nonzero(self.cell_of[:, self.slot] != NOBODY)
        members, through = self.first_member + np.arange(self.members), wanted if self.spread else elsewhere

        def onto(these: Ints) -> Ints:
            """How many of these partitions pass from each cell to each member."""
            pair = self.line[row[these]] * self.members + start[these]
            count: Ints = np.bincount(pair, minlength=len(self.cell_of) * self.members)[line * self.members + member]
            return count

        def load(these: Ints) -> Ints:
            """(M,) how many of these partitions each member has."""
            return np.bincount(start[these], minlength=self.members)

        of, into = self.of, self.into(self.kind_row[self.of], self.to)
        parts = (
            (self.rows + np.arange(kinds), self.kind_row, 0, self.count, self.count - own.sum(axis=0)),
            (self.rows + of, into, 0, self.count[of], own[self.comes, of]),
            (i, self.cell_of[self.line[i], j], 0, many, from_row[i * slots + j]),
            (self.cell_of[line, self.slot[member]], members[member], onto(fixed), many, onto(through)),
            (members, self.sink, load(fixed), many, load(wanted)),
        )
        ends = np.cumsum([0] + [len(part[0]) for part in parts]).tolist()
        self.leave, self.own, self.near, self.onto, self.load = (slice(a, b) for a, b in pairwise(ends))
        self.network = network_of(self.sink + 1, *parts)

    def cost(self, goal: Goal) -> Cost:
        """The costs of the arcs' units for a goal."""
        dtype = self.problem.unit.dtype if goal.squares else np.dtype(np.int64)
        first, slope = np.zeros((2, len(self.network.tail)), dtype=dtype)
        for arcs, price in goal.costs(self):
            first[arcs] = price
            if goal.squares:  # the square; where all are equal 1 + 2 + 3 ..., which is as good and half as large
                slope[arcs] = price if self.problem.equal else 2 * price
        return Cost(first, slope)

    def optimize(self) -> None:
        """Make the goals best, one after the other."""
        for n, goal in enumerate(self.order, 1):
            cost, later = self.cost(goal), self.order[n:]
            potential = self.network.minimize(cost, slopes_to_come=any(goal.squares for goal in later))
            if later:
                self.network.narrow(cost, potential)

    def kept(self) -> Ints:
        """(2, classes) how many partitions of each claimed class stay, and how many come home."""
        counts = np.zeros((2, len(self.kind_row)), dtype=np.int64)
        counts[self.comes, self.of] = self.network.flow[self.own]
        return counts

    def owners_of_unclaimed(self, row: Ints) -> Ints:
        """(F,) owners of partitions without a claim, ``row`` (F,) of each: each row's members in turn."""
        table = np.zeros(self.eligible.shape, dtype=np.int64)
        table[self.row_arc] = self.network.flow[self.near]
        held = table.sum(axis=0)
        return deal(row, table, held, np.arange(len(held)), held)


def held_before(problem: Problem, order: Order) -> tuple[Ints, Ints]:
    """(P,) the member that would keep each partition, or get it back home; -1 for none, or no goal asks for it.

    >>> from apportion.model.group_json import read_group
    >>> members = {"a": {"topics": ["t"], "owned": {"t": [0, 1, 2]}}, "b": {"topics": ["t"]}}
    >>> group = read_group({"topics": {"t": 4}, "members": members})
    >>> from apportion.solvers.partition_classes import problem_of
    >>> problem = problem_of(group, (BALANCE, MOVES))
    >>> held_before(problem, (BALANCE, MOVES))
    (array([ 0,  0,  0, -1]), array([-1, -1, -1, -1]))
    """
    nobody = np.full(len(problem.row), NOBODY, dtype=np.int64)
    return problem.claim if MOVES in order else nobody, problem.home if RETURNED in order else nobody


def fixed_on_network(problem: Problem, order: Order, start: Ints) -> Ints:
    """(P,) owners of partitions that stay or come home, in some best plan; -1 for the rest.

    >>> from apportion.model.group_json import read_group
    >>> members = {"a": {"topics": ["t"], "owned": {"t": [0, 1, 2]}}, "b": {"topics": ["t"]}}
    >>> group = read_group({"topics": {"t": 4}, "members": members})
    >>> from apportion.solvers.partition_classes import problem_of
    >>> problem = problem_of(group, (BALANCE, MOVES))
    >>> fixed_on_network(problem, (BALANCE, MOVES), np.array([0, 0, 1, 1]))
    array([ 0,  0, -1, -1])
    """
    owner, past = np.full(len(problem.row), NOBODY, dtype=np.int64), held_before(problem, order)
    if any((held != NOBODY).any() for held in past):
        network = AssignmentNetwork(problem, start, order)
        network.optimize()
        for held, count in zip(past, network.kept(), strict=True):
            open_ = np.flatnonzero((network.kind >= 0) & (owner[network.free] == NOBODY))
            unowned = network.free[open_]
            chosen = unowned[first_ones(network.kind[open_], count, (problem.number[unowned],))]  # they come by topic
            owner[chosen] = held[chosen]
    return owner


def complete_on_network(problem: Problem, order: Order, owner: Ints, hand_out: HandOut) -> Ints:
    """(P,) owners with the rest handed out as well as can be around the fixed ones.

    hand_out
        Some plan to begin with: (P,) owners from those that are fixed and the partitions (F,) to hand out. With fair
        loads it saves most: a chain of hand-overs that evens out two loads passes the sink, so a search finds but one.

    >>> from apportion.model.group_json import read_group
    >>> members = {"a": {"topics": ["t"], "owned": {"t": [0, 1, 2]}}, "b": {"topics": ["t"]}}
    >>> group = read_group({"topics": {"t": 4}, "members": members})
    >>> from apportion.solvers.partition_classes import problem_of
    >>> problem = problem_of(group, (BALANCE, SPREAD))
    >>> def hand_out(owner, rest):
    ...     return np.where(owner < 0, 0, owner)
    ...
    >>> complete_on_network(problem, (BALANCE, SPREAD), np.array([0, 0, -1, -1]), hand_out)
    array([0, 0, 1, 1])
    """
    goals = tuple(goal for goal in order if goal is not MOVES)
    goals = goals if BALANCE in goals else (*goals, BALANCE)

    def best_around(owner: Ints, rest: Ints) -> Ints:
        network = AssignmentNetwork(problem, hand_out(owner, rest), goals, owner, apart=True)  # it names members
        network.optimize()
        owner = owner.copy()
        owner[rest] = network.owners_of_unclaimed(problem.row[rest])
        return owner

    return claimed_last(owner, problem.row >= 0, problem.contested if MOVES in order else None, best_around)

"""The best plan of a group for goals in an order: the way that fits its size, and the answer with its proof."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from apportion.arrays import CELLS, NOBODY, Ints
from apportion.model.group import Group
from apportion.model.plan import Answer
from apportion.solvers.assignment_network import complete_on_network, fits_network, fixed_on_network
from apportion.solvers.certificate import Exactness
from apportion.solvers.goals import BALANCE, DEFAULT, MOVES, RACKS, RETURNED, SPREAD, Goal, Order, named
from apportion.solvers.greedy_by_topic import plan_by_topic
from apportion.solvers.lexicographic import complete, solve
from apportion.solvers.partition_classes import problem_of, topics_apart
from apportion.solvers.problem import Problem, units

Proof = dict[Goal, str]
"""Goal to ``optimal`` or ``heuristic``, in order."""


def best(group: Group, order: tuple[str, ...] = DEFAULT, cooperative: bool = False) -> Answer:
    """The plan that is best for the goals in their order, with the proofs about it.

    cooperative
        Whether what changes hands is withheld for a round, after which nobody knows any more of stale claims.

    >>> from apportion.model.group_json import read_group
    >>> members = {"a": {"topics": ["t"], "owned": {"t": [0, 1, 2]}}, "b": {"topics": ["t"]}}
    >>> group = read_group({"topics": {"t": 4}, "members": members})
    >>> answer = best(group)
    >>> answer.owner, answer.proof
    (array([0, 0, 1, 1]), {'balance': 'optimal', 'moves': 'optimal'})
    """
    goals = tuple(goal for goal in named(order) if goal.counts(group))
    wide = len(group.subscriptions) * group.T > CELLS
    plan = _without_classes(group, goals, wide)
    if plan is None or (group.tells_home and not wide):
        problem = problem_of(group, goals)
        owner, proof = plan or _on_classes(problem, goals)
        if group.tells_home and "heuristic" not in proof.values():
            owner = _home(group, problem, goals, owner, cooperative)
        plan = owner, proof
    owner, proof = plan
    return Answer(owner, {goal.name: how for goal, how in proof.items()}, certificate=Exactness(group, owner, proof))


def _without_classes(group: Group, order: Order, wide: bool) -> tuple[Ints, Proof] | None:
    """Owners (P,) and the proof if classes take longer than the plan, or are too many (``wide``); None elsewhere."""
    uniform = group.equal_capacities and len(group.subscriptions) == 1 and RACKS not in order
    if uniform and order[:1] == (BALANCE,) and (MOVES not in order or not len(group.claims.member)):
        return _one_deal(group), dict.fromkeys(order, "optimal")
    return plan_by_topic(group, units(group.capacity), order) if wide else None


def _one_deal(group: Group) -> Ints:
    """The wanted partitions round and round the members."""
    laps = np.empty((-(-group.P // group.M), group.M), dtype=np.int64)  # np.tile takes longer than a small plan
    laps[:] = np.arange(group.M)
    in_turn = laps.ravel()
    if group.all_wanted:
        return in_turn[: group.P]
    owner = np.full(group.P, NOBODY, dtype=np.int64)
    owner[group.wanted] = in_turn[: np.count_nonzero(group.wanted)]
    return owner


def _on_classes(problem: Problem, order: Order) -> tuple[Ints, Proof]:
    """Owners (P,) and the proof, goal after goal; if spread is a goal and still open, by the network."""
    quick, shown = _quick(problem, order)
    if SPREAD not in order or _is_best_spread(problem, quick, shown):
        return quick, shown
    owner = _on_network(problem, order, quick)
    if owner is None:
        before = order[: order.index(SPREAD)]  # nothing is shown from there on
        return quick, {goal: shown[goal] if goal in before else "heuristic" for goal in order}
    # A second cooperative round may find a quick plan where the first did not: then it is the target from the start.
    if MOVES in order and problem.equal:
        held = _held_later(problem, owner)
        later = replace(problem, claim=held, contested=held != NOBODY)
        again, shown = _quick(later, order)
        if _is_best_spread(later, again, shown):
            return again, shown
    return owner, dict.fromkeys(order, "optimal")


def _quick(problem: Problem, order: Order) -> tuple[Ints, Proof]:
    """The plan goal after goal: spread is tried if it is free, racks count unless they make too large a table."""
    shown = len(order) if problem.racks_told else order.index(RACKS)
    left_out = (SPREAD,) if problem.racks_told else (SPREAD, RACKS)
    owner = solve(problem, tuple(goal for goal in order if goal not in left_out) or (BALANCE,))
    return owner, {goal: "optimal" if n < shown else "heuristic" for n, goal in enumerate(order)}


def _is_best_spread(problem: Problem, owner: Ints, shown: Proof) -> bool:
    """Whether other goals are shown to be best, and no plan at all is better spread: each topic n / m or one more."""
    if "heuristic" in shown.values() or not problem.equal:
        return False
    wanted = np.flatnonzero(problem.row >= 0)
    topic = problem.topic[wanted]
    _, first, size = np.unique(topic, return_index=True, return_counts=True)
    members = (problem.eligible @ np.bincount(problem.column))[problem.row[wanted[first]]]
    share, more = size // members, size % members
    least = int((members * share**2 + more * (2 * share + 1)).sum())
    held = np.unique(topic * len(problem.column) + owner[wanted], return_counts=True)[1]
    return int(held @ held) == least


def _home(group: Group, problem: Problem, order: Order, owner: Ints, cooperative: bool) -> Ints:
    """(P,) of all plans that are as good for the goals as ``owner`` (P,) the one in which most partitions come home.

    Cooperative strategies forget: in their second round what changed hands is claimed by nobody, and stale claims are
    gone. So theirs must be the plan that the second round finds by itself, or nobody comes home but by chance.
    """
    returned = _on_network(problem, order, owner, home=True)
    if returned is None:
        return owner
    if (
        cooperative
        and (
            best(group.holding(_held_later(problem, returned)), tuple(goal.name for goal in order)).owner != returned
        ).any()
    ):
        return owner
    return returned


def _held_later(problem: Problem, owner: Ints) -> Ints:
    """(P,) the owners in the second cooperative round: none for moving partitions that others still claim."""
    return np.where((owner != problem.claim) & problem.contested, NOBODY, owner)


def _on_network(problem: Problem, order: Order, start: Ints, home: bool = False) -> Ints | None:
    """A plan that is best for the goals, and if ``home`` most then come home; None if the network is too large.

    start
        (P,) some plan that is fair.
    """
    by_topic = topics_apart(problem) if SPREAD in order else problem
    if SPREAD in order and (not problem.racks_told or not fits_network(by_topic)):
        return None
    fixed = fixed_on_network(by_topic, (*order, RETURNED) if home else order, start)
    if SPREAD not in order:
        return solve(problem, order, fixed)
    # Handed out with fair loads, topics spread by a good try, few cycles are left to cancel for the network.
    return complete_on_network(by_topic, order, fixed, partial(complete, problem))

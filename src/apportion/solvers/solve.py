"""The best plan of a group for goals in an order: the way that fits its size, and the answer with its proof."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from apportion.arrays import CELLS, NOBODY, Ints
from apportion.errors import BadInput
from apportion.model.group import Group
from apportion.model.measures import held_of_topic
from apportion.model.plan import Answer, Plan
from apportion.solvers.assignment_network import ARCS_MAX, arcs_of, complete_on_network, fixed_on_network
from apportion.solvers.certificate import Exactness
from apportion.solvers.greedy_by_topic import plan_by_topic
from apportion.solvers.lexicographic import complete, solve
from apportion.solvers.partition_classes import problem_of
from apportion.solvers.problem import units
from apportion.solvers.small_groups import LISTS_MAX_CELLS, LISTS_MAX_PARTITIONS, plan_on_lists

GOALS: Final = ("balance", "racks", "moves")
"""The goals that count where nothing else is asked for."""
ALL_GOALS: Final = ("balance", "spread", "racks", "moves")


def check_order(name: str, order: tuple[str, ...]) -> None:
    """Raise ``BadInput`` unless the order names some of the goals, each once."""
    goals = isinstance(order, tuple) and all(goal in ALL_GOALS for goal in order)
    if not goals or not order or len(set(order)) < len(order):
        shown = ",".join(map(str, order)) if isinstance(order, tuple) else order
        raise BadInput(f"setting order of {name}", repr(shown), f"some of {', '.join(ALL_GOALS)}, each once")


def dealt_proof(order: tuple[str, ...]) -> dict[str, str] | None:
    """The proof of ``best`` for members that are alike, claim nothing and name no rack: they are dealt round and round.

    None where the order asks for another plan.
    """
    goals = tuple(goal for goal in order if goal != "racks")
    return dict.fromkeys(goals, "optimal") if goals[:1] == ("balance",) else None


def best(group: Group, order: tuple[str, ...] = GOALS, cooperative: bool = False) -> Answer:
    """The plan that is best for the goals in their order, with what is proved of it.

    cooperative
        Whether what changes hands is withheld for a round, after which nobody knows any more of stale claims.
    """
    if "racks" in order and (group.racks is None or not group.racks.known):
        order = tuple(goal for goal in order if goal != "racks")
    if group.tells_home:
        owner, proof = _home(group, order, cooperative)
    else:
        owner, proof = _plan(group, order)
    return Answer(owner, proof, certificate=Exactness(group, owner, proof))


def _plan(group: Group, order: tuple[str, ...]) -> tuple[Ints, dict[str, str]]:
    """Owners (P,) and the proof, by the way that fits the group; stale claims count for nothing."""
    proof = dict.fromkeys(order, "optimal")
    equal = group.equal_capacities
    alone = equal and len(group.subscriptions) == 1 and "racks" not in order and order[:1] == ("balance",)
    if alone and ("moves" not in order or not len(group.claims.member)):
        return _one_deal(group), proof
    small = alone and group.P <= LISTS_MAX_PARTITIONS
    # Lists of claims are made for small groups alone: for large ones they take as long as the whole plan.
    if equal and "spread" not in order and (small or group.P * group.M <= LISTS_MAX_CELLS):
        return plan_on_lists(group, order, uniform=small), proof
    if len(group.subscriptions) * group.T > CELLS:
        return plan_by_topic(group, units(group.capacity), order)
    return _with_spread(group, order) if "spread" in order else _solve(group, order)


def _with_spread(group: Group, order: tuple[str, ...]) -> tuple[Ints, dict[str, str]]:
    """The plan with spread among its goals: a quick one, if no plan at all is better spread, else by the network."""
    quick, shown = _solve(group, order)
    if _is_quick(group, quick, shown):
        return quick, shown
    owner = _on_network(group, order, quick)
    if owner is None:
        before = order[: order.index("spread")]  # nothing is shown from there on
        return quick, {goal: shown[goal] if goal in before else "heuristic" for goal in order}
    # A second cooperative round may find a quick plan where the first did not: then it is the target from the start.
    if "moves" in order and group.equal_capacities:
        later = _later(group, owner)
        again, shown = _solve(later, order)
        if _is_quick(later, again, shown):
            return again, shown
    return owner, dict.fromkeys(order, "optimal")


def _is_quick(group: Group, owner: Ints, shown: dict[str, str]) -> bool:
    """Whether other goals are shown to be best, and no plan whatever is better spread: each topic n / m or one more."""
    if "heuristic" in shown.values() or not group.equal_capacities:
        return False
    size = np.diff(group.start)[group.wanted_topic]
    members = group.wants[:, group.wanted_topic].T @ np.bincount(group.subscription_of)
    share, more = size // members, size % members
    least = int((members * share**2 + more * (2 * share + 1)).sum())
    held = held_of_topic(group, owner)[1]
    return int(held @ held) == least


def _home(group: Group, order: tuple[str, ...], cooperative: bool) -> tuple[Ints, dict[str, str]]:
    """The plan that is best for the goals, and of those the one in which most partitions come home.

    Cooperative strategies forget: in their second round what changed hands is claimed by nobody, and stale claims are
    gone. So theirs must be the plan that the second round finds by itself, or nobody comes home but by chance.
    """
    owner, proof = _plan(group, order)
    if "heuristic" in proof.values() or len(group.subscriptions) * group.T > CELLS:
        return owner, proof
    returned = _on_network(group, order, owner, group.home)
    if returned is None or (cooperative and (_plan(_later(group, returned), order)[0] != returned).any()):
        return owner, proof
    return returned, proof


def _on_network(group: Group, order: tuple[str, ...], start: Ints, home: Ints | None = None) -> Ints | None:
    """A plan that is best for the goals, and in which most then come home; None where the network would be too large.

    start, home
        (P,) some plan that is fair; to whom each partition would come home, -1 nobody.
    """
    classes = problem = problem_of(group, order)
    if "spread" in order:
        problem = problem_of(group, order, by_topic=True)
        if arcs_of(problem) > ARCS_MAX or not problem.racks_told:
            return None
    fixed = fixed_on_network(problem, order, start, home)
    if "spread" not in order:
        return solve(problem, order, fixed)
    # Handed out with fair loads, topics spread by a good try, few cycles are left to cancel for the network.
    return complete_on_network(problem, order, fixed, partial(complete, classes))


def _later(group: Group, owner: Ints) -> Group:
    """The group in the second cooperative round: everybody holds what the first one gave, and says so."""
    return group.holding(Plan(group, "", {}, Answer(owner), cooperative=True).owner_now)


def _one_deal(group: Group) -> Ints:
    """The wanted partitions round and round the members."""
    laps = np.empty((-(-group.P // group.M), group.M), dtype=np.int64)  # np.tile takes longer than a small plan
    laps[:] = np.arange(group.M)
    dealt = laps.ravel()
    if group.wanted_topic.all():
        return dealt[: group.P]
    owner = np.full(group.P, NOBODY, dtype=np.int64)
    owner[group.wanted] = dealt[: np.count_nonzero(group.wanted)]
    return owner


def _solve(group: Group, order: tuple[str, ...]) -> tuple[Ints, dict[str, str]]:
    """The plan of any other group: spread is tried where it is free, racks count unless they make too large a table."""
    problem = problem_of(group, order)
    shown = len(order) if problem.racks_told else order.index("racks")
    left_out = ("spread",) if problem.racks_told else ("spread", "racks")
    owner = solve(problem, tuple(goal for goal in order if goal not in left_out) or ("balance",))
    return owner, {goal: "optimal" if n < shown else "heuristic" for n, goal in enumerate(order)}

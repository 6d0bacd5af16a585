"""Prices of members that show a plan to be best: the dual of the plan.

The argument for a reader who trusts nobody: all goals are one cost, by weights so large that no exchange makes up
for an earlier goal by later ones. If each member has a price between what its last and its next partition cost in
load, and each partition stands where price + miss + move is least, then no plan costs less (linear programming
duality): whoever takes partitions elsewhere pays at least as much. The prices are the potentials of the residual
network, found by Bellman and Ford from the plan alone, and exist exactly if the plan is best. With large capacities
they are Python's integers.
"""

from __future__ import annotations

from dataclasses import dataclass

from apportion.arrays import Ints, Numbers
from apportion.solvers.assignment_network import AssignmentNetwork
from apportion.solvers.goals import Order
from apportion.solvers.problem import Problem, weights


@dataclass(frozen=True, eq=False)
class Prices:
    """Why no plan is better, for anyone to check.

    weight
        What a unit of each goal weighs: so much that no exchange makes up for it by the goals after it.
    price
        (M,) what it costs to hold one more partition at a member.
    topic_price
        Where spread is a goal: topics, members and what it costs to hold one more of the topic there, (N,) each.

    Each partition stands where price + weight of a miss + weight of a move is least among all who want it, and each
    price lies between weight of balance x load and weight of balance x (load + 1); where spread is a goal, a topic's
    price at a member lies between the member's price + weight of spread x held of the topic and one more. (Where
    capacities differ, between weight x unit x (2 load - 1) and (2 load + 1), and so for spread.) Then the plan is best,
    by the duality of linear programming: whoever takes partitions elsewhere pays at least as much.
    """

    weight: dict[str, int]
    price: Numbers
    topic_price: tuple[Ints, Ints, Numbers] | None = None


def prices(problem: Problem, owner: Ints, order: Order) -> Prices | None:
    """The members' prices for a plan (P,), or None if the plan is not the best.

    All goals are one cost here, by their weights. The potentials of the residual network settle exactly where no chain
    of hand-overs improves the plan; a node's price is what it costs to get from it to the sink.

    >>> import numpy as np
    >>> from apportion.model.group_json import read_group
    >>> members = {"a": {"topics": ["t"], "owned": {"t": [0, 1, 2]}}, "b": {"topics": ["t"]}}
    >>> group = read_group({"topics": {"t": 4}, "members": members})
    >>> from apportion.solvers.goals import BALANCE, MOVES
    >>> from apportion.solvers.partition_classes import problem_of
    >>> problem = problem_of(group, (BALANCE, MOVES))
    >>> prices(problem, np.array([0, 0, 1, 1]), (BALANCE, MOVES)).weight
    {'moves': 1, 'balance': 4}
    >>> prices(problem, np.array([0, 0, 0, 0]), (BALANCE, MOVES)) is None
    True
    """
    plan = AssignmentNetwork(problem, owner, order)
    weight = weights(order, len(owner), len(problem.column), 0 if problem.equal else int(problem.unit.max()))
    potential = plan.network.potentials([(weight[goal], plan.cost(goal)) for goal in order])
    if potential is None:
        return None
    price = potential[plan.sink] - potential
    held = (plan.cell_topic, plan.cell_member, price[plan.first_cell : plan.first_member]) if plan.spread else None
    return Prices({goal.name: of for goal, of in weight.items()}, price[plan.first_member : plan.sink], held)

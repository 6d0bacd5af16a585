"""Why no plan is better: bounds that are met, and prices of members, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from apportion.arrays import Ints
from apportion.model.group import Group
from apportion.model.measures import measure
from apportion.solvers.dual_prices import Prices, prices
from apportion.solvers.goals import SPREAD, Goal
from apportion.solvers.partition_classes import problem_of, topics_apart
from apportion.wording import count

PRICES_TOLD: Final = 12
"""So many different prices are printed; ``Exactness.prices`` has them all."""
_UNPROVED: Final = "Subscriptions overlap, and the group is too large to show it"


@dataclass(frozen=True, eq=False)
class Exactness:
    """Why no plan is better: the bounds that are met, and for the others prices of members.

    owner, proof
        (P,) the plan; goal to ``optimal`` or ``heuristic``, in order.
    """

    group: Group
    owner: Ints
    proof: Mapping[Goal, str]

    @cached_property
    def prices(self) -> Prices | None:
        """Prices for the goals that are shown, found from the plan alone; None if the plan is not the best."""
        shown = tuple(goal for goal, how in self.proof.items() if how == "optimal")
        problem = problem_of(self.group, shown)
        return prices(topics_apart(problem) if SPREAD in shown else problem, self.owner, shown)

    def explain(self, group: Group) -> list[str]:
        """The argument, a sentence a line."""
        measures = measure(group, self.owner)
        lines = [
            f"{goal.name}: {how}. {goal.why(measures) if how == 'optimal' else _UNPROVED}."
            for goal, how in self.proof.items()
        ]
        if any("prices" in line for line in lines):
            lines += self._dual(group)
        return lines

    def to_dict(self, group: Group) -> dict[str, Any]:
        """The weights and every member's price, for a reader who checks the proof; nothing if no price is needed.

        Returns
            ``weights``, ``prices`` (member to price), and where spread is a goal ``topic_prices`` (topic, then member).
        """
        if self.prices is None or not any("prices" in goal.why(measure(group, self.owner)) for goal in self.proof):
            return {}
        members = group.members
        fields: dict[str, Any] = {"weights": self.prices.weight}
        fields["prices"] = dict(zip(members, map(int, self.prices.price.tolist()), strict=True))
        if self.prices.topic_price is not None:
            by_topic: dict[str, dict[str, int]] = {}
            for t, m, price in zip(*(column.tolist() for column in self.prices.topic_price), strict=True):
                by_topic.setdefault(group.topics[t], {})[members[m]] = int(price)
            fields["topic_prices"] = by_topic
        return fields

    def _dual(self, group: Group) -> list[str]:
        """The prices, and their conclusion."""
        if self.prices is None:
            return ["The prices could not be found: please report this group."]
        weight, price = self.prices.weight, self.prices.price
        weights = ", ".join(f"{goal.unit} {weight[goal.name]}" for goal in self.proof if goal.name in weight)
        lines = [
            f"Weights: {weights}. No exchange makes up for an earlier goal by later ones.",
            "Each partition is with a member for which price + miss + move is least of all its subscribers.",
            *self._bounds(group),
            "So moving partitions elsewhere costs at least as much: no plan is better (duality). Prices:",
        ]
        values, first, times = np.unique(price.astype(object), return_index=True, return_counts=True)
        for value, m, n in list(zip(values.tolist(), first.tolist(), times.tolist(), strict=True))[:PRICES_TOLD]:
            lines.append(f"  {value}: {group.members[m]}" + (f" and {n - 1} more" if n > 1 else ""))
        if len(values) > PRICES_TOLD:
            lines.append(f"  and {count(len(values) - PRICES_TOLD, 'more price')}")
        return lines

    def _bounds(self, group: Group) -> list[str]:
        """The bounds of a price."""
        low, high, over, of_topic = "load", "load + 1", "", "held to held + 1"
        if not group.equal_capacities:
            low, high, of_topic = "2 load - 1", "2 load + 1", "2 held - 1 to 2 held + 1 over capacity"
            over = ", over capacity (in units of the capacities' least common multiple)"
        lines = [f"Each price lies between {low} and {high}, times the weight of load{over}."]
        if self.prices is not None and self.prices.topic_price is not None:
            between = f"{of_topic} of the topic, times the weight of spread"
            lines.append(f"Each topic has a price of its own at a member: the member's price and {between}.")
        return lines

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
from apportion.solvers.partition_classes import problem_of, topics_apart
from apportion.wording import count

PRICES_TOLD: Final = 12
"""So many different prices are printed; ``Exactness.prices`` has them all."""


@dataclass(frozen=True, eq=False)
class Exactness:
    """Why no plan is better: the bounds that are met, and where they are not, prices of members.

    owner, proof
        (P,) the plan; goal to ``optimal`` or ``heuristic``, in order.
    """

    group: Group
    owner: Ints
    proof: Mapping[str, str]

    @cached_property
    def prices(self) -> Prices | None:
        """Prices for the goals that are shown, found from the plan alone; None if the plan is not the best."""
        shown = tuple(goal for goal, how in self.proof.items() if how == "optimal")
        problem = problem_of(self.group, shown)
        return prices(topics_apart(problem) if "spread" in shown else problem, self.owner, shown)

    def explain(self, group: Group) -> list[str]:
        """The argument, a sentence a line."""
        measures = measure(group, self.owner)
        lines = [_bound(goal, how, measures) for goal, how in self.proof.items()]
        if any("prices" in line for line in lines):
            lines += self._dual(group)
        return lines

    def _dual(self, group: Group) -> list[str]:
        """The prices, and what they show."""
        if self.prices is None:
            return ["The prices could not be found: please report this group."]
        weight, price = self.prices.weight, self.prices.price
        units = {"balance": "a unit of load", "racks": "a miss", "moves": "a move", "spread": "a unit of a topic held"}
        weights = ", ".join(f"{units[goal]} {weight[goal]}" for goal in self.proof if goal in weight)
        lines = [
            f"Weights: {weights}. No exchange makes up for an earlier goal by later ones.",
            "Each partition stands where price + miss + move is least among all members that want it.",
            *self._bounds(group),
            "So whoever takes partitions elsewhere pays at least as much: no plan is better (duality). Prices:",
        ]
        values, first, times = np.unique(price.astype(object), return_index=True, return_counts=True)
        for value, m, n in list(zip(values.tolist(), first.tolist(), times.tolist(), strict=True))[:PRICES_TOLD]:
            lines.append(f"  {value}: {group.members[m]}" + (f" and {n - 1} more" if n > 1 else ""))
        if len(values) > PRICES_TOLD:
            lines.append(f"  and {count(len(values) - PRICES_TOLD, 'more price')}")
        return lines

    def _bounds(self, group: Group) -> list[str]:
        """Between what a price lies."""
        low, high, over, of_topic = "load", "load + 1", "", "held to held + 1"
        if not group.equal_capacities:
            low, high, of_topic = "2 load - 1", "2 load + 1", "2 held - 1 to 2 held + 1 over capacity"
            over = ", over capacity (in units of the capacities' least common multiple)"
        lines = [f"Each price lies between {low} and {high}, times the weight of load{over}."]
        if self.prices is not None and self.prices.topic_price is not None:
            between = f"{of_topic} of the topic, times the weight of spread"
            lines.append(f"Each topic has a price of its own at a member: the member's price and {between}.")
        return lines


def _bound(goal: str, how: str, measures: Mapping[str, Any]) -> str:
    """What shows the goal to be met, in a sentence."""
    least, most = int(measures["load_min"]), int(measures["load_max"])
    if how != "optimal":
        return f"{goal}: {how}. Subscriptions overlap, and the group is too large to show it."
    below = "the prices below show it"
    if goal == "balance":
        value = f"members hold {least} to {most} partitions, squares {measures['load_squares']}"
        if "load_cost" in measures:
            value = f"{value}, over capacity {measures['load_cost']}"
        elif most - least <= 1:
            below = "loads within one of each other cannot be fairer"
    elif goal == "spread":
        value = f"partitions of a topic held by a member, squared and summed: {measures['spread_squares']}"
        if "spread_cost" in measures:
            value = f"{value}, over capacity {measures['spread_cost']}"
        elif measures["spread_squares"] == measures["partitions"]:
            below = "nobody holds two of a topic"
    elif goal == "racks":
        value = f"{count(measures['rack_misses'], 'owner')} without a local replica"
        below = "the prices below show that fewer cannot be" if measures["rack_misses"] else "none can have fewer"
    else:
        claims, moves = int(measures["moves"]) + int(measures["kept"]), int(measures["moves"])
        value = f"{moves:,} of {count(claims, 'standing claim')} {'moves' if moves == 1 else 'move'}"
        below = "the prices below show that fewer cannot be" if measures["moves"] else "none can be fewer"
    return f"{goal}: optimal. {value[0].upper()}{value[1:]}: {below}."

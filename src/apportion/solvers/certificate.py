"""Why no plan is better: bounds that are met, and prices of members, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from apportion.arrays import Ints
from apportion.model.group import Group
from apportion.model.measures import measure
from apportion.solvers.dual_prices import Prices, prices
from apportion.solvers.partition_classes import problem_of

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
        q = problem_of(self.group, "racks" in shown)
        return prices(self.owner, q.row, q.column, q.open, q.miss, q.claim, shown)

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
        units = {"balance": "a unit of load", "racks": "a miss", "moves": "a move"}
        told = ", ".join(f"{units[goal]} {weight[goal]}" for goal in self.proof if goal in weight)
        lines = [
            f"Weights: {told}. No exchange makes up for an earlier goal by later ones.",
            "Each partition stands where price + miss + move is least among all members that want it.",
            "Each price lies between load and load + 1, times the weight of load.",
            "So whoever takes partitions elsewhere pays at least as much: no plan is better (duality). Prices:",
        ]
        values, place, count = np.unique(price, return_index=True, return_counts=True)
        for value, m, n in list(zip(values.tolist(), place.tolist(), count.tolist(), strict=True))[:PRICES_TOLD]:
            lines.append(f"  {value}: {group.members[m]}" + (f" and {n - 1} more" if n > 1 else ""))
        if len(values) > PRICES_TOLD:
            lines.append(f"  and {len(values) - PRICES_TOLD} more prices")
        return lines


def _bound(goal: str, how: str, measures: Mapping[str, int]) -> str:
    """What shows the goal to be met, in a sentence."""
    least, most = measures["load_min"], measures["load_max"]
    if how != "optimal":
        return f"{goal}: {how}. Subscriptions overlap, and the group is too large to show it (without OR-tools)."
    if goal == "balance":
        said = f"members hold {least} to {most} partitions, squares {measures['load_squares']}"
        met = "loads within one of each other cannot be fairer" if most - least <= 1 else "the prices below show it"
    elif goal == "racks":
        said = f"{measures['rack_misses']} owners without a local replica"
        met = "none can have fewer" if not measures["rack_misses"] else "the prices below show that fewer cannot be"
    else:
        said = f"{measures['moves']} of {measures['moves'] + measures['kept']} standing claims move"
        met = "none can be fewer" if not measures["moves"] else "the prices below show that fewer cannot be"
    return f"{goal}: optimal. {said[0].upper()}{said[1:]}: {met}."

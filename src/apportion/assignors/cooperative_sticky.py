"""Cooperative sticky: the sticky plan, where a partition that changes hands rests for one round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from apportion.arrays import Ints
from apportion.model.facts import CAPACITY, Fact
from apportion.model.group import Group
from apportion.model.plan import Answer
from apportion.solvers.goals import DEFAULT, check_order
from apportion.solvers.solve import best
from apportion.strategy.codec import InSubscription, UserDataCodec


@dataclass(frozen=True)
class CooperativeSticky:
    """The sticky plan in two rounds at most: what somebody still holds is withheld once, then handed over.

    order
        The goals, most important first: any of ``balance``, ``spread``, ``racks``, ``moves``; see ``sticky``.

    The second round, with the past that the first one left, gives the same target and withholds nothing.
    Goals: balance > racks > moves > each topic spread. Source: KIP-429, KIP-54, KIP-881.
    """

    name: ClassVar[str] = "cooperative-sticky"
    reads: ClassVar[frozenset[str]] = frozenset({"racks"})
    memory: ClassVar[UserDataCodec] = InSubscription()
    goals: ClassVar[tuple[str, ...]] = DEFAULT
    facts: ClassVar[Mapping[str, Fact]] = {"capacity": CAPACITY}
    cooperative: ClassVar[bool] = True
    structural: ClassVar[str] = "order"
    target_of: ClassVar[tuple[str, str]] = ("sticky", "homes")
    order: tuple[str, ...] = DEFAULT

    def __post_init__(self) -> None:
        check_order(self.name, self.order)
        object.__setattr__(self, "goals", self.order)  # what this one pursues; the class tells the default

    def assign(self, group: Group) -> Ints | Answer:
        """Return (P,) the member that owns each partition in the end, with the proof of each goal."""
        return best(group, self.order, cooperative=True)

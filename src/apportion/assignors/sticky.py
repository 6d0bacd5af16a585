"""Sticky: as even as can be, then near, then with as few moves as can be; each shown to be best."""

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
from apportion.strategy.cooperation import Cooperation


@dataclass(frozen=True)
class Sticky(Cooperation):
    """The fairest plan there is; of those the one with most local replicas; of those the one that moves least.

    order
        The goals, most important first: any of ``balance``, ``spread``, ``racks``, ``moves``. A goal that is not named
        does not count: ``("balance",)`` deals afresh, ``("moves", "balance")`` keeps every claim that stands.
    cooperative
        What somebody still holds is withheld once, then handed over: the second round, with the past that the first
        one left, gives the same target and withholds nothing (KIP-429).

    Among plans equal on all of them most partitions come home to the newest stale claim. What is still open is dealt
    topic by topic; only ``spread``, named as a goal, has each topic spread as evenly as can be. The price is a min-cost
    flow where subscriptions overlap.
    Goals: balance > racks > moves. Source: KIP-54, KIP-341, KIP-881.
    """

    name: ClassVar[str] = "sticky"
    reads: ClassVar[frozenset[str]] = frozenset({"racks"})
    quick: ClassVar[bool] = True
    structural: ClassVar[str] = "order"
    goals: ClassVar[tuple[str, ...]] = DEFAULT
    facts: ClassVar[Mapping[str, Fact]] = {"capacity": CAPACITY}
    order: tuple[str, ...] = DEFAULT

    def __post_init__(self) -> None:
        super().__post_init__()
        check_order(self.name, self.order)
        object.__setattr__(self, "goals", self.order)  # what this one pursues; the class tells the default

    def assign(self, group: Group) -> Ints | Answer:
        """Return (P,) the member that owns each partition, with the proof of each goal."""
        return best(group, self.order, cooperative=self.cooperative)


@dataclass(frozen=True)
class CooperativeSticky(Sticky):
    """The sticky plan in two rounds at most: what somebody still holds is withheld once, then handed over.

    Goals: balance > racks > moves. Source: KIP-429, KIP-54, KIP-881.
    """

    name: ClassVar[str] = "cooperative-sticky"
    quick: ClassVar[bool] = False
    target_of: ClassVar[tuple[str, str]] = ("sticky", "homes")
    cooperative: ClassVar[bool] = True  # type: ignore[misc]  # its name says so, so it is no setting

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
from apportion.strategy.codec import InUserData, UserDataCodec


@dataclass(frozen=True)
class Sticky:
    """The fairest plan there is; of those the one with most local replicas; of those the one that moves least.

    order
        The goals, most important first: any of ``balance``, ``spread``, ``racks``, ``moves``. A goal that is not named
        does not count: ``("balance",)`` deals afresh, ``("moves", "balance")`` keeps every claim that stands.

    Among plans equal on all of them most partitions come home to the newest stale claim. What is still open spreads
    each topic evenly. The price is a min-cost flow where subscriptions overlap.
    Goals: balance > racks > moves > each topic spread. Source: KIP-54, KIP-341, KIP-881.
    """

    name: ClassVar[str] = "sticky"
    reads: ClassVar[frozenset[str]] = frozenset({"racks"})
    quick: ClassVar[bool] = True
    structural: ClassVar[str] = "order"
    memory: ClassVar[UserDataCodec] = InUserData()
    goals: ClassVar[tuple[str, ...]] = DEFAULT
    facts: ClassVar[Mapping[str, Fact]] = {"capacity": CAPACITY}
    order: tuple[str, ...] = DEFAULT

    def __post_init__(self) -> None:
        check_order(self.name, self.order)
        object.__setattr__(self, "goals", self.order)  # what this one pursues; the class tells the default

    def assign(self, group: Group) -> Ints | Answer:
        """Return (P,) the member that owns each partition, with the proof of each goal."""
        return best(group, self.order)

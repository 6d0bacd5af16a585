"""One point of the frontier as people and programs see it: who joins, who leaves, and the plan on who is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from apportion.arrays import NOBODY, Floats, Ints, ints
from apportion.model.build import build
from apportion.model.group import Group
from apportion.model.group_json import group_to_dict
from apportion.model.plan import Answer, Plan
from apportion.model.to_names import collector_paused

NAME = "size"
"""What stands where a strategy's name does: no strategy made the plan, it is the packing itself."""


@dataclass(frozen=True, eq=False)
class FrontierPoint:
    """A plan for a number of members.

    group, owner
        The group as it was; (P,) its members 0 to M - 1, or newcomers from M on; -1 where nobody wants the partition.
    members
        How many there are then; ``join`` come and ``leave`` go, member ids.
    moves, moved
        Partitions, and their work, that are not where they were, those of members that leave too.
    moved_bound
        Work that every plan of so many members moves.
    busiest
        The fullest member's work as a share of what it takes.
    newcomers_want
        Topics of each newcomer.
    """

    group: Group
    owner: Ints
    members: int
    moves: int
    moved: float
    moved_bound: float
    busiest: float
    join: tuple[str, ...]
    leave: tuple[str, ...]
    newcomers_want: tuple[str, ...]

    @property
    def proven(self) -> bool:
        """Whether no plan of so many members moves less."""
        return self.moved <= self.moved_bound

    @cached_property
    def plan(self) -> Plan:
        """The plan on the members that are there then; those that leave hold nothing any more, and claim nothing."""
        with collector_paused():
            raw = group_to_dict(self.group)
            gone = set(self.leave)
            raw["members"] = {name: fields for name, fields in raw["members"].items() if name not in gone}
            wants = list(self.newcomers_want)
            raw["members"].update({name: {"topics": wants} for name in self.join})
            group = build(raw)
        index = {name: m for m, name in enumerate(group.members)}
        names: Sequence[str] = (*self.group.members, *self.join)
        position = ints([index.get(name, NOBODY) for name in names] + [NOBODY])
        proof = {"moved": "optimal" if self.proven else "bounded"}
        return Plan(group, NAME, {}, Answer(position[self._owner_of(group)], proof))

    def _owner_of(self, group: Group) -> Ints:
        """(P of the new group,) owners by the old numbers: a topic that only those who left wanted may be gone."""
        if group.P == self.group.P:
            return self.owner
        at = {self.group.name_of(p): int(self.owner[p]) for p in range(self.group.P)}
        return ints([at[group.name_of(p)] for p in range(group.P)])

    def to_dict(self) -> dict[str, Any]:
        """The point as JSON, ``plan`` being plan.json."""
        return {
            "members": self.members,
            "moves": self.moves,
            "moved": number(self.moved),
            "moved_bound": number(self.moved_bound),
            "busiest": round(self.busiest, 9),
            "join": list(self.join),
            "leave": list(self.leave),
            "plan": self.plan.to_dict(),
        }


def number(value: float) -> int | float:
    """A whole number without a point.

    >>> number(2.0), number(2.5)
    (2, 2.5)
    """
    return int(value) if float(value).is_integer() else value


def busiest(owner: Ints, work: Floats, takes: Sequence[float]) -> float:
    """The fullest member's work as a share of its capacity; takes (members,) as numbered in ``owner``.

    >>> busiest(np.array([0, 0, 1]), np.array([2.0, 3.0, 4.0]), takes=[10, 5])
    0.8
    """
    if not len(takes):
        return 0.0
    held = np.bincount(owner[owner >= 0], weights=work[owner >= 0], minlength=len(takes))
    return float((held / np.asarray(takes)).max())

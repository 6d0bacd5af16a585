"""The goals of the exact solver, each once: its name, its cost and the place of it, the proof that it is met, in words.

Each goal is a sum of convex costs over one layer of the network's arcs (``assignment_network``). An order of goals is
a tuple of them, the most important first; whoever works on an order loops over it and asks each goal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Protocol

from apportion.arrays import NOBODY, Bools, Ints, Numbers
from apportion.errors import BadInput
from apportion.model.group import Group
from apportion.wording import count

Measures = Mapping[str, Any]


class Units(Protocol):
    """A problem's facts about its members: (M,) the price of a unit of load at each."""

    @property
    def unit(self) -> Numbers:
        """(M,) whole numbers, in proportion to 1 / capacity."""


class Layers(Protocol):
    """The layers of the network's arcs, of which a goal picks those that bear its cost; see ``assignment_network``."""

    load: slice
    onto: slice
    near: slice
    own: slice
    leave: slice
    of: Ints
    to: Ints
    row_arc: tuple[Ints, ...]
    slot: Ints
    cell_member: Ints
    kind_row: Ints
    kind_claim: Ints
    miss: Bools
    comes: Ints

    @property
    def problem(self) -> Units:
        """Whose arcs they are."""


class Goal(ABC):
    """The quantity that is made least.

    unit
        What its weight is the price of.
    squares
        0 where each unit of an arc costs the same. Else each further unit costs more by the first one (or twice that),
        and this is how many times a load's square one exchange can change it.
    """

    name: ClassVar[str]
    unit: ClassVar[str]
    squares: ClassVar[int] = 0

    @abstractmethod
    def costs(self, on: Layers) -> list[tuple[slice, Numbers]]:
        """The layers of arcs that bear it, and the cost of the first unit of each arc."""

    def counts(self, group: Group) -> bool:
        """Whether plans of the group can differ in it."""
        del group
        return True

    @abstractmethod
    def words(self, measures: Measures) -> tuple[str, str]:
        """The best plan's value; the bound of all plans that it meets, "" if only prices show it to be least."""

    def why(self, measures: Measures) -> str:
        """Both as a sentence; it speaks of prices if they are needed."""
        value, bound = self.words(measures)
        shown = "it" if self.squares else "that fewer cannot be"
        return f"{value}: {bound or f'the prices below show {shown}'}"


class Balance(Goal):
    """The sum over members of load^2 / capacity."""

    name, unit, squares = "balance", "a unit of load", 1

    def costs(self, on: Layers) -> list[tuple[slice, Numbers]]:
        """Members to the sink."""
        return [(on.load, on.problem.unit)]

    def words(self, measures: Measures) -> tuple[str, str]:
        """Least and most."""
        least, most = measures["load_min"], measures["load_max"]
        held = f"{least} to {most} partitions" if least < most else f"{count(least, 'partition')} each"
        value = f"Members hold {held}, squares {measures['load_squares']}"
        if "load_cost" in measures:
            return f"{value}, over capacity {measures['load_cost']}", ""
        return value, "loads within one of each other cannot be fairer" if most - least <= 1 else ""


class Spread(Goal):
    """The same sum over topics and members, of the partitions of the topic held: an exchange may pass many topics."""

    name, unit, squares = "spread", "a unit of a topic held", 4

    def costs(self, on: Layers) -> list[tuple[slice, Numbers]]:
        """A topic at a member to the member."""
        return [(on.onto, on.problem.unit[on.cell_member])]

    def words(self, measures: Measures) -> tuple[str, str]:
        """The sum."""
        squares = measures["spread_squares"]
        value = f"Partitions of a topic held by a member, squared and summed: {squares}"
        if "spread_cost" in measures:
            return f"{value}, over capacity {measures['spread_cost']}", ""
        return value, "no member holds two of a topic" if squares == measures["partitions"] else ""


class LocalRacks(Goal):
    """Partitions whose owner has no replica near."""

    name, unit = "racks", "a miss"

    def costs(self, on: Layers) -> list[tuple[slice, Numbers]]:
        """A row to members, and claimed classes, which pass it by."""
        return [(on.near, on.miss[on.row_arc]), (on.own, on.miss[on.kind_row[on.of], on.slot[on.to]])]

    def counts(self, group: Group) -> bool:
        """Only if racks of both sides are known."""
        return group.knows_racks

    def words(self, measures: Measures) -> tuple[str, str]:
        """How many."""
        misses = measures["rack_misses"]
        return f"{count(misses, 'owner')} without a local replica", "" if misses else "none can have fewer"


class FewMoves(Goal):
    """Partitions whose standing claim is one member's and whose owner is another."""

    name, unit = "moves", "a move"

    def costs(self, on: Layers) -> list[tuple[slice, Numbers]]:
        """A claimed class to its row, and to where it comes home."""
        return [(on.leave, on.kind_claim != NOBODY), (on.own, on.comes & (on.kind_claim[on.of] != NOBODY))]

    def words(self, measures: Measures) -> tuple[str, str]:
        """How many of the claims."""
        moves = measures["moves"]
        claims = count(moves + measures["kept"], "standing claim")
        return f"{moves:,} of {claims} {'moves' if moves == 1 else 'move'}", "" if moves else "none can be fewer"


class Returned(Goal):
    """Partitions that come home: it is not a goal of the user, it decides between plans equal on all that was asked."""

    name, unit = "returned", "a return"

    def costs(self, on: Layers) -> list[tuple[slice, Numbers]]:
        """A claimed class to where it comes home."""
        return [(on.own, -on.comes)]

    def words(self, measures: Measures) -> tuple[str, str]:
        """No plan is measured by it."""
        del measures
        return "As many partitions as can come home", ""


BALANCE, SPREAD, RACKS, MOVES, RETURNED = Balance(), Spread(), LocalRacks(), FewMoves(), Returned()
ALL: Final[Mapping[str, Goal]] = {goal.name: goal for goal in (BALANCE, SPREAD, RACKS, MOVES)}
"""Those that an order may name."""
DEFAULT: Final = ("balance", "racks", "moves")
"""The goals that count where nothing else is asked for."""

Order = tuple[Goal, ...]
"""The most important first."""


def named(order: tuple[str, ...]) -> Order:
    """The goals of these names.

    >>> [goal.unit for goal in named(("moves", "balance"))]
    ['a move', 'a unit of load']
    """
    return tuple(ALL[name] for name in order)


def check_order(name: str, order: tuple[str, ...]) -> None:
    """Raise ``BadInput`` unless the order names some of the goals, each once.

    >>> check_order("sticky", ("moves", "balance"))
    """
    goals = isinstance(order, tuple) and all(goal in tuple(ALL) for goal in order)  # whatever is in it
    if not goals or not order or len(set(order)) < len(order):
        shown = ",".join(map(str, order)) if isinstance(order, tuple) else order
        raise BadInput(f"setting order of {name}", repr(shown), f"some of {', '.join(ALL)}, each once")

"""Numbers about members that strategies ask for by name: how warm a cache is, how much a host can take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from apportion.arrays import CAPACITY_MAX, Ints, ints
from apportion.errors import BadInput
from apportion.model.json_checks import INT32_MAX, INT64_MAX, check_text, integer, is_a

UNSET: Final = -(2**63)
"""Of a member that does not say a number for which nobody has named a default yet; below every number that can be."""


@dataclass(frozen=True)
class Fact:
    """A number about a member that a strategy asks for.

    default
        Of a member that does not say; ``UNSET`` where that shall come below every number.
    low, high
        Its bounds, both included, within 64 bits.
    Raises
        BadInput for bounds that cannot be, or that leave the default out.

    >>> Fact(default=5, high=4)
    Traceback (most recent call last):
    apportion.BadInput: Fact.default: found 5; needed an integer from 0 to 4.
    """

    default: int = 0
    low: int = 0
    high: int = INT32_MAX

    def __post_init__(self) -> None:
        integer(UNSET + 1, INT64_MAX)("Fact.low", self.low)
        integer(self.low, INT64_MAX)("Fact.high", self.high)
        if self.default != UNSET:
            self.check("Fact.default", self.default)

    def check(self, where: str, value: Any) -> None:
        """Raise BadInput, which names the place, for a value that is no whole number within the bounds."""
        integer(self.low, self.high)(where, value)

    def within(self, values: Ints) -> Ints:
        """The values, with the default for those out of bounds."""
        return np.where((values >= self.low) & (values <= self.high), values, self.default)


PRIORITY: Final = Fact(UNSET, -(2**31))
"""For ``failover``: the highest goes first, unset comes last."""
CAPACITY: Final = Fact(1, 1, CAPACITY_MAX)
"""How much a member can take beside the others."""
MEMBER_FIELDS: Final[Mapping[str, Fact]] = {"priority": PRIORITY, "capacity": CAPACITY}
"""Facts with a field of their own in group.json, and bytes of their own."""


def check_facts(where: str, value: Any) -> None:
    """Raise BadInput unless the value is an object of whole numbers in 64 bits, no matter who may ask for them."""
    is_a(where, value, dict, "an object of numbers")
    for name, number in value.items():
        check_text(f"{where}.{name}", name)
        if name in MEMBER_FIELDS:
            raise BadInput(f"{where}.{name}", f"the fact {name!r}", f"it as a field of the member, next to {where!r}")
        if number is not None:
            integer(UNSET + 1, INT64_MAX)(f"{where}.{name}", number)


def fact_columns(members: list[Mapping[str, Any]]) -> dict[str, Ints]:
    """Fact to (M,) numbers of these members in the form of group.json; ``UNSET`` if one does not say."""
    facts_of = [fields.get("facts") or {} for fields in members]
    names = sorted(set().union(*facts_of))
    return {name: ints([UNSET if facts.get(name) is None else facts[name] for facts in facts_of]) for name in names}

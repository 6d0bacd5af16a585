"""Cooperation as a setting, and the name that follows from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final

PREFIX: Final = "cooperative-"


@dataclass(frozen=True)
class Cooperation:
    """The base of strategies whose consumers may keep reading through a rebalance.

    cooperative
        What changes hands is withheld for a round (KIP-429). Members of an eager group cannot join a cooperative one,
        so the strategy has another name then: ``cooperative-`` stands before its own.
    """

    name: ClassVar[str]
    cooperative: bool = field(default=False, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        plain = type(self).name.removeprefix(PREFIX)
        object.__setattr__(self, "name", PREFIX + plain if self.cooperative else plain)

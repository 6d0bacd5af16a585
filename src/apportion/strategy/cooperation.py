"""Cooperation as a setting, and the name that follows from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(frozen=True)
class Cooperation:
    """The base of strategies whose consumers may keep reading through a rebalance.

    cooperative
        What changes hands is withheld for a round (KIP-429). Members of an eager group cannot join a cooperative one,
        so the strategy has another name then: ``cooperative-`` stands before its own.
    """

    name: ClassVar[str]
    cooperative: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if self.cooperative and not type(self).cooperative:  # a class that always is has the name that it was given
            object.__setattr__(self, "name", f"cooperative-{type(self).name}")

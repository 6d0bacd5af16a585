"""The definition of a strategy: a name, goals in order, and a function from a group to an owner for each partition."""

from __future__ import annotations

from typing import ClassVar, Protocol, runtime_checkable

from apportion.arrays import Ints
from apportion.model.group import Group
from apportion.model.plan import Answer


@runtime_checkable
class Assignor(Protocol):
    """A strategy: a frozen dataclass whose fields are its settings, and whose docstring says its purpose.

    name
        As members of a group call it; the first four are Kafka's own protocol names.
    goals
        What ``proof`` may speak of, most important first.

    What else it may say of itself is in ``Traits``.
    """

    name: ClassVar[str]
    goals: ClassVar[tuple[str, ...]]

    def assign(self, group: Group) -> Ints | Answer:
        """Return (P,) the member that owns each partition, -1 for none; alone, or in an ``Answer`` with its proof."""
        ...

"""Which member of a Kafka consumer group owns which partition: planned, proved, measured.

An assignor is a function from a ``Group`` to an owner for each partition; everything else makes a ``Group``, carries
the answer away, or measures it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

__version__: Final = "0.1.0"

if TYPE_CHECKING:
    from apportion.assignors import Assignor, find, known
    from apportion.errors import ApportionError, BadInput, BrokenAssignor, MissingExtra, Unavailable, UnknownName
    from apportion.model.group import Group
    from apportion.model.measures import measure
    from apportion.model.plan import Answer, Plan
    from apportion.model.text import group_to_dict, read_group
    from apportion.planning import plan

_ROOMS: Final = {
    "Answer": "apportion.model.plan",
    "ApportionError": "apportion.errors",
    "Assignor": "apportion.assignors",
    "BadInput": "apportion.errors",
    "BrokenAssignor": "apportion.errors",
    "Group": "apportion.model.group",
    "MissingExtra": "apportion.errors",
    "Plan": "apportion.model.plan",
    "Unavailable": "apportion.errors",
    "UnknownName": "apportion.errors",
    "find": "apportion.assignors",
    "group_to_dict": "apportion.model.text",
    "known": "apportion.assignors",
    "measure": "apportion.model.measures",
    "plan": "apportion.planning",
    "read_group": "apportion.model.text",
}

__all__ = [
    "Answer",
    "ApportionError",
    "Assignor",
    "BadInput",
    "BrokenAssignor",
    "Group",
    "MissingExtra",
    "Plan",
    "Unavailable",
    "UnknownName",
    "__version__",
    "find",
    "group_to_dict",
    "known",
    "measure",
    "plan",
    "read_group",
]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: the command line must start before NumPy does."""
    if name not in _ROOMS:
        raise AttributeError(f"module 'apportion' has no attribute {name!r}")
    return getattr(import_module(_ROOMS[name]), name)


def __dir__() -> list[str]:
    return list(__all__)

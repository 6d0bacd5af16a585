"""Which member of a Kafka consumer group owns which partition: planned, proved, measured.

An assignor is a function from a ``Group`` to an owner for each partition; everything else makes a ``Group``, carries
the answer away, or measures it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

__version__: Final = "0.1.0"

if TYPE_CHECKING:
    from apportion.assignors import Assignor, find, known
    from apportion.assignors import BrokerRange as BrokerRange
    from apportion.assignors import BrokerSticky as BrokerSticky
    from apportion.assignors import BrokerUniform as BrokerUniform
    from apportion.assignors import CooperativeFailover as CooperativeFailover
    from apportion.assignors import CooperativeLagAware as CooperativeLagAware
    from apportion.assignors import CooperativeSticky as CooperativeSticky
    from apportion.assignors import CooperativeStickyStreamJoin as CooperativeStickyStreamJoin
    from apportion.assignors import Failover as Failover
    from apportion.assignors import LagAware as LagAware
    from apportion.assignors import Range as Range
    from apportion.assignors import RoundRobin as RoundRobin
    from apportion.assignors import Sticky as Sticky
    from apportion.assignors import StickyStreamJoin as StickyStreamJoin
    from apportion.assignors import Streams as Streams
    from apportion.comparison import Comparison, compare
    from apportion.errors import ApportionError, BadInput, BrokenAssignor, MissingExtra, Unavailable, UnknownName
    from apportion.model.facts import Fact
    from apportion.model.group import Group
    from apportion.model.group_json import group_to_dict, read_group
    from apportion.model.measures import measure
    from apportion.model.plan import Answer, Plan
    from apportion.planning import plan
    from apportion.rollouts import Times, rollout
    from apportion.sizing.size import size
    from apportion.whatif import what_if

_ROOMS: Final = {
    "Answer": "apportion.model.plan",
    "ApportionError": "apportion.errors",
    "Assignor": "apportion.assignors",
    "BadInput": "apportion.errors",
    "BrokenAssignor": "apportion.errors",
    "Comparison": "apportion.comparison",
    "Fact": "apportion.model.facts",
    "Group": "apportion.model.group",
    "MissingExtra": "apportion.errors",
    "Plan": "apportion.model.plan",
    "Times": "apportion.rollouts",
    "Unavailable": "apportion.errors",
    "UnknownName": "apportion.errors",
    "compare": "apportion.comparison",
    "find": "apportion.assignors",
    "group_to_dict": "apportion.model.group_json",
    "known": "apportion.assignors",
    "measure": "apportion.model.measures",
    "plan": "apportion.planning",
    "read_group": "apportion.model.group_json",
    "rollout": "apportion.rollouts",
    "size": "apportion.sizing.size",
    "what_if": "apportion.whatif",
}

_SHOWN_IN_NOTEBOOKS: Final = frozenset({"Comparison", "Group", "Plan", "compare", "plan", "read_group"})
"""Names whose objects a notebook shows as a table."""

__all__ = [
    "Answer",
    "ApportionError",
    "Assignor",
    "BadInput",
    "BrokenAssignor",
    "Comparison",
    "Fact",
    "Group",
    "MissingExtra",
    "Plan",
    "Times",
    "Unavailable",
    "UnknownName",
    "__version__",
    "compare",
    "find",
    "group_to_dict",
    "known",
    "measure",
    "plan",
    "read_group",
    "rollout",
    "size",
    "what_if",
]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first used: the command line must start before NumPy does.

        A strategy is found by its class's name, wherever it comes from: ``apportion.LagAware(max_skew=2)``. A type
        checker knows those of this package.
        """
        if name not in _ROOMS:
            if not name[:1].isupper():
                raise AttributeError(f"module 'apportion' has no attribute {name!r}")
            return getattr(import_module("apportion.assignors"), name)
        if name in _SHOWN_IN_NOTEBOOKS:
            import_module("apportion.report.notebook")
        return getattr(import_module(_ROOMS[name]), name)


def __dir__() -> list[str]:
    strategies = import_module("apportion.assignors").known().values()
    return [*__all__, *(strategy.__name__ for strategy in strategies)]

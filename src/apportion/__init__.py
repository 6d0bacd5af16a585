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
    from apportion.assignors.broker_range import BrokerRange
    from apportion.assignors.broker_uniform import BrokerUniform
    from apportion.assignors.cooperative_sticky import CooperativeSticky
    from apportion.assignors.failover import Failover
    from apportion.assignors.lag_aware import LagAware
    from apportion.assignors.range import Range
    from apportion.assignors.roundrobin import RoundRobin
    from apportion.assignors.sticky import Sticky
    from apportion.assignors.sticky_stream_join import StickyStreamJoin
    from apportion.assignors.streams import Streams
    from apportion.errors import ApportionError, BadInput, BrokenAssignor, MissingExtra, Unavailable, UnknownName
    from apportion.model.group import Group
    from apportion.model.group_json import group_to_dict, read_group
    from apportion.model.measures import measure
    from apportion.model.plan import Answer, Plan
    from apportion.planning import plan

_ROOMS: Final = {
    "Answer": "apportion.model.plan",
    "ApportionError": "apportion.errors",
    "Assignor": "apportion.assignors",
    "BadInput": "apportion.errors",
    "BrokenAssignor": "apportion.errors",
    "BrokerRange": "apportion.assignors.broker_range",
    "BrokerUniform": "apportion.assignors.broker_uniform",
    "CooperativeSticky": "apportion.assignors.cooperative_sticky",
    "Failover": "apportion.assignors.failover",
    "Group": "apportion.model.group",
    "LagAware": "apportion.assignors.lag_aware",
    "MissingExtra": "apportion.errors",
    "Plan": "apportion.model.plan",
    "Range": "apportion.assignors.range",
    "RoundRobin": "apportion.assignors.roundrobin",
    "Sticky": "apportion.assignors.sticky",
    "StickyStreamJoin": "apportion.assignors.sticky_stream_join",
    "Streams": "apportion.assignors.streams",
    "Unavailable": "apportion.errors",
    "UnknownName": "apportion.errors",
    "find": "apportion.assignors",
    "group_to_dict": "apportion.model.group_json",
    "known": "apportion.assignors",
    "measure": "apportion.model.measures",
    "plan": "apportion.planning",
    "read_group": "apportion.model.group_json",
}

__all__ = [
    "Answer",
    "ApportionError",
    "Assignor",
    "BadInput",
    "BrokenAssignor",
    "BrokerRange",
    "BrokerUniform",
    "CooperativeSticky",
    "Failover",
    "Group",
    "LagAware",
    "MissingExtra",
    "Plan",
    "Range",
    "RoundRobin",
    "Sticky",
    "StickyStreamJoin",
    "Streams",
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

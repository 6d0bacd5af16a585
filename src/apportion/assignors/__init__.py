"""One strategy a file: its goals, its settings, its memory. ``strategy.registry`` finds them by walking this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.strategy.assignor import Assignor as Assignor
from apportion.strategy.registry import find as find
from apportion.strategy.registry import known as known
from apportion.strategy.settings import changed_settings as changed_settings
from apportion.strategy.settings import settings_of as settings_of

if TYPE_CHECKING:  # the names that a type checker sees; every known strategy can be imported
    from apportion.assignors.broker_range import BrokerRange as BrokerRange
    from apportion.assignors.broker_sticky import BrokerSticky as BrokerSticky
    from apportion.assignors.broker_uniform import BrokerUniform as BrokerUniform
    from apportion.assignors.failover import CooperativeFailover as CooperativeFailover
    from apportion.assignors.failover import Failover as Failover
    from apportion.assignors.lag_aware import CooperativeLagAware as CooperativeLagAware
    from apportion.assignors.lag_aware import LagAware as LagAware
    from apportion.assignors.range import Range as Range
    from apportion.assignors.roundrobin import RoundRobin as RoundRobin
    from apportion.assignors.sticky import CooperativeSticky as CooperativeSticky
    from apportion.assignors.sticky import Sticky as Sticky
    from apportion.assignors.sticky_stream_join import CooperativeStickyStreamJoin as CooperativeStickyStreamJoin
    from apportion.assignors.sticky_stream_join import StickyStreamJoin as StickyStreamJoin
    from apportion.assignors.streams import Streams as Streams
else:

    def __getattr__(name: str) -> type[Assignor]:
        """A known strategy by its class's name: ``from apportion.assignors import LagAware``."""
        for strategy in known().values() if name[:1].isupper() else ():
            if strategy.__name__ == name:
                return strategy
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

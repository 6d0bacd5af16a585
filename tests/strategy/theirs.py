"""A strategy of another package, as its author would write it: the first wanting member takes each topic whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import ClassVar

import numpy as np
import pytest

from apportion.arrays import NOBODY, Ints
from apportion.model.group import Group
from apportion.strategy import registry

NAME = "theirs-whole"


@dataclass(frozen=True)
class TheirsWhole:
    """Each topic goes to its first subscriber, whole, so that one process has all of its order.

    The price is balance. Goals: order.
    """

    name: ClassVar[str] = NAME
    goals: ClassVar[tuple[str, ...]] = ("order",)
    cooperative: ClassVar[bool] = True
    on_foreign: ClassVar[str] = "stop"
    kept_whole: ClassVar[str] = "topics"
    promise: ClassVar[str] = "one reader a topic"

    def assign(self, group: Group) -> Ints:
        """Return (P,) the member that owns each partition."""
        owner = np.full(group.P, NOBODY, dtype=np.int64)
        for topic in range(group.T):
            if len(subscribers := group.subscribers(topic)):
                owner[group.partitions(topic)] = subscribers[0]
        return owner


@contextmanager
def installed() -> Iterator[None]:
    """While it lasts, a package that declares the strategy is installed."""
    entry = EntryPoint(NAME, f"{__name__}:TheirsWhole", registry.ENTRY_POINTS)
    kept = (registry.known, registry.tabled, registry.brokers, registry._by_protocol)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "entry_points", lambda group: [entry])
        for one in kept:
            one.cache_clear()
        try:
            yield
        finally:
            patch.undo()
            for one in kept:
                one.cache_clear()

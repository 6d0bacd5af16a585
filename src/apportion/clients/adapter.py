"""What the adapters of kafka-python and aiokafka share: which strategies are ours, and how a coordinator uses them."""

from __future__ import annotations

import functools
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Final, ParamSpec, TypeVar

from apportion.clients.bridge import Bridge
from apportion.clients.member_bridge import MemberBridge
from apportion.errors import ApportionError, BadInput

_PATCHED: Final = "_apportion_patched"
P = ParamSpec("P")
A = TypeVar("A", bound="Adapter")


class Forked(ApportionError):
    """A consumer was made in another process: the threads that work for it did not come along with ``fork``."""

    def __init__(self, consumer: str) -> None:
        super().__init__(
            f"this {consumer} was made before this process was forked, and its threads stayed behind; make a consumer "
            "of its own in each process, after the fork."
        )


class Adapter(ABC):
    """One consumer's strategy in a client's interface; its memory is its own."""

    def __init__(self, bridge: MemberBridge) -> None:
        self.bridge = bridge
        self._coordinator: weakref.ref[Any] | None = None
        if isinstance(bridge, Bridge) and bridge.watch is not None:
            bridge.watch.serve(weakref.ref(self))

    @property
    def ended(self) -> bool:
        """Whether the consumer that this strategy was given to is closed, or gone."""
        coordinator = self.coordinator
        return coordinator is None or self.closed(coordinator)

    def ask_rejoin(self) -> None:
        """Have the client join once more at its next turn; callable from any thread."""
        coordinator = self.coordinator
        if coordinator is not None:
            coordinator.request_rejoin()

    @property
    def name(self) -> str:
        """The strategy's name, as the group knows it."""
        return self.bridge.name

    @property
    def coordinator(self) -> Any:
        """The coordinator of the consumer that this strategy was given to; None before, and after its end."""
        return None if self._coordinator is None else self._coordinator()

    def require_unbound(self, coordinator: Any) -> None:
        """A strategy is the first consumer's, until that one is closed.

        Raises
            BadInput where another living consumer has it: two consumers must not share one memory.
        """
        other = self.coordinator
        if other is not None and other is not coordinator and not self.closed(other):
            taken = f"an {self.name!r} assignor that another consumer has"
            raise BadInput("partition_assignment_strategy", taken, "one of its own for each consumer: call assignor()")

    def bind(self, coordinator: Any) -> None:
        """Learn whose strategy this is."""
        self._coordinator = weakref.ref(coordinator)

    @staticmethod
    @abstractmethod
    def close_refused(coordinator: Any) -> None:
        """End what the client would leave behind where its constructor raises, and nobody else could end."""

    @staticmethod
    @abstractmethod
    def closed(coordinator: Any) -> bool:
        """Whether this client's coordinator has ended."""


def assignor_for(adapter: type[A], bridge: Callable[P, Bridge], default: str) -> Callable[P, A]:
    """A client's ``assignor``: the arguments of ``bridge``, whose strategy is ``default`` where none is named."""

    @functools.wraps(bridge)
    def assignor(*args: P.args, **options: P.kwargs) -> A:
        if not args:
            options.setdefault("strategy", default)
        return adapter(bridge(*args, **options))

    assignor.__name__ = assignor.__qualname__ = "assignor"
    assignor.__module__ = adapter.__module__
    return assignor


def patch_coordinators(coordinators: type, adapter: type[Adapter], patch: Callable[[Any, list[Any]], None]) -> None:
    """Have every new coordinator meet its strategies and be mended, if they are ours; others notice nothing."""
    constructor = coordinators.__init__  # type: ignore[misc]  # the class itself is what we wrap
    if hasattr(constructor, _PATCHED):
        return

    @functools.wraps(constructor)
    def init(self: Any, *args: Any, **configs: Any) -> None:
        constructor(self, *args, **configs)
        given = self._assignors
        ours = [a for a in (given.values() if isinstance(given, Mapping) else given) if isinstance(a, adapter)]
        try:
            for strategy in ours:  # all before any: else a consumer that is refused would keep some of them
                strategy.require_unbound(self)
        except BadInput:
            adapter.close_refused(self)
            raise
        for strategy in ours:
            strategy.bind(self)
        if ours:
            patch(self, ours)

    setattr(init, _PATCHED, True)
    coordinators.__init__ = init  # type: ignore[misc]

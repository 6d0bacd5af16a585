"""The adapters of kafka-python and aiokafka share this: whose strategy one is, how a consumer gets our classes."""

from __future__ import annotations

import functools
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, ParamSpec, Self, TypeVar

from apportion.clients.group.bridge import Bridge
from apportion.errors import ApportionError
from apportion.wire.assignment import Assignment
from apportion.wire.partitions import Held
from apportion.wire.subscription import write_subscription

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

    def __init__(self, bridge: Bridge) -> None:
        self.bridge = bridge
        self._coordinator: weakref.ref[Any] | None = None
        if bridge.watch is not None:
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

    def for_consumer(self) -> Self:
        """This strategy, or a copy if a living consumer has it: two consumers must not share one memory."""
        return self if self.ended else type(self)(self.bridge.copy())

    def words(self, topics: Iterable[str], *, keeps: bool, holds: Held | None = None) -> bytes:
        """This member's subscription when it joins, as version 3; one that hands over wants nothing more.

        keeps, holds
            As in ``Bridge.subscription``.
        """
        subscription, coordinator = self.bridge.subscription(topics, keeps=keeps, holds=holds), self.coordinator
        if coordinator is not None:
            subscription = replace(subscription, topics=coordinator.hands_over.wanted(subscription.topics))
        return write_subscription(subscription)

    def remember(self, partitions: Iterable[Any], user_data: bytes | None, generation: int | None) -> None:
        """Take this member's assignment, as the client has read it: topics with partition ids."""
        coordinator, group = self.coordinator, None
        if coordinator is not None:
            group = str(coordinator.group_id)
            coordinator.pause_again()
        given = Assignment(tuple((topic, tuple(ids)) for topic, ids in partitions), user_data)
        if self.bridge.on_assignment(given, generation, group):
            self.ask_rejoin()

    def bind(self, coordinator: Any) -> None:
        """Learn whose strategy this is."""
        self._coordinator = weakref.ref(coordinator)

    @staticmethod
    @abstractmethod
    def closed(coordinator: Any) -> bool:
        """Whether this client's coordinator has ended."""


def assignor_for(adapter: type[A], bridge: Callable[P, Bridge], default: str) -> Callable[P, A]:
    """A client's ``assignor``: the arguments of ``bridge``, whose strategy is ``default`` if none is named."""

    @functools.wraps(bridge)
    def assignor(*args: P.args, **options: P.kwargs) -> A:
        if not args:
            options.setdefault("strategy", default)
        return adapter(bridge(*args, **options))

    assignor.__name__ = assignor.__qualname__ = "assignor"
    assignor.__module__ = adapter.__module__
    return assignor


def strategies_for(adapter: type[A], assignors: Iterable[Any]) -> tuple[list[Any], list[A]]:
    """A consumer's strategies, with its own copy of each of those from here; and the latter alone."""
    taken = [strategy.for_consumer() if isinstance(strategy, adapter) else strategy for strategy in assignors]
    return taken, [strategy for strategy in taken if isinstance(strategy, adapter)]


def install(base: type, ours: type, adapter: type[Adapter], setting: str) -> None:
    """Have ``base(...)`` make one of ``ours`` if its ``setting`` has a strategy of ours; others notice nothing.

    This is the one place where a client is changed. A client makes its coordinator and its fetcher by the names of
    their classes, so the class itself has to choose.
    """

    def new(cls: type, *_: object, **configs: Any) -> object:
        given = configs.get(setting) or ()
        mine = cls is base and any(isinstance(strategy, adapter) for strategy in given)
        return object.__new__(ours if mine else cls)

    base.__new__ = new  # type: ignore[method-assign,assignment]

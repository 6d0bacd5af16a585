"""Whose strategy one is: the first consumer's until that one is closed, and never that of a consumer never made."""

from __future__ import annotations

from typing import Any

import pytest

from apportion.clients.adapter import Adapter, introduce
from apportion.clients.bridge import Bridge, Settings
from apportion.errors import BadInput


class Ours(Adapter):
    """A strategy in the interface of a client that has none."""

    def __init__(self, name: str) -> None:
        super().__init__(Bridge(name, Settings()))

    @staticmethod
    def closed(coordinator: Any) -> bool:
        return bool(coordinator.over)


class Coordinator:
    """As much of a client's as counts here."""

    def __init__(self, assignors: list[Any]) -> None:
        self._assignors, self.over = assignors, False


mended: list[int] = []
introduce(Coordinator, Ours, lambda _, ours: mended.append(len(ours)))
introduce(Coordinator, Ours, lambda _, ours: mended.append(-len(ours)))


def test_each_coordinator_meets_its_own_once() -> None:
    mended.clear()
    strategy = Ours("sticky")
    first = Coordinator([strategy, "another's"])
    Coordinator(["another's"])
    assert mended == [1]
    assert strategy.coordinator is first


def test_a_strategy_is_free_again_when_its_consumer_is_closed() -> None:
    strategy = Ours("sticky")
    first = Coordinator([strategy])
    with pytest.raises(BadInput, match="another consumer has"):
        Coordinator([strategy])
    first.over = True
    second = Coordinator([strategy])
    assert strategy.coordinator is second


def test_a_consumer_that_is_refused_keeps_none_of_its_strategies() -> None:
    taken, free = Ours("sticky"), Ours("range")
    owner = Coordinator([taken])
    with pytest.raises(BadInput) as refused:
        Coordinator([free, taken])
    assert free.coordinator is None
    anew = Coordinator([free, Ours("sticky")])
    assert free.coordinator is anew
    assert taken.coordinator is owner
    assert "sticky" in str(refused.value)

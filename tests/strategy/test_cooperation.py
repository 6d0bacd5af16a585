"""Cooperation is a setting like any other: shown, copied, recorded; and a strategy keeps the name it was given."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import pytest

import apportion
from apportion.strategy import Cooperation, changed_settings, find, known

BOTH = [kind for kind in known().values() if issubclass(kind, Cooperation) and not kind.cooperative]
"""Strategies that are eager or cooperative, as they are told."""


@dataclass(frozen=True)
class Theirs(apportion.CooperativeSticky):
    """Somebody else's strategy, derived from one of ours that always is cooperative."""

    name: ClassVar[str] = "theirs"


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("cooperative", [False, True])
def test_its_repr_and_its_copies_are_the_same_strategy_under_the_same_name(kind: Any, cooperative: bool) -> None:
    strategy = kind(cooperative=cooperative)
    assert strategy.name == ("cooperative-" if cooperative else "") + kind.name
    shown = eval(repr(strategy), {kind.__name__: kind})  # noqa: S307 - our own repr is the recipe
    pickled = pickle.loads(pickle.dumps(strategy))  # noqa: S301 - its own bytes
    for twin in (shown, pickled, replace(strategy)):
        assert (twin, twin.name, twin.cooperative) == (strategy, strategy.name, cooperative)
    assert replace(strategy, cooperative=False).name == kind.name


@pytest.mark.parametrize("kind", BOTH)
def test_what_a_plan_records_of_a_cooperative_strategy_finds_one_with_the_same_settings(kind: Any) -> None:
    """The class of the name that it then has may have other defaults."""
    strategy = kind(cooperative=True)
    again: Any = find(strategy.name, changed_settings(strategy))
    assert [getattr(again, field.name) for field in fields(again)] == [
        getattr(strategy, field.name) for field in fields(again)
    ]
    assert again.cooperative


def test_a_strategy_derived_from_a_cooperative_one_has_the_name_that_its_author_gave_it() -> None:
    """Members of a group know each other by it: another one after an upgrade would keep them out."""
    assert (Theirs().name, Theirs(order=("balance",)).name, Theirs().cooperative) == ("theirs", "theirs", True)

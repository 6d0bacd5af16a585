"""Strategies of other packages are known by their entry points; a broken one is named and harms nobody."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import pytest

import apportion
from apportion import assignors
from apportion.assignors.lag_aware import LagAware
from apportion.assignors.range import Range
from apportion.errors import BadInput
from apportion.strategy import registry


def test_a_strategy_that_cannot_be_imported_is_left_out_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = EntryPoint("theirs", "no.such.module:Theirs", registry.ENTRY_POINTS)
    good = EntryPoint("also-range", "apportion.assignors.range:Range", registry.ENTRY_POINTS)
    monkeypatch.setattr(registry, "entry_points", lambda group: [broken, good])
    with pytest.warns(UserWarning, match="'theirs'") as warned:
        found = registry.known.__wrapped__()
    why = "the strategy 'theirs' (no.such.module:Theirs) cannot be loaded: No module named 'no'"
    assert [(str(each.message), each.filename) for each in warned] == [(why, __file__)]
    assert "theirs" not in found
    assert found["also-range"] is Range
    assert list(found) == [*sorted(set(found) - {"also-range"}), "also-range"], "ours by name, then theirs"
    assert all(kind.name == name for name, kind in found.items() if name != "also-range")
    assert {kind.__module__.rpartition(".")[0] for kind in found.values()} == {registry.PACKAGE}


@pytest.mark.parametrize("text", ["1_0", " 1", "1 ", "\u0661", "", "1.5", "+-1", "nan", 1.5, True, None])
def test_what_is_no_whole_number_is_refused_as_a_setting(text: object) -> None:
    with pytest.raises(BadInput, match="setting max_skew of lag-aware"):
        registry.find("lag-aware", {"max_skew": text})


def test_a_fraction_may_be_written_in_any_usual_way() -> None:
    written = [registry.find("lag-aware", {"tolerance": text}) for text in ("0.1", "1e-1", "0.10", ".1", "+.1")]
    assert written == [registry.find("lag-aware", {"tolerance": 0.1})] * 5


@pytest.mark.parametrize("scope", ["topic", "group"])
def test_a_skew_beyond_all_counts_is_as_good_as_the_number_of_partitions(scope: str) -> None:
    lags = [{"partition": p, "lag": lag} for p, lag in enumerate([9, 1, 1, 1, 1])]
    group = {"topics": {"t": lags, "u": 2}, "members": {"a": {"topics": ["t", "u"]}, "b": {"topics": ["t"]}}}
    plans = [apportion.plan(group, "lag-aware", {"scope": scope, "max_skew": skew}) for skew in (7, str(10**23))]
    assert plans[0].assignment == plans[1].assignment
    assert plans[0].measures == plans[1].measures


def test_a_strategy_made_by_hand_refuses_the_settings_that_its_name_would_refuse() -> None:
    with pytest.raises(BadInput, match="scope"):
        LagAware(scope="nope")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="max_skew"):
        LagAware(max_skew=1.5)  # type: ignore[arg-type]


def test_every_strategy_is_a_public_class_by_its_own_name() -> None:
    for strategy in registry.known().values():
        assert getattr(apportion, strategy.__name__) is strategy
        assert getattr(assignors, strategy.__name__) is strategy
    with pytest.raises(AttributeError, match="NoSuch"):
        getattr(assignors, "NoSuch")  # noqa: B009


@pytest.mark.parametrize(
    ("given", "settings", "said"),
    [
        (LagAware, None, r"found the class LagAware; needed a strategy made of it, LagAware\(\)"),
        (5, None, "found an int; needed a strategy"),
        (None, None, "found a NoneType"),
        (LagAware(), {"max_skew": 1}, "found max_skew next to a strategy object"),
    ],
)
def test_what_is_no_strategy_is_refused_in_a_sentence(given: Any, settings: Any, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        apportion.plan({"topics": {"t": 1}, "members": {"a": {"topics": ["t"]}}}, given, settings)

"""What a strategy promises is said in its file, and everything that speaks of strategies asks there."""

from __future__ import annotations

from pathlib import Path

import pytest

import apportion
from apportion.assignors import known
from apportion.history.switch_measures import GroupFacts
from apportion.history.switching import switch
from apportion.model.group_json import read_group
from apportion.strategy.registry import traits_of_protocol

SWITCHING = ("history/switch_advice.py", "history/switch_measures.py", "sighting/oddities.py", "sighting/judged.py")


@pytest.mark.parametrize("name", [*known(), "apportion-streams", "stream"])
def test_switch_tells_nobody_to_give_up_a_promise(name: str) -> None:
    """Cooperative forms promise what their eager forms do, and other programs' names for a strategy what it does."""
    member = {"topics": ["t"], "generation": 1}
    members = {m: {**member, "owned": {"t": owned}} for m, owned in (("a", [0, 1]), ("b", [2, 3]))}
    group = read_group({"topics": {"t": 4}, "members": members})
    traits = traits_of_protocol(name)
    assert traits is not None
    advice = switch(group, GroupFacts("classic", name, ())).advice[0]
    if traits.promise:
        assert advice == f"Stay: {name} promises {traits.promise}, and the broker's assignors do not."
    else:
        assert not advice.startswith("Stay: "), advice


def test_the_strategies_with_a_promise_are_those_that_the_broker_cannot_replace() -> None:
    promising = {name for name in known() if (traits := traits_of_protocol(name)) and traits.promise}
    eager = {"failover", "lag-aware", "sticky-stream-join"}
    assert promising == eager | {f"cooperative-{name}" for name in eager} | {"streams"}


@pytest.mark.parametrize("file", SWITCHING)
def test_no_verdict_and_no_advice_knows_a_strategy_by_its_name(file: str) -> None:
    text = (Path(apportion.__file__).parent / file).read_text(encoding="utf-8")
    names = set(known()) - {"range", "sticky", "broker-uniform", "broker-range"}
    assert not [name for name in names if f'"{name}"' in text]

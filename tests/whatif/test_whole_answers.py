"""What cannot be asked is refused in a sentence that says what was found and what is needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.whatif.test_whatif import RAW

import apportion
from apportion import comparison, planning, rollouts, whatif
from apportion.errors import ApportionError
from apportion.model.group import Group
from apportion.model.group_json import read_group

STREAMS: dict[str, Any] = {
    "group": "app",
    "topics": {"t": 6, "u": 6},
    "members": {
        f"c-{i}": {
            "topics": ["t", "u"], "client_id": f"app-{i}", "owned": {"t": [i, i + 3], "u": [i, i + 3]}, "generation": 5,
            "standby": {"t": [(i + 1) % 6]}, "recovery_lag": {"t": [{"partition": (i + 1) % 6, "lag": 40 * i}]},
        }
        for i in range(3)
    },
}  # fmt: skip


class Wrong:
    """A strategy whose answer is no plan."""

    name, goals = "wrong", ()

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def assign(self, group: Group) -> Any:
        """What it was made with."""
        return self.answer


GROUP = read_group(RAW)
LEFT: dict[str, Any] = {
    "topics": {"t": 1, "u": 1},
    "members": {"a": {"topics": ["t"], "owned": {"t": [0]}}, "b": {"topics": ["t"]}, "c": {"topics": ["u"]}},
}
REFUSED: dict[str, Callable[[], object]] = {
    **{
        f"step {step!r}": (lambda step=step: whatif.change(GROUP, step))
        for step in (
            "", "jump", "join x", "join 0", "join 100001", "join 1_0", "join 1 like nobody", "join 1 like c", "grow u",
            "grow u:", "grow u:4", "grow t:4", "grow v:3", "grow u:1000000000", "lag t:0", "lag t=1", "lag t:1=1",
            "lag w:1=1", "lag t:0=-1", "lag t:0=x", "lag t:0=0=1", "lag t:1:0=1",
            "lag t:0=9223372036854775808", "lag t:x=1", "leave", "leave nobody", "leave c",
            "lose-rack", "lose-rack q", "capacity x", "capacity x=0", "capacity x=1000000000", "capacity q=1",
            "capacity x=y", "join " + "9" * 70,
        )
    },
    "leave the last": lambda: whatif.leave(read_group({**RAW, "members": {"a": {"topics": ["t"]}}}), "a"),
    "a text of steps": lambda: whatif.what_if(RAW, "join 2"),
    "no strategies": lambda: comparison.compare(RAW, "range"),  # type: ignore[arg-type]
    "a strategy's letters": lambda: comparison.compare(RAW, 5),  # type: ignore[arg-type]
    "no such strategy": lambda: comparison.compare(RAW, ["stiky"]),
    "no such setting": lambda: comparison.compare(RAW, ["range", "lag-aware"], settings={"max_skw": "1"}),
    "nobody plans": lambda: comparison.compare(RAW, [Wrong(None), Wrong(3)]),  # type: ignore[list-item]
    "a class": lambda: planning.plan(RAW, apportion.Range),  # type: ignore[arg-type]
    "a number": lambda: planning.plan(RAW, 5),  # type: ignore[arg-type]
    "no steps": lambda: whatif.what_if(RAW, 5),  # type: ignore[arg-type]
    "steps that are no texts": lambda: rollouts.rollout(RAW, ["scale 2", 5]),  # type: ignore[list-item]
    "rollout of a class": lambda: rollouts.rollout(RAW, ["scale 2"], assignor=apportion.Range),  # type: ignore[arg-type]
    "rollout of a number": lambda: rollouts.rollout(RAW, ["scale 2"], assignor=5),  # type: ignore[arg-type]
    "rollout under a list": lambda: rollouts.rollout(RAW, ["scale 2"], protocol=["eager"]),  # type: ignore[arg-type]
    "rollout in a number of seconds": lambda: rollouts.rollout(RAW, ["scale 2"], times=5),  # type: ignore[arg-type]
    "rollout beside": lambda: rollouts.rollout(RAW, ["scale 2"], "eager", apportion.LagAware(), {"by": "lag"}),
    "settings beside": lambda: planning.plan(RAW, apportion.LagAware(), {"max_skew": 2, "by": "lag"}),
    "no array": lambda: planning.plan(RAW, Wrong(None)),  # type: ignore[arg-type]
    "floats": lambda: planning.plan(RAW, Wrong(np.zeros(6))),  # type: ignore[arg-type]
    "too short": lambda: planning.plan(RAW, Wrong(np.zeros(5, dtype=np.int64))),  # type: ignore[arg-type]
    "no member": lambda: planning.plan(RAW, Wrong(np.array([0, 1, 2, 3, 0, -1]))),  # type: ignore[arg-type]
    "below nobody": lambda: planning.plan(RAW, Wrong(np.array([0, 1, 2, -2, 0, -1]))),  # type: ignore[arg-type]
    "claims of what it does not want": lambda: planning.plan(LEFT, Wrong(np.array([0, 1]))),  # type: ignore[arg-type]
    "not wanted": lambda: planning.plan(RAW, Wrong(np.array([0, 0, 0, 1, 2, -1]))),  # type: ignore[arg-type]
    **{
        f"rollout {step} {protocol} {assignor}": (
            lambda step=step, protocol=protocol, assignor=assignor: rollouts.rollout(GROUP, [step], protocol, assignor)
        )
        for step, protocol, assignor in (
            ("rolling 0", "eager", None), ("rolling x", "eager", None), ("scale 3", "eager", None),
            ("scale 0", "eager", None), ("scale 100001", "eager", None),
            ("scale 9999999999", "eager", None), ("scale", "eager", None), ("rolling", "consumer", "sticky"),
            ("rolling", "eager", "cooperative-sticky"), ("rolling", "eager", "broker-range"),
            ("rolling", "cooperative", "broker-uniform"), ("rolling", "nothing", None),
            ("scale 5 like q", "eager", None), ("jump 3", "eager", None), ("", "eager", None),
            ("scael 3", "eager", None),
            ("rolling " + "1" * 10, "eager", None), ("rolling 100001", "eager", None), ("rolling ²", "eager", None),
            ("scale " + "x" * 70, "consumer", None), ("rolling", "eager", "stiky"),
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_asked_is_refused_in_one_sentence(name: str) -> None:
    with pytest.raises(ApportionError) as error:
        REFUSED[name]()
    assert 10 < len(str(error.value)) < 600
    assert "\n" not in str(error.value)
    assert str(error.value)[-1] in ".?)"


def test_rounds_of_a_strategy_that_restores_state_are_one_plan() -> None:
    for step in ("join 1", "leave c-0", "join 2"):
        ((_, planned),) = whatif.what_if(STREAMS, [step], "streams")
        first = planning.plan(whatif.change(read_group(STREAMS), step), "streams")
        assert planned.owner.tolist() == whatif.whole(whatif.rounds(first, apportion.find("streams"))).owner.tolist()

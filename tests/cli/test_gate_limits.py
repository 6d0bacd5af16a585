"""Each limit of ``gate`` holds at its number and is breached one below it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Runner

# Nobody reads partition 3 of t and all of u; c reads its two partitions across racks, and d's rack is not known.
GROUP: dict[str, Any] = {
    "version": 1,
    "topics": {
        "t": [{"partition": p, "racks": ["r1"]} for p in range(6)],
        "u": [{"partition": 0, "racks": ["r1"]}, {"partition": 1, "racks": ["r1"]}],
    },
    "members": {
        "a": {"topics": ["t", "u"], "rack": "r1", "owned": {"t": [0]}, "generation": 1},
        "c": {"topics": ["t"], "rack": "r2", "owned": {"t": [1, 2]}, "generation": 1},
        "d": {"topics": ["t"], "owned": {"t": [4, 5]}, "generation": 1},
    },
}


@pytest.mark.parametrize(("policy", "found"), [("max-unowned", 3), ("max-cross-rack", 2)])
def test_the_present_owners_are_judged(run: Runner, tmp_path: Path, policy: str, found: int) -> None:
    path = tmp_path / "group.json"
    path.write_text(json.dumps(GROUP))
    ask = ("gate", str(path), "--now", f"--{policy}")
    done = run(*ask, str(found), "-o", "json")
    assert (done.code, done.json["breached"]) == (0, [])
    done = run(*ask, str(found - 1), "-o", "json")
    assert (done.code, done.json["breached"]) == (3, [{"policy": policy, "limit": found - 1, "found": found}])


def test_a_plan_that_leaves_partitions_unowned_is_judged(run: Runner, tmp_path: Path) -> None:
    """A stream join leaves the numbers that not every topic has."""
    path = tmp_path / "group.json"
    path.write_text(json.dumps({"topics": {"t": 5, "u": 3}, "members": {"a": {"topics": ["t", "u"]}}}))
    ask = ("gate", str(path), "--assignor", "sticky-stream-join", "-o", "json", "--max-unowned")
    assert run(*ask, "2").code == 0
    done = run(*ask, "1")
    assert (done.code, done.json["breached"]) == (3, [{"policy": "max-unowned", "limit": 1, "found": 2}])


@pytest.mark.parametrize(
    "option", [["--assignor", "sticky"], ["-A", "cooperative-sticky"], ["--set", "order=moves,balance,racks"]]
)
def test_a_strategy_is_asked_for_what_is_planned_alone(run: Runner, tmp_path: Path, option: list[str]) -> None:
    """A saved plan has its own, and present owners have none."""
    (tmp_path / "group.json").write_text(json.dumps(GROUP))
    saved = run("plan", str(tmp_path / "group.json"), "-o", "json")
    (tmp_path / "plan.json").write_text(saved.out)
    asked = "--set" if option[0] == "--set" else "--assignor"
    done = run("gate", str(tmp_path / "plan.json"), "--max-moves", "100", *option)
    assert (done.code, done.out) == (2, "")
    assert f"{asked} asks for a group, this is a plan" in done.err
    done = run("gate", str(tmp_path / "group.json"), "--now", "--max-moves", "100", *option)
    assert (done.code, done.out) == (2, "")
    assert f"{asked} asks for a plan, --now for the present owners" in done.err
    done = run("gate", str(tmp_path / "group.json"), "--max-moves", "100", *option)
    assert done.code == 0

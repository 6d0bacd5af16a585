"""What-if settles: warm-ups become owners in the rebalances that follow, and the text tells of all roles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from apportion import rollouts, whatif
from apportion.assignors.streams import Streams
from apportion.cli import main
from apportion.model.group_json import read_group

FOLDER = Path(__file__).parent / "groups"


def loads(plan: Any) -> list[int]:
    return sorted(sum(map(len, held.values())) for held in plan.target.values())


def test_a_newcomer_gets_its_share_once_its_warm_ups_are_restored() -> None:
    """Two copies a time are restored: two rounds of warm-ups, and a third that finds nothing to wait for."""
    ((step, plan),) = whatif.what_if(read_group((FOLDER / "st.json").read_bytes()), ["join 1"], "streams")
    assert step == "join 1"
    assert loads(plan) == [4, 4, 4]
    assert plan.measures["moves"] == 4
    assert (plan.answer.extra["rounds"], plan.measures["warmups"]) == (3, 4)
    assert plan.proof["balance"] == "optimal"
    assert plan.proof["moves"] == "heuristic", "of several rounds together nothing is shown"
    assert not plan.answer.waits


def test_the_next_step_finds_the_standbys_of_the_one_before() -> None:
    """With a standby of each task nothing begins cold when a member goes."""
    group = read_group((FOLDER / "st.json").read_bytes())
    strategy = Streams(num_standby_replicas=1)
    first, second = whatif.what_if(group, ["join 1", "leave a"], strategy)
    kept = whatif.settled(first[1]).state
    assert kept is not None
    assert sum(len(ids) for held in kept.standby for ids in held.values()) == 12
    assert loads(second[1]) == [6, 6]
    orphans = set(first[1].target["a"]["t"])
    copies = {member: set(held.get("t", ())) for member, held in zip(first[1].group.members, kept.standby, strict=True)}
    for member in ("b", "join-1"):
        taken_over = orphans & set(second[1].target[member]["t"])
        assert taken_over, member
    at_once = whatif.change(whatif.settled(first[1]), "leave a")
    plan = strategy.assign(at_once)
    for p, owner in enumerate(plan.owner.tolist()):
        if p in orphans:
            assert p in copies[at_once.members[owner]], "each goes to its copy"


def test_a_rolling_restart_ends_as_it_began_with_all_that_moves_on_the_way() -> None:
    """Each member's four tasks begin elsewhere when it goes, and come back in warm-ups, two at a time."""
    stages = rollouts.rollout(read_group((FOLDER / "roll.json").read_bytes()), ["rolling"], assignor="streams")
    assert loads(stages[-1].plan) == [4, 4, 4]
    gone, back = stages[0::2], stages[1::2]
    assert [(stage.generations, stage.taken, stage.read_anew) for stage in gone] == [(1, 0, 4)] * 3
    assert [(stage.generations, stage.taken, stage.read_anew) for stage in back] == [(5, 4, 4)] * 3
    assert [stage.plan.measures["warmups"] for stage in back] == [4, 4, 4]


def test_a_strategy_without_state_takes_one_round() -> None:
    group = read_group((FOLDER / "st.json").read_bytes())
    ((_, plan),) = whatif.what_if(group, ["join 1"], "cooperative-sticky")
    assert "rounds" not in plan.answer.extra


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (
            ["what-if", "st.json", "--join", "1", "-A", "streams"],
            [
                "join 1         3           12     4      4    0       3         0         4",
                "4 warm-ups in 3 rebalances",
            ],
        ),
        (
            ["what-if", "roll.json", "--rolling", "-A", "streams", "--set", "num.standby.replicas=1"],
            ["STANDBYS", "LOAD", "Standbys (12): ", "24 warm-ups in 18 rebalances"],
        ),
        (
            ["plan", "ha-scale-out.json", "-A", "streams", "--set", "process=host"],
            [
                "Warm-ups, restored before their tasks move there (2): p2-1: 1_0; p3-1: 1_1.",
                "the group looks again in 10 minutes",
            ],
        ),
        (
            ["plan", "ha-scale-out.json", "-A", "streams", "--set", "process=host", "--explain"],
            [
                "4 tasks of 2 sub-topologies on 3 processes with 15 threads (0: s0; 1: s1).",
                "caught-up: 4 tasks with state can run at once on one process alone.",
                "processes: processes run 0 to 4 tasks each, the least sum that these places allow.",
                "waiting: 2 tasks would be better placed (1_0 from p1 to p2, 1_1 from p1 to p3), and stay until",
            ],
        ),
        (
            [
                "plan",
                "mv.json",
                "-A",
                "streams",
                "--set",
                "stateless=v",
                "--set",
                "num.standby.replicas=2",
                "--explain",
            ],
            [
                "0: t; 1: u; 2: v without state",
                "caught-up: 1 task with state can run at once on one process alone; 2 tasks are caught up nowhere",
                "moves: 0 tasks change their process; no plan with these loads moves fewer.",
                "standbys: 3 of the 6 that num.standby.replicas=2 asks for; there are no more processes without a copy",
            ],
        ),
    ],
)
def test_the_text_tells_of_standbys_warm_ups_and_reasons(
    words: list[str], lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([words[0], str(FOLDER / words[1]), *words[2:]]) == 0
    text = " ".join(capsys.readouterr().out.split("\n"))
    for line in lines:
        assert line in text, text


def test_a_steps_json_says_in_how_many_rounds_it_settled(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["what-if", str(FOLDER / "st.json"), "--join", "1", "-A", "streams", "-o", "json"]) == 0
    (step,) = json.loads(capsys.readouterr().out)["steps"]
    assert step["generations"] == 5
    assert step["taken"] == 4
    assert step["plan"]["rounds"] == 3
    assert step["plan"]["tasks"]["next_probing_rebalance_ms"] is None

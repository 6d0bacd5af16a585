"""Rollouts of recorded streams groups: the broker's own epochs come out, and processes restart whole."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from apportion import rollouts
from apportion.cli import main
from apportion.errors import BadInput
from apportion.history.broker_tasks import standbys_of
from apportion.history.group_history import GroupHistory
from apportion.history.moves import moves_between_living
from apportion.history.records import Generation
from apportion.history.steps import Step
from apportion.history.task_groups import asked_for, last_step
from apportion.rollouts import MembershipChange, Times
from apportion.sources import dump

DUMP = Path(__file__).parents[1] / "data" / "task_groups"


@pytest.fixture(scope="module")
def enrich() -> GroupHistory:
    return dump.load_histories(DUMP).groups["enrich"]


@pytest.fixture(scope="module")
def tasks(enrich: GroupHistory) -> Step:
    return last_step("enrich", enrich.folded.generations)


def change_between(before: Generation, now: Generation) -> MembershipChange:
    """Who left and who came between two epochs."""
    were, are = ({member.member_id: member for member in generation.members} for generation in (before, now))
    topics = sorted({topic for member in now.members for topic in member.topics})
    joined = {name: {"topics": topics, "host": member.process_id} for name, member in are.items() if name not in were}
    return MembershipChange(f"epoch {now.number}", tuple(sorted(were.keys() - are.keys())), joined)


def test_recorded_joins_and_leaves_come_out_in_loads_and_moves(enrich: GroupHistory) -> None:
    generations = enrich.folded.generations
    moved = moves_between_living(generations)
    predicted = []
    for i, (before, now) in enumerate(pairwise(generations), 1):
        change = change_between(before, now)
        if not any(member.assigned for member in before.members) or not (change.leave or change.join):
            continue
        asked = last_step("enrich", generations[:i])
        strategy = asked_for(asked, None, {"num_standby_replicas": str(standbys_of(now))})
        (stage,) = rollouts.follow(asked.group, [change], strategy, "consumer", Times())
        planned = np.bincount(stage.plan.owner, minlength=stage.plan.group.M).tolist()
        held = {member.member_id: sum(map(len, member.assigned.values())) for member in now.members}
        assert dict(zip(stage.plan.group.members, planned, strict=True)) == held, now.number
        assert stage.taken == len(moved[now.offset]), now.number
        predicted.append(now.number)
    assert predicted == [5, 7, 8, 10, 11]


def test_the_threads_of_a_process_restart_together(tasks: Step) -> None:
    """Two processes, three threads: two restarts one by one, one of both."""
    for name in (None, "streams"):
        one_by_one, both = (
            rollouts.rollout(tasks.group, [step], strategy_protocol(name), asked_for(tasks, name, {}), by_host=True)
            for step in ("rolling", "rolling 2")
        )
        assert [len(stage.left) for stage in one_by_one] == [1, 0, 2, 0]
        assert [stage.plan.answer.measures["standbys"] for stage in one_by_one] == [0, 12, 0, 12]
        assert [len(stage.left) for stage in both] == [3]
        for stage in (*one_by_one, *both):
            assert (stage.plan.owner >= 0).all()
            assert not stage.plan.answer.waits


def strategy_protocol(name: str | None) -> rollouts.Protocol:
    return "consumer" if name is None else "cooperative"


def test_a_process_leaves_by_its_name_and_its_copies_take_over(tasks: Step) -> None:
    process = str(tasks.group.hosts[-1])
    (gone,) = rollouts.rollout(tasks.group, [f"leave {process}"], "consumer", asked_for(tasks, None, {}), by_host=True)
    assert len(gone.left) == tasks.group.hosts.count(process) == 2
    assert gone.taken == 0


def say(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(["what-if", str(DUMP), "--group", "enrich", *words])
    written = capsys.readouterr()
    return code, written.out + written.err


def test_the_command_says_what_partitions_are_and_what_no_record_tells(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = say(capsys, "--rolling")
    assert code == 0
    for part in ("consumer, broker-sticky. In all 4 generations", "rolling 2 of 2: ", "Standbys (12): ", "STANDBYS",
                 "Partitions are tasks here", "asks for 1 standby of", "No record shows how far"):  # fmt: skip
        assert part in text
    code, text = say(capsys, "--rolling", "-A", "streams", "-o", "json")
    steps = json.loads(text)["steps"]
    assert [step["generations"] for step in steps] == [1, 4, 1, 4]
    assert steps[-1]["plan"]["tasks"]["next_probing_rebalance_ms"] is None
    code, text = say(capsys, "--rolling", "-o", "html")
    assert code == 0
    assert "rolling 1 of 2" in text


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (["--rolling", "--protocol", "eager"], "--protocol has no meaning for 'enrich'"),
        (["--rolling", "--grow", "0:9"], "--grow has no meaning for 'enrich'"),
        (["--rolling", "--like", "x"], "--like"),
        (["--rolling", "-A", "range"], "needed streams or broker-sticky"),
        (["--rolling", "-A", "broker-sticky", "--set", "standbys=0"], "no setting of broker-sticky is named"),
    ],
)
def test_what_has_no_meaning_for_tasks_is_refused(
    words: list[str], refusal: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = say(capsys, *words)
    assert code != 0
    assert refusal in text


def test_a_group_without_tasks_has_no_rollout() -> None:
    with pytest.raises(BadInput, match="a streams group without members or tasks"):
        last_step("g", [])

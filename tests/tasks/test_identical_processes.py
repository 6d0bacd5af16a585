"""Tasks of like members by counting: as good in every goal as the flows, and the same rollout step by step."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from apportion import rollouts, whatif
from apportion.assignors import streams
from apportion.assignors.streams import Streams
from apportion.model.group import Group
from apportion.model.group_json import group_to_dict, read_group
from apportion.model.plan import Answer, Plan
from apportion.planning import plan
from apportion.tasks import assignor, place
from apportion.tasks.explain import TaskReasons

pytest.importorskip("ortools", reason="the flow to compare with needs OR-tools")
Ways = Any


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> Ways:
    """A function that counts from so many cells on; it says how often counting was enough."""
    counted, by_counting_from = {True: 0, False: 0}, [0]
    by_counting = Streams._on_identical

    def noted(self: Streams, *args: Any) -> Answer | None:
        answer = by_counting(self, *args)
        if by_counting_from[0] == 0:
            counted[answer is not None] += 1
        return answer

    monkeypatch.setattr(Streams, "_on_identical", noted)

    def way(large: int) -> dict[bool, int]:
        by_counting_from[0] = large
        monkeypatch.setattr(streams, "LARGE", large)
        monkeypatch.setattr(place, "LARGE", large or 5_000)
        return counted

    return way


def some(seed: int, standbys: int = 0) -> tuple[Group, Streams]:
    """A group whose members are alike, hold whole tasks or none, and tell of copies in all states."""
    rng = random.Random(seed)
    sizes = {f"t{i}": rng.randint(1, 9) for i in range(rng.randint(1, 4))}
    joined = len(sizes) > 1 and rng.random() < 0.4
    together = [["t0", "t1"], *([t] for t in sizes if t not in ("t0", "t1"))] if joined else [[t] for t in sizes]
    members: dict[str, Any] = {
        f"m{m}": {"topics": list(sizes), "owned": {}, "generation": 5} for m in range(rng.randint(1, 6))
    }
    for topics in together:
        for number in range(max(sizes[topic] for topic in topics)):
            read = [topic for topic in topics if number < sizes[topic]]
            keeper = rng.choice(list(members))
            if rng.random() < 0.8:
                for topic in read:
                    members[keeper]["owned"].setdefault(topic, []).append(number)
            for fields in members.values():
                if rng.random() < 0.08:
                    fields.setdefault("standby", {}).setdefault(read[0], []).append(number)
                elif rng.random() < 0.08:
                    lacks = {"partition": number, "lag": rng.choice([0, 500, 20_000, 30_000])}
                    fields.setdefault("recovery_lag", {}).setdefault(read[0], []).append(lacks)
    strategy = Streams(
        subtopologies=("t0+t1",) if joined else (),
        max_warmup_replicas=rng.choice([1, 2, 5]),
        num_standby_replicas=standbys,
    )
    return read_group({"topics": sizes, "members": members}), strategy


def worth(planned: Plan) -> dict[str, Any]:
    """How good a plan is in each goal, and what it waits for."""
    fields = planned.answer.extra["tasks"]
    held = [sum(map(len, hands.values())) for hands in fields["active"].values()]
    together = planned.answer.together
    assert together is not None
    moved = (planned.group.owner >= 0) & (planned.group.owner != planned.owner)
    return {
        "squares": sum(n * n for n in held),
        "moves": len(np.unique(together[moved])),
        "warmups": planned.measures["warmups"],
        "waits": planned.answer.waits,
        "proof": planned.proof,
        "probing": fields["next_probing_rebalance_ms"],
    }


@pytest.mark.slow
def test_counting_is_as_good_as_the_flows_in_every_goal(ways: Ways) -> None:
    for seed in range(400):
        group, strategy = some(seed)
        ways(10**9)
        flowed = plan(group, strategy)
        counted = ways(0)
        by_counting = plan(group, strategy)
        assert worth(by_counting) == worth(flowed), seed
        assert strategy.summary(group).owner.tolist() == by_counting.owner.tolist(), seed
        assert by_counting.explain()[0] == flowed.explain()[0]
    assert min(counted.values()) > 300, "copies leave choices in the others"


@pytest.mark.slow
def test_standbys_by_counting_are_as_good_as_the_flows_in_every_goal(ways: Ways) -> None:
    """Beside the same active tasks: as even, as cheap, and as many copies to come."""
    compared = 0
    for seed in range(600):
        group, strategy = some(seed, standbys=1)
        before = dict(ways(0))
        counted = plan(group, strategy)
        if ways(0)[True] == before[True]:
            continue
        ways(10**9)
        flowed = plan(group, strategy)
        for goal in ("squares", "moves"):
            assert worth(counted)[goal] == worth(flowed)[goal], seed
        assert isinstance(counted.answer.certificate, TaskReasons)
        tasks = counted.answer.certificate.plan
        state, mine = tasks.application, tasks.answer
        copies = assignor._place_copies(state, mine.active, mine.target, strategy)
        if copies.coming is not None and mine.settled:
            assert not all(
                assignor._comes_nearer(state, mine.active, copies, strategy, slow=slow) for slow in (False, True)
            ), seed
        cost = assignor._standby_cost(state, mine.active, mine.target)
        assert int(cost[mine.standby].sum()) == int(cost[copies.standby].sum()), seed
        for placed in (mine.standby, copies.standby):
            assert not placed[np.arange(len(placed)), mine.active].any()
        assert assignor._unevenness(state, mine.active, mine.standby) == assignor._unevenness(
            state, mine.active, copies.standby
        ), seed
        if (mine.active == mine.target).all():  # else equal places now differ in what comes after the next rounds
            assert mine.even == (copies.coming is None), seed
            assert int(mine.warmup.sum()) == int(copies.warmup.sum()), seed
        assert mine.proof == flowed.proof
        topology = strategy.topology(group)
        partitions = dict(zip(group.topics, np.diff(group.start).tolist(), strict=True))
        kept: dict[str, dict[str, list[int]]] = {member: {} for member in group.members}
        for held in (held for role in (tasks.standby, tasks.warmup) for held in role.values()):
            for member, task in ((member, task) for member, copied in held.items() for task in copied):
                for topic, number in topology.partitions_of(task, partitions):
                    kept[member].setdefault(topic, []).append(number)
        assert counted.answer.state is not None or not any(kept.values())
        for member, numbered in zip(
            group.members, counted.answer.state.standby if counted.answer.state else (), strict=False
        ):
            assert {topic: sorted(ids) for topic, ids in kept[member].items()} == numbered, seed
        compared += 1
    assert compared > 200, "copies leave choices in the others"


@pytest.mark.slow
def test_a_rollout_by_counting_is_that_of_the_flows_step_by_step(ways: Ways) -> None:
    """Each change from where counting left the group: as many rebalances, moves and seconds either way."""
    compared = 0
    for seed in range(70):
        rng = random.Random(seed)
        group, strategy = some(seed)
        if group.M < 3:
            continue  # a group that empties has no step of its own for that
        strategy = replace(strategy, subtopologies=())  # of equal tasks one may read more partitions than another
        group = whatif.settled(plan(group.with_state(None), strategy))
        steps = [rng.choice(["rolling 1", "rolling 2", f"scale {group.M + 3}"])]
        ways(0)
        stages = rollouts.rollout(group, steps, assignor=strategy)
        for stage in stages:
            ways(10**9)
            (flowed,) = rollouts.follow(group, [change_of(stage, group)], strategy, "cooperative", rollouts.Times())
            # Whether a task goes to a newcomer or to one that was there is a choice among equals.
            figures = ("generations", "revoked", "taken", "read_anew", "standstill_s", "longest_s")
            assert [getattr(stage, name) for name in figures] == [getattr(flowed, name) for name in figures], seed
            assert stage.plan.answer.measures == flowed.plan.answer.measures
            assert sorted(np.bincount(stage.plan.owner)) == sorted(np.bincount(flowed.plan.owner)), seed
            group = whatif.settled(stage.plan)
            compared += 1
    assert compared > 150


def change_of(stage: rollouts.Stage, before: Group) -> rollouts.MembershipChange:
    """The change that a stage shows."""
    fields = group_to_dict(stage.plan.group)["members"]
    joined = {name: {"topics": fields[name]["topics"]} for name in stage.joined}
    return rollouts.MembershipChange(stage.step, stage.left, joined)

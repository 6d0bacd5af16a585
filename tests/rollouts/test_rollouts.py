"""Rollouts: the recorded demo's own restarts come out move by move, and each protocol costs what it must."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

import apportion
from apportion import rollouts, whatif
from apportion.defaults import PROTOCOLS
from apportion.demo import dump
from apportion.errors import BadInput
from apportion.history.moves import moves_between_living
from apportion.history.records import Generation
from apportion.history.steps import Step, steps
from apportion.model.group import Group
from apportion.model.group_json import group_to_dict, read_group
from apportion.report.rollouts import notes
from apportion.rollouts import MembershipChange, Times
from apportion.sources.load_history import load_histories

RECORDED = ("ads-range", "billing-roundrobin", "search-sticky", "fraud-storm", "feed-cooperative", "prices-crash",
            "mails-aiokafka", "reports-kafka-python", "profiles-kip848")  # fmt: skip


def change_between(before: Generation, now: Generation) -> MembershipChange:
    """Who left and who came between two recorded generations."""
    were, are = ({member.member_id: member for member in generation.members} for generation in (before, now))
    joined = {
        name: {"topics": list(member.topics), "instance_id": member.instance_id, "client_id": member.client_id}
        for name, member in are.items() if name not in were
    }  # fmt: skip
    return MembershipChange(f"generation {now.number}", tuple(sorted(were.keys() - are.keys())), joined)


def real_owners(step: Step) -> dict[tuple[str, int], str]:
    return rollouts.owners(step.group, step.group.owner)


@pytest.mark.parametrize("name", RECORDED)
def test_the_recorded_rollouts_are_predicted_partition_by_partition(name: str) -> None:
    history = load_histories(dump()).group(name)
    recorded = [g for g in history.folded.generations if g.members]
    walk = steps(name, recorded)
    strategy = rollouts.strategy_for(*_strategy(recorded[-1]), None)
    moves = moves_between_living(history.folded.generations)
    predicted = 0
    i = 0
    while i + 1 < len(walk):
        first, before, now = i, walk[i], walk[i + 1]
        change = change_between(before.generation, now.generation)
        if not change.leave and not change.join:
            i += 1
            continue
        group = replace(before.group, topic_ids=history.world.ids)
        (stage,) = rollouts.follow(group, [change], strategy, rollouts.protocol_of(strategy), Times())
        i += 1
        # A cooperative hand-over ends in generations that nobody joins or leaves.
        while stage.generations == 2 and i + 1 < len(walk):
            following = change_between(walk[i].generation, walk[i + 1].generation)
            if following.join or following.leave:
                break
            i += 1
        if walk[i].group.P != before.group.P:
            continue  # a topic grew with it, which is more than a rollout
        planned, had, has = (
            rollouts.owners(stage.plan.group, stage.plan.owner),
            real_owners(before),
            real_owners(walk[i]),
        )
        if strategy.name == "cooperative-sticky":
            # Members of other makes led this group: which free partition goes to whom is theirs, the moves are not.
            assert sorted(Counter(planned.values()).values()) == sorted(Counter(has.values()).values())
        else:
            assert planned == has
        stayed = {member.identity for member in before.generation.members} & set(has.values())
        really = sum(len(moves[step.generation.offset]) for step in walk[first + 1 : i + 1])
        assert stage.moved == really
        assert stage.taken == sum(who in stayed and has[key] != who for key, who in had.items())
        predicted += 1
    assert predicted >= 2


def _strategy(generation: Generation) -> tuple[str, str]:
    name = str(generation.protocol)
    if generation.kind == "consumer":
        return "consumer", f"broker-{name}"
    return ("cooperative" if name == "cooperative-sticky" else "eager"), name


def settled(members: int, partitions: int, protocol: str, **fields: Any) -> Group:
    """A group that has been planned once under the protocol's own strategy; ids as if drawn."""
    names = [f"{(7919 * i) % 9973:04x}" for i in range(1, members + 1)]
    raw = {"topics": {"t": partitions}, "members": {name: {"topics": ["t"], **fields} for name in names}}
    return whatif.settled(apportion.plan(read_group(raw), PROTOCOLS[protocol]))


def test_under_the_eager_protocol_everybody_lets_go_of_everything_each_time() -> None:
    done = rollouts.rollout(settled(4, 12, "eager"), ["rolling 1"], "eager")
    assert [stage.generations for stage in done] == [1] * 8
    assert [stage.revoked for stage in done] == [9, 12] * 4
    assert all(stage.standstill_s == 12 * 3 for stage in done)


def test_range_moves_what_the_brokers_uniform_leaves_in_a_rolling_restart() -> None:
    taken = {}
    for protocol in PROTOCOLS:
        done = rollouts.rollout(settled(10, 100, protocol), ["rolling"], protocol)  # type: ignore[arg-type]
        taken[protocol] = sum(stage.taken for stage in done)
    assert taken["consumer"] == taken["cooperative"] == 100
    assert taken["eager"] > 4 * taken["consumer"]


def test_a_cooperative_newcomer_takes_two_generations() -> None:
    done = rollouts.rollout(settled(3, 12, "cooperative"), ["rolling 1"], "cooperative")
    assert [stage.generations for stage in done] == [1, 2] * 3
    assert [stage.moved for stage in done] == [0, 4] * 3, "what goes to a newcomer moves too, as in a history"


def test_static_members_that_are_back_in_time_cost_only_their_own_standstill() -> None:
    group = settled(4, 12, "eager")
    done = rollouts.rollout(group, ["rolling 2"], "eager", static=True, times=Times(restart_s=20))
    assert [(s.generations, s.revoked, s.read_anew, s.standstill_s, s.longest_s) for s in done] == [
        (0, 0, 0, 120, 20)
    ] * 2
    assert rollouts.owners(done[-1].plan.group, done[-1].plan.owner).keys() == {("t", p) for p in range(12)}


def test_pauses_of_clients_that_read_nothing_meanwhile_are_told_if_any_step_rebalances() -> None:
    """Of static members that are back in time no rebalance comes; of the newcomer behind them one does."""
    words = "in kafka-python poll returns nothing meanwhile"
    group, times = settled(4, 12, "cooperative"), Times(restart_s=20)
    for steps_, told in ((["rolling 2"], False), (["rolling 2", "scale 5"], True)):
        stages = rollouts.rollout(group, steps_, "cooperative", static=True, times=times)
        assert (words in " ".join(notes(stages, "cooperative"))) == told, steps_


def test_static_members_that_are_late_stand_still_for_a_session_and_come_back_as_who_they_were() -> None:
    group = settled(4, 12, "cooperative", rack="a")
    done = rollouts.rollout(group, ["rolling 1"], static=True, times=Times(restart_s=60, session_s=45, rebalance_s=3))
    assert [len(stage.left) for stage in done] == [1, 0] * 4
    assert done[0].longest_s == 48
    assert set(done[-1].plan.group.members) == set(group.members)


def test_a_group_that_restarts_all_at_once_waits_for_the_restart_and_starts_with_nothing() -> None:
    (stage,) = rollouts.rollout(settled(3, 12, "eager"), ["rolling 3"], "eager", times=Times(restart_s=30))
    assert (stage.generations, stage.revoked, stage.moved, stage.read_anew) == (1, 0, 0, 12)
    assert stage.standstill_s == 12 * 33


@pytest.mark.parametrize("protocol", ["eager", "cooperative", "consumer"])
def test_static_members_that_are_all_late_stand_still_as_long_as_dynamic_ones(protocol: Any) -> None:
    """Nobody was there in between, so that nobody stayed and nothing is let go: all partitions wait for the restart."""
    group, times = settled(3, 12, protocol), Times(restart_s=60)
    (late,) = rollouts.rollout(group, ["rolling 3"], protocol, static=True, times=times)
    (dynamic,) = rollouts.rollout(group, ["rolling 3"], protocol, times=times)
    assert (late.standstill_s, late.longest_s) == (dynamic.standstill_s, dynamic.longest_s) == (12 * 63, 63)
    assert (late.joined, late.left) == (late.plan.group.members, dynamic.left)
    assert (late.revoked, late.taken, late.moved) == (0, 0, 0)


def test_a_group_that_is_back_at_once_has_the_members_that_it_had_and_no_others() -> None:
    (stage,) = rollouts.rollout(settled(3, 12, "eager"), ["rolling 3"], "eager", times=Times(restart_s=0))
    assert (stage.plan.group.M, stage.read_anew, stage.standstill_s) == (3, 12, 12 * 3)


@pytest.mark.parametrize("restart_s", [10, 60])
@pytest.mark.parametrize("protocol", list(PROTOCOLS))
def test_members_that_have_instance_ids_are_static_without_being_asked_to(protocol: Any, restart_s: float) -> None:
    group = rollouts.with_instance_ids(settled(4, 12, protocol))
    times = Times(restart_s=restart_s)
    for step in ("rolling 2", "rolling 4", "scale 2"):
        ways = [rollouts.rollout(group, [step], protocol, static=static, times=times) for static in (False, True)]
        assert [stage.to_dict() for stage in ways[0]] == [stage.to_dict() for stage in ways[1]]


def test_of_members_that_restart_together_only_those_without_an_instance_id_make_the_group_rebalance() -> None:
    raw = group_to_dict(settled(4, 12, "cooperative"))
    static, dynamic = list(raw["members"])[:2]
    raw["members"][static]["instance_id"] = static
    group = read_group(raw)
    back, gone, comes = rollouts.rollout(group, ["rolling 2"], times=Times(restart_s=20))[:3]
    assert (group.members[0], back.generations, back.standstill_s) == (static, 0, 3 * 20)
    assert (gone.left, comes.plan.group.M) == ((dynamic,), 4)
    assert static in comes.plan.group.members
    late = rollouts.rollout(group, ["rolling 2"], times=Times(restart_s=60))[:3]
    assert [stage.left for stage in late] == [(dynamic,), (static,), ()]
    assert [stage.longest_s for stage in late[:2]] == [3, 48], "one leaves, the other is missed when its session ends"


def test_of_members_that_go_together_static_ones_are_missed_when_their_sessions_end() -> None:
    """Dynamic members come after static ones, so that all of them go before a static one does."""
    raw = group_to_dict(settled(4, 12, "cooperative"))
    for member in list(raw["members"])[:3]:
        raw["members"][member]["instance_id"] = member
    group = read_group(raw)
    left, missed = rollouts.rollout(group, ["scale 1"])
    assert (left.left, left.longest_s) == (group.members[3:], 3)
    assert (missed.left, missed.longest_s) == (group.members[1:3], 48)
    assert missed.plan.group.members == group.members[:1]
    assert [stage.step for stage in rollouts.rollout(group, ["scale 3"])] == ["scale to 3"]


def test_scaling_changes_the_size_and_nothing_else_moves_than_must() -> None:
    group = settled(4, 12, "cooperative")
    down, up = rollouts.rollout(group, ["scale 3", "scale 6"])
    assert (down.plan.group.M, down.moved, down.read_anew) == (3, 0, 3)
    assert (up.plan.group.M, up.moved, up.taken) == (6, 6, 6)
    silent = rollouts.rollout(group, ["scale 3"], static=True)[0]
    assert silent.longest_s == 48


def test_partitions_that_a_topic_grew_by_nobody_read_before() -> None:
    for protocol in PROTOCOLS:
        grown, more = rollouts.rollout(settled(3, 9, protocol), ["grow t:12", "scale 2"], protocol)  # type: ignore[arg-type]
        assert grown.plan.group.P == 12
        assert grown.read_anew == grown.taken
        assert more.read_anew >= 4, "what the member had that left another one reads now"


def test_other_steps_are_stages_too_and_plan_as_what_if_does() -> None:
    group = settled(3, 9, "cooperative")
    texts = ["join 1", f"leave {group.members[0]}", "grow t:12"]
    stages = rollouts.rollout(group, texts)
    assert [s.plan.to_dict() for s in stages] == [plan.to_dict() for _, plan in whatif.what_if(group, texts)]


@pytest.mark.parametrize(
    ("step", "protocol", "assignor"),
    [
        ("rolling 0", "eager", None), ("rolling x", "eager", None), ("scale 3", "eager", None),
        ("scale 0", "eager", None), ("rolling", "consumer", "sticky"), ("rolling", "eager", "cooperative-sticky"),
        ("rolling", "eager", "broker-range"), ("rolling", "nothing", None),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(step: str, protocol: Any, assignor: str | None) -> None:
    with pytest.raises(BadInput):
        rollouts.rollout(settled(3, 9, "cooperative"), [step], protocol, assignor)

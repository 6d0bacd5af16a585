"""A change gives the group that Kafka would see after it, and steps follow one another."""

from __future__ import annotations

from typing import Any

import pytest

import apportion
from apportion import whatif
from apportion.cli import main
from apportion.demo import dump
from apportion.errors import ApportionError, BadInput, UnknownName
from apportion.model.group_json import group_to_dict, read_group

RAW: dict[str, Any] = {
    "group": "g",
    "topics": {
        "t": [{"partition": 0, "racks": ["a", "b"], "lag": 5}, {"partition": 3, "racks": ["b"], "begin": 1, "end": 9}],
        "u": 4,
    },
    "members": {
        "x": {"topics": ["t"], "rack": "b", "client_id": "c", "owned": {"t": [0, 3], "gone": [1]}, "generation": 3},
        "y": {"topics": ["t", "u"], "instance_id": "pod-1", "client_id": "c", "rack": "a"},
        "z": {"topics": ["t", "u"], "client_id": "lone", "owned": {"u": [1]}, "generation": 2},
    },
}


@pytest.fixture
def group() -> apportion.Group:
    return read_group(RAW)


def test_newcomers_want_what_most_want_and_bring_no_past(group: apportion.Group) -> None:
    after = group_to_dict(whatif.join(group, 2))
    assert after["members"]["join-1"] == after["members"]["join-2"] == {"topics": ["t", "u"]}
    rest = {name: fields for name, fields in after["members"].items() if not name.startswith("join")}
    assert rest == group_to_dict(group)["members"]


def test_newcomers_want_neither_what_the_first_nor_what_the_last_wants_but_what_most_want() -> None:
    """Where two subscriptions are equally common, the first member's counts."""
    topics = {"t": 2, "u": 2, "v": 2}
    wants = {"a": ["t"], "b": ["u", "v"], "c": ["u", "v"], "d": ["t", "v"]}
    raw = {"topics": topics, "members": {name: {"topics": mine} for name, mine in wants.items()}}
    assert group_to_dict(whatif.join(read_group(raw)))["members"]["join-1"] == {"topics": ["u", "v"]}
    raw = {"topics": topics, "members": {name: {"topics": mine} for name, mine in wants.items() if name != "c"}}
    assert group_to_dict(whatif.join(read_group(raw)))["members"]["join-1"] == {"topics": ["t"]}


def test_every_step_keeps_capacities_weights_and_topic_ids() -> None:
    raw: dict[str, Any] = {
        "topics": {"t": [{"partition": 0, "weight": 0.5}, {"partition": 1}, {"partition": 2, "weight": 7}]},
        "members": {"a": {"topics": ["t"], "capacity": 4, "rack": "r"}, "b": {"topics": ["t"], "capacity": 2}},
        "topic_ids": {"t": "bOmQsP9PQ0yLJEFIoTdiHg", "other": "A_-4jDCdQ1mBCTWq5Y1hWw"},
    }
    for step in ("join 1", "leave b", "grow t:4", "lag t:0=9"):
        after = group_to_dict(whatif.change(read_group(raw), step))
        assert after["members"]["a"]["capacity"] == 4, step
        assert [entry.get("weight") for entry in after["topics"]["t"]][:3] == [0.5, None, 7], step
        assert after["topic_ids"] == raw["topic_ids"], step
    assert group_to_dict(whatif.lose_rack(read_group(raw), "r"))["members"]["b"]["capacity"] == 2


def test_a_member_of_more_capacity_gets_more(group: apportion.Group) -> None:
    after = whatif.change(group, "capacity pod-1=3")
    assert group_to_dict(after)["members"]["y"]["capacity"] == 3
    assert [whatif.plan(g, "sticky").measures["load_max"] for g in (group, after)] == [2, 4]  # type: ignore[attr-defined]
    for step in ("capacity pod-1", "capacity pod-1=0", "capacity pod-1=1000001", "capacity nobody=2"):
        with pytest.raises(ApportionError):
            whatif.change(group, step)


def test_names_of_newcomers_that_are_taken_are_passed_over(group: apportion.Group) -> None:
    twice = whatif.join(whatif.join(group))
    assert {"join-1", "join-2"} <= set(twice.members)


@pytest.mark.parametrize(("name", "gone"), [("x", "x"), ("pod-1", "y"), ("lone", "z")])
def test_a_member_leaves_by_any_of_its_names_with_its_claims(group: apportion.Group, name: str, gone: str) -> None:
    after = whatif.leave(group, name)
    assert gone not in after.members
    claimed = {"x": {"t": [0, 3], "gone": [1]}, "z": {"u": [1]}}
    assert {m: f["owned"] for m, f in group_to_dict(after)["members"].items() if "owned" in f} == {
        member: claims for member, claims in claimed.items() if member != gone
    }


def test_a_client_id_of_two_members_is_no_name(group: apportion.Group) -> None:
    with pytest.raises(BadInput, match="the client id of 2 members"):
        whatif.leave(group, "c")


def test_the_last_member_cannot_leave(group: apportion.Group) -> None:
    one = whatif.leave(whatif.leave(group, "x"), "y")
    with pytest.raises(BadInput, match="no member left"):
        whatif.leave(one, "z")


def test_new_partitions_follow_the_highest_and_are_empty_where_logs_are_known(group: apportion.Group) -> None:
    after = group_to_dict(whatif.grow(whatif.grow(group, "t", 6), "u", 5))
    assert after["topics"]["t"][2:] == [{"partition": p, "begin": 0, "end": 0} for p in (4, 5)]
    assert after["topics"]["u"] == 5


@pytest.mark.parametrize(("topic", "n"), [("t", 4), ("t", 0), ("u", 4), ("u", 10**9)])
def test_a_topic_never_shrinks_nor_bursts(group: apportion.Group, topic: str, n: int) -> None:
    with pytest.raises(BadInput):
        whatif.grow(group, topic, n)


def test_a_lost_rack_takes_its_members_and_replicas(group: apportion.Group) -> None:
    after = group_to_dict(whatif.lose_rack(group, "b"))
    assert set(after["members"]) == {"y", "z"}
    assert [entry.get("racks") for entry in after["topics"]["t"]] == [["a"], None]
    with pytest.raises(UnknownName):
        whatif.lose_rack(group, "q")


def test_a_set_lag_wins_over_offsets(group: apportion.Group) -> None:
    after = whatif.set_lag(group, "t", 3, 700)
    assert after.lag.tolist() == [5, 700, 0, 0, 0, 0]
    assert group.lag.tolist() == [5, 0, 0, 0, 0, 0], "the group itself stays"


def test_after_a_plan_its_assignment_is_the_past_of_the_next_generation(group: apportion.Group) -> None:
    planned = apportion.plan(group, "roundrobin")
    after = whatif.after(planned)
    assert after.owner.tolist() == planned.owner.tolist()
    assert set(after.generation.tolist()) == {4}
    assert list(after.rejected_claims()) == []


def test_after_a_cooperative_plan_the_next_gives_the_target_and_withholds_nothing(group: apportion.Group) -> None:
    planned = apportion.plan(group, "cooperative-sticky")
    second = apportion.plan(whatif.after(planned), "cooperative-sticky")
    assert second.assignment == planned.target
    assert not second.withheld.any()
    assert whatif.settled(planned).owner.tolist() == planned.owner.tolist()


def test_steps_build_on_one_another(group: apportion.Group) -> None:
    steps = ["leave x", "join 2", "grow u:9", "lag u:8=70", "join"]
    done = whatif.what_if(group, steps, "sticky")
    assert [step for step, _ in done] == steps
    assert [p.group.M for _, p in done] == [2, 4, 4, 4, 5]
    assert all(p.measures["load_max"] - p.measures["load_min"] <= 1 for _, p in done)
    assert done[3][1].measures["moves"] == 0, "sticky does not look at lag"


@pytest.mark.parametrize(
    "step", ["", "jump", "join x", "join 0", "join -1", "join 1_0", "grow u", "grow u:", "lag t:0", "lag t=1",
             "lag t:1=1", "lag t:0=-1", "lag t:0=99999999999999999999", "leave", "leave nobody", "lose-rack",
             "grow v:3"],
)  # fmt: skip
def test_a_step_that_means_nothing_is_a_sentence(group: apportion.Group, step: str) -> None:
    with pytest.raises(ApportionError):
        whatif.change(group, step)


def test_a_hint_helps_with_a_misspelt_member(group: apportion.Group) -> None:
    with pytest.raises(UnknownName, match="Maybe you meant 'pod-1'"):
        whatif.leave(group, "pod1")


@pytest.mark.parametrize(
    ("group", "words", "under"),
    [
        ("profiles-kip848", [], "consumer, broker-uniform. "),
        ("routes-kip848-regex", [], "consumer, broker-range. "),
        ("ads-range", [], "eager, range. "),
        ("ads-range", ["-A", "sticky"], "eager, sticky. "),
        ("ads-range", ["--protocol", "cooperative"], "cooperative, cooperative-sticky. "),
    ],
)
def test_a_rollout_goes_under_what_the_group_runs_unless_asked_otherwise(
    group: str, words: list[str], under: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["what-if", str(dump()), "--group", group, "--rolling", *words]) == 0
    assert f"\n{under}" in capsys.readouterr().out

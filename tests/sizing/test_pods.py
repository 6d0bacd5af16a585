"""Which pods should go: no choice moves less, Kubernetes gets costs, and nothing where a name is unknown."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import run_here

import apportion
from apportion.errors import BadInput
from apportion.sizing.pods import pods
from apportion.sizing.size import size
from apportion.whatif import with_changed_members


def group(held: list[int], name: str = "app-{}") -> dict[str, Any]:
    """A group of one topic whose members hold so many partitions each."""
    first = [sum(held[:m]) for m in range(len(held) + 1)]
    members = {
        f"m{m}": {
            "topics": ["t"], "owned": {"t": list(range(first[m], first[m + 1]))}, "generation": 1,
            "client_id": name.format(m), "host": f"/10.0.0.{m}",
        }
        for m in range(len(held))
    }  # fmt: skip
    return {"group": "ads", "topics": {"t": first[-1]}, "members": members}


def leaving(raw: dict[str, Any], to: int, capacity: int, rule: str = "client-id") -> Any:
    point = size(raw, capacity, by="partitions", members=(to, to)).advised
    assert point is not None
    return pods(point, rule)


@pytest.mark.parametrize("held", [[10] * 12, [14, 6, 11, 9, 10, 10, 13, 7, 10, 10, 12, 8]])
def test_from_twelve_to_eight_no_choice_moves_fewer(held: list[int]) -> None:
    """All 495 choices of four members are planned with what moves fewest, and none beats the one that is named."""
    found = leaving(group(held), to=8, capacity=15)
    built = apportion.read_group(json.dumps(group(held)))

    def moves(gone: tuple[str, ...]) -> int:
        plan = apportion.plan(with_changed_members(built, gone, {}), "sticky")
        before = {built.name_of(p): built.members[m] for p, m in enumerate(built.owner.tolist())}
        return sum(plan.group.members[m] != before[plan.group.name_of(p)] for p, m in enumerate(plan.owner.tolist()))

    assert found.point.moves == min(moves(gone) for gone in combinations(built.members, 4))
    assert found.point.proven


def test_those_that_should_go_cost_least_and_the_patch_says_so_of_every_pod() -> None:
    found = leaving(group([5, 2, 5, 4]), to=3, capacity=6)
    assert found.leave == ("app-1",)
    assert found.cost == {"app-0": 6, "app-1": 0, "app-2": 6, "app-3": 5}
    [first, *_] = found.to_dict()["patch"]["items"]
    cost = {"controller.kubernetes.io/pod-deletion-cost": "6"}
    assert first == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "app-0", "annotations": cost}}


def test_a_member_without_a_pod_is_named_and_nothing_is_to_be_applied() -> None:
    found = leaving(group([5, 2, 5, 4]), to=3, capacity=6, rule="client-id=(app-[0-2])")
    assert found.unnamed == ("m3",)
    assert (found.cost, "patch" in found.to_dict()) == ({}, False)
    assert "finds no pod for 1 member (m3)" in found.sentences[0]


def test_a_pod_of_two_members_goes_only_if_both_do() -> None:
    raw = group([3, 1, 1, 3], "app")
    hosts = ["a", "b", "b", "a"]
    for member, host in zip(raw["members"].values(), hosts, strict=True):
        member["host"] = host
    assert leaving(raw, to=3, capacity=4, rule="host").leave == ()
    assert leaving(raw, to=2, capacity=4, rule="host").leave == ("b",)


def test_a_statefulset_loses_its_highest_ordinals_whatever_they_hold() -> None:
    found = leaving(group([2, 5, 5, 6]), to=3, capacity=6)
    assert found.leave == ("app-0",)
    assert found.highest == (("app-3",), 6)
    assert leaving(group([2, 5, 5, 6], "app-{}-x"), to=3, capacity=6).highest is None, "no ordinals"


@pytest.mark.parametrize("rule", ["pod", "client-id=(", "client-id=app", ""])
def test_another_rule_is_refused(rule: str) -> None:
    with pytest.raises(BadInput, match="needed instance-id, client-id or host"):
        leaving(group([1, 1]), to=1, capacity=5, rule=rule)


def test_the_command_gives_the_patch(tmp_path: Path) -> None:
    (tmp_path / "group.json").write_text(json.dumps(group([5, 2, 5, 4])))
    words = ["size", str(tmp_path / "group.json"), "--by", "partitions", "--capacity", "6", "--members", "3"]
    document = run_here(*words, "--pods", "client-id", "-o", "json").json
    assert document["pods"]["leave"] == ["app-1"]
    assert "These go: app-1; 2 partitions move, and no choice moves less work." in document["advice"]


@pytest.mark.parametrize(
    ("weight", "sentence"), [(None, "No pod should go."), (0, "No number of members is advised, so no pod is named.")]
)
def test_it_says_so_where_no_pod_is_to_go(tmp_path: Path, weight: int | None, sentence: str) -> None:
    raw = group([5, 5])
    if weight is not None:
        raw["topics"]["t"] = [{"partition": p, "weight": weight} for p in range(10)]
    (tmp_path / "group.json").write_text(json.dumps(raw))
    work = ["--by", "partitions", "--capacity", "5"] if weight is None else ["--by", "weight", "--capacity", "5"]
    document = run_here("size", str(tmp_path / "group.json"), *work, "--pods", "client-id", "-o", "json").json
    assert sentence in document["advice"]

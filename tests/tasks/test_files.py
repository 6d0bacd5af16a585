"""What a file tells of tasks: tags, copies, hosts and names; what cannot count is refused."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

import apportion
from apportion.comparison import compare
from apportion.errors import BadInput
from apportion.model.group_json import read_group

FOLDER = Path(__file__).parent / "groups"


def group(name: str) -> dict[str, Any]:
    raw: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return raw


def held(plan: dict[str, Any], role: str) -> dict[str, list[str]]:
    """Process to its tasks in a role."""
    return {p: sorted(t for tasks in hands.values() for t in tasks) for p, hands in plan["tasks"][role].items()}


ONE_APART = {"num.standby.replicas": "1", "rack.aware.assignment.tags": "zone"}


def test_tags_of_a_file_without_tags_are_refused() -> None:
    with pytest.raises(
        BadInput, match=r"rack\.aware\.assignment\.tags: found 'zone', and no member has tags"
    ) as refused:
        apportion.plan(group("f1"), "streams", ONE_APART)
    assert "members.M.tags" in str(refused.value)


def test_a_tag_that_no_member_has_is_refused() -> None:
    raw = group("f1")
    raw["members"]["c1"]["tags"] = {"cluster": "x"}
    with pytest.raises(BadInput, match="'zone', a tag that no member has"):
        apportion.plan(raw, "streams", ONE_APART)


def test_with_tags_each_standby_stands_in_another_zone_than_its_task() -> None:
    raw = group("f1")
    zones = {"c1": "a", "c2": "a", "c3": "b"}
    for member, zone in zones.items():
        raw["members"][member]["tags"] = {"zone": zone}
    plan = apportion.plan(raw, "streams", ONE_APART).to_dict()
    runs = {task: member for member, tasks in held(plan, "active").items() for task in tasks}
    keeps = {task: member for member, tasks in held(plan, "standby").items() for task in tasks}
    assert sorted(runs) == sorted(keeps) == ["0_0", "0_1", "0_2"]
    assert all(zones[runs[task]] != zones[keeps[task]] for task in runs)


def test_racks_that_nobody_tells_cannot_lower_the_traffic_and_the_setting_is_refused() -> None:
    with pytest.raises(BadInput, match=r"rack\.aware\.assignment\.strategy: found min_traffic"):
        apportion.plan(group("st"), "streams", {"rack.aware.assignment.strategy": "min_traffic"})


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({"rack.aware.assignment.tags": "zone"}, "no standbys to keep apart"),
        (
            {"rack.aware.assignment.traffic.cost": "5"},
            "traffic.cost: found 5, and rack.aware.assignment.strategy is none",
        ),
        ({"rack.aware.assignment.non.overlap.cost": "0"}, "non.overlap.cost: found 0, and rack.aware"),
    ],
)
def test_a_setting_that_only_counts_beside_another_is_refused_without_it(settings: dict[str, str], found: str) -> None:
    raw = group("f1")
    for member in raw["members"].values():
        member["tags"] = {"zone": "a"}
    with pytest.raises(BadInput, match=found):
        apportion.plan(raw, "streams", settings)


@pytest.mark.parametrize("setting", ["stateless", "subtopologies"])
def test_a_name_that_no_topic_has_is_refused_and_the_nearest_named(setting: str) -> None:
    with pytest.raises(BadInput, match=f"no topic in {setting} is named 'clikcs'; there are clicks, views. Maybe you"):
        apportion.plan(
            {"topics": {"clicks": 1, "views": 1}, "members": {"a": {"topics": ["clicks"]}}},
            "streams",
            {setting: "clikcs"},
        )


def test_a_member_without_a_host_is_a_process_of_its_own_even_where_it_is_called_as_a_host() -> None:
    members: dict[str, Any] = {"m": {"topics": ["t"], "host": "h"}, "h": {"topics": ["t"]}, "n": {"topics": ["t"]}}
    plan = apportion.plan({"topics": {"t": 6}, "members": members}, "streams", {"process": "host"}).to_dict()
    loads = {process: len(tasks) for process, tasks in held(plan, "active").items()}
    assert loads == {"h": 2, "h (no host)": 2, "n": 2}
    assert {member: len(topics["t"]) for member, topics in plan["target"].items()} == {"m": 2, "h": 2, "n": 2}


def test_a_standby_of_a_file_takes_over_at_once_and_one_that_is_behind_warms_up() -> None:
    """a has everything; b keeps copies of two of its tasks, one of which lacks more than the setting allows."""
    raw: dict[str, Any] = {
        "topics": {"t": 4},
        "members": {
            "a": {"topics": ["t"], "owned": {"t": [0, 1, 2, 3]}, "generation": 3},
            "b": {
                "topics": ["t"],
                "standby": {"t": [1, 2]},
                "recovery_lag": {"t": [{"partition": 2, "lag": 10_001}]},
            },
        },
    }
    plan = apportion.plan(raw, "streams").to_dict()
    assert plan["target"]["b"] == {"t": [1]}
    assert held(plan, "warmup")["b"] == ["0_2"]
    nearly = copy.deepcopy(raw)
    nearly["members"]["b"]["recovery_lag"]["t"][0]["lag"] = 10_000
    assert apportion.plan(nearly, "streams").target["b"] == {"t": [1, 2]}


def test_a_copy_of_a_task_is_as_far_as_its_least_restored_partition() -> None:
    raw: dict[str, Any] = {
        "topics": {"t": 1, "u": 1},
        "members": {
            "a": {"topics": ["t", "u"]},
            "b": {"topics": ["t", "u"], "standby": {"t": [0], "u": [0]}},
        },
    }
    assert apportion.plan(raw, "streams", {"subtopologies": "t+u"}).target["b"] == {"t": [0], "u": [0]}
    raw["members"]["b"]["recovery_lag"] = {"u": [{"partition": 0, "lag": 20_000}]}
    raw["members"]["a"]["recovery_lag"] = {"t": [{"partition": 0, "lag": 15_000}]}
    assert apportion.plan(raw, "streams", {"subtopologies": "t+u"}).target["a"] == {"t": [0], "u": [0]}


def test_a_comparison_knows_kafkas_names_of_settings_too() -> None:
    """With dots, as ``plan`` does."""
    made = compare(read_group(group("st")), ["sticky", "streams"], settings={"num.standby.replicas": "1"})
    assert [plan.measures.get("standbys") for plan in made.plans] == [None, 0, 12]

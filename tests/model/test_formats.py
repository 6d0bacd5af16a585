"""Every example of the text forms is read and answered as written, and the JSON Schemas hold for real output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

import apportion
from apportion.cli import main
from apportion.testing import many_groups

SCHEMAS = {
    path.name: json.loads(path.read_text()) for path in (Path(apportion.__file__).parent / "schemas").glob("*.json")
}
REGISTRY: Registry[Any] = Registry().with_resources(
    (name, Resource.from_contents(schema)) for name, schema in SCHEMAS.items()
)
DUMP = Path(apportion.__file__).parent / "demo" / "dump"

GROUP = """{
  "version": 1,
  "group": "ads-join",
  "auto_offset_reset": "earliest",
  "topics": {
    "clicks": 6,
    "impressions": [
      {"partition": 0, "racks": ["a", "b"], "begin": 0, "end": 100000, "committed": 90000},
      {"partition": 1, "racks": ["b"], "lag": 60000}
    ]
  },
  "members": {
    "consumer-1-5f0c": {
      "instance_id": "pod-0", "client_id": "consumer-1", "host": "/10.0.0.7", "rack": "a",
      "topics": ["clicks", "impressions"],
      "owned": {"clicks": [0, 1], "impressions": [0]}, "generation": 5,
      "priority": 10
    },
    "consumer-2-91aa": {"topics": ["clicks"]}
  }
}"""
ASKED = {
    "version": 1,
    "group": "ads-join",
    "topics": {"clicks": 4, "orders": 1},
    "members": {
        "a": {"topics": ["clicks"], "owned": {"clicks": [0, 1, 2]}, "generation": 5},
        "b": {"topics": ["clicks"], "owned": {"clicks": [9]}, "generation": 5},
    },
}
ANSWERED = """{
  "version": 1, "group": "ads-join", "assignor": "cooperative-sticky", "settings": {},
  "assignment": {"a": {"clicks": [0, 1]}, "b": {"clicks": [3]}},
  "target":     {"a": {"clicks": [0, 1]}, "b": {"clicks": [2, 3]}},
  "withheld":   {"clicks": [2]},
  "unassigned": {"orders": [0]},
  "ignored": [{"member": "b", "topic": "clicks", "partition": 9, "why": "no such partition"}],
  "measures": {"partitions": 4, "members": 2, "load_min": 2, "load_max": 2, "load_squares": 8, "spread_squares": 8,
    "kept": 2, "moves": 1, "rack_misses": 0},
  "proof": {"balance": "optimal", "moves": "optimal"}
}"""


def check(kind: str, value: Any) -> None:
    Draft202012Validator(SCHEMAS[f"{kind}.schema.json"], registry=REGISTRY).validate(value)


def test_the_example_group_is_read_and_written_back_as_it_stands() -> None:
    group = apportion.read_group(GROUP)
    assert apportion.group_to_dict(group) == json.loads(GROUP)
    assert group.lag.tolist() == [0, 0, 0, 0, 0, 0, 10000, 60000]


def test_the_example_plan_answers_the_example_group() -> None:
    plan = apportion.plan(ASKED, "cooperative-sticky")
    assert plan.to_dict() == json.loads(ANSWERED)
    assert list(plan.to_dict()) == list(json.loads(ANSWERED)), "fields in the order of the example"


def test_the_example_in_python_works_as_written() -> None:
    plan = apportion.plan(GROUP, assignor="cooperative-sticky")
    assert plan.assignment["consumer-2-91aa"] == {"clicks": plan.assignment["consumer-2-91aa"]["clicks"]}
    from apportion.assignors.lag_aware import LagAware

    skewed = apportion.plan(apportion.read_group(GROUP), assignor=LagAware(scope="group", max_skew=2))
    assert skewed.to_dict()["settings"] == {"max_skew": 2}


def test_after_the_hand_over_the_next_round_gives_the_target_and_withholds_nothing() -> None:
    first = apportion.plan(ASKED, "cooperative-sticky")
    members = {
        member: {**fields, "owned": first.assignment[member], "generation": 6}
        for member, fields in ASKED["members"].items()  # type: ignore[attr-defined]
    }
    second = apportion.plan({**ASKED, "members": members}, "cooperative-sticky")
    assert second.assignment == first.target
    assert not second.withheld.any()


def test_the_example_error_of_a_batch_has_its_three_parts() -> None:
    with pytest.raises(apportion.BadInput) as caught:
        apportion.plan({"topics": {"t": -1}, "members": {"a": {"topics": []}}})
    check("error", {"version": 1, "error": caught.value.to_dict()})


def test_every_schema_is_a_schema() -> None:
    assert len(SCHEMAS) == 10
    for schema in SCHEMAS.values():
        Draft202012Validator.check_schema(schema)


def test_the_schemas_hold_for_the_examples() -> None:
    check("group", json.loads(GROUP))
    check("group", ASKED)
    check("plan", json.loads(ANSWERED))


@pytest.mark.parametrize("name", apportion.known())
def test_the_schemas_hold_for_random_groups_and_their_plans(name: str) -> None:
    for group in many_groups(60, seed=5):
        check("group", group)
        plan = apportion.plan(group, name)
        check("group", apportion.group_to_dict(plan.group))
        check("plan", json.loads(plan.to_json()))


def test_a_group_survives_its_text_form() -> None:
    for group in many_groups(300, seed=6):
        once = apportion.read_group(group)
        again = apportion.read_group(json.dumps(apportion.group_to_dict(once)))
        assert apportion.plan(again).to_json() == apportion.plan(once).to_json()
        assert apportion.plan(again, "failover").assignment == apportion.plan(once, "failover").assignment


@pytest.mark.parametrize(
    ("kind", "arguments", "code"),
    [
        ("describe", ["describe", "group.json"], 0),
        ("compare", ["compare", "group.json"], 0),
        ("what-if", ["what-if", "group.json", "--join", "2", "--leave", "consumer-2-91aa", "--assignor", "sticky"], 0),
        ("gate", ["gate", "group.json", "--max-skew", "0", "--assignor", "range"], 3),
        ("replay", ["replay", str(DUMP), "--group", "ads-range", "--assignor", "sticky"], 0),
        ("plan", ["plan", "group.json", "--assignor", "lag-aware"], 0),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_the_schemas_hold_for_what_commands_print(
    kind: str,
    arguments: list[str],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "group.json").write_text(GROUP)
    monkeypatch.chdir(tmp_path)
    assert main([*arguments, "-o", "json"]) == code
    check(kind, json.loads(capsys.readouterr().out))

"""Tags, standbys and how far copies are restored: read, written back, and kept with their member through changes."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from jsonschema import Draft202012Validator

from apportion import whatif
from apportion.model.edits import with_changed_members
from apportion.model.group_json import group_to_dict, read_group

GROUP: dict[str, Any] = {
    "version": 1,
    "group": "g",
    "auto_offset_reset": "latest",
    "topics": {"t": 3, "u": 3},
    "members": {
        "a": {
            "topics": ["t", "u"],
            "tags": {"cluster": "x", "zone": "a"},
            "standby": {"t": [0, 2]},
            "recovery_lag": {"t": [{"partition": 0, "lag": 20000}], "u": [{"partition": 1, "lag": 0}]},
        },
        "b": {"topics": ["t", "u"], "tags": {"zone": "b"}},
        "c": {"topics": ["t", "u"]},
    },
}


def test_a_group_with_state_survives_its_text_form_and_its_schema() -> None:
    schema = json.loads((files("apportion") / "schemas" / "group.schema.json").read_text())
    Draft202012Validator(schema).validate(GROUP)
    group = read_group(GROUP)
    assert group_to_dict(group) == GROUP
    assert group_to_dict(read_group(json.dumps(group_to_dict(group)))) == GROUP


def test_a_group_of_which_no_member_tells_state_has_none() -> None:
    bare = {**GROUP, "members": {"a": {"topics": ["t"]}}}
    assert read_group(bare).state is None


def test_state_goes_and_stays_with_its_member() -> None:
    group = read_group(GROUP)
    joined = with_changed_members(group, (), {"aa": {"topics": ["t", "u"]}})
    assert joined is not None
    assert group_to_dict(joined)["members"] == {**GROUP["members"], "aa": {"topics": ["t", "u"]}}
    left = with_changed_members(group, [group.members.index("a")], {})
    assert left is not None
    assert group_to_dict(left)["members"] == {m: GROUP["members"][m] for m in "bc"}
    grown = whatif.grow(group, "t", 5)
    assert group_to_dict(grown)["members"] == GROUP["members"]

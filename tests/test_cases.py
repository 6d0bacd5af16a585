"""Every worked example in tests/cases: a title, its source, a group, and what the strategy makes of it."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

import apportion

FOLDER = Path(__file__).parent / "cases"
FILES = sorted(FOLDER.glob("*.toml"))
EXPECTED = ("assignment", "target", "loads", "measures", "proof", "extra", "withheld", "unassigned", "ignored")
FIELDS = {"title", "source", "settings", "group", *EXPECTED}


def cases() -> list[Any]:
    """Each case of each file, by strategy and title."""
    return [
        pytest.param(path.stem, case, id=f"{path.stem}: {case['title']}")
        for path in FILES
        for case in tomllib.loads(path.read_text(encoding="utf-8")).get("case", [])
    ]


def test_every_strategy_has_its_file_of_cases_and_every_file_a_strategy() -> None:
    assert {path.stem for path in FILES} == set(apportion.known())


@pytest.mark.parametrize(("name", "case"), cases())
def test_case(name: str, case: dict[str, Any]) -> None:
    """The strategy gives what the case says."""
    assert case["source"], "a case names its source"
    assert set(case) <= FIELDS, f"unknown fields {set(case) - FIELDS}"
    assert set(case) & set(EXPECTED), "a case expects something"
    plan = apportion.plan(case["group"], name, case.get("settings"))
    found = plan.to_dict()
    for field in ("assignment", "target", "withheld", "unassigned", "ignored"):
        if field in case:
            wanted = json.loads(case[field]) if isinstance(case[field], str) else case[field]
            assert found[field] == wanted, field
    if "loads" in case:
        held = plan.target if "target" in found else plan.assignment
        assert [sum(map(len, held[member].values())) for member in plan.group.members] == case["loads"]
    for field in ("measures", "proof"):
        assert {key: found[field].get(key) for key in case.get(field, {})} == case.get(field, {})
    assert {key: found.get(key) for key in case.get("extra", {})} == case.get("extra", {})

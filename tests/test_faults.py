"""Faults that are put back by ``make faults`` still can be: their text stands in the sources, their tests exist."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
FAULTS = tomllib.loads((ROOT / "tests" / "faults.toml").read_text(encoding="utf-8"))["fault"]


@pytest.mark.parametrize("fault", FAULTS, ids=[fault["title"] for fault in FAULTS])
def test_a_known_fault_can_be_put_back(fault: dict[str, Any]) -> None:
    """Who changes such a line writes the fault anew: left as it is, it would be tried no more."""
    source = (ROOT / "src" / fault["file"]).read_text(encoding="utf-8")
    assert source.count(fault["old"]) == 1, f"tests/faults.toml: {fault['old']!r} in {fault['file']}"
    ast.parse(source.replace(fault["old"], fault["new"]))
    for name in fault.get("tests", ()):
        file, _, function = name.partition("::")
        assert f"def {function}(" in (ROOT / file).read_text(encoding="utf-8") if function else (ROOT / file).exists()

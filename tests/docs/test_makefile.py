"""`make` explains every target, and every tool is run by one, by a workflow or by another tool."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TOOLS = sorted(path.stem for path in (ROOT / "tools").glob("*.py") if "__main__" in path.read_text(encoding="utf-8"))


def test_make_alone_explains_every_target() -> None:
    explained = subprocess.run(["make"], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    (phony,) = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert re.findall(r"^  make ([a-z-]+)  +\S", explained, re.MULTILINE) == re.findall(
        r"^([a-z-]+):.*## ", MAKEFILE, re.MULTILINE
    )
    assert set(phony.split()) == set(re.findall(r"^([a-z-]+):.*## ", MAKEFILE, re.MULTILINE))


@pytest.mark.parametrize("tool", TOOLS)
def test_somebody_runs_each_tool(tool: str) -> None:
    callers = [ROOT / "Makefile", *(ROOT / ".github").rglob("*.yml"), *(ROOT / "docs").glob("*.md")]
    others = [path for path in (ROOT / "tools").rglob("*.py") if path.stem != tool]
    assert any(re.search(rf"\btools[./]{tool}\b", path.read_text(encoding="utf-8")) for path in [*callers, *others])

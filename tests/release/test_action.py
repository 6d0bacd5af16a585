"""The GitHub action runs a gate: its steps, run here by bash as a runner does, end as the command ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
LISTING = ROOT / "tests" / "sources" / "cases" / "bound.txt"


@pytest.mark.parametrize(("limits", "code"), [("--now --max-lag 20000", 0), ("--now --max-lag 5", 3), ("--max-x 1", 2)])
def test_the_gates_step_ends_as_the_command_does(tmp_path: Path, limits: str, code: int) -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    step = next(step for step in action["runs"]["steps"] if step.get("id") == "gate")
    folder = tmp_path / "apportion" / "bin"
    folder.mkdir(parents=True)
    (folder / "apportion").write_text(f'#!/bin/sh\nexec {sys.executable} -m apportion "$@"\n')
    (folder / "apportion").chmod(0o755)
    names = {name: str(tmp_path / name) for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
    given = {"RUNNER_TEMP": str(tmp_path), "FILE": str(LISTING), "LIMITS": limits, "SUMMARY": "true", **names}
    line = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]  # as a runner calls it
    done = subprocess.run(line, cwd=tmp_path, env={**os.environ, **given}, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert set(step["env"]) == {"FILE", "LIMITS", "SUMMARY"}
    assert "breached=true" in Path(names["GITHUB_OUTPUT"]).read_text() if code == 3 else True
    assert ("Breached" in Path(names["GITHUB_STEP_SUMMARY"]).read_text()) == (code == 3)

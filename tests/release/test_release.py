"""A tag is released only where every place names its version, by a workflow that keeps no token."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import apportion
from tools import release

WORKFLOW = Path(__file__).parents[2] / ".github" / "workflows" / "release.yml"


def test_all_places_name_one_version() -> None:
    assert set(release.versions().values()) == {apportion.__version__}


def test_a_tag_of_another_version_is_refused_with_the_places(capsys: pytest.CaptureFixture[str]) -> None:
    assert release.main([f"v{apportion.__version__}"]) == 0
    assert release.main(["v9.9.9"]) == 2
    assert "CHANGELOG.md has version" in capsys.readouterr().err
    assert release.main(["9.9"]) == 2
    assert "a tag such as v1.2.3 is needed, found 9.9" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(not WORKFLOW.exists(), reason="an unpacked sdist has no workflows")
def test_the_workflow_publishes_what_it_tried_and_holds_no_secret() -> None:
    yaml = pytest.importorskip("yaml")
    jobs = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]
    assert jobs["publish"]["needs"] == "build"
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert "secrets." not in WORKFLOW.read_text(encoding="utf-8")
    steps = [step["run"] for step in jobs["build"]["steps"] if "run" in step]
    assert any("tools.release" in step for step in steps)
    for step in steps:
        if "pytest" in step:
            collected = [sys.executable, "-m", "pytest", "--collect-only", "-q", step.split()[-1]]
            assert subprocess.run(collected, capture_output=True, check=False, cwd=WORKFLOW.parents[2]).returncode == 0

"""The file of typed uses is as right to pyright as it is to mypy, and what it must refuse is refused there too."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

USES = Path(__file__).with_name("test_uses.py")
PYRIGHT = Path(sys.executable).with_name("basedpyright")
"""Beside this Python, whether or not its environment was activated."""


def checked(folder: Path, text: str) -> list[str]:
    """What pyright finds in a file with this text, a line each; a comment that ignores nothing is an error."""
    (folder / USES.name).write_text(text, encoding="utf-8")
    strict = {"typeCheckingMode": "standard", "reportUnnecessaryTypeIgnoreComment": "error"}
    (folder / "pyrightconfig.json").write_text(json.dumps(strict), encoding="utf-8")
    command = [str(PYRIGHT), "--project", str(folder), "--pythonpath", sys.executable, "--outputjson"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] == 1, done.stderr
    return [one["message"] for one in found["generalDiagnostics"]]


@pytest.mark.slow
@pytest.mark.skipif(not PYRIGHT.exists(), reason="needs basedpyright: pip install '.[dev]'")
@pytest.mark.timeout(300)
def test_typed_uses_are_right_and_wrong_ones_are_seen(tmp_path: Path) -> None:
    text = USES.read_text(encoding="utf-8")
    assert checked(tmp_path, text) == []
    bare = text.replace('LagAware(max_skew="2")  # type: ignore[arg-type]', 'LagAware(max_skew="2")')
    assert bare != text
    (message,) = checked(tmp_path, bare)
    assert "max_skew" in message

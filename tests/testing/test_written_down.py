"""Entries of written answers that no test holds go with a whole run, and stay with a part of one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = """
from pathlib import Path

import pytest
from tests.support.written_down import as_written


@pytest.mark.parametrize("key", ["a", "b"])
def test_key(key):
    as_written(Path(__file__).parent / "answers.json", key, key.upper())
"""


@pytest.mark.parametrize(
    ("chosen", "left"),
    [([], {"a", "b"}), (["-k", "a]"], {"a", "b", "stale"}), (["::test_key[a]"], {"a", "b", "stale"})],
    ids=["whole", "by a word", "by name"],
)
def test_a_stale_entry_goes_with_a_whole_run_alone(tmp_path: Path, chosen: list[str], left: set[str]) -> None:
    (tmp_path / "test_keys.py").write_text(TESTS)
    answers = tmp_path / "answers.json"
    answers.write_text(json.dumps({"a": "old", "b": "B", "stale": 1}))
    file = f"{tmp_path / 'test_keys.py'}" + "".join(word for word in chosen if word.startswith("::"))
    options = [word for word in chosen if not word.startswith("::")]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.support.written_down", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "--rootdir", str(tmp_path), file, *options], cwd=ROOT, capture_output=True, text=True,
        env={**os.environ, "APPORTION_WRITE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    known = json.loads(answers.read_text())
    assert (known.keys(), known["a"]) == (left, "A")

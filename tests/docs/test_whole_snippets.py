"""Python of the documentation that needs more than a test has can still be copied: it imports what it names."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOT_RUN = re.compile(r"<!-- not run:[^\n]*-->\n```python\n(.*?)```", re.DOTALL)
READERS = {"test-kit.md"}
"""Where names stand for what the reader has."""
PAGES = [
    page
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if page.name not in READERS and NOT_RUN.search(page.read_text())
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_nothing_that_it_does_not_import(page: Path) -> None:
    """A block may go on from the ones before it."""
    code = "\n".join(NOT_RUN.findall(page.read_text()))
    rules = ["--isolated", "--select", "F821,F704,F706", "--output-format", "concise", "--stdin-filename", "page.py"]
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", *rules, "-"]
    done = subprocess.run(command, input=code, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

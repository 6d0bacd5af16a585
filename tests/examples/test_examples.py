"""Each example's README part does what it says, word for word."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from apportion.testing.plugin import needs_java

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.broker, pytest.mark.slow]


def run_readme(example: str, patience_s: float = 150) -> str:
    """Run the first shell block of an example's README as it stands; what it printed."""
    needs_java()
    text = (ROOT / "examples" / example / "README.md").read_text(encoding="utf-8")
    block = re.search(r"```sh\n(.*?)```", text, re.DOTALL)
    assert block, "the README has a shell block"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euc", block[1]],
        cwd=ROOT,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        encoding="utf-8",
        timeout=patience_s,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return done.stdout


def test_words_are_counted_exactly_through_kill_9_and_a_standby_saves_the_restore() -> None:
    said = run_readme("word_counts")
    runs = re.findall(r"(\d) standby: 24,000 of 24,000 words counted, 0 counts wrong; .* when ([\d,]+) messages", said)
    restored = {standbys: int(messages.replace(",", "")) for standbys, messages in runs}
    assert set(restored) == {"1", "0"}
    assert restored["0"] > 3000, "without a standby everything is read again"
    assert restored["1"] < restored["0"] / 5, "with one the tail at most"

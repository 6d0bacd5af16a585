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

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(900)]


def run_readme(example: str, patience_s: float = 400) -> str:
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


@pytest.mark.thorough  # the audit lets the same join run
def test_ads_are_joined_without_a_row_missing_while_members_die_join_and_leave() -> None:
    said = run_readme("ads_join")
    assert re.search(r"1073 joined rows of 1073: 0 missing, 0 duplicate, 0 wrong", said)
    steps = re.findall(r"^(.+): (\d+) of (\d+) living numbers moved", said, re.MULTILINE)
    moved = {what: int(count) for what, count, _ in steps}
    assert moved["b dies (kill -9)"] == moved["c leaves"] == 0, "who stays keeps everything"
    assert moved["e joins"] == moved["b is back, with its old state"] == 2, "a newcomer gets its fair share, no more"


@pytest.mark.spark
def test_the_audit_finds_nothing_missing_but_the_row_that_was_dropped_on_purpose() -> None:
    pytest.importorskip("pyspark")
    said = run_readme("ads_audit")
    assert "joined: 698 rows due; 0 missing, 0 duplicate, 0 wrong" in said
    assert "joined-less-one: 698 rows due; 1 missing, 0 duplicate, 0 wrong" in said
    found, dropped = re.search(r"missing: (click-\d+)", said), re.search(r"dropped on purpose: (click-\d+)", said)
    assert found
    assert dropped
    assert found[1] == dropped[1]


def test_the_next_in_line_takes_over_and_nothing_flaps() -> None:
    said = run_readme("failover")
    first, second = said.split("preempt=false:")
    for part, reader, changes in ((first, "primary", 1), (second, "second", 0)):
        assert re.search(r"primary killed: second reads 3 of 3 after [\d.]+ s", part)
        assert f"primary back: {reader} reads 3 of 3; third never read: True" in part
        assert f"hand-overs since it came back: {changes}" in part


def test_lag_aware_parts_the_hot_partitions_and_is_done_sooner() -> None:
    said = run_readme("lag_aware")
    at_first = {strategy: sorted(lags(said, strategy)) for strategy in ("range", "lag-aware")}
    assert at_first == {"range": [600, 600, 5400], "lag-aware": [600, 2700, 3300]}
    took = re.search(r"done after ([\d.]+) s under range, ([\d.]+) s under lag-aware", said)
    assert took
    assert float(took[2]) < float(took[1])
    # 900 messages a second are read: sooner than that nobody is done.
    assert float(took[1]) >= 5.9
    assert float(took[2]) >= 3.6


def lags(said: str, strategy: str) -> list[int]:
    """What each member had to read at first, under one strategy."""
    part = said.split(f"{strategy}: messages left")[1].split("messages left")[0]
    return [int(number.replace(",", "")) for number in re.findall(r"([\d,]+) at first", part)]

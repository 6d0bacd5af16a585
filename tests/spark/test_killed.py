"""A build that is killed with -9 leaves the old tables, and the next run makes what an undisturbed one makes."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.spark.test_sinks import bytes_of

from apportion.demo import dump as recorded
from apportion.spark import job

pytestmark = [pytest.mark.spark, pytest.mark.slow]
KILLS = 10 if os.environ.get("APPORTION_THOROUGH") == "1" else 1
CHILD = """
import sys
from apportion.spark import job
job.build(sys.argv[1], sys.argv[2], progress=lambda line: print(line, flush=True))
"""


@pytest.mark.timeout(1200)
def test_a_killed_build_changes_nothing_and_the_next_is_whole(spark: Any, tmp_path: Path) -> None:
    """kill -9 at random moments of decode and gold, over tables of another dump that must stay as they are."""
    rng = random.Random(11)
    job.build(recorded(), tmp_path / "calm", spark=spark)
    calm = bytes_of(tmp_path / "calm")
    calm.pop("source.json")
    out = tmp_path / "out"
    for turn in range(KILLS):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(recorded()), str(out)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        stop_at = rng.choice(("silver/generations", "silver/rejects", "gold/groups", "gold/lag", "gold/whatif"))
        for line in child.stdout:
            if stop_at in line:
                break
        time.sleep(rng.uniform(0, 1.5))
        child.kill()
        child.wait()
        child.stdout.close()
        left = bytes_of(out)
        left.pop("source.json", None)
        assert left in ({}, calm), turn
    job.build(recorded(), out, spark=spark)
    made = bytes_of(out)
    made.pop("source.json")
    assert made == calm
    assert not list(out.glob(".staging-*"))

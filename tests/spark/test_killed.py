"""A build that is killed with -9 leaves the old tables, and the next run makes what an undisturbed one makes."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.spark.conftest import rows_of

from apportion.demo import dump as recorded
from apportion.spark import folder, job
from apportion.tables.schemas import TABLES

pytestmark = [pytest.mark.spark, pytest.mark.slow]
KILLS = 10 if os.environ.get("APPORTION_THOROUGH") == "1" else 1
STAGES = ("decoding records", "gathering log ends", "making rows of groups", "to plan", "making gold/lag")
CHILD = """
import sys
from apportion.spark import job
job.build(sys.argv[1], sys.argv[2], progress=lambda line: print(line, flush=True))
"""


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dump of the first half of the recorded records."""
    folder = tmp_path_factory.mktemp("earlier")
    shutil.copytree(recorded(), folder, ignore=shutil.ignore_patterns("truth"), dirs_exist_ok=True)
    for file in (folder / "records").glob("*.parquet"):
        table = pq.read_table(file)
        pq.write_table(table.slice(0, table.num_rows // 2), file)
    return folder


@pytest.mark.timeout(1800)
def test_a_killed_build_changes_nothing_and_the_next_is_whole(spark: Any, tmp_path: Path, earlier: Path) -> None:
    """kill -9 at random moments of decode, gold and publishing, over tables of another dump, which stay until then."""
    rng = random.Random(11)
    job.build(recorded(), tmp_path / "calm", spark=spark)
    calm = tables_in(tmp_path / "calm")
    out = tmp_path / "out"
    job.build(earlier, out, spark=spark)
    before = tables_in(out)
    assert before.keys() == calm.keys()
    assert before != calm
    for turn in range(KILLS):
        killed(out, rng.choice(STAGES), rng.uniform(0, 3))
        with folder.staged(out):
            pass  # what the next run does first: finish or forget
        left = tables_in(out)
        assert left in (before, calm), turn
        print(turn, "the new tables" if left == calm else "the earlier tables")
        if left == calm:
            job.build(earlier, out, spark=spark)
    for _ in range(2):
        job.build(recorded(), out, spark=spark)
        assert tables_in(out) == calm
        assert {file.name for file in out.iterdir()} == {
            "silver",
            "gold",
            "apportion_state",
            "source.json",
            "build.json",
            folder.LOCKS,
        }


def tables_in(out: Path) -> dict[str, list[str]]:
    """Every row of the tables."""
    return {name: rows_of(out / name) for name in TABLES}


def killed(out: Path, stage: str, seconds: float) -> None:
    """A build that is killed so many seconds after it began a stage."""
    command = [sys.executable, "-c", CHILD, str(recorded()), str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if stage in line:
                break
        time.sleep(seconds)
        child.kill()

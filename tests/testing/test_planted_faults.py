"""The simulation finds each fault of ``tests/faults.toml`` that has a ``seed``, put into a copy of the sources.

Those are the faults that concern a hand-over or exactly once. The schedule of ``seed`` shows the fault, by failing
``check``; if changes of the clients have made it harmless, the others are tried, up to a thousand.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from apportion.testing import jars

ROOT = Path(__file__).parents[2]
FAULTS = [f for f in tomllib.loads((ROOT / "tests/faults.toml").read_text(encoding="utf-8"))["fault"] if "seed" in f]
HUNT = """
import itertools, sys
from apportion.testing.simulation.schedules import draw, run
for seed in itertools.chain([int(sys.argv[1])], range(1, 1001)):
    failure = run(draw(seed)).failure
    if failure is not None and failure.check == sys.argv[2]:
        print(seed)
        break
"""

pytestmark = [pytest.mark.broker, pytest.mark.slow]


@pytest.mark.thorough
@pytest.mark.parametrize("fault", FAULTS, ids=[fault["title"] for fault in FAULTS])
def test_a_fault_that_is_put_back_is_found_within_a_thousand_seeds(fault: dict[str, Any], tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "broker", tmp_path / "broker", ignore=shutil.ignore_patterns("target"))
    path = tmp_path / "src" / fault["file"]
    whole = path.read_text(encoding="utf-8")
    assert whole.count(fault["old"]) == 1, f"the fault's text stands {whole.count(fault['old'])} times in {path}"
    path.write_text(whole.replace(fault["old"], fault["new"]), encoding="utf-8")
    source, jars_of_here = str(tmp_path / "src"), str(jars.home())
    environment = {**os.environ, "PYTHONPATH": source, "PYTHONHASHSEED": "0", "APPORTION_JARS": jars_of_here}
    command = [sys.executable, "-c", HUNT, str(fault["seed"]), fault["check"]]
    assert subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout.strip()


@pytest.mark.parametrize("seed", sorted({fault["seed"] for fault in FAULTS}))
def test_a_schedule_that_finds_a_fault_breaks_no_promise_without_it(seed: int) -> None:
    from apportion.testing.simulation.schedules import draw, run

    assert run(draw(seed)).failure is None

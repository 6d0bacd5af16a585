"""Put each fault of ``tests/faults.toml`` into a copy of the sources, and see its tests fail.

python -m tools.faults [WORD ...]     only faults whose title has one of the words

Exit code 1 where a fault goes unnoticed, its text no longer stands in the file, or the tests fail without any.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def main(words: Sequence[str]) -> int:
    """Try all of them, and say what came of each."""
    faults = tomllib.loads((ROOT / "tests" / "faults.toml").read_text(encoding="utf-8"))["fault"]
    tested = [fault for fault in faults if "tests" in fault]  # the simulation's own test tries the others
    chosen = [fault for fault in tested if not words or any(word in fault["title"] for word in words)]
    with tempfile.TemporaryDirectory() as temporary:
        source = Path(temporary) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        for live in (False, True):
            names = sorted({test for fault in chosen for test in fault["tests"] if fault.get("live", False) is live})
            if names and not passes(source, names, live):
                print("the tests fail without any fault", file=sys.stderr)
                return 1
        unnoticed = [fault["title"] for fault in chosen if not noticed(source, fault)]
    print(f"{len(chosen) - len(unnoticed)} of {len(chosen)} faults noticed")
    return 1 if unnoticed else 0


def noticed(source: Path, fault: Mapping[str, Any]) -> bool:
    """Whether its tests fail with the fault in place; the file is as it was afterwards."""
    path = source / fault["file"]
    whole = path.read_text(encoding="utf-8")
    if whole.count(fault["old"]) != 1:
        print(f"GONE       {fault['title']}: its text stands {whole.count(fault['old'])} times in {fault['file']}")
        return False
    path.write_text(whole.replace(fault["old"], fault["new"]), encoding="utf-8")
    try:
        found = not passes(source, fault["tests"], fault.get("live", False))
    finally:
        path.write_text(whole, encoding="utf-8")
    print(f"{'noticed' if found else 'UNNOTICED':10} {fault['title']}", flush=True)
    return found


def passes(source: Path, tests: Sequence[str], live: bool) -> bool:
    """Whether these tests pass on these sources, those with a broker where ``live``; a run that found none is none."""
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-m",
        "broker" if live else "not broker",
        "-p",
        "no:cacheprovider",
        *tests,
    ]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"pytest ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

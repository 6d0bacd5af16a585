"""Run the bounded tests at their full sizes, and keep what came of it: ``make thorough``.

python -m tools.thorough [WORD ...]     only lines of SIZES with one of the words; figures go to tests/thorough.json

One switch stands behind all of them: APPORTION_THOROUGH=1. It takes hours on two cores.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "tests" / "thorough.json"

SIZES = {
    "20,000 random groups of sticky and cooperative-sticky against an exhaustive or independent judge": (
        "tests/assignors/test_sticky.py",
    ),
    "20,000 random groups under every order of four goals": ("tests/assignors/test_four_goals.py",),
    "10,000 groups through Kafka's own client assignors": ("tests/assignors/test_against_java.py",),
    "10,000 groups of each kind through Kafka's own group coordinator": ("tests/assignors/test_broker_java.py",),
    "3,000 random topologies whose members want different topics": ("tests/tasks/test_subscriptions.py",),
    "120,000 records of share and streams groups, good and mangled, judged by Kafka's own classes": (
        "tests/wire/test_share_streams.py",
    ),
    "1,000,000 mutated subscriptions": ("tests/wire/test_subscriptions.py",),
    "1,000,000 mutated records, each in one table once": ("tests/spark/test_rows.py",),
    "100,000 mutated records through Spark itself": ("tests/spark/test_hostile.py",),
    "ten builds killed at random moments": ("tests/spark/test_killed.py",),
    "disks that fill up in every command of the pipeline": ("tests/spark/test_full_disk.py",),
    "captures of a real broker, with rights of every kind": ("tests/spark/test_capture.py",),
    "command lines at random": ("tests/cli/test_hostile.py",),
    "every strategy in every client under a broker that assigns by the new protocol": (
        "tests/clients/test_foreign.py",
    ),
}
"""What is tried -> the tests that try it."""


def main(words: Sequence[str]) -> int:
    """Run them one after another, and write each line down as soon as it is known."""
    figures = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {}
    failed = 0
    for name, tests in SIZES.items():
        if words and not any(word in name for word in words):
            continue
        begun = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *tests],
            cwd=ROOT, env={**os.environ, "APPORTION_THOROUGH": "1"}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        result = re.findall(r"(\d+) (passed|failed|skipped|error)", done.stdout)
        figures[name] = {
            "at": datetime.now(UTC).strftime("%Y-%m-%d"),
            "minutes": round((time.monotonic() - begun) / 60, 1),
            **{word: int(count) for count, word in result},
        }
        FIGURES.write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        print(f"{'well  ' if done.returncode == 0 else 'FAILED'} {name}: {figures[name]}", flush=True)
        if done.returncode:
            failed += 1
            print(done.stdout[-4000:], file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

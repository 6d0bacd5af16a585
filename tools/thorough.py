"""Run the bounded tests at their full sizes, and keep what came of it: ``make thorough``.

python -m tools.thorough [--minutes N] [WORD ...]     only lines of SIZES with one of the words

One switch stands behind all of them: APPORTION_THOROUGH=1. It takes hours on two cores. Figures go to
tests/thorough.json, line by line as they are known; a line that was never run, or was stopped after N minutes, says so
there and has no figures.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "tests" / "thorough.json"

SIZES = {
    "20,000 random groups of sticky and cooperative-sticky against an exhaustive or independent judge": (
        "tests/assignors/test_sticky.py",
    ),
    "20,000 random groups under every order of four goals": ("tests/assignors/test_four_goals.py",),
    "10,000 groups through Kafka's own client assignors": ("tests/assignors/test_against_java.py",),
    "10,000 groups of each kind through Kafka's own group coordinator": ("tests/assignors/test_broker_java.py",),
    "10,000 streams groups through Kafka's own task assignor": ("tests/tasks/test_broker_sticky_java.py",),
    "3,000 random topologies whose members want different topics": ("tests/tasks/test_subscriptions.py",),
    "120,000 records of share and streams groups, good and mangled, judged by Kafka's own classes": (
        "tests/wire/test_share_streams.py",
    ),
    "1,000,000 mutated subscriptions": ("tests/wire/test_subscriptions.py",),
    "1,000,000 mutated records, each in one table once": ("tests/spark/test_rows.py",),
    "100,000 mutated records through Spark itself": ("tests/spark/test_hostile.py",),
    "ten builds killed at random moments": ("tests/spark/test_killed.py",),
    "disks that fill up in every command of the pipeline": ("tests/spark/test_full_disk.py",),
    "dumps and tables on a real HDFS": ("tests/spark/test_hdfs.py",),
    "builds on two workers that share nothing, one of them killed": (
        "tests/spark/test_cluster.py",
        "-k",
        "workers or cluster_builds",
    ),
    "builds into an object store whose driver is killed at every stage": (
        "tests/spark/test_cluster.py",
        "-k",
        "driver",
    ),
    "tables by a Spark Connect client, in files and in a catalog": ("tests/spark/test_connect.py",),
    "captures of a real broker, with rights of every kind": ("tests/spark/test_capture.py",),
    "2,000 command lines at random": ("tests/cli/test_hostile.py",),
    "every strategy in every client under a broker that assigns by the new protocol": (
        "tests/clients/test_broker_takeover.py",
    ),
    "each case that make test leaves out, since another case keeps its promise": ("tests", "-m", "thorough"),
}
"""What is tried -> the tests that try it, as pytest is told."""


NOT_RUN = {"not run": "nobody has run it at this size since it was written down here"}


def main(arguments: Sequence[str]) -> int:
    """Run them one after another, and write each line down as soon as it is known."""
    parser = argparse.ArgumentParser(prog="python -m tools.thorough")
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--minutes", type=float, help="stop a line that takes longer")
    options = parser.parse_args(arguments)
    failed = 0
    for name, tests in SIZES.items():
        if options.words and not any(word in name for word in options.words):
            continue
        figures, output = run(tests, options.minutes)
        write_down(name, figures)
        well = not figures.keys() & {"failed", "error", "not run"}
        print(f"{'well  ' if well else 'FAILED'} {name}: {figures}", flush=True)
        if not well:
            failed += 1
            print(output[-4000:], file=sys.stderr)
    return 1 if failed else 0


def run(tests: Sequence[str], minutes: float | None) -> tuple[dict[str, Any], str]:
    """The figures of one line, and what pytest printed."""
    begun = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", *tests]
    environment = {**os.environ, "APPORTION_THOROUGH": "1"}
    pytest = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        output, _ = pytest.communicate(timeout=minutes and 60 * minutes)
    except subprocess.TimeoutExpired:
        pytest.send_signal(signal.SIGINT)  # so that brokers and peers are stopped as after any test
        output, _ = pytest.communicate()
        return {"at": _today(), "not run": f"stopped after {minutes:g} minutes"}, output
    counts = {word: int(count) for count, word in re.findall(r"(\d+) (passed|failed|skipped|error)", output)}
    if pytest.returncode and not counts.keys() & {"failed", "error"}:
        counts["error"] = 1
    return {"at": _today(), "minutes": round((time.monotonic() - begun) / 60, 1), **counts}, output


def write_down(name: str, figures: dict[str, Any]) -> None:
    """Put one line into the file; what is no line any more goes, and what was never run says so."""
    earlier = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {}
    lines = {each: earlier.get(each, NOT_RUN) for each in SIZES} | {name: figures}
    FIGURES.write_text(json.dumps(lines, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _today() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Let a mutation tester loose on the rooms where a wrong answer would look right: ``make mutants``.

python -m tools.mutants [ROOM ...]     all rooms of ROOMS by default; figures go to tests/mutants.json

mutmut changes one operator, number or name at a time in a copy of the sources and runs the room's tests on it. A mutant
that no test notices survives; what survives for a reason stands in REASONS, by the function it is in.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "tests" / "mutants.json"


@dataclass(frozen=True)
class Room:
    """Files below ``src/apportion`` that are mutated, and the tests that must notice."""

    files: tuple[str, ...]
    tests: tuple[str, ...]


ROOMS = {
    "history": Room(
        ("history/cause.py", "history/rebalances.py", "history/replay.py", "history/steps.py", "history/lags.py"),
        (
            "tests/history/test_rebalances.py",
            "tests/history/test_replay.py",
            "tests/history/test_rules_at_their_edges.py",
            "tests/history/test_lags_and_verdicts.py",
            "tests/history/test_task_groups.py",
        ),
    ),
    "task-groups": Room(
        (
            "history/broker_assigned.py",
            "history/streams_groups.py",
            "history/share_groups.py",
            "history/task_replay.py",
        ),
        ("tests/history/test_task_groups.py",),
    ),
    "policies": Room(
        ("policies.py",), ("tests/policies", "tests/cli/test_gate_limits.py", "tests/cli/test_saved_plans.py")
    ),
    "measures": Room(("model/measures.py",), ("tests/model", "tests/policies", "tests/cli/test_formats.py")),
    "memory": Room(
        ("user_data.py", "clients/joined_group.py"),
        ("tests/clients/test_newest_claims.py", "tests/wire/test_readers.py", "tests/clients/test_adapter.py"),
    ),
    "wire": Room(
        ("wire/coordinator.py", "wire/share_streams.py", "wire/epochs.py", "wire/record_fields.py", "wire/taskdata.py"),
        (
            "tests/wire/test_coordinator.py",
            "tests/wire/test_share_streams.py",
            "tests/wire/test_smallest_member.py",
            "tests/wire/test_taskdata.py",
        ),
    ),
    "tasks": Room(
        ("tasks/assignor.py", "tasks/application_state.py", "tasks/threads.py", "tasks/topology.py"),
        ("tests/tasks/test_tasks.py", "tests/tasks/test_subscriptions.py", "tests/tasks/test_copies.py"),
    ),
}

QUICK = ("not broker and not spark and not slow", "a_hundred_thousand", "five_thousand", "hostile_record")
"""Which tests are run (by marker), and words of those that take too long to be run for each mutant."""


def main(names: Sequence[str]) -> int:
    """Run the rooms, write the figures down, say them."""
    figures = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {}
    for name in names or ROOMS:
        figures[name] = run(ROOMS[name])
        found = figures[name]
        print(f"{name}: {found['killed']} of {found['mutants']} killed ({found['percent']} %)", flush=True)
        FIGURES.write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return 0


def run(room: Room) -> dict[str, object]:
    """The figures of one room."""
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary) / "project"
        for name in ("src", "tests", "tools", "examples", "bench", "docs"):
            shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
        whole = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
        (place / "pyproject.toml").write_text(whole + settings(room), encoding="utf-8")
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        mutmut = [sys.executable, "-m", "mutmut"]
        done = subprocess.run(
            [*mutmut, "run", "--max-children", "2"],
            cwd=place,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        listed = subprocess.run(
            [*mutmut, "results", "--all", "true"],
            cwd=place,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        states = [line.strip().rsplit(": ", 1) for line in listed.stdout.splitlines() if "__mutmut_" in line]
    if not states:
        raise SystemExit(f"mutmut made no mutants:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return summed([(name, state) for name, state in states])


def settings(room: Room) -> str:
    """What mutmut is told."""
    marker, *words = QUICK
    told = {
        "source_paths": ["src"],
        "only_mutate": [f"src/apportion/{file}" for file in room.files],
        "also_copy": ["tools", "examples", "bench", "docs"],
        "pytest_add_cli_args": ["-m", marker, "-k", " and ".join(f"not {word}" for word in words), "-p", "no:randomly"],
        "pytest_add_cli_args_test_selection": list(room.tests),
    }
    return "\n[tool.mutmut]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in told.items())


def summed(states: Sequence[tuple[str, str]]) -> dict[str, object]:
    """Killed means noticed: a test failed, or ran on without end."""
    count = Counter(state for _, state in states)
    killed = count["killed"] + count["timeout"] + count["segfault"]
    alive = Counter(name.rsplit("__mutmut_", 1)[0] for name, state in states if state in ("survived", "no tests"))
    return {
        "at": datetime.now(UTC).strftime("%Y-%m-%d"),
        "mutants": len(states),
        "killed": killed,
        "percent": round(100 * killed / len(states), 1),
        "states": dict(sorted(count.items())),
        "survivors": dict(sorted(alive.items())),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

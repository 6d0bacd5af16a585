"""Let a mutation tester loose on the rooms where a wrong answer would look right: ``make mutants``.

python -m tools.mutants [--seed N] [--most N] [--again] [--word WORD] [ROOM ...]     all rooms by default

mutmut says what may be changed: one operator, number, name, constant or argument at a time. From each room a sample
is drawn (all of a small room), and the room's quick tests are run on each mutant, those that reach the changed
statement. A mutant is killed where a test fails, or runs on without end. What came of it stands in tests/mutants.json,
each seed's sample by itself, survivors by file and line, each with its reason from tests/mutants-reasons.txt where it
has one. ``--again`` tries only the survivors of that seed and writes down those that are left, beside what was killed
when the sample was first drawn: that is the figure to believe, since tests are written for survivors. ``--word`` tries
only functions with the word in ``file function``, and only prints. Tests with a broker, Spark or a JVM are left out:
too slow to be run on each mutant.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .mutating import reasons
from .mutating.sites import Mutant, sites, sources, written

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "tests" / "mutants.json"
REASONS = ROOT / "tests" / "mutants-reasons.txt"
MOST = 150
"""Mutants that are tried of one room."""
SEED = 1
TEST_SECONDS, MUTANT_SECONDS = 3.0, 10.0
"""What one test, and all tests of one mutant, may cost; slower tests are not run on mutants."""


@dataclass(frozen=True)
class Room:
    """Files and folders below ``src/apportion`` that are mutated, and the tests that must notice."""

    files: tuple[str, ...]
    tests: tuple[str, ...]
    without: tuple[str, ...] = ()


LARGE_GROUPS = "tests/assignors/test_sticky_large.py"
ROOMS = {
    "wire": Room(
        ("wire/",),
        ("tests/wire", "tests/inputs/test_dump.py", "tests/clients/test_capacity.py"),
        ("tests/wire/test_against_kafka.py", "tests/wire/test_on_a_broker.py"),
    ),
    "model": Room(
        ("model/",), ("tests/model", "tests/whatif", "tests/test_cases.py", "tests/clients/test_joined_group.py")
    ),
    "memory": Room(
        ("strategy/codec.py", "clients/joined_group.py"),
        (
            "tests/clients/test_newest_claims.py",
            "tests/clients/test_joined_group.py",
            "tests/clients/test_capacity.py",
            "tests/strategy",
            "tests/wire/test_readers.py",
            "tests/wire/test_small_forms.py",
        ),
    ),
    "tasks": Room(("tasks/",), ("tests/tasks", "tests/test_cases.py", "tests/assignors/test_whole_answers.py")),
    "history": Room(
        ("history/",),
        (
            "tests/history",
            "tests/rollouts",
            "tests/cli/test_switch.py",
            "tests/inputs/test_dump.py",
            "tests/report/test_roles.py",
        ),
        ("tests/history/test_predicted_live.py",),
    ),
    "assignors": Room(
        ("assignors/",),
        ("tests/assignors", "tests/test_cases.py", "tests/solvers/test_makespan.py", "tests/tasks"),
        ("tests/assignors/test_against_java.py", "tests/assignors/test_broker_java.py", LARGE_GROUPS),
    ),
    "solvers": Room(
        ("solvers/",),
        ("tests/solvers", "tests/assignors", "tests/test_cases.py", "tests/tasks/test_placing.py"),
        ("tests/assignors/test_against_java.py", "tests/assignors/test_broker_java.py", LARGE_GROUPS),
    ),
    "policies": Room(
        ("policies.py",), ("tests/policies", "tests/cli/test_gate_limits.py", "tests/cli/test_saved_plans.py")
    ),
    "inputs": Room(("inputs/",), ("tests/inputs", "tests/cli/test_what_a_text_holds.py", "tests/cli/test_folders.py")),
    "report": Room(("report/",), ("tests/report", "tests/cli")),
    "serve": Room(("serve/",), ("tests/serve",)),
    "sizing": Room(("sizing/",), ("tests/sizing",)),
    "what-if": Room(
        ("comparison.py", "whatif.py", "rollouts.py", "planning.py"),
        ("tests/whatif", "tests/rollouts", "tests/report/test_comparing.py", "tests/policies", "tests/test_cases.py"),
        ("tests/rollouts/test_on_a_broker.py",),
    ),
    "acting": Room(("acting/", "clients/acting.py"), ("tests/acting", "tests/clients/test_acting.py")),
    "governing": Room(("governing/rules_file.py", "governing/plans.py"), ("tests/governing",)),
    "server-side": Room(
        ("server_side/",),
        ("tests/server_side", "tests/assignors/test_number_order.py", "tests/history/test_predicted_targets.py"),
    ),
    "pipeline": Room(("pipeline/", "tables/"), ("tests/pipeline", "tests/tables")),
    "spark": Room(("spark/location.py", "spark/scratch.py"), ("tests/spark",)),
    "clients": Room(
        (
            "clients/adapter.py",
            "clients/bridge.py",
            "clients/broker_takeover.py",
            "clients/confluent_settings.py",
            "clients/error_sentences.py",
            "clients/lag_feed.py",
            "clients/member_bridge.py",
            "clients/member_facts.py",
            "clients/options.py",
            "clients/patches.py",
            "clients/protocol_selection.py",
            "clients/rebalance.py",
            "clients/task_bridge.py",
            "clients/topic_metadata.py",
            "clients/warm_up.py",
        ),
        ("tests/clients", "tests/strategy", "tests/tasks/test_tasks.py", "tests/tasks/test_subscriptions.py"),
    ),
    "testing": Room(
        ("testing/contract.py", "testing/groups.py", "testing/plugin.py"),
        ("tests/testing", "tests/assignors/test_contract.py", "tests/whatif", "tests/strategy"),
    ),
    "base": Room(
        ("__init__.py", "arrays.py", "errors.py", "wording.py"),
        ("tests/model", "tests/docs/test_stable.py", "tests/typing/test_uses.py"),
    ),
    "strategy": Room(
        ("strategy/",),
        (
            "tests/strategy",
            "tests/test_cases.py",
            "tests/assignors/test_contract.py",
            "tests/assignors/test_known.py",
            "tests/clients/test_joined_group.py",
            "tests/clients/test_newest_claims.py",
            "tests/clients/test_capacity.py",
        ),
    ),
    "cli": Room(
        ("cli/",),
        ("tests/cli", "tests/inputs/test_recorded_cluster.py"),
        ("tests/cli/test_without_posix.py", "tests/cli/test_demo.py", "tests/cli/test_process.py"),
    ),
}
BROKER_ALONE = "only members of a real broker try it"
JVM_ALONE = "only Spark tries it, where a mutant would cost minutes"
NOT_DRAWN = {
    "__main__.py": "a process of its own",
    "demo/": "the place of files",
    "governing/": "only brokers with the class try it",
    "clients/aio_kafka.py": BROKER_ALONE,
    "clients/aio_kafka_messages.py": BROKER_ALONE,
    "clients/confluent.py": BROKER_ALONE,
    "clients/delivery.py": BROKER_ALONE,
    "clients/input_watch.py": BROKER_ALONE,
    "clients/kafka_python.py": BROKER_ALONE,
    "clients/log_offsets.py": BROKER_ALONE,
    "clients/restore.py": BROKER_ALONE,
    "clients/state_dir.py": BROKER_ALONE,
    "clients/stores.py": BROKER_ALONE,
    "clients/tasks.py": BROKER_ALONE,
    "spark/": JVM_ALONE,
    "testing/broker.py": "it starts programs, as do the three below",
    "testing/jars.py": "it starts programs",
    "testing/peers.py": "it starts programs",
    "testing/processes.py": "it starts programs",
}
"""What no room has, and why: a file or, with a slash, what is left of a folder."""

FEWER = {
    "tests/assignors/test_sticky.py": {"else 2_000": "else 200"},
    "tests/assignors/test_four_goals.py": {"else 400": "else 64"},
    "tests/assignors/test_contract.py": {
        "groups=150": "groups=15",
        "find(name))": "find(name), groups=15)",
        "max_examples=40": "max_examples=6",
        "max_examples=60": "max_examples=8",
    },
    "tests/assignors/test_lag_by_capacity.py": {"range(150)": "range(30)", "range(100)": "range(25)"},
    "tests/solvers/test_fair_loads.py": {"range(150)": "range(40)"},
    "tests/solvers/test_makespan.py": {"range(300)": "range(60)", "range(250)": "range(50)", "range(150)": "range(30)"},
    "tests/pipeline/test_decode.py": {"else 50_000": "else 10_000"},
    "tests/pipeline/test_plan_templates.py": {"else 5": "else 2"},
    "tests/sizing/test_size.py": {"max_examples=60": "max_examples=6", "max_examples=100": "max_examples=8"},
    "tests/solvers/test_small_groups.py": {"range(1500)": "range(100)"},
}
"""In the copy random tests draw fewer groups: whole ones are too slow to be run on each mutant, and notice more."""


def main(arguments: Sequence[str]) -> int:
    """Run the rooms, write the figures down, say them."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants")
    parser.add_argument("rooms", nargs="*", metavar="ROOM")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--most", type=int, default=MOST)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--word", default="")
    options = parser.parse_args(arguments)
    for name in options.rooms or ROOMS:
        sample = f"seed {options.seed}"
        earlier = written_down().get(name, {}).get(sample) if options.again else None
        if options.again and not earlier:
            raise SystemExit(f"{FIGURES.name} has no sample of {name} with {sample}: draw it first, without --again")
        figures = run(name, options.seed, options.most, options.word, earlier)
        say(name, figures)
        if not options.word:
            rooms = written_down()
            rooms[name] = {**rooms.get(name, {}), sample: figures}
            FIGURES.write_text(json.dumps(rooms, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    for file, function, was, _ in reasons.stale(reasons.read(REASONS), ROOT / "src" / "apportion"):
        print(f"{REASONS.name} gives a reason for what is no longer there: {file} {function}\n  - {was}")
    return 0


def written_down() -> dict[str, Any]:
    """What the file has, read anew each time: two runs may write it."""
    return dict(json.loads(FIGURES.read_text(encoding="utf-8"))) if FIGURES.exists() else {}


def run(name: str, seed: int, most: int, word: str, earlier: Mapping[str, Any] | None) -> dict[str, Any]:
    """The figures of one room."""
    room = ROOMS[name]
    files = sources(ROOT / "src" / "apportion", room.files)
    count, mutants = drawn(files, seed, most, word, earlier)
    with tempfile.TemporaryDirectory() as temporary:
        tree = Path(temporary) / "tree"
        for folder in ("src", "tests", "tools", "examples", "bench", "docs"):
            shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__"))
        for file in ("pyproject.toml", "README.md", "Makefile", "mkdocs.yml", "CHANGELOG.md"):
            shutil.copy(ROOT / file, tree / file)
        draw_fewer(tree)
        lines = tried(room, files, mutants, tree)
    about_tests = next(line for line in lines if "mutant" not in line)
    state = {line["mutant"]: line["state"] for line in lines if "mutant" in line}
    usable = [n for n in state if state[n] != "unusable"]
    alive = [mutants[n] for n in usable if state[n] in ("survived", "no test")]
    known = reasons.read(REASONS)
    survivors = [survivor(mutant, known) for mutant in sorted(alive, key=lambda each: (each.file, each.line))]
    # A survivor whose line is no longer there is no mutant any more, and nobody has killed it.
    tries = earlier["mutants"] - (len(earlier["survivors"]) - len(usable)) if earlier else len(usable)
    percent = round(100 * (tries - len(alive)) / max(tries, 1), 1)
    return {
        "at": datetime.now(UTC).strftime("%Y-%m-%d"),
        "sites": count,
        "mutants": tries,
        "killed": tries - len(alive),
        "percent": percent,
        "percent at first": earlier.get("percent at first") if earlier else percent,
        "tests": about_tests["tests"],
        "tests not run": sorted({*about_tests["failed"], *about_tests["too slow"]}),
        "survivors": survivors,
    }


def draw_fewer(tree: Path) -> None:
    """Make random tests of the copy smaller; a word that is no longer there is an error, so that none is forgotten."""
    for file, words in FEWER.items():
        text = (tree / file).read_text(encoding="utf-8")
        for old, new in words.items():
            if old not in text:
                raise SystemExit(f"{file} has no {old!r} any more: say in FEWER what makes its tests smaller")
            text = text.replace(old, new)
        (tree / file).write_text(text, encoding="utf-8")


def drawn(
    files: Sequence[str], seed: int, most: int, word: str, earlier: Mapping[str, Any] | None
) -> tuple[int, list[Mutant]]:
    """How many sites there are, and the sample of them, or those that an earlier run could not kill."""
    text = {file: (ROOT / "src" / "apportion" / file).read_text(encoding="utf-8") for file in files}
    every = [site for file in files for site in sites(file, text[file])]
    wanted = {tuple(each[part] for part in ("file", "function", "was", "becomes")) for each in survivors_of(earlier)}
    functions = {key[:2] for key in wanted}
    mutants: list[Mutant] = []
    for site in sorted(every, key=lambda site: site.turn(seed)):
        if len(mutants) == most:
            break
        if word not in f"{site.file} {site.function}" or (earlier and (site.file, site.function) not in functions):
            continue
        mutant = written(site, text[site.file])
        if mutant and (not earlier or mutant.key in wanted):
            wanted.discard(mutant.key)
            mutants.append(mutant)
    return len(every), mutants


def survivors_of(earlier: Mapping[str, Any] | None) -> Sequence[Mapping[str, str]]:
    """What an earlier run could not kill."""
    return earlier["survivors"] if earlier else ()


def tried(room: Room, files: Sequence[str], mutants: Sequence[Mutant], tree: Path) -> list[dict[str, Any]]:
    """One line on the tests, then one on each mutant."""
    request, result = tree / "request.json", tree / "result.jsonl"
    options = ["-m", "not broker and not spark and not slow", *(f"--ignore={name}" for name in room.without)]
    wish = {
        "source": str(tree / "src" / "apportion"),
        "files": files,
        "tests": room.tests,
        "options": options,
        "mutants": [asdict(mutant) for mutant in mutants],
        "test_seconds": TEST_SECONDS,
        "mutant_seconds": MUTANT_SECONDS,
    }
    request.write_text(json.dumps(wish), encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("APPORTION_")}
    environment |= {"PYTHONPATH": str(tree / "src"), "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
    environment |= {"OPENBLAS_NUM_THREADS": "1"}
    with (tree / "log").open("w+", encoding="utf-8") as log:
        command = [sys.executable, "-m", "tools.mutating.runner", str(request), str(result)]
        subprocess.run(command, cwd=tree, env=environment, stdout=log, stderr=log, check=False)
        log.seek(0)
        lines = [json.loads(line) for line in result.read_text().splitlines()] if result.exists() else []
        if len(lines) <= len(mutants):
            raise SystemExit(f"the tests could not be run on all mutants:\n{log.read()[-3000:]}")
    return lines


def survivor(mutant: Mutant, known: Mapping[reasons.Key, str]) -> dict[str, str]:
    """One entry of the list: where, what, why."""
    return {
        "at": f"{mutant.file}:{mutant.line}",
        "file": mutant.file,
        "function": mutant.function,
        "was": mutant.was,
        "becomes": mutant.becomes,
        "reason": reasons.reason(known, mutant.key),
    }


def say(name: str, room: Mapping[str, Any]) -> None:
    """One line for the room, two for each survivor that has no reason."""
    print(
        f"{name}: {room['killed']} of {room['mutants']} killed ({room['percent']} %), of {room['sites']} sites",
        flush=True,
    )
    for test in room["tests not run"]:
        print(f"  not run: {test}", flush=True)
    for each in room["survivors"]:
        if not each["reason"]:
            print(f"  {each['at']} {each['function']}\n    - {each['was']}\n    + {each['becomes']}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Try the ends of the version ranges in ``pyproject.toml``: ``make lowest``, ``make newest``.

python -m tools.ranges lowest|newest [--python PYTHON] [--quick | --live] [--with VERSION ...] [-- ARGUMENTS OF PYTEST]

``lowest`` installs the lowest version that each range of the core and of the extras allows and this Python can install,
``newest`` the newest there is today, whatever ``constraints.txt`` says. Each has an environment of its own below
``build/ranges``. What the tests themselves need is installed as ``constraints.txt`` pins it. All tests are run,
with ``--quick`` the ones of QUICK, with ``--live`` those of LIVE: a build by a real Spark and groups of each client on
a real broker, and nothing may be skipped. ``--with`` puts other versions over that end, to see whether a range could be
wider. What came of it is kept in tests/versions.json, and docs/versions.md is written from that.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from apportion.testing import jars

ROOT = Path(__file__).parents[1]
FIGURES, PAGE = ROOT / "tests" / "versions.json", ROOT / "docs" / "versions.md"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SHIPPED = tuple(name for name in PROJECT["optional-dependencies"] if name not in ("all", "dev"))
UV = (sys.executable, "-m", "uv")
FROM_SOURCE = ("pyspark",)
"""Packages of which there is no wheel."""

NO_TESTS = ("import-linter", "mutmut", "ruff")
"""Tools that no test calls; two of them narrow the range of rich."""

NO_LOWEST = ("pyspark",)
"""``pyspark[connect]``: gRPC wants a newer protobuf than the lowest OR-tools allows, so Connect is not tried there."""

QUICK = (
    "tests/model", "tests/tables", "tests/test_cases.py", "tests/sources", "tests/report/test_notebook.py",
    "tests/cli/test_formats.py", "tests/clients/test_adapter.py", "tests/clients/test_joined_group.py",
    "tests/clients/test_confluent.py", "tests/serve/test_metrics.py", "tests/serve/test_on_a_broker.py",
    "tests/spark/test_gold_demo.py", "tests/spark/test_location.py",
)  # fmt: skip
"""A test file or more for each thing that a library is asked for, some with a broker and with Spark."""

LIVE = (
    "tests/spark/test_gold_demo.py", "tests/spark/test_gold_live.py", "tests/clients/test_strategies_live.py",
    "tests/clients/test_confluent.py",
)  # fmt: skip
"""The recorded cluster and a captured one built by a real Spark, and groups of all three clients on a real broker."""

SHOWN = ("numpy", "pyspark", "pyarrow", "pandas", "kafka-python", "aiokafka", "confluent-kafka", "deltalake", "ortools")
"""What the table has a column for; the file has all versions."""


def main(arguments: Sequence[str]) -> int:
    """Make the environment, run the tests in it, and keep what came of it; the exit code is that of the tests."""
    own, _, extra = (" ".join(arguments)).partition(" -- ")
    parser = argparse.ArgumentParser(prog="python -m tools.ranges")
    parser.add_argument("end", choices=("lowest", "newest"))
    parser.add_argument("--python", default=sys.executable, help="the Python to try (default: this one)")
    parser.add_argument("--quick", action="store_true", help="a few test files alone")
    parser.add_argument("--live", action="store_true", help="those with Spark and with clients on a broker alone")
    parser.add_argument("--with", dest="others", nargs="*", default=[], help="versions to put over that end")
    chosen = parser.parse_args(own.split())
    python = environment(chosen.end, chosen.python)
    if chosen.others:
        run(*UV, "pip", "install", "--quiet", "--python", str(python), *chosen.others)
    size = "live" if chosen.live else "quick" if chosen.quick else "all"
    tests = {"live": LIVE, "quick": QUICK, "all": ()}[size]
    report = python.parents[1] / "report.xml"
    report.unlink(missing_ok=True)
    command = [str(python), "-m", "pytest", "-p", "no:cacheprovider", "-q", f"--junitxml={report}", *tests]
    must = {"APPORTION_REQUIRE_BROKER": "1"} if chosen.live else {}
    environ = {**{name: value for name, value in os.environ.items() if name != "PYTHONPATH"}, **must}
    code = subprocess.run([*command, *extra.split()], cwd=ROOT, env=environ, check=False).returncode
    end = f"{chosen.end} with {' '.join(chosen.others)}" if chosen.others else chosen.end
    if not extra:  # what is tried of chosen tests alone is no row of the table
        write_down({"end": end, "tests": size, "exit code": code, **counts(report), "versions": versions(python)})
    print(f"{end}, {size} tests, exit code {code}: {versions(python)}")
    if chosen.end == "newest":
        print(newer_kafka())
    return code


def newer_kafka() -> str:
    """A sentence on the jars of Apache Kafka: whether Maven has a newer release than the newest that tests run on."""
    goal = "org.codehaus.mojo:versions-maven-plugin:2.18.0:display-property-updates"
    command = [jars.maven(), "-B", "-f", str(jars.SOURCES / "pom.xml"), goal]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    newer = re.search(r"\$\{kafka\.version\} \.* \S+ -> (\S+)", told)
    tried = " and ".join(jars.KAFKA)
    if newer is None or newer[1] in jars.KAFKA:
        return f"Apache Kafka: tests run on {tried}, and Maven has nothing newer."
    return (
        f"Apache Kafka {newer[1]} is out, and tests run on {tried}: add it to KAFKA in src/apportion/testing/jars.py."
    )


def counts(report: Path) -> dict[str, int]:
    """How many tests passed, failed and were skipped, as pytest's report has them."""
    if not report.exists():
        return {}
    suites = ElementTree.parse(report).getroot().iter("testsuite")  # noqa: S314 - pytest's own
    sums = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    for suite in suites:
        sums = {name: sums[name] + int(suite.get(name, 0)) for name in sums}
    failed = sums["failures"] + sums["errors"]
    return {"passed": sums["tests"] - failed - sums["skipped"], "failed": failed, "skipped": sums["skipped"]}


def write_down(row: Mapping[str, Any]) -> None:
    """Put one row into the file, in the place of an earlier one of the same kind, and write the page anew."""
    rows = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else []
    kind = _kind(row)
    rows = [one for one in rows if _kind(one) != kind]
    rows.append({"at": datetime.now(UTC).strftime("%Y-%m-%d"), **row})
    rows.sort(key=_kind)
    lines = ",\n".join(map(json.dumps, rows))  # a row of the page is a line
    FIGURES.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    PAGE.write_text(page(rows), encoding="utf-8")


def _kind(row: Mapping[str, Any]) -> tuple[str, ...]:
    return row["versions"]["python"], row["end"], row["tests"]


def page(rows: Sequence[Mapping[str, Any]]) -> str:
    """``docs/versions.md``: a table for people of what the file has."""
    heads = ["Python", "end of the ranges", *SHOWN, "tests", "passed", "failed", "skipped", "on"]
    lines = [PREFACE, "| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for row in rows:
        shown = [row["versions"].get(name, "") for name in SHOWN]
        numbers = [str(row.get(name, "")) for name in ("passed", "failed", "skipped")]
        cells = [row["versions"]["python"], row["end"], *shown, row["tests"], *numbers, row["at"]]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


PREFACE = """# Versions tried

Written by `make lowest` and `make newest` (`tools/ranges.py`) from `tests/versions.json`, which has the version of
every package. *lowest* is the lowest version of each package that `pyproject.toml` allows and this Python can install,
*newest* the newest on that day. *all* are all tests, *quick* a choice of each package's. *live* is the recorded cluster
and a captured one built by a real Spark, and groups of kafka-python, aiokafka and confluent-kafka on a real broker,
none skipped. *153 alone* were run first: the cases of every strategy, the tables' types, notebooks and
metrics, without Spark or a broker.

*lowest with ...* tries a version below or above the allowed range: a row with failures shows why the range ends there.
"""


def environment(end: str, python: str) -> Path:
    """The Python of a fresh environment with one end of every range."""
    asked = [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    try:
        minor = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    except FileNotFoundError:
        raise SystemExit(
            f"no {python} is on the PATH: give the path of a Python, as in PYTHON=/opt/python3.12"
        ) from None
    folder = ROOT / "build" / "ranges" / f"{end}-{minor}"
    run(*UV, "venv", "--quiet", "--clear", "--python", python, str(folder))
    inside = folder / "bin" / "python"
    pins = folder / "pins.txt"
    resolution = "lowest-direct" if end == "lowest" else "highest"
    extras = [word for name in SHIPPED for word in ("--extra", name)]
    wheels = [word for name in named() if name not in FROM_SOURCE for word in ("--only-binary", name)]
    run(*UV, "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--resolution", resolution, *extras, *wheels,
        "--python", str(inside), "-o", str(pins), "pyproject.toml")  # fmt: skip
    left_out = NO_TESTS + NO_LOWEST if end == "lowest" else NO_TESTS
    for_tests = [one for one in PROJECT["optional-dependencies"]["dev"] if key(one) not in left_out]
    run(*UV, "pip", "install", "--quiet", "--python", str(inside), "--constraint", str(pins), "--constraint",
        str(tools_pinned(folder, pins)), "--editable", f".[{','.join(SHIPPED)}]", *for_tests)  # fmt: skip
    return inside


def tools_pinned(folder: Path, pins: Path) -> Path:
    """The lines of ``constraints.txt`` of which the resolution says nothing: what only the tests need."""
    resolved = {key(line) for line in pins.read_text(encoding="utf-8").splitlines()}
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    kept = folder / "tools.txt"
    kept.write_text("\n".join(line for line in lines if line[:1] != "#" and key(line) not in resolved) + "\n")
    return kept


def named() -> list[str]:
    """Every package that a range is given for, once."""
    ranges = [*PROJECT["dependencies"], *(one for name in SHIPPED for one in PROJECT["optional-dependencies"][name])]
    return sorted({key(one) for one in ranges} - {"apportion"})


def key(requirement: str) -> str:
    """The name in a requirement, as package indexes compare names."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement, maxsplit=1)[0]).lower()


def versions(python: Path) -> dict[str, str]:
    """The versions of Python and of what the ranges name, as they are in an environment."""
    program = (
        "import importlib.metadata as m, json, platform, sys; "
        "print(json.dumps({'python': platform.python_version(), **{n: m.version(n) for n in sys.argv[1:]}}))"
    )
    asked = [str(python), "-c", program, *named()]
    return dict(json.loads(subprocess.run(asked, check=True, capture_output=True, text=True).stdout))


def run(*command: str) -> None:
    """Run a command in the root, or end with its exit code."""
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    if code:
        raise SystemExit(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

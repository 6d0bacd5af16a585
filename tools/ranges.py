"""Try the ends of the version ranges in ``pyproject.toml``: ``make lowest``, ``make newest``.

python -m tools.ranges lowest|newest [--python PYTHON] [--quick] [-- ARGUMENTS OF PYTEST]

``lowest`` installs the lowest version that each range of the core and of the extras allows and this Python can install,
``newest`` the newest there is today, whatever ``constraints.txt`` says. Each has an environment of its own below
``build/ranges``. What the tests themselves need is installed as ``constraints.txt`` pins it. All tests are run,
with ``--quick`` the ones of QUICK: a few minutes. The last line says the versions, for the table in CONTRIBUTING.md.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SHIPPED = tuple(name for name in PROJECT["optional-dependencies"] if name not in ("all", "dev"))
UV = (sys.executable, "-m", "uv")
FROM_SOURCE = ("pyspark",)
"""Packages of which there is no wheel."""

NO_TESTS = ("import-linter", "mutmut", "ruff")
"""Tools that no test calls; two of them narrow the range of rich."""

QUICK = (
    "tests/model", "tests/tables", "tests/test_cases.py", "tests/inputs", "tests/report/test_notebook.py",
    "tests/cli/test_formats.py", "tests/clients/test_adapter.py", "tests/clients/test_joined_group.py",
    "tests/clients/test_confluent.py", "tests/serve/test_metrics.py", "tests/serve/test_on_a_broker.py",
    "tests/spark/test_gold_demo.py", "tests/spark/test_location.py",
)  # fmt: skip
"""A test file or more for each thing that a library is asked for, some with a broker and with Spark."""


def main(arguments: Sequence[str]) -> int:
    """Make the environment, run the tests in it, and say what it held; the exit code is that of the tests."""
    own, _, extra = (" ".join(arguments)).partition(" -- ")
    parser = argparse.ArgumentParser(prog="python -m tools.ranges")
    parser.add_argument("end", choices=("lowest", "newest"))
    parser.add_argument("--python", default=sys.executable, help="the Python to try (default: this one)")
    parser.add_argument("--quick", action="store_true", help="a few test files alone")
    chosen = parser.parse_args(own.split())
    python = environment(chosen.end, chosen.python)
    tests = [*QUICK] if chosen.quick else []
    command = [str(python), "-m", "pytest", "-p", "no:cacheprovider", "-q", *tests, *extra.split()]
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    print(f"{chosen.end}, {'a few files' if chosen.quick else 'all tests'}, exit code {code}: {versions(python)}")
    return code


def environment(end: str, python: str) -> Path:
    """The Python of a fresh environment with one end of every range."""
    asked = [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    minor = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    folder = ROOT / "build" / "ranges" / f"{end}-{minor}"
    run(*UV, "venv", "--quiet", "--clear", "--python", python, str(folder))
    inside = folder / "bin" / "python"
    pins = folder / "pins.txt"
    resolution = "lowest-direct" if end == "lowest" else "highest"
    extras = [word for name in SHIPPED for word in ("--extra", name)]
    wheels = [word for name in named() if name not in FROM_SOURCE for word in ("--only-binary", name)]
    run(*UV, "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--resolution", resolution, *extras, *wheels,
        "--python", str(inside), "-o", str(pins), "pyproject.toml")  # fmt: skip
    for_tests = [one for one in PROJECT["optional-dependencies"]["dev"] if key(one) not in NO_TESTS]
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


def versions(python: Path) -> str:
    """The versions of what the ranges name, as they are in an environment."""
    program = "import importlib.metadata as m, sys; print('Python', sys.version.split()[0], *[f'{n} {m.version(n)}' for n in sys.argv[1:]], sep=', ')"  # noqa: E501
    asked = [str(python), "-c", program, *named()]
    return (
        subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip().replace("Python, ", "Python ")
    )


def run(*command: str) -> None:
    """Run a command in the root, or end with its exit code."""
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    if code:
        raise SystemExit(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

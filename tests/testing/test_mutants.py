"""The mutation tester: what it changes, what it calls killed, and how a survivor finds its reason again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from tools.mutants import NOT_DRAWN, ROOMS
from tools.mutating import reasons
from tools.mutating.sites import Mutant, sites, sources, written

ROOT = Path(__file__).parents[2]
SOURCE = '''"""A toy."""


def clamp(x: int, top: int = 9) -> int:
    """The number, or the top."""
    if x > top:
        return top
    return x


def count(n: int) -> int:
    total = 0
    while n > 0:
        n = n - 1
        total += 1
    return total


def never() -> str:
    raise ValueError("a sentence for people")
'''
TESTS = """
from apportion.toy import clamp, count


def test_small() -> None:
    assert (clamp(3), clamp(30)) == (3, 9)


def test_counted() -> None:
    assert count(4) == 4
"""


def mutants() -> list[Mutant]:
    return [mutant for site in sites("toy.py", SOURCE) if (mutant := written(site, SOURCE))]


def test_code_is_changed_but_no_default_and_no_sentence() -> None:
    changes = {(each.function, each.was, each.becomes) for each in mutants()}
    assert ("clamp", "if x > top:", "if x >= top:") in changes
    assert ("count", "n = n - 1", "n = n + 1") in changes
    assert not any("def " in was or "sentence" in becomes for _, was, becomes in changes)
    for each in mutants():
        compile(each.text, each.file, "exec")


def test_a_mutant_is_killed_by_a_failed_test_or_by_running_on(tmp_path: Path) -> None:
    (tmp_path / "src" / "apportion").mkdir(parents=True)
    (tmp_path / "src" / "apportion" / "__init__.py").touch()
    (tmp_path / "src" / "apportion" / "toy.py").write_text(SOURCE)
    (tmp_path / "test_toy.py").write_text(TESTS)
    tried = mutants()
    request = {
        "source": str(tmp_path / "src" / "apportion"),
        "files": ["toy.py"],
        "tests": ["test_toy.py"],
        "options": [],
        "mutants": [asdict(mutant) for mutant in tried],
        "test_seconds": 2,
        "mutant_seconds": 8,
        "least_seconds": 1,
    }
    (tmp_path / "request").write_text(json.dumps(request))
    command = [sys.executable, "-m", "tools.mutating.runner", "request", "result.jsonl"]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path / 'src'}{os.pathsep}{ROOT}"}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, stdout=subprocess.DEVNULL)
    about, *lines = [json.loads(line) for line in (tmp_path / "result.jsonl").read_text().splitlines()]
    assert (about["tests"], about["failed"], about["too slow"]) == (2, [], [])
    state = {tried[line["mutant"]].key[1:]: line["state"] for line in lines}
    assert len(state) == len(lines) == len(tried)
    assert state["clamp", "if x > top:", "if x >= top:"] == "survived", "it gives the same"
    assert state["count", "total = 0", "total = 1"] == "killed"
    assert state["count", "n = n - 1", "n = n + 1"] == "timeout"
    assert state["never", 'raise ValueError("a sentence for people")', "raise ValueError(None)"] == "no test"


def test_a_reason_is_found_by_content_here_or_everywhere(tmp_path: Path) -> None:
    path = tmp_path / "reasons.txt"
    path.write_text(
        "# why\n\ntoy.py clamp\n- if x > top:\n+ if x >= top:\nThe same\nanswer.\n\n* *\n- strict=True\n+\nA guard.\n"
    )
    known = reasons.read(path)
    assert reasons.reason(known, ("toy.py", "clamp", "if x > top:", "if x >= top:")) == "The same answer."
    assert reasons.reason(known, ("a.py", "f", "zip(a, b, strict=True)", "zip(a, b, )")) == "A guard."
    assert reasons.reason(known, ("a.py", "f", "zip(a, b, strict=True)", "zip(a, )")) == ""
    assert reasons.reason(known, ("toy.py", "other", "if x > top:", "if x >= top:")) == ""


def test_a_reason_whose_line_is_gone_is_told(tmp_path: Path) -> None:
    (tmp_path / "toy.py").write_text(SOURCE)
    there = ("toy.py", "clamp", "if x > top: return top", "if x >= top: return top")
    gone = [
        ("toy.py", "clamp", "if x > most:", "if x >= most:"),
        ("toy.py", "clamped", "if x > top:", "if x >= top:"),
        ("a.py", "clamp", "if x > top:", "if x >= top:"),
    ]
    entries = dict.fromkeys([("*", "*", "x", "y"), there, *gone], "The same answer.")
    assert reasons.stale(entries, tmp_path) == gone


def test_every_file_is_in_a_room_or_is_left_out_with_a_reason() -> None:
    root = ROOT / "src" / "apportion"
    drawn = {file for room in ROOMS.values() for file in sources(root, room.files)}
    every = {str(path.relative_to(root)) for path in root.rglob("*.py")}
    left = {file for file in every - drawn if file.endswith("/__init__.py") or file in NOT_DRAWN}
    left |= {file for file in every - drawn for folder in NOT_DRAWN if folder[-1] == "/" and file.startswith(folder)}
    assert drawn | left == every
    assert all((root / name).exists() and name not in drawn for name in NOT_DRAWN)
    for room in ROOMS.values():
        assert all((ROOT / test).exists() for test in (*room.tests, *room.without))

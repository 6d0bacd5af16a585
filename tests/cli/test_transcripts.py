"""Whole outputs of command lines, held as they are: after a change that is meant, write them anew with ``make golden``.

Each file of ``transcripts`` is a list of ``$ apportion ...`` lines, each followed by all that it printed: its error
stream behind ``! ``, a code other than 0 as ``[exit 2]``, of a page the data that it carries. A new case is a new line.
DUMP is the demo's recorded cluster, TABLES the pipeline's tables of it, TASKS a dump of streams and share groups,
OUT a file in a temporary folder.
``python -m tests.cli.test_transcripts`` writes them anew, and ``git diff`` shows what has changed.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import pytest
from tests.cli.conftest import HERE, run_here
from tests.support.golden import of_page

import apportion
from apportion.cli import completion
from apportion.demo import dump

FOLDER = HERE / "transcripts"
PROMPT = "$ apportion "
TASKS = HERE.parent / "data" / "task_groups"
TABLES = HERE.parent / "data" / "tables"
FIXED = {"SOURCE_DATE_EPOCH": "1795272828"}


def parts(text: str) -> list[tuple[str, str]]:
    """Command and what it printed."""
    pieces = re.split(rf"^{re.escape(PROMPT)}(.*)\n", text, flags=re.MULTILINE)
    return list(zip(pieces[1::2], pieces[2::2], strict=True))


def printed(command: str) -> str:
    """All that a command line gives, with nothing of this machine in it; the present folder is that of ``cli``."""
    # A completion gives up after seconds, which a busy machine takes for a dump.
    with tempfile.TemporaryDirectory() as folder, patch.object(completion, "GROUPS_S", 300.0):
        out = Path(folder) / "out"
        at = {"DUMP": str(dump()), "TASKS": str(TASKS), "TABLES": str(TABLES), "OUT": str(out), "HERE": str(HERE)}
        done = run_here(
            *(re.sub(r"\b(DUMP|TASKS|TABLES|OUT)\b", lambda name: at[name[1]], word) for word in shlex.split(command))
        )
        written = out.read_text(encoding="utf-8") if out.exists() else ""
    text = "".join(of_page(one) if one.lower().startswith("<!doctype") else one for one in (done.out, written))
    if text and not text.endswith("\n"):
        text += "\\\n"
    text += "".join(f"! {line}\n" for line in done.err.splitlines())
    text += f"[exit {done.code}]\n" if done.code else ""
    for name, path in at.items():
        text = text.replace(path, name)
    return text.replace(apportion.__version__, "VERSION")


CASES = [
    pytest.param(path.stem, command, expected, id=f"{path.stem}:{command}"[:90])
    for path in sorted(FOLDER.glob("*.txt"))
    for command, expected in parts(path.read_text(encoding="utf-8"))
]


@pytest.mark.golden
@pytest.mark.parametrize(("file", "command", "expected"), CASES)
def test_a_command_line_gives_what_it_gave(
    file: str, command: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(HERE)
    for name, value in FIXED.items():
        monkeypatch.setenv(name, value)
    assert printed(command) == expected, f"{file}.txt: if this is meant, write all of them anew: make golden"


OF_THE_DUMP = [(str(case.values[1]), str(case.values[2])) for case in CASES if "DUMP" in str(case.values[1])]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (command, expected)
        for command, expected in OF_THE_DUMP
        if "html" not in command and not command.startswith("report")
    ],
)
def test_the_tables_of_a_dump_tell_what_the_dump_tells(
    command: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for pages, which name their source."""
    monkeypatch.chdir(HERE)
    for name, value in FIXED.items():
        monkeypatch.setenv(name, value)
    assert printed(command.replace("DUMP", "TABLES")).replace("TABLES", "DUMP") == expected


def write(names: Sequence[str]) -> None:
    """All files anew, or those of these names."""
    for name in [name for name in os.environ if name.startswith("APPORTION_")]:
        del os.environ[name]
    os.environ |= {**FIXED, "XDG_CONFIG_HOME": "/nonexistent"}
    os.chdir(HERE)
    for path in sorted(FOLDER.glob("*.txt")):
        if not names or path.stem in names:
            commands = [command for command, _ in parts(path.read_text(encoding="utf-8"))]
            path.write_text("".join(f"{PROMPT}{each}\n{printed(each)}" for each in commands), encoding="utf-8")


if __name__ == "__main__":
    write(sys.argv[1:])

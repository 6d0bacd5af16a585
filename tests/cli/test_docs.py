"""Every command on the command line's page prints what stands below it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from .test_help import in_shell

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)


def commands() -> list[tuple[str, str]]:
    """Each command of the page with the text below it; ``cat`` tells what a file holds."""
    found = []
    for block in BLOCK.findall(PAGE.read_text()):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, _, answer = part.partition("\n")
            found.append((line, answer))
    return found


@pytest.fixture
def page_folder(tmp_path: Path) -> Path:
    """A folder with the files that the page shows."""
    for line, answer in commands():
        if line.startswith("cat "):
            (tmp_path / line.removeprefix("cat ")).write_text(answer)
    return tmp_path


def test_every_output_on_the_page_is_what_the_command_prints(page_folder: Path) -> None:
    said = {line: answer for line, answer in commands() if not line.startswith("cat ")}
    assert len(said) >= 6
    printed = {line: printed_by(page_folder, line) for line in said}
    if os.environ.get("WRITE_DOCS"):  # to make the page anew; then read what changed
        _write(printed)
    assert printed == said


def printed_by(folder: Path, line: str) -> str:
    done: subprocess.CompletedProcess[str] = in_shell(folder, line)
    return done.stdout + done.stderr


def _write(printed: dict[str, str]) -> None:
    text = PAGE.read_text()
    for line, answer in commands():
        if line in printed:
            text = text.replace(f"$ {line}\n{answer}", f"$ {line}\n{printed[line]}", 1)
    PAGE.write_text(text)

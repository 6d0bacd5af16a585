"""Every option of every command is in the documentation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from apportion.cli.commands import COMMANDS, parser_of

ROOT = Path(__file__).parents[2]
SHORT = {"--help", "--output"}
"""Every command's, written ``-h`` and ``-o``."""


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_in_the_documentation(name: str) -> None:
    text = "\n".join(page.read_text() for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))])
    options = {word for action in parser_of(name)._actions for word in action.option_strings if word[:2] == "--"}
    assert not [option for option in sorted(options - SHORT) if not re.search(rf"{option}(?![a-z-])", text)]

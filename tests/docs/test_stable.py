"""The page on what is stable names the modules that the documents use, and what they use there is there."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

import apportion

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
ROWS = re.findall(r"^\| (`[^|]*) \|", (ROOT / "docs" / "stable.md").read_text(encoding="utf-8"), re.MULTILINE)
PUBLIC = set(re.findall(r"`(apportion[a-z_.]*)`", "".join(ROWS)))


def imported() -> list[tuple[str, str, str]]:
    """Page, module and name of each import of ours in a page's Python, its doctests and its commands included."""
    found = []
    for page in PAGES:
        for line in page.read_text(encoding="utf-8").splitlines():
            for piece in re.findall(r"(?:from apportion[\w.]* import [\w, ]+|import apportion[\w.]*)", line):
                for node in ast.parse(piece.strip(" ,")).body:
                    if isinstance(node, ast.ImportFrom):
                        found += [(page.name, str(node.module), alias.name) for alias in node.names]
                    elif isinstance(node, ast.Import):
                        found += [(page.name, alias.name, "") for alias in node.names]
    return found


def test_the_documents_import_from_public_modules_alone() -> None:
    uses = imported()
    assert len(uses) > 15
    assert {(page, module) for page, module, _ in uses if module not in PUBLIC} == set()


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_each_public_module_is_there_with_the_names_that_it_says_it_has(name: str) -> None:
    module = importlib.import_module(name)
    for each in getattr(module, "__all__", ()):
        assert hasattr(module, each)


def test_errors_are_called_by_the_module_that_users_import_them_from() -> None:
    errors = [getattr(apportion, name) for name in apportion.__all__ if isinstance(getattr(apportion, name), type)]
    raised = [error for error in errors if issubclass(error, Exception)]
    assert len(raised) == 6
    assert {error.__module__ for error in raised} == {"apportion"}

"""Files of tests that a change in one package can reach: ``make quick ROOM=solvers``.

The packages that import it, at any distance, are those of import-linter's own graph (grimp). A file of tests is reached
if it, a module of ``tests`` that it imports, or a conftest above it imports one of them. A file that imports nothing of
ours runs processes or reads files: it is always reached.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[2]
PACKAGE = "apportion"


def rooms() -> list[str]:
    """Every package and module right below ``apportion``."""
    return sorted(grimp.build_graph(PACKAGE).find_children(PACKAGE))


def reached_by(room: str, files: list[Path]) -> set[Path]:
    """Of these files of tests those that a change in the room can make fail."""
    graph = grimp.build_graph(PACKAGE)
    name = f"{PACKAGE}.{room}"
    inside = {name, *graph.find_descendants(name)}
    modules = inside | graph.find_downstream_modules(name, as_package=True)
    known = frozenset(graph.modules)
    return {file for file in files if room in file.parts or _is_reached(file, modules, known)}


def _is_reached(file: Path, modules: set[str], known: frozenset[str]) -> bool:
    imported = _imported(file, known)
    for folder in file.relative_to(ROOT).parents:
        if (above := ROOT / folder / "conftest.py").exists() and folder.name != "tests":
            imported |= _imported(above, known)
    return not imported or bool(imported & modules)


@cache
def _imported(file: Path, known: frozenset[str]) -> frozenset[str]:
    """Modules of ours that a file imports, itself or through modules of ``tests``."""
    found, seen, waiting = set[str](), set[Path](), [file]
    while waiting:
        path = waiting.pop()
        if path in seen or not path.exists():
            continue
        seen.add(path)
        for name in _names(path):
            if name.startswith(PACKAGE):
                found.add(name if name in known else name.rpartition(".")[0])
            elif name.startswith("tests."):
                waiting += [
                    ROOT / f"{name.replace('.', '/')}.py",
                    ROOT / f"{name.rpartition('.')[0].replace('.', '/')}.py",
                ]
    return frozenset(found)


def _names(path: Path) -> Iterator[str]:
    """Every module, and every name in a module, that a file imports."""
    here = ".".join(path.relative_to(ROOT).parts[:-1])
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = f"{here}.{node.module}" if node.level else node.module or ""
            yield module
            yield from (f"{module}.{one.name}" for one in node.names)

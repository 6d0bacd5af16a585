"""ARCHITECTURE.md is right on packages and layers, and a class name means one thing."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def part(heading: str) -> str:
    """The text between a heading and the next."""
    return TEXT.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def test_the_map_has_every_package_and_nothing_else() -> None:
    cells = re.findall(r"^\| (`.*?`) \|", part("The map"), re.MULTILINE)
    mapped = [name.rstrip("/") for cell in cells for name in re.findall(r"`([^`]+)`", cell)]
    there = {
        path.stem
        for path in (ROOT / "src" / "apportion").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert sorted(mapped) == sorted(there - {"__init__", "__main__"})


def test_the_layers_are_those_that_are_checked() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    [layers] = [one["layers"] for one in contracts if one["type"] == "layers"]
    [written] = re.findall(r"```\n(.*?)```", part("Layers"), re.DOTALL)
    assert written.splitlines() == [layer.replace("apportion.", "") for layer in layers]


IN_EACH_CLIENT = {"NotAsked"}
"""What kafka-python and aiokafka each have in their own terms, under one name because it is one thing."""


def test_a_class_name_stands_for_one_thing() -> None:
    """The simulation's stand-ins have the names of what they stand in for."""
    files: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "src").rglob("*.py")):
        if path.parent.name == "simulation":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                files[node.name].append(str(path.relative_to(ROOT)))
    assert {name: where for name, where in files.items() if len(where) > 1 and name not in IN_EACH_CLIENT} == {}
    assert all(len(files[name]) == 2 for name in IN_EACH_CLIENT)


OLD_PAIRS = {("report", "page"), ("serve", "state")}
"""Modules that stand beside their plural since before this was asked."""


def test_no_two_modules_of_a_package_differ_by_a_letter() -> None:
    names = {(path.parent.name, path.stem) for path in (ROOT / "src" / "apportion").rglob("*.py")}
    alike = {(room, name) for room, name in names if {(room, f"{name}s"), (room, f"{name}d")} & names}
    assert alike - OLD_PAIRS == set()
    bare = sorted(name.replace("_", "") for room, name in names if room in ("wire", "strategy") and name != "__init__")
    assert len(bare) == len(set(bare)), "one word, one module"

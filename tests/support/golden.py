"""Whole outputs as files: what a page carries, a field a line; and scenes, which ``make golden`` writes anew.

A scene is a function whose text ``golden/NAME.txt`` beside it holds, to the last letter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

Scene = Callable[[pytest.MonkeyPatch], str]


def hold(folder: Path, name: str, scene: Scene, patch: pytest.MonkeyPatch) -> None:
    """Play a scene: it must give what its file holds."""
    held = (folder / f"{name}.txt").read_text(encoding="utf-8")
    assert scene(patch) == held, f"golden/{name}.txt: if this is meant, write all of them anew: make golden"


def write(folder: Path, scenes: Mapping[str, Scene], names: Sequence[str]) -> None:
    """All files anew, or those of these names."""
    folder.mkdir(exist_ok=True)
    for name in names or scenes:
        with pytest.MonkeyPatch.context() as patch:
            (folder / f"{name}.txt").write_text(scenes[name](patch), encoding="utf-8")


def of_page(text: str) -> str:
    """The data of a page, a line for each field of each group; its scripts and styles are told by other tests."""
    found = re.search(r'<script type="([^"]+)" id="data">(.*?)</script>', text, re.DOTALL)
    titled = re.search("<title>(.*?)</title>", text)
    assert found, "the page has no data"
    assert titled, "the page has no title"
    head, *groups = map(json.loads, found[2].strip().split("\n"))
    lines = [f"{found[1]} {titled[1]}"]
    lines += [f"{name}: {line(value)}" for name, value in head.items()]
    for group in groups:
        lines += ["", *of_fields(group)]
    return "\n".join(lines) + "\n"


def of_fields(group: Mapping[str, Any]) -> Iterator[str]:
    """Fields in lines of their own, and rows and objects below them."""
    for name, value in group.items():
        if isinstance(value, list) and value and isinstance(value[0], list | dict):
            yield f"{name}:"
            yield from (f"  {line(one)}" for one in value)
        elif isinstance(value, dict):
            yield f"{name}:"
            yield from (f"  {one}" for one in of_fields(value))
        else:
            yield f"{name}: {line(value)}"


def line(value: object) -> str:
    """Compact JSON."""
    return json.dumps(value, ensure_ascii=False)

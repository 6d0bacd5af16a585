"""What a page carries, a field a line, as tests hold it: ``make golden`` writes such files anew."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any


def of_page(text: str) -> str:
    """The data of a page, a line for each field of each group; its scripts and styles are told by other tests."""
    found = re.search(r'<script type="([^"]+)" id="data">(.*?)</script>', text, re.DOTALL)
    titled = re.search("<title>(.*?)</title>", text)
    assert found, "the page has no data"
    assert titled, "the page has no title"
    data = json.loads(found[2])
    lines = [f"{found[1]} {titled[1]}"]
    lines += [f"{name}: {line(value)}" for name, value in data.items() if name != "groups"]
    for group in data["groups"]:
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

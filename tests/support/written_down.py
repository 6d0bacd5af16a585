"""Whole answers against those that were written down; ``APPORTION_WRITE=1`` writes anew what is meant to change.

An entry that no test holds any more goes where the file of tests ran whole: a plugin of pytest sees to it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

_HELD: Final[dict[Path, set[str]]] = {}
"""File to the entries that tests have held."""
_BY: Final[dict[Path, str]] = {}
"""File to the file of tests that holds it."""
_PARTLY: Final[set[str]] = set()
"""Files of tests of which some were left out."""


def as_written(path: Path, key: str, answer: Any) -> None:
    """Hold an answer against the entry ``key`` of a file of JSON, one line an entry; what cannot be JSON fails."""
    answer = json.loads(json.dumps(answer, allow_nan=False))
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if _writes():
        known[key] = answer
        _write(path, known)
        _HELD.setdefault(path, set()).add(key)
        _BY[path] = os.environ["PYTEST_CURRENT_TEST"].partition("::")[0]
    assert key in known, f"{path.name} has no {key!r}: write it with APPORTION_WRITE=1"
    assert answer == known[key]


def _writes() -> bool:
    return os.environ.get("APPORTION_WRITE") == "1"


def _write(path: Path, known: dict[str, Any]) -> None:
    lines = [f"{json.dumps(name)}: {json.dumps(known[name], ensure_ascii=False)}" for name in sorted(known)]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    _PARTLY.update(item.nodeid.partition("::")[0] for item in items)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if not report.passed:
        _PARTLY.add(report.nodeid.partition("::")[0])


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Drop what no test holds; not under xdist, whose workers run a part each."""
    if not _writes() or hasattr(session.config, "workerinput") or any("::" in name for name in session.config.args):
        return
    for path, held in _HELD.items():
        known = json.loads(path.read_text(encoding="utf-8"))
        if _BY[path] not in _PARTLY and known.keys() != held:
            _write(path, {key: known[key] for key in held})

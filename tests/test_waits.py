"""A test that sleeps a second or more, or has a session of more than six, says why it cannot use a shorter one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SLEEP_S, SESSION_MS = 1.0, 6_000
"""The shortest session that a broker's defaults allow is six seconds."""
SESSIONS = {"session_timeout_ms", "session.timeout.ms", "session_ms"}
FILES = [path for path in sorted(HERE.rglob("*.py")) if "sleep(" in (text := path.read_text()) or "session" in text]


def number(node: ast.expr) -> float:
    """What a literal says, as a number or as a text of one; 0 where it is another thing."""
    value = node.value if isinstance(node, ast.Constant) else None
    return float(value) if isinstance(value, int | float) or (isinstance(value, str) and value.isdigit()) else 0.0


def waits(tree: ast.AST) -> Iterator[int]:
    """Lines of long sleeps and of long sessions that clients are given."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if ast.unparse(node.func) in ("time.sleep", "asyncio.sleep", "sleep") and number(node.args[0]) >= SLEEP_S:
                yield node.lineno
            for keyword in node.keywords:
                if keyword.arg in SESSIONS and number(keyword.value) > SESSION_MS:
                    yield keyword.value.lineno
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value in SESSIONS and number(value) > SESSION_MS:
                    yield value.lineno


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(HERE)))
def test_each_long_wait_has_its_reason(file: Path) -> None:
    """In a comment on its line, or right above it."""
    lines = file.read_text(encoding="utf-8").splitlines()
    bare = [n for n in waits(ast.parse("\n".join(lines))) if "#" not in lines[n - 1] + lines[n - 2].strip()[:1]]
    assert not bare, [lines[n - 1].strip() for n in bare]

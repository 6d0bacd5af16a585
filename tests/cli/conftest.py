"""A runner for command lines: in this process for speed, in a process of its own where that is the point."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from apportion.cli import main

HERE = Path(__file__).parent
PASTED = HERE.parent / "sources" / "pasted"
SECRETS = ("APPORTION_", "NO_COLOR")
KEPT = ("APPORTION_REQUIRE_BROKER",)

ADS: dict[str, Any] = {
    "version": 1,
    "group": "ads-join",
    "auto_offset_reset": "earliest",
    "topics": {
        "clicks": 6,
        "impressions": [
            {"partition": 0, "racks": ["a", "b"], "begin": 0, "end": 100000, "committed": 90000},
            {"partition": 1, "racks": ["b"], "lag": 60000},
        ],
    },
    "members": {
        "consumer-1-5f0c": {
            "instance_id": "pod-0",
            "client_id": "consumer-1",
            "host": "/10.0.0.7",
            "rack": "a",
            "topics": ["clicks", "impressions"],
            "owned": {"clicks": [0, 1], "impressions": [0]},
            "generation": 5,
            "priority": 10,
        },
        "consumer-2-91aa": {"topics": ["clicks"]},
    },
}
"""The group of formats.md."""


@dataclass(frozen=True)
class Done:
    """How a command line ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.split("\n") if line]


class _Input(io.TextIOWrapper):
    def isatty(self) -> bool:
        return False


Runner = Callable[..., Done]


def run_here(*args: str, stdin: bytes = b"") -> Done:
    """The command line in this process."""
    before = sys.stdin, sys.stdout, sys.stderr
    out, err = io.BytesIO(), io.BytesIO()
    sys.stdin = _Input(io.BytesIO(stdin))
    sys.stdout = io.TextIOWrapper(out, encoding="utf-8", errors="strict")
    sys.stderr = io.TextIOWrapper(err, encoding="utf-8", errors="backslashreplace")
    try:
        code = main(list(args))
        sys.stdout.flush()
        sys.stderr.flush()
        return Done(code, out.getvalue().decode(), err.getvalue().decode())
    finally:
        sys.stdin, sys.stdout, sys.stderr = before


def run_apart(*args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Done:
    """The command line in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "apportion", *args],
        input=stdin, capture_output=True, timeout=400, env={**os.environ, **(env or {})}, check=False,
    )  # fmt: skip
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variable and no config file of whoever runs the tests."""
    for name in list(os.environ):
        if name.startswith(SECRETS) and name not in KEPT:
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def run() -> Runner:
    return run_here


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the files that examples name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "group.json").write_text(json.dumps(ADS))
    (tmp_path / "groups.ndjson").write_text((json.dumps(ADS) + "\n") * 3)
    pasted = (PASTED / "offsets.txt").read_text().replace("ads join é", "ads-join  ")
    (tmp_path / "pasted.txt").write_text(pasted)
    (tmp_path / "plan.json").write_text(run_here("plan", "group.json", "-o", "json").out)
    return tmp_path

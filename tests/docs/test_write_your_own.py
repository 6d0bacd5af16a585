"""The tutorial on writing a strategy works as written: its code, its messages, its entry point, its case."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import apportion

PAGE = Path(__file__).parents[2] / "docs" / "write-your-own.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def run_all() -> tuple[dict[str, Any], str]:
    """Run every Python block in the order of the page; give what they defined and printed."""
    names: dict[str, Any] = {"__name__": "my_failover"}
    sys.modules["my_failover"] = type(sys)("my_failover")
    sys.modules["my_failover"].__dict__.update(names)
    names = sys.modules["my_failover"].__dict__
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        for block in blocks("python"):
            exec(compile(block, str(PAGE), "exec"), names)  # noqa: S102  # our own page
    return names, said.getvalue()


def test_the_code_of_the_page_runs_and_says_what_the_page_says() -> None:
    names, said = run_all()
    assert said == blocks("text")[0]
    assert repr(names["MyFailover"](preempt=False)) == "MyFailover(preempt=False)"


def test_the_entry_point_of_the_page_makes_the_strategy_known_to_the_command_line(tmp_path: Path) -> None:
    """A distribution is made of the page's pyproject.toml, its imports and its last class."""
    project = tomllib.loads(blocks("toml")[0])
    source = [block for block in blocks("python") if "from __future__" in block or "preempt: bool" in block]
    lines = [line for line in "".join(source).splitlines() if not line.startswith("check_assignor(")]
    (tmp_path / "my_failover.py").write_text("\n".join(lines))
    entries = project["project"]["entry-points"]["apportion.assignors"]
    info = tmp_path / "my_strategies-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-strategies\nVersion: 1.0\n")
    listed = "".join(f"{name} = {where}\n" for name, where in entries.items())
    (info / "entry_points.txt").write_text(f"[apportion.assignors]\n{listed}")
    group = {
        "topics": {"t": 2},
        "members": {"a": {"topics": ["t"], "owned": {"t": [0]}}, "b": {"topics": ["t"], "priority": 1}},
    }
    command = [
        sys.executable,
        "-m",
        "apportion",
        "plan",
        "-",
        "--assignor",
        "my-failover",
        "--set",
        "preempt=false",
    ]
    done = subprocess.run(
        [*command, "-o", "json"],
        input=json.dumps(group).encode(),
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        check=True,
    )
    plan = json.loads(done.stdout)
    assert (plan["assignor"], plan["settings"]) == ("my-failover", {"preempt": False})
    assert plan["assignment"] == {"a": {"t": [0, 1]}, "b": {}}


def test_the_case_of_the_page_holds_for_the_strategy_that_ships() -> None:
    case = tomllib.loads(blocks("toml")[1])["case"][0]
    assert apportion.plan(case["group"], "failover").assignment == json.loads(case["assignment"])

"""The tutorial on writing a strategy works as written: its code, its messages, its entry point, its case."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from tests.support.hanging import HANGING

import apportion
from apportion.testing import check_assignor, processes
from apportion.testing.broker import Broker

PAGE = Path(__file__).parents[2] / "docs" / "write-your-own.md"


def blocks(language: str) -> list[str]:
    """What the page shows in that language, but for the content of files."""
    text = re.sub(
        r"^<!-- file: \S+ -->\n```.*?^```$", "", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def write_files(folder: Path) -> None:
    """The files that the page shows."""
    text = PAGE.read_text(encoding="utf-8")
    for name, content in re.findall(r"^<!-- file: (\S+) -->\n```\w+\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        (folder / name).write_text(content, encoding="utf-8")


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


@pytest.mark.slow
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


@pytest.fixture
def warm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module ``warm`` of the page, and its files in a folder."""
    write_files(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield __import__("warm")
    sys.modules.pop("warm")


@pytest.mark.slow
def test_the_strategy_with_a_memory_keeps_every_promise_and_is_one_file_that_speaks_of_no_other_fact(warm: Any) -> None:
    for least in (1, 25, 100):
        check_assignor(warm.Warm(least))
    assert not re.search("priority|capacity", Path(warm.__file__).read_text(encoding="utf-8"))


CASES = [
    ("shares are in proportion to warmth", {"a": 100, "b": 0}, {}, {"a": 5, "b": 1}),
    ("equal warmth, equal shares", {"a": 40, "b": 40, "c": 40}, {}, {"a": 2, "b": 2, "c": 2}),
    ("who says nothing is cold", {"a": None, "b": 100}, {}, {"a": 1, "b": 5}),
    ("what fits into a share stays", {"a": 0, "b": 0}, {"b": [0, 1, 2, 3]}, {"a": [3, 4, 5], "b": [0, 1, 2]}),
]


@pytest.mark.parametrize(("title", "warmth", "owned", "expected"), CASES, ids=[case[0] for case in CASES])
def test_the_table_of_cases_of_the_strategy_with_a_memory(
    warm: Any, title: str, warmth: dict[str, int | None], owned: dict[str, list[int]], expected: dict[str, Any]
) -> None:
    members = {
        name: {"topics": ["t"], "facts": {"warmth": value}, "owned": {"t": owned.get(name, [])}, "generation": 1}
        for name, value in warmth.items()
    }
    assignment = apportion.plan({"topics": {"t": 6}, "members": members}, warm.Warm()).assignment
    given = {name: assignment[name]["t"] for name in expected}
    assert expected in (given, {name: len(ids) for name, ids in given.items()}), title


@pytest.mark.broker
def test_the_consumer_of_the_page_brings_its_warmth_to_a_real_group(broker: Broker, tmp_path: Path) -> None:
    """One member reads a hundred orders; the second one, which is cold, gets one partition of six, and no half."""
    write_files(tmp_path)
    broker.create_topic("orders", 6)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    for n in range(120):
        producer.send("orders", key=b"%d" % n, value=b"x", partition=n % 6)
    producer.close()
    old, lines = consume(broker, tmp_path, "old")
    wait_for(lambda: "warm" in lines(), lines)
    new, _ = consume(broker, tmp_path, "new")
    try:
        wait_for(lambda: shares(lines()) == [1, 5], lines)
        processes.end(new)  # by SIGTERM, at which the loop leaves: nobody waits for the end of its session, 45 s
        began_s = time.monotonic()
        wait_for(lambda: shares(lines()) == [6], lines)
        assert time.monotonic() - began_s < 40
    finally:
        processes.end(new)
        processes.end(old)


def consume(broker: Broker, folder: Path, name: str) -> tuple[subprocess.Popen[Any], Callable[[], list[str]]]:
    """The page's ``consume.py`` as a process, and a way to read what it has printed."""
    out = folder / f"{name}.txt"
    with out.open("wb") as stream:
        process = processes.start(
            [*HANGING, sys.executable, "consume.py", broker.bootstrap], log=None, stdout=stream, cwd=folder
        )
    return process, lambda: out.read_text(encoding="utf-8").splitlines()


def shares(lines: list[str]) -> list[int]:
    """How many partitions each member got in the newest plan, ascending."""
    plans = [ast.literal_eval(line.removeprefix("planned ")) for line in lines if line.startswith("planned ")]
    return sorted(sum(map(len, topics.values())) for topics in plans[-1].values()) if plans else []


def wait_for(happened: Callable[[], bool], lines: Callable[[], list[str]]) -> None:
    end = time.monotonic() + 90
    while not happened():
        assert time.monotonic() < end, lines()
        time.sleep(0.1)

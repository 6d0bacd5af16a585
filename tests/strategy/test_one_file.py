"""A strategy with a setting, a memory and a promise is one file and one table of cases: nothing else is touched.

The file is installed as any package is, beside its entry point, and asked for in processes of their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.report.test_page_facts import carried
from tests.spark.made import START_MS, commit, write_dump
from tests.support import records as write

from apportion.wire.assignment import Assignment, write_assignment
from apportion.wire.coordinator import GroupGeneration, Member
from apportion.wire.subscription import Subscription, write_subscription

NAME = "whole-and-mine"
STRATEGY = '''"""Whole topics: each stays with the member that holds it."""

import json
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from apportion.arrays import NOBODY
from apportion.strategy import Claim, UserDataCodec


class Written(UserDataCodec):
    """What a member owned, as JSON."""

    def user_data(self, holding):
        owned = {topic: list(ids) for topic, ids in holding.owned}
        return json.dumps({"owned": owned, "generation": holding.generation}).encode()

    def read(self, subscription):
        try:
            memory = json.loads(subscription.user_data or b"{}")
            owned = {topic: list(map(int, ids)) for topic, ids in memory.get("owned", {}).items()}
            return Claim(owned, memory.get("generation"))
        except (ValueError, AttributeError, TypeError):
            return Claim({}, lost="no JSON of ours")


@dataclass(frozen=True)
class WholeAndMine:
    """Each topic goes whole to the member that holds it, else to the one with fewest topics.

    The price is balance. Goals: order > staying.

    last
        Of members with equally few topics the last one gets the next, not the first.
    """

    name: ClassVar[str] = "whole-and-mine"
    goals: ClassVar[tuple[str, ...]] = ("order", "staying")
    memory: ClassVar[UserDataCodec] = Written()
    kept_whole: ClassVar[str] = "topics"
    on_foreign: ClassVar[str] = "stop"
    promise: ClassVar[str] = "a reader of its own to each topic"

    last: bool = False

    def assign(self, group):
        """Return (P,) the member that owns each partition."""
        owner = np.full(group.P, NOBODY, dtype=np.int64)
        topics = np.zeros(group.M, dtype=np.int64)
        for topic in group.assignable_topics:
            span = group.partitions(topic)
            holders = group.owner[span]
            wanting = group.subscribers(topic)[:: -1 if self.last else 1]
            held = holders[holders != NOBODY]
            taker = int(np.bincount(held).argmax()) if len(held) else int(wanting[topics[wanting].argmin()])
            owner[span] = taker
            topics[taker] += 1
        return owner
'''
CASES = """
[[case]]
title = "topics are dealt whole, one after the other"
group = \'\'\'{"topics": {"t": 2, "u": 1}, "members": {"a": {"topics": ["t", "u"]}, "b": {"topics": ["t", "u"]}}}\'\'\'
assignment = \'\'\'{"a": {"t": [0, 1]}, "b": {"u": [0]}}\'\'\'

[[case]]
title = "the last of equals comes first where that is set"
group = \'\'\'{"topics": {"t": 2, "u": 1}, "members": {"a": {"topics": ["t", "u"]}, "b": {"topics": ["t", "u"]}}}\'\'\'
settings = { last = true }
assignment = \'\'\'{"a": {"u": [0]}, "b": {"t": [0, 1]}}\'\'\'
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the file is installed."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "whole_and_mine.py").write_text(STRATEGY)
    (folder / "whole_and_mine.toml").write_text(CASES)
    about = folder / "whole_and_mine-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: whole-and-mine\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[apportion.assignors]\n{NAME} = whole_and_mine:WholeAndMine\n")
    return folder


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two generations of a group under the strategy: what its members remember is in their user data."""
    folder = tmp_path_factory.mktemp("dump")
    pairs = [commit(100, partition=p) for p in range(4)]
    for number in (1, 2):
        seats = []
        for member, numbers in (("a", (0, 1, 2, 3)), ("b", ())):
            own = (("t", numbers),) if numbers else ()
            memory = json.dumps({"owned": dict(own), "generation": number - 1}).encode()
            wanted = write_subscription(Subscription(("t",), memory, (), number - 1, None, 3))
            given = write_assignment(Assignment(own, None, 3))
            seats.append(
                Member(member, None, member, "/10.0.0.1", 60_000, 45_000, subscription=wanted, assignment=given)
            )
        value = GroupGeneration("g", False, 3, number, "consumer", NAME, "a", START_MS + number, tuple(seats))
        pairs.append((write.group_key("g"), write.group_value(value)))
    write_dump(folder, pairs)
    return str(folder)


def run(package: Path, *words: str) -> str:
    """What a process prints to which the package is installed."""
    paths = [str(package), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}
    done = subprocess.run([sys.executable, *words], env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def command(package: Path, *words: str) -> Any:
    return json.loads(run(package, "-m", "apportion", *words, "-o", "json"))


def test_the_command_line_lists_it_with_its_setting(package: Path) -> None:
    [mine] = [row for row in command(package, "assignors")["assignors"] if row["name"] == NAME]
    assert "last" in json.dumps(mine["settings"])
    assert mine["goals"] == ["order", "staying"]


@pytest.mark.parametrize("case", tomllib.loads(CASES)["case"], ids=lambda case: str(case["title"]))
def test_its_cases_are_planned(package: Path, tmp_path: Path, case: dict[str, Any]) -> None:
    (tmp_path / "group.json").write_text(case["group"])
    settings = [word for key, value in case.get("settings", {}).items() for word in ("--set", f"{key}={value}".lower())]
    plan = command(package, "plan", str(tmp_path / "group.json"), "-A", NAME, *settings)
    assert plan["assignment"] == json.loads(case["assignment"])


def test_its_memory_is_read_and_it_keeps_the_promises_of_all(package: Path) -> None:
    said = run(package, "-c", f"""
from apportion import find
from apportion.strategy import Holding, Subscription, traits_of
from apportion.testing import check_assignor
check_assignor(find({NAME!r}))
codec = traits_of(find({NAME!r})).codec
sent = codec.user_data(Holding(owned=(("t", (1, 2)),), generation=7))
claim = codec.read(Subscription(("t",), sent, (), None, None, 1))
print(claim.owned, claim.generation)
""")  # fmt: skip
    assert said.strip() == "{'t': [1, 2]} 7"


def test_switch_says_stay_for_its_promise(package: Path, dump: str) -> None:
    [seen] = command(package, "switch", dump)["groups"]
    assert f"Stay: {NAME} promises a reader of its own to each topic" in json.dumps(seen["advice"])


def test_the_page_plans_the_group_with_it(package: Path, dump: str) -> None:
    _, [group] = carried(run(package, "-m", "apportion", "report", dump, "-o", "-"))
    assert group["protocol"] == NAME
    assert NAME in json.dumps({key: value for key, value in group.items() if key != "protocol"})
    assert not [odd for odd in group.get("odd", ()) if "idle" in str(odd).lower()], "others idle as it promises"


def test_the_tables_of_what_ifs_have_its_rows(package: Path, dump: str) -> None:
    rows = json.loads(run(package, "-c", f"""
import json
from apportion.history.scenarios import outcomes
from apportion.sources.load_history import load_histories
from apportion.strategy.registry import tabled
group = load_histories({dump!r}).groups["g"]
rows = outcomes("g", group.folded.generations, group.raw, group.all_topics, list(tabled()))
print(json.dumps([(r.answer.assignor, r.answer.scenario, r.answer.moves, r.answer.error) for r in rows]))
"""))  # fmt: skip
    mine = {scenario: (moves, error) for name, scenario, moves, error in rows if name == NAME}
    assert mine["replay"] == (0, None)
    assert {"replay", "as-is"} <= mine.keys()

"""The loops on our pages leave their group at SIGTERM, so that nobody waits for their session to end."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from kafka.errors import CoordinatorNotAvailableError

from apportion.testing.broker import Broker

from .groups import new_name

pytestmark = pytest.mark.broker
DOCS = Path(__file__).parents[2] / "docs"


def loops(page: str) -> list[str]:
    """Every block of code of a page that handles SIGTERM."""
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    return [block for block in blocks if "SIGTERM, " in block]


LOOPS = [(page, n) for page in ("live.md", "streams.md", "exactly-once.md") for n in range(len(loops(page)))]
"""Those of the other pages are run by their pages' own tests."""


def members(broker: Broker, group: str) -> int:
    """As the broker counts them; -1 while a new broker does not know yet who counts."""
    with broker.admin() as admin:
        try:
            return len(admin.describe_groups([group])[group]["members"])
        except CoordinatorNotAvailableError:
            return -1


@pytest.mark.parametrize(("page", "number"), LOOPS)
def test_a_printed_loop_leaves_its_group_at_sigterm(broker: Broker, tmp_path: Path, page: str, number: int) -> None:
    topic, group = new_name("leaving"), new_name("leaving")
    broker.create_topic(topic, 2)
    compacted: dict[str, Any] = {"cleanup.policy": "compact"}
    broker.create_topic(f"{group}-changelog", 2, **compacted)
    source = loops(page)[number]
    for printed, ours in {
        '"clicks"': repr(topic), '("words",)': f"({topic!r},)", '"ads"': repr(group),
        "word-counts-changelog": f"{group}-changelog",
        '"word-counts", bootstrap': f"{group!r}, bootstrap", "localhost:9092": broker.bootstrap,
        'state_dir="state"': f"state_dir={str(tmp_path / 'state')!r}",
    }.items():  # fmt: skip
        source = source.replace(printed, ours)
    script = tmp_path / "loop.py"
    script.write_text(source)
    with (tmp_path / "out.log").open("wb") as out:
        process = subprocess.Popen([sys.executable, script], stdout=out, stderr=subprocess.STDOUT)
    try:
        end = time.monotonic() + 90
        while members(broker, group) != 1 or time.monotonic() < end - 85:
            assert process.poll() is None, (tmp_path / "out.log").read_text()
            assert time.monotonic() < end
            time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0, (tmp_path / "out.log").read_text()
        assert members(broker, group) == 0
    finally:
        process.kill()
        process.wait()

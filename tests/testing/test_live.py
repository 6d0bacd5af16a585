"""The cluster that lives: its page shows three groups, and Ctrl-C ends everything that it started."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import BinaryIO
from urllib.request import urlopen

GROUPS = {"orders-hot": 3, "feed-scaled": 2, "words-tasks": 2}


def test_three_groups_are_on_the_page_and_nothing_outlives_ctrl_c(jars: str, tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "tools.live", "--listen", "127.0.0.1:0"]
    with (tmp_path.parent / "live.log").open("w+b") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        try:
            members = seen(process, log, patience_s=120)
            started = below(str(tmp_path))
            log.seek(0)
            printed = re.findall(r"^    (.*/apportion .*)$", log.read().decode(), re.MULTILINE)
            answers = [
                subprocess.run(line.split(), capture_output=True, timeout=100, text=True) for line in printed[:2]
            ]
        finally:
            process.send_signal(signal.SIGINT)
            code = process.wait(60)
        log.seek(0)
        text = log.read().decode()
    assert members == GROUPS, text
    assert len(printed) == 3, text
    assert [answer.returncode for answer in answers] == [0, 0], answers
    assert "orders-hot" in answers[0].stdout
    assert "lag-aware" in answers[1].stdout
    assert len(started) >= 4, started
    assert code == 0, text
    assert "Traceback" not in text
    left = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in below(str(tmp_path))]
    assert left == []
    assert list(tmp_path.glob("apportion-*")) == []


def seen(process: subprocess.Popen[bytes], log: BinaryIO, patience_s: float) -> dict[str, int]:
    """Members of each group as the page has them, once all are there, or what there was at the end."""
    until = time.monotonic() + patience_s
    members: dict[str, int] = {}
    while time.monotonic() < until and process.poll() is None and members != GROUPS:
        time.sleep(0.5)
        log.seek(0)
        address = re.search(rb"The page: (http://\S+)", log.read())
        if address:
            with urlopen(address[1].decode() + "api/v1/groups", timeout=10) as answer:  # noqa: S310 - an address of this machine
                members = {group["group"]: group["members"] for group in json.load(answer)["groups"]}
    return members


def below(folder: str) -> list[str]:
    """Living processes whose environment names this folder."""
    living = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"TMPDIR={folder}".encode() in path.read_bytes().split(b"\0"):
                living.append(path.parent.name)
        except OSError:
            continue
    return living

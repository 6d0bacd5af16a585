"""How long a stranger with nothing but the wheel waits for a first true sentence: ``python -m tools.doors WHEEL``.

Each door starts in an empty folder: the wheel in a new environment, and the MCP server as an agent starts it. What pip
downloads counts. The command ends with 1 if a door takes longer than a minute, or if its sentence is not the true one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

WITHIN_S: Final = 60.0
PASTED: Final = """GROUP  TOPIC  PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG  CONSUMER-ID  HOST       CLIENT-ID
ads    clicks 0          90              1090            1000 -            -          -
ads    clicks 1          5               5               0    -            -          -
"""
TRUE: Final = "No members, and 1,000 messages wait"
"""Of the pasted group."""


def main(words: list[str]) -> int:
    """Try both doors, and print what each took."""
    wheel = Path(words[0]).resolve()
    with tempfile.TemporaryDirectory(prefix="apportion-doors-") as place:
        folder, began = Path(place), time.monotonic()
        programs = installed(folder / "env", wheel)
        doors = {"wheel": (by_wheel(programs, folder), time.monotonic() - began)}
        began = time.monotonic()
        doors["mcp"] = by_mcp(programs), time.monotonic() - began + doors["wheel"][1]
    for name, (text, took_s) in doors.items():
        sentence = next((line.strip() for line in text.splitlines() if TRUE in line), f"not true: {text[:300]!r}")
        print(f"{name}\t{took_s:.1f} s\t{sentence}")
    return int(any(TRUE not in text or took_s > WITHIN_S for text, took_s in doors.values()))


def installed(environment: Path, wheel: Path) -> Path:
    """The folder of the programs of a new environment with the wheel in it."""
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    pip: list[str | Path] = [environment / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", wheel]
    subprocess.run(pip, check=True)
    return environment / "bin"


def by_wheel(programs: Path, folder: Path) -> str:
    """What ``describe`` says of the paste."""
    command: list[str | Path] = [programs / "apportion", "describe"]
    return subprocess.run(command, input=PASTED, capture_output=True, text=True, cwd=folder).stdout


def by_mcp(programs: Path) -> str:
    """What the tool ``describe`` answers to an agent over standard input and output."""
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "doors", "version": "1"}}
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "describe", "arguments": {"text": PASTED}}},
    ]
    lines = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)
    done = subprocess.run([programs / "apportion", "mcp"], input=lines, capture_output=True, text=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return "\n".join(part["text"] for part in answers[-1]["result"]["content"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

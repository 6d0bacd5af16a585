"""How long the command line takes from start to answer: ``python -m bench.startup``.

Each command runs seven times in a process of its own; best and median are printed, in milliseconds. The limits are
promises to users: 150 ms for the start alone, 1 s for a group of 10,000 partitions from a file.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

RUNS = 7


def big_group(topics: int = 100, partitions: int = 100, members: int = 100) -> dict[str, object]:
    """10,000 partitions with offsets and owners."""
    names = [f"topic-{t}" for t in range(topics)]
    entries = [{"partition": p, "begin": 0, "end": 1000 + p, "committed": 10 * p} for p in range(partitions)]
    return {
        "group": "big",
        "topics": dict.fromkeys(names, entries),
        "members": {
            f"member-{m}": {"topics": names, "owned": {names[m % topics]: list(range(partitions))}, "generation": 1}
            for m in range(members)
        },
    }


def main() -> None:
    """Print a line a command."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "big.json"
        path.write_text(json.dumps(big_group()))
        for words, limit in (
            (["--version"], 150), (["plan", "--help"], 150), (["plan", str(path), "-o", "json"], 1000),
            (["plan", str(path)], 1000), (["describe", str(path)], 1000), (["describe", str(path), "-o", "wide"], 1000),
            (["compare", str(path)], 1000),
        ):  # fmt: skip
            times = sorted(_time(words) for _ in range(RUNS))
            shown = " ".join("big.json" if word == str(path) else word for word in words)
            print(f"{shown:28} best {times[0]:5.0f} ms  median {statistics.median(times):5.0f} ms  limit {limit} ms")


def _time(words: list[str]) -> float:
    begin = perf_counter()
    subprocess.run([sys.executable, "-m", "apportion", *words], stdout=subprocess.DEVNULL, check=True)
    return (perf_counter() - begin) * 1000


if __name__ == "__main__":
    main()

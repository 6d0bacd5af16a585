"""A disk that fills up under a build or a capture: one sentence, nothing of before lost, and room mends it.

The disk is a real one of a few kilobytes: a tmpfs in a mount namespace of the child alone.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from apportion.tables.schemas import TABLES
from apportion.testing.broker import Broker
from apportion.testing.plugin import needs_java

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(
        not shutil.which("unshare")
        or subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True).returncode
        != 0,
        reason="a small disk needs the right to mount one: run the tests as root",
    ),
]

HEAD = """
import subprocess, sys
from pathlib import Path
from apportion.cli import main

def disk(how):
    subprocess.run(["mount", "-t", "tmpfs", "-o", how, "none", "/mnt"], check=True)

def used():
    return int(subprocess.run(["df", "-k", "--output=used", "/mnt"], capture_output=True, text=True).stdout.split()[1])

def say(*words):
    print("::", *words, flush=True)
"""

BUILD = """
import pyarrow as pa, pyarrow.parquet as pq
from tests.spark.test_folder import bytes_of, written
disk("size=10m")
out = Path("/mnt/out")
for name in ("silver/commits", "gold/lag"):
    written(out, name, "earlier", publish=True)
before = bytes_of(out)
disk(f"remount,size={used() + 40}k")
build = ["pipeline", "build", "--from", sys.argv[1], "--to", str(out)]
say(main(build))
say(bytes_of(out) == before, sorted(file.name for file in out.iterdir()))
disk("remount,size=10m")
say(main(build))
found = bytes_of(out)
say(len({name.rpartition("/")[0] for name in found}), b"earlier" in found.values())
"""

CAPTURE = """
from types import SimpleNamespace
from tests.spark.test_capture import commit, places
disk("size=10m")
out = Path("/mnt/out")
capture = ["pipeline", "capture", "--bootstrap-server", sys.argv[1], "--source", sys.argv[2], "--to", str(out)]
say(main(capture))
before = set(places(out))
commit(SimpleNamespace(bootstrap=sys.argv[1]), "more", 400)
disk(f"remount,size={used() + int(sys.argv[3])}k")
say(main(capture))
say(set(places(out)) >= before)
disk("remount,size=10m")
say(main(capture))
found = places(out)
say(len(found) == len(set(found)), len(found) - len(before) >= 400)
"""


def on_a_small_disk(code: str, *args: str) -> tuple[list[str], list[str]]:
    """What a child said to us, and the sentences that its commands ended with."""
    command = ["unshare", "-m", sys.executable, "-c", HEAD + code, *args]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Traceback" not in done.stderr
    said = [line.removeprefix(":: ") for line in done.stdout.splitlines() if line.startswith("::")]
    return said, [line for line in done.stderr.splitlines() if line.startswith("apportion: ")]


@pytest.mark.timeout(1800)
def test_a_build_on_a_full_disk_leaves_the_tables_and_works_with_room() -> None:
    from apportion.demo import dump

    said, sentences = on_a_small_disk(BUILD, str(dump()))
    assert said == ["2", "True ['.apportion_lock', 'gold', 'silver']", "0", f"{len(TABLES) + 2} False"]
    assert len(sentences) == 1
    assert sentences[0].startswith("apportion: the disk that holds /mnt/out is full")


@pytest.mark.broker
@pytest.mark.thorough  # a build finds the disk full in the same way; test_capture.py stops captures in their midst
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("room_kb", [8, 30])
def test_a_capture_on_a_full_disk_loses_nothing_and_goes_on_with_room(room_kb: int) -> None:
    """With 8 kB the first batch finds no room, with 30 kB what comes after it."""
    needs_java()
    with Broker(properties={"offsets.topic.num.partitions": "2"}) as kafka:
        kafka.create_topic("t", 3)
        said, sentences = on_a_small_disk(
            "from tests.spark.test_capture import commit\nfrom types import SimpleNamespace\n"
            'commit(SimpleNamespace(bootstrap=sys.argv[1]), "first", 3)\n' + CAPTURE,
            kafka.bootstrap, "python", str(room_kb),
        )  # fmt: skip
    assert said == ["0", "2", "True", "0", "True True"]
    assert len(sentences) == 1
    assert sentences[0].startswith("apportion: the disk that holds /mnt/out is full")

"""The archive of Java's classes is written after a session without one, mapped by the next, passed over if spoilt."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.examples import thorough

SESSION = """
from pathlib import Path
from pyspark import SparkContext
from apportion.spark import session

with session.session() as spark:
    print(spark.range(10).selectExpr("sum(id) AS total").collect()[0].total)
    print("apportion/classes" in Path(f"/proc/{SparkContext._gateway.proc.pid}/maps").read_text())
"""
WAIT_S = 600.0
"""Reached only in case of a fault: writing the archive takes some 20 s on a calm machine."""

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/maps").exists(), reason="what a JVM maps is read from Linux's /proc"
)


def session_in(cache: Path) -> list[str]:
    """What a new process's session answers: the sum of 0 to 9, and whether an archive is mapped."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    run = subprocess.run([sys.executable, "-c", SESSION], env=environment, capture_output=True, text=True, check=True)
    return run.stdout.split()


@pytest.fixture(scope="module")
def cache(java_for_spark: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's cache in which a first session, which had no archive, left one."""
    cache = tmp_path_factory.mktemp("cache")
    first = session_in(cache)
    assert first[0] == "45"
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until and not list(cache.glob("apportion/classes/*.jsa")):
        time.sleep(0.5)
    return cache


def test_the_session_after_the_first_maps_the_archive_and_leaves_nothing_else(cache: Path) -> None:
    assert session_in(cache) == ["45", str(True)]
    assert [path.suffix for path in (cache / "apportion" / "classes").iterdir()] == [".jsa"]


@pytest.mark.parametrize("spoil", ["cut", *map(thorough, ("overwritten", "empty"))])
def test_a_spoilt_archive_is_passed_over(cache: Path, tmp_path: Path, spoil: str) -> None:
    (whole,) = cache.glob("apportion/classes/*.jsa")
    spoilt = tmp_path / "apportion" / "classes" / whole.name
    spoilt.parent.mkdir(parents=True)
    spoilt.with_name(f"{whole.stem.partition('-')[0]}.draft").touch()  # as if another session were writing a new one
    length = whole.stat().st_size
    spoilt.write_bytes({"cut": whole.read_bytes()[: length // 2], "overwritten": b"\xff" * length, "empty": b""}[spoil])
    assert session_in(tmp_path) == ["45", str(False)]


def test_a_cache_that_cannot_be_written_stops_no_session(java_for_spark: None, tmp_path: Path) -> None:
    (tmp_path / "apportion").write_text("a file where a folder should be")
    assert session_in(tmp_path) == ["45", str(False)]

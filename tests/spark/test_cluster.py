"""A master and two workers that share no disk, with tables on S3: the same rows, also when somebody is killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.spark import made
from tests.spark.conftest import rows_of

from apportion.errors import Unavailable
from apportion.spark import job, lake, packages, schemas
from apportion.spark.location import locate
from apportion.testing import processes
from apportion.testing.cluster import Cluster, missing_right
from apportion.testing.s3 import S3Server

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.thorough, pytest.mark.timeout(1800)]
THOROUGH = os.environ.get("APPORTION_THOROUGH") == "1"
RECORDS = made.every_kind()
BUILD = """
import sys
from apportion.errors import BadInput
from apportion.spark import job, session
def say(line): print(line, flush=True)
with session.session(delta=True, s3=True) as spark:
    say(spark.sparkContext.master)
    if len(sys.argv) > 3:
        try:
            job.build(sys.argv[1], sys.argv[3], spark=spark)
        except BadInput as refused:
            say(f"refused: {refused}")
    job.build(sys.argv[1], sys.argv[2], assignors=["range"], spark=spark, progress=say)
    say("built")
"""


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A store with a dump, and one of the first half of its records."""
    if not all(packages.local_jars(one) for one in (packages.DELTA, packages.S3A)):
        pytest.skip("the jars of Delta and S3A are not here: make setup")
    try:
        server = S3Server()
    except Unavailable as missing:
        pytest.skip(str(missing))
    root = tmp_path_factory.mktemp("dumps")
    with server:
        server.upload(made.write_dump(root / "dump", RECORDS, files=2), "dump")
        server.upload(made.write_dump(root / "half", RECORDS[: len(RECORDS) // 2], files=1), "half")
        yield server


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    if why := missing_right():
        pytest.skip(why)
    with Cluster() as one:
        yield one


@pytest.fixture(scope="module")
def expected(spark: Any, s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The rows of each table, by a local Spark in plain files."""
    for name, value in s3.hadoop.items():
        spark.sparkContext._jsc.hadoopConfiguration().set(name, value)
    folder = tmp_path_factory.mktemp("expected")
    job.build("s3a://lake/dump", folder, assignors=["range"], spark=spark)
    return {name: rows_of(folder / name) for name in schemas.TABLES}


def start(environment: dict[str, str], *words: str) -> subprocess.Popen[Any]:
    """A build in a process of its own, which says what it does line by line."""
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    return processes.start(
        [sys.executable, "-c", BUILD, *words], log=subprocess.STDOUT, stdout=subprocess.PIPE, text=True, env=variables
    )


def lines_until(process: subprocess.Popen[Any], words: str) -> list[str]:
    """What it says up to a line with these words, or to its end."""
    lines = []
    for line in process.stdout:  # type: ignore[union-attr]
        lines.append(line.rstrip())
        if words in line:
            break
    return lines


def rows_in(spark: Any, place: str, versions: bool = True) -> dict[str, list[str]]:
    """The rows of each table as our own readers see them, or as those do who take the newest version."""
    tables = lake.tables_of(locate(place), "delta")
    manifest = lake.Manifest.read(spark, tables)
    names = {name: manifest.versions.get(name) if versions else None for name in schemas.TABLES}
    return {name: rows_of(tables.read(spark, name, version).toArrow()) for name, version in names.items()}


@pytest.mark.parametrize("killed", [False, True] if THOROUGH else [True])
def test_workers_that_share_nothing_build_the_same_rows_though_one_is_killed(
    spark: Any, s3: S3Server, cluster: Cluster, expected: dict[str, list[str]], tmp_path: Path, killed: bool
) -> None:
    """They have Python, NumPy and pyarrow, and nothing of ours; a folder of the driver's is refused in a sentence.

    kill -9 of a worker in the middle of the build: with its executor goes what it had computed, and that costs time.
    """
    place = f"s3a://lake/by-cluster-{killed}"
    child = start({**s3.environment, **cluster.environment()}, "s3a://lake/dump", place, str(tmp_path / "x"))
    lines = lines_until(child, "making gold/groups" if killed else "built")
    if killed:
        os.killpg(cluster.workers[0].pid, signal.SIGKILL)
        lines += lines_until(child, "built")
    processes.end(child)
    assert lines[0] == cluster.master, lines
    assert "which the cluster's executors do not share" in lines[1]
    assert not (tmp_path / "x").exists()
    assert lines[-1] == "built", lines
    assert not any(s3.secret_key in line for line in lines)
    assert rows_in(spark, place) == expected


def test_a_killed_build_leaves_whole_tables_and_the_next_is_right(
    spark: Any, s3: S3Server, expected: dict[str, list[str]]
) -> None:
    """kill -9 of the driver: our readers see the old build, whoever takes the newest a whole table, old or new."""
    place = "s3a://lake/killed"
    job.build("s3a://lake/half", place, assignors=["range"], spark=spark)
    before = rows_in(spark, place)
    assert before != expected
    names = list(schemas.TABLES)
    for name in names if THOROUGH else [random.Random().choice(names[8:])]:
        child = start(s3.environment, "s3a://lake/dump", place)
        lines_until(child, f"making {name}")
        os.killpg(child.pid, signal.SIGKILL)
        processes.end(child)
        assert rows_in(spark, place) == before, name
        for table, rows in rows_in(spark, place, versions=False).items():
            assert rows in (before[table], expected[table]), (name, table)
    said: list[str] = []
    job.build("s3a://lake/dump", place, assignors=["range"], spark=spark, progress=said.append)
    assert any("putting" in line for line in said), "the next build puts back what the dead one left"
    assert rows_in(spark, place) == expected
    assert rows_in(spark, place, versions=False) == expected

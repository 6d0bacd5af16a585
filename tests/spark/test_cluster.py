"""A master and two workers that share no disk, with tables on S3: the same rows, also when somebody is killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline import in_process
from tests.spark import made
from tests.spark.conftest import rows_of
from tests.spark.stores import copied, reach, rows_in, store
from tests.support.cluster import SparkCluster, missing_right
from tests.support.s3 import S3Server

from apportion.spark import errors, job, lake, packages
from apportion.spark.location import locate
from apportion.tables.schemas import TABLES
from apportion.testing import processes

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3600)]
RECORDS = made.every_kind()
ASSIGNORS = ["range"]
BUILD = """
import sys
from apportion.errors import BadInput
from apportion.spark import job, packages, session
def say(line): print(line, flush=True)
with session.session(jars=[packages.DELTA, packages.S3A]) as spark:
    say(spark.sparkContext.master)
    for place in sys.argv[3:]:
        try:
            job.build(sys.argv[1], place, spark=spark)
        except BadInput as refused:
            say(f"refused: {refused}")
    job.build(sys.argv[1], sys.argv[2], assignors=["range"], spark=spark, progress=say)
    say("built")
"""


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A store with a dump, and one of the first half of its records."""
    root = tmp_path_factory.mktemp("dumps")
    with store(S3Server, packages.DELTA, packages.S3A) as server:
        server.upload(made.write_dump(root / "dump", RECORDS, files=2), "dump")
        server.upload(made.write_dump(root / "half", RECORDS[: len(RECORDS) // 2], files=1), "half")
        yield server


@pytest.fixture(scope="module")
def here(spark: Any, s3: S3Server) -> Any:
    """The local session of all tests, which reaches the store."""
    reach(spark, s3)
    return spark


@pytest.fixture(scope="module")
def expected(here: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The rows of each table, made in this process without Spark."""
    dump = made.write_dump(tmp_path_factory.mktemp("expected") / "dump", RECORDS, files=2)
    tables = in_process.tables_of(dump, ASSIGNORS)
    return {name: rows_of(tables[name]) for name in TABLES}


@pytest.fixture(scope="module")
def half_built(here: Any, s3: S3Server) -> str:
    """Where tables of half the records are, to be copied."""
    job.build("s3a://lake/half", "s3a://lake/half-built", assignors=ASSIGNORS, spark=here)
    return "half-built"


def needs_cluster() -> None:
    """Skip where none can be made."""
    if why := missing_right():
        pytest.skip(why)


def start(code: str, environment: dict[str, str], *words: str) -> subprocess.Popen[Any]:
    """A build in a process of its own, which tells its steps line by line."""
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    return processes.start(
        [sys.executable, "-c", code, *words], log=subprocess.STDOUT, stdout=subprocess.PIPE, text=True, env=variables
    )


def lines_until(process: subprocess.Popen[Any], words: str) -> list[str]:
    """Its lines up to one with these words, or to its end."""
    lines = []
    for line in process.stdout:  # type: ignore[union-attr]
        lines.append(line.rstrip())
        if words in line:
            break
    return lines


def published(here: Any, s3: S3Server, place: str, names: Iterable[str] = TABLES) -> dict[str, list[str]]:
    """The rows of each table as our own readers see them: in the versions of the last whole build."""
    manifest = lake.Manifest.read(here, lake.tables_of(locate(f"s3a://lake/{place}"), "delta"))
    assert set(names) <= set(manifest.versions)
    return rows_in(s3, f"s3://lake/{place}", names, manifest.versions)


def test_workers_that_share_nothing_make_the_same_rows_though_one_is_killed(
    here: Any, s3: S3Server, expected: dict[str, list[str]], tmp_path: Path
) -> None:
    """They have Python, NumPy and pyarrow, and nothing of ours; a folder of the driver's is refused in a sentence.

    kill -9 of a worker while rows are made: with its executor goes what it had computed, and that costs time.
    """
    needs_cluster()
    words = "s3a://lake/dump", "s3a://lake/by-cluster", str(tmp_path / "x")
    with SparkCluster() as cluster:
        child = start(BUILD, {**s3.environment, **cluster.environment()}, *words)
        lines = lines_until(child, "making rows of groups")
        time.sleep(random.Random().uniform(0, 3))
        os.killpg(cluster.workers[0].pid, signal.SIGKILL)
        lines += lines_until(child, "built")
        processes.end(child)
    assert lines[0] == cluster.master, lines
    assert "which the cluster's executors do not share" in lines[1]
    assert not (tmp_path / "x").exists()
    assert lines[-1] == "built", lines
    assert not any(s3.secret_key in line for line in lines)
    assert published(here, s3, "by-cluster") == expected


@pytest.mark.thorough  # test_capture.py kills the JVM of a capture, test_killed.py the driver of a build
@pytest.mark.parametrize("stage", ["making gold/lag", "decoding records", "to plan"])
def test_a_jvm_that_is_killed_is_told_and_the_next_build_is_right(
    here: Any, s3: S3Server, expected: dict[str, list[str]], half_built: str, stage: str
) -> None:
    """kill -9 of Spark's Java process alone: the driver lives, has no store any more, and ends with a sentence."""
    place = copied(s3, half_built, f"no-jvm-{stage.replace('/', '-').replace(' ', '-')}")
    before = published(here, s3, place)
    child = start(BUILD, s3.environment, "s3a://lake/dump", f"s3a://lake/{place}")
    lines_until(child, stage)
    time.sleep(random.Random(stage).uniform(0, 1))
    (jvm,) = subprocess.run(["pgrep", "-P", str(child.pid), "java"], capture_output=True, check=True).stdout.split()
    os.kill(int(jvm), signal.SIGKILL)
    lines = lines_until(child, "never said")
    assert child.wait() == 1
    assert errors.SPARK_ENDED in lines[-1], lines
    check_readers(here, s3, place, before, expected)
    check_next_build(here, s3, place, expected)


@pytest.mark.thorough
def test_a_driver_that_is_killed_at_any_stage_leaves_whole_tables_and_the_next_build_is_right(
    here: Any, s3: S3Server, expected: dict[str, list[str]], half_built: str
) -> None:
    """Readers of ours see the old build, those of the newest versions a whole table each, the old one or the new.

    One driver is halted at each stage, the store is copied as it is then, and the driver goes on to the next; at the
    last stage it is killed (kill -9). With it every copy is what a driver killed at that stage would have left.
    """
    place = copied(s3, half_built, "killed")
    before = published(here, s3, place)
    assert before != expected
    child = start(BUILD, s3.environment, "s3a://lake/dump", f"s3a://lake/{place}")
    left: list[str] = []
    while len(left) < len(TABLES):
        stage = lines_until(child, "making ")[-1].removeprefix("making ")
        if stage not in TABLES:
            continue
        time.sleep(random.Random(stage).uniform(0, 1))
        os.killpg(child.pid, signal.SIGSTOP)
        time.sleep(0.5)  # the server ends what it was sent
        left.append(copied(s3, place, f"killed-{stage.replace('/', '-')}"))
        os.killpg(child.pid, signal.SIGCONT)
    os.killpg(child.pid, signal.SIGKILL)
    processes.end(child)
    assert len(set(left)) == len(TABLES)
    for one in [*left, place]:
        check_readers(here, s3, one, before, expected)
    for one in (left[0], left[len(left) // 2], place):
        check_next_build(here, s3, one, expected)


def check_readers(
    here: Any, s3: S3Server, place: str, before: dict[str, list[str]], after: dict[str, list[str]]
) -> None:
    """What a dead driver left: the build before for readers of ours, and table by table old or new rows for others."""
    assert published(here, s3, place) == before, place
    for name, rows in rows_in(s3, f"s3://lake/{place}").items():
        assert rows in (before[name], after[name]), (place, name)


def check_next_build(here: Any, s3: S3Server, place: str, after: dict[str, list[str]]) -> None:
    """It puts back what the dead one left, and then makes it right."""
    lines: list[str] = []
    job.build("s3a://lake/dump", f"s3a://lake/{place}", assignors=ASSIGNORS, spark=here, progress=lines.append)
    assert any("putting" in line for line in lines), "the next build puts back what the dead one left"
    assert published(here, s3, place) == after
    assert rows_in(s3, f"s3://lake/{place}") == after

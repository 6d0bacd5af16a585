"""The daemon that Spark forks our workers from, by itself."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession

from apportion.spark.worker_path import without_archives

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="no /proc, which tells what a process has loaded")
def test_ctrl_c_while_it_imports_its_libraries_does_not_end_it() -> None:
    """It says where it listens all the same, and ends without a word when Spark closes its input."""
    with subprocess.Popen(
        [sys.executable, "-m", "apportion.spark.daemon", "pyspark.worker"], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0,
    ) as daemon:  # fmt: skip
        assert daemon.stdin is not None
        assert daemon.stdout is not None
        assert daemon.stderr is not None
        while daemon.poll() is None and "libarrow" not in Path(f"/proc/{daemon.pid}/maps").read_text():
            time.sleep(0.001)
        daemon.send_signal(signal.SIGINT)
        port = int.from_bytes(daemon.stdout.read(4), "big")
        daemon.stdin.close()
        assert daemon.stderr.read() == b""
    assert 0 < port < 1 << 16


def test_workers_import_the_installed_pyspark_and_look_into_no_archive(spark: SparkSession) -> None:
    """Spark names its archives first; what is in them would be compiled by each daemon."""

    def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyspark.worker

        list(batches)
        archives = [one for one in (*sys.path, *sys.path_importer_cache) if one.endswith(".zip") and "spark" in one]
        yield pa.RecordBatch.from_pydict({"file": [str(pyspark.worker.__file__)], "archives": [str(archives)]})

    row = spark.range(0, 1, 1, 1).mapInArrow(look, "file string, archives string").collect()[0]
    assert (row["file"].endswith("worker.py"), ".zip" in row["file"], row["archives"]) == (True, False, "[]")


def test_archives_of_another_installation_stay_in_the_path(tmp_path: Path) -> None:
    lib = Path(pyspark.__file__).parent / "python" / "lib"
    others = [str(tmp_path / name) for name in ("pyspark.zip", "py4j-0.1-src.zip", "other.zip")]
    path = [str(lib / "pyspark.zip"), *others, str(lib / "py4j-1-src.zip"), *sys.path]
    assert without_archives(path) == [*others, *sys.path]


def test_archives_stay_where_nothing_else_has_what_is_in_them(tmp_path: Path) -> None:
    path = [str(Path(pyspark.__file__).parent / "python" / "lib" / "pyspark.zip"), str(tmp_path)]
    assert without_archives(path) == path

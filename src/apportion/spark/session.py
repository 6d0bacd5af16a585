"""One place that makes a local Spark: two threads, UTC, quiet, bounded memory, nothing left behind.

On a cluster nothing of this is needed: hand your own session to the functions of ``apportion.spark.job``.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from apportion.errors import MissingExtra, Unavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECTOR: Final = "org.apache.spark:spark-sql-kafka-0-10_2.13"
BRING: Final = (
    "brew install openjdk@17" if sys.platform == "darwin" else "sudo apt-get install -y openjdk-17-jre-headless"
)

ROWS_A_BATCH: Final = 10_000
"""Spark's own: ``spark.sql.execution.arrow.maxRecordsPerBatch``."""
_SCRATCH: Final = "apportion-spark-"

# What the tables need, whoever made the session: times in UTC and as Parquet's own type, no calendar of 1582.
TABLE_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.legacy.parquet.nanosAsLong": "true",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}


@contextmanager
def session(given: SparkSession | None = None, *, quick: bool = True, kafka: bool = False) -> Iterator[SparkSession]:
    """The given session, left running, or a local one that ends with the block.

    quick
        Tuned for inputs below a million rows (the JVM compiles less and starts sooner).
    kafka
        With the connector on its class path, if its jars are here (see ``connector_jars``).
    Raises
        MissingExtra: PySpark is not installed. Unavailable: Java 17 or newer is missing.
    """
    if given is not None:
        settle(given)
        yield given
        return
    scratch = _scratch()
    try:
        with _interrupts_left_alone():
            spark = local(scratch, quick=quick, kafka=kafka)
        with _py4j_quiet():
            try:
                yield spark
            finally:
                # A JVM that died has stopped already; one that was interrupted in a call ends with this process.
                with suppress(Exception), warnings.catch_warnings(action="ignore"):
                    spark.stop()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def settle(spark: SparkSession) -> None:
    """Give a session of somebody else's the settings that the tables need."""
    for name, value in TABLE_SETTINGS.items():
        spark.conf.set(name, value)


def by_rows(spark: SparkSession) -> SparkSession:
    """A sibling of a session that cuts its Arrow batches by rows alone, 10,000 each, whatever the session was told.

    Spark weighs a batch after every row that it adds to it, which is a third of what the JVM does to have commits
    decoded. Leave that out only for records of which so many are sure to fit.
    """
    sibling = spark.newSession()
    settle(sibling)
    sibling.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(ROWS_A_BATCH))
    sibling.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", str(2**31 - 1))
    return sibling


def local(scratch: Path, *, quick: bool = True, kafka: bool = False) -> SparkSession:
    """A new local session whose files are all below ``scratch``."""
    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
        raise MissingExtra("The pipeline", "spark")
    java()
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{cores()}]").appName("apportion")
    for name, value in _settings(scratch, quick, kafka).items():
        builder = builder.config(name, value)
    log = scratch / "spark.log"
    try:
        with _stderr_into(log):
            spark = builder.getOrCreate()
    except Exception as error:
        said = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
        last = said[-1] if said else str(error).splitlines()[0]
        raise Unavailable(f"Spark did not start: {last}") from error
    spark.sparkContext.setLogLevel("ERROR")
    # PySpark prints each failed query as JSON too; what failed is raised and told in a sentence.
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    return spark


def cores() -> int:
    """Threads of a local session: ``APPORTION_CORES``, else what this process may use, at most 8."""
    told = os.environ.get("APPORTION_CORES", "")
    return int(told) if told.isdigit() and int(told) > 0 else max(2, min(8, os.cpu_count() or 2))


def java() -> str:
    """The path of Java 17 or newer, or one sentence with the command that brings it."""
    under = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{under}/bin") if under else shutil.which("java")
    if found is None:
        where = f"JAVA_HOME ({under})" if under else "the PATH"
        raise Unavailable(f"The pipeline needs Java 17 or newer, and there is none on {where}; bring it with: {BRING}")
    said = subprocess.run([found, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(\d+)', said.stderr + said.stdout)
    if version is None or int(version[1]) < 17:
        has = f"version {version[1]}" if version else "no Java that tells its version"
        raise Unavailable(f"The pipeline needs Java 17 or newer, and {found} is {has}; bring it with: {BRING}")
    return found


def connector_jars() -> list[Path]:
    """The connector's jars of this machine: in ``$APPORTION_JARS/spark``, the source tree or the user's cache."""
    root = Path(__file__).parents[3]
    told = os.environ.get("APPORTION_JARS")
    homes = [Path(told).expanduser()] if told else [root / ".jars", Path.home() / ".cache" / "apportion" / "jars"]
    for home in homes:
        if jars := sorted((home / "spark").glob("*.jar")):
            return jars
    return []


def _settings(scratch: Path, quick: bool, kafka: bool) -> dict[str, str]:
    log4j = Path(__file__).with_name("log4j2.properties").as_uri()
    java_options = [f"-Dlog4j2.configurationFile={log4j}", f"-Djava.io.tmpdir={scratch}", "-XX:+UseSerialGC"]
    java_options += [f"-Dderby.system.home={scratch}"]
    if quick:
        java_options.append("-XX:TieredStopAtLevel=1")
    settings = {
        **TABLE_SETTINGS,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": os.environ.get("APPORTION_SPARK_MEMORY", "2g"),
        "spark.driver.extraJavaOptions": " ".join(java_options),
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.shuffle.partitions": str(cores()),
        "spark.sql.files.maxPartitionBytes": "16m",
        "spark.sql.adaptive.enabled": "false" if quick else "true",
        # A Python worker on a busy machine may need long to come up; 15 s is Spark's own patience.
        "spark.python.authenticate.socketTimeout": "120s",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # A worker that a broken record could kill must not take an hour of retries with it.
        "spark.task.maxFailures": "1",
    }
    if kafka:
        settings |= _connector_settings()
    return settings


def _connector_settings() -> dict[str, str]:
    """Local jars if they are there, else the coordinates for Spark to fetch."""
    if jars := connector_jars():
        return {"spark.jars": ",".join(map(str, jars))}
    import pyspark

    return {"spark.jars.packages": f"{CONNECTOR}:{pyspark.__version__}"}


@contextmanager
def _interrupts_left_alone() -> Iterator[None]:
    """Ctrl-C stays what it was before: PySpark's own handler calls the JVM in the middle of another call to it."""
    before = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)


@contextmanager
def _py4j_quiet() -> Iterator[None]:
    """Py4J logs a traceback of its own for each call that was interrupted; the interrupt itself is raised anyway."""

    def ours(record: logging.LogRecord) -> bool:
        return "py4j" not in record.pathname

    root = logging.getLogger()
    root.addFilter(ours)
    try:
        yield
    finally:
        root.removeFilter(ours)


def _scratch() -> Path:
    """A fresh temporary folder; those of processes that are no more are removed."""
    for old in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}*"):
        owner = old.name.removeprefix(_SCRATCH).split("-")[0]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists() and Path("/proc/self").exists():
            shutil.rmtree(old, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{_SCRATCH}{os.getpid()}-"))


@contextmanager
def _stderr_into(log: Path) -> Iterator[None]:
    """What the JVM started in this block writes to standard error goes to a file."""
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)

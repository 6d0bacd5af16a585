"""One place that makes a Spark: on this machine, quiet and bounded, nothing left behind; or on a cluster.

``APPORTION_SPARK_MASTER`` names a cluster, ``APPORTION_SPARK_CONF`` settings that win over ours (see ``settings.py``).
A session that is handed in is used as it is, but for what tables need; this package travels to its executors too.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import warnings
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from apportion.errors import Unavailable
from apportion.spark import class_archive, settings
from apportion.spark.packages import DELTA, S3A, JarSet
from apportion.spark.scratch import scratch_folder
from apportion.spark.settings import DELTA_SETTINGS, OLD_FETCHING, TABLE_SETTINGS

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    from apportion.spark.location import Location

BRING: Final = (
    "brew install openjdk@17" if sys.platform == "darwin" else "sudo apt-get install -y openjdk-17-jre-headless"
)

Progress = Callable[[str], None]
"""Takes each step of a long run as a few words."""

AS_IT_STANDS: Final = {"__globPaths__": "false"}
"""An option of Spark's readers: a path is no pattern, whatever is in it (``DataSource.GLOB_PATHS_KEY``)."""

TASKS_A_CORE: Final = 2
_SUBMIT: Final = "PYSPARK_SUBMIT_ARGS"
_DRIVER_OPTIONS: Final = "spark.driver.extraJavaOptions"


@contextmanager
def session(
    given: SparkSession | None = None, *, quick: bool = True, jars: Collection[JarSet] = ()
) -> Iterator[SparkSession]:
    """The given session, left running and as it was, or one of our own that ends with the block.

    quick
        Tuned for inputs below a million rows (the JVM compiles less and starts sooner).
    jars
        What it needs of ``packages.SETS``, on this machine or fetched by Spark; a given session has what it has.
    Raises
        Unavailable: Java 17 or newer is missing.
    """
    if given is not None:
        with _borrowed(given):
            carry_package(given)
            yield given
        return
    folder = scratch_folder()
    try:
        with _interrupts_left_alone():
            spark = start(folder, quick, jars)
        with _py4j_quiet():
            try:
                yield spark
            finally:
                # A JVM that died has stopped already; one that was interrupted in a call ends with this process.
                with suppress(Exception), warnings.catch_warnings(action="ignore"):
                    spark.stop()
        class_archive.write_later(java())
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def jars_for(origin: Location, location: Location, form: str) -> list[JarSet]:
    """The needs of a session that reads from one place and writes to another."""
    places = origin, location
    needs_delta = form != "parquet" or any(location.kind != "folder" or holds_delta(location) for location in places)
    return [DELTA] * needs_delta + [S3A] * any(location.on_s3 for location in places)


def holds_delta(location: Location) -> bool:
    """Whether a local folder has tables, or a dump, in Delta's form."""
    return any(location.folder.glob("*/_delta_log")) or any(location.folder.glob("*/*/_delta_log"))


@contextmanager
def _borrowed(spark: SparkSession) -> Iterator[None]:
    """A session of somebody else's with the settings that the tables need, for the block; then as it was.

    Of blocks of one session that overlap the last one to end puts the settings back.
    """
    session: Any = spark  # its name is the same for all objects that stand for it
    name = str(session.session_id if is_connect(spark) else session._jsparkSession.sessionUUID())
    with _BORROWING:
        before, blocks = _LOANS.get(name) or (settle(spark), 0)
        _LOANS[name] = before, blocks + 1
    try:
        yield
    finally:
        with _BORROWING:
            before, blocks = _LOANS.pop(name)
            if blocks > 1:
                _LOANS[name] = before, blocks - 1
            else:
                with suppress(Exception):  # a session that ended has nothing to be put back
                    _put_back(spark, before)


_LOANS: Final[dict[str, tuple[dict[str, str | None], int]]] = {}
"""Of each session of somebody else's what its settings were before, and how many blocks use it."""
_BORROWING: Final = threading.Lock()


def settle(spark: SparkSession) -> dict[str, str | None]:
    """Give a session the settings that the tables need; their values, and a capture's, before, None: not set."""
    ours = (*TABLE_SETTINGS, *DELTA_SETTINGS, OLD_FETCHING)
    before = {name: spark.conf.get(name, None) for name in ours}
    for name, value in TABLE_SETTINGS.items():
        spark.conf.set(name, value)
    for name, value in DELTA_SETTINGS.items():
        if before[name] is None:
            spark.conf.set(name, value)
    return before


def _put_back(spark: SparkSession, before: Mapping[str, str | None]) -> None:
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


def is_connect(spark: SparkSession) -> bool:
    """Whether a session is a Spark Connect client, which has no JVM of its own."""
    return "connect" in type(spark).__module__


def start(scratch: Path, quick: bool = True, jars: Collection[JarSet] = ()) -> SparkSession:
    """A new session; the files of this machine's part of it are all below ``scratch``."""
    program = java()
    from pyspark.sql import SparkSession

    all_settings = settings.settings(scratch, cores(), quick, jars)
    # Executors run the Python that the driver's environment names, whatever the settings say of it.
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYSPARK_PYTHON"] = all_settings.get("spark.pyspark.python") or sys.executable
    builder = SparkSession.builder.appName("apportion").config(map=dict(all_settings))
    log = scratch / "spark.log"
    try:
        _start_jvm(program, scratch, all_settings, log)
        spark = builder.getOrCreate()
    except Exception as error:
        lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
        raise Unavailable(f"Spark did not start: {_reason(lines, error)}") from error
    if not settings.is_local(all_settings["spark.master"]):
        carry_package(spark)
        if "spark.sql.shuffle.partitions" not in all_settings:
            pieces = max(2, TASKS_A_CORE * spark.sparkContext.defaultParallelism)
            spark.conf.set("spark.sql.shuffle.partitions", str(pieces))
    spark.sparkContext.setLogLevel("ERROR")
    # Where a JVM is killed the thread that adds up its counters would print a traceback; that it ended is told anyway.
    server: Any = spark.sparkContext._accumulatorServer
    server.handle_error = lambda request, address: None
    # PySpark prints each failed query as JSON too; what failed is raised and told in a sentence.
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    return spark


def _reason(lines: list[str], error: Exception) -> str:
    """Why Spark did not start: its own explanation, else its last line."""
    for line in reversed(lines):
        if re.search(r"[Ee]xception: |ERROR|unresolved dependency|not found|^Invalid |insufficient memory", line):
            return line
    return lines[-1] if lines else str(error).splitlines()[0]


def is_remote(spark: SparkSession) -> bool:
    """Whether a session's tasks run in other processes, maybe on other machines."""
    return is_connect(spark) or not settings.is_local(spark.sparkContext.master or "")


def has_ended(spark: SparkSession) -> bool:
    """Whether a session's JVM is gone, or has been asked to stop: it can answer nothing any more."""
    if is_connect(spark):
        return False
    try:
        return bool(spark.sparkContext._jsc.sc().isStopped())
    except Exception:  # whatever Py4J makes of a process that is not there
        return True


def carry_package(spark: SparkSession) -> None:
    """Give this package to a cluster's executors, as a zip: they need no installation of it."""
    if not is_remote(spark):
        return
    session: Any = spark
    if is_connect(spark):
        with suppress(Exception):  # sent before: a server refuses the same name twice only if the bytes differ
            session.addArtifacts(str(_zip()), pyfile=True)
    elif _zip().name not in session.sparkContext._python_includes:
        session.sparkContext.addPyFile(str(_zip()))


@contextmanager
def ours(spark: SparkSession) -> Iterator[None]:
    """Jobs of the block are ended with it, after Ctrl-C or on a full disk; others' work in the session goes on."""
    tag = f"apportion-{uuid4()}"
    spark.addTag(tag)
    try:
        yield
    except BaseException:
        with suppress(Exception):  # a JVM that died has no jobs
            spark.interruptTag(tag)
        raise
    finally:
        with suppress(Exception):
            spark.removeTag(tag)


def naming_jobs(spark: SparkSession, progress: Progress) -> Progress:
    """A ``progress`` that also names the jobs which follow, on Spark's own page."""
    if is_connect(spark):
        return progress

    def named(step: str) -> None:
        spark.sparkContext.setJobDescription(f"apportion: {step}")
        progress(step)

    return named


@cache
def _zip() -> Path:
    """This package as a zip, kept for as long as the process lives: Spark serves it from where it is."""
    folder = scratch_folder()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    package = Path(__file__).parents[1]
    archive = folder / "apportion.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in sorted(package.rglob("*")):
            inside = file.relative_to(package)
            # The recorded dump, the page's assets and the broker's sources are for the machine of a person.
            if file.is_file() and file.suffix in (".py", ".json") and inside.parts[0] not in ("testing", "demo"):
                packed.write(file, str(Path("apportion") / inside))
    return archive


def cores() -> int:
    """Threads of a local session: ``APPORTION_CORES``, else the cores of this process, at most 8."""
    number = os.environ.get("APPORTION_CORES", "")
    return int(number) if number.isdigit() and int(number) > 0 else max(2, min(8, os.cpu_count() or 2))


def java() -> str:
    """The path of Java 17 or newer, or one sentence with the command that brings it."""
    under = os.environ.get("JAVA_HOME")
    program = shutil.which("java", path=f"{under}/bin") if under else shutil.which("java")
    if program is None:
        where = f"JAVA_HOME ({under})" if under else "the PATH"
        raise Unavailable(f"The pipeline needs Java 17 or newer, and there is none on {where}; bring it with: {BRING}")
    version_text = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(\d+)', version_text.stderr + version_text.stdout)
    if version is None or int(version[1]) < 17:
        has = f"version {version[1]}" if version else "no Java that shows its version"
        raise Unavailable(f"The pipeline needs Java 17 or newer, and {program} is {has}; bring it with: {BRING}")
    return program


@contextmanager
def _interrupts_left_alone() -> Iterator[None]:
    """Ctrl-C stays as it was before: PySpark's own handler calls the JVM in the middle of another call to it."""
    before = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)


def _start_jvm(program: str, scratch: Path, all_settings: Mapping[str, str], log: Path) -> None:
    """Start Spark's JVM, if there is none, with the user's settings in a file that this user alone may read.

    program
        Java, whose archive of classes the JVM reads, unless the user gives it options of his own.
    log
        Takes what it writes to standard error.

    Settings may be keys and passwords, and all users of a machine see the commands of its processes.
    """
    from pyspark import SparkConf, SparkContext

    if SparkContext._gateway is not None:
        return
    users, before = settings.from_environment(), os.environ.get(_SUBMIT)
    if "--properties-file" in (before or ""):  # of two such files Spark reads the last alone
        users = {}
    if users:
        file = scratch / "settings.properties"
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as opened:
            opened.writelines(_property(name, value) for name, value in users.items())
        os.environ[_SUBMIT] = f"--properties-file {quote(str(file))} --load-spark-defaults {before or 'pyspark-shell'}"
    try:
        public = {name: value for name, value in all_settings.items() if name not in users}
        if _DRIVER_OPTIONS in public:
            public[_DRIVER_OPTIONS] = " ".join([public[_DRIVER_OPTIONS], *class_archive.options(program)])
        conf = SparkConf(loadDefaults=False).setAll(list(public.items()))
        SparkContext._ensure_initialized(gateway=_launched(conf, log))
    finally:
        os.environ.pop(_SUBMIT, None)
        os.environ.update({} if before is None else {_SUBMIT: before})


def _property(name: str, value: str) -> str:
    """A line of Java's properties."""
    return re.sub(r"[\\:=\s#!]", r"\\\g<0>", name) + "=" + value.replace("\\", "\\\\") + "\n"


def _launched(conf: SparkConf, log: Path) -> Any:
    """A gateway to a new JVM, which is killed if it is still starting when this is interrupted.

    PySpark then forgets its process and removes the folder where the JVM is to write its port. That it cannot write it
    ends the JVM's main thread alone: the process would stay for ever.
    """
    from pyspark import java_gateway

    started: list[subprocess.Popen[bytes]] = []
    launching: Any = java_gateway
    popen = launching.Popen

    def remembered(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        started.append(popen(command, **options))
        return started[-1]

    launching.Popen = remembered
    try:
        with log.open("wb") as opened:
            return launching.launch_gateway(conf, {"stderr": opened})
    except BaseException:
        for process in started:
            process.kill()
            process.wait()
        raise
    finally:
        launching.Popen = popen


@contextmanager
def _py4j_quiet() -> Iterator[None]:
    """Py4J logs a traceback of its own for each call that was interrupted; the interrupt itself is raised anyway.

    It does so through the root logger and, where the JVM has ended already, through loggers of its own.
    """

    def ours(record: logging.LogRecord) -> bool:
        return "py4j" not in record.pathname

    root, own = logging.getLogger(), logging.getLogger("py4j")
    level = own.level
    root.addFilter(ours)
    own.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        root.removeFilter(ours)
        own.setLevel(level)

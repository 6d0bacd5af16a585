"""Bring Apache Kafka and Spark's needs from Maven once, and compile the Java peers.

``python -m apportion.testing.jars`` does it all and is quick when nothing is missing. The jars live in
``$APPORTION_JARS``, else in ``.jars`` of the source tree, else in ``~/.cache/apportion/jars``:

    kafka/   broker, tools and clients (``java/pom.xml`` beside this file); kafka-4.4.0/ the same of another release
    peer/    our own classes, from ``java/apportion/*.java``
    spark/   the connector, handed to Spark as ``spark.jars``; beside it delta/ and s3a/ (``apportion.spark.packages``)
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path

from apportion.errors import ApportionError, Unavailable
from apportion.spark import packages
from apportion.spark.packages import JarSet

SOURCES = Path(__file__).parent / "java"

KAFKA = ("4.3.0", "4.4.0")
"""Releases of Apache Kafka that tests run against; the first where a test names none."""


BRING = "brew install openjdk@17 maven" if sys.platform == "darwin" else "sudo apt-get install -y openjdk-17-jdk maven"


def home() -> Path:
    """The folder that holds the jars, there or not."""
    if folder := os.environ.get("APPORTION_JARS"):
        return Path(folder).expanduser().absolute()
    root = Path(__file__).parents[3]
    if (root / "src" / "apportion").is_dir() and (root / "pyproject.toml").is_file():
        return root / ".jars"
    return Path.home() / ".cache" / "apportion" / "jars"


@cache
def java(program: str = "java") -> str:
    """The path of ``java`` or ``javac``, 17 or newer.

    Raises
        Unavailable: none is there, or it is too old; with the command that brings it.
    """
    under = os.environ.get("JAVA_HOME")
    path = shutil.which(program, path=f"{under}/bin") if under else None
    path = path or shutil.which(program)
    if path is None:
        raise Unavailable(f"Java 17 or newer is needed, and no {program} is on the PATH; bring it with: {BRING}")
    version_text = subprocess.run([path, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'(?:version "|javac )(\d+)', version_text.stderr + version_text.stdout)
    if version is None or int(version[1]) < 17:
        has = version[1] if version else "something else"
        raise Unavailable(f"Java 17 or newer is needed, and {path} is {has}; bring it with: {BRING}")
    return path


def maven() -> str:
    """The path of ``mvn``, or an error with the command that brings it."""
    if path := shutil.which("mvn"):
        return path
    raise Unavailable(f"Maven is needed to fetch Apache Kafka, and no mvn is on the PATH; bring it with: {BRING}")


def kafka(version: str = KAFKA[0]) -> str:
    """The class path of a release of Apache Kafka and the Java peers; fetched and compiled if they are missing.

    version
        One of ``KAFKA``, or another that Maven has. The peers are compiled once, against the first of ``KAFKA``.
    """
    for release in dict.fromkeys((KAFKA[0], version)):
        made(kafka_folder(release), stamp(SOURCES / "pom.xml"), partial(fetch_kafka, version=release))
    made(home() / "peer", stamp(*sorted(SOURCES.glob("**/*.java")), SOURCES / "pom.xml"), compile_peers)
    return os.pathsep.join([str(home() / "peer"), str(kafka_folder(version) / "*")])


def kafka_folder(version: str) -> Path:
    """The folder of the jars of a release of Apache Kafka."""
    return home() / ("kafka" if version == KAFKA[0] else f"kafka-{version}")


def spark(jar_set: JarSet = packages.KAFKA) -> list[Path]:
    """The jars of a set for ``spark.jars``; fetched if they are missing."""
    recipe = digest(*(name.encode() for name in jar_set.jars))
    made(home() / jar_set.name, recipe, lambda folder: fetch_set(jar_set, folder))
    return sorted((home() / jar_set.name).glob("*.jar"))


def made(folder: Path, recipe: str, make: Callable[[Path], None]) -> None:
    """Make a folder whole or not at all, once for each recipe, even if others want it at the same time."""
    if recipe_of(folder) == recipe:
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.parent / ".lock"):
        if recipe_of(folder) == recipe:
            return
        fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            make(fresh)
            (fresh / ".recipe").write_text(recipe)
            fresh.chmod(0o755)
            shutil.rmtree(folder, ignore_errors=True)
            fresh.rename(folder)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)


def recipe_of(folder: Path) -> str | None:
    """The recipe that the folder was made from, or None if it is missing."""
    try:
        return (folder / ".recipe").read_text()
    except OSError:
        return None


def fetch_kafka(folder: Path, version: str) -> None:
    """All jars that the broker and its tools need."""
    say(f"Apache Kafka {version} (54 MB)")
    goal, release = "dependency:copy-dependencies", f"-Dkafka.version={version}"
    run(maven(), "-q", "-B", "-f", str(SOURCES / "pom.xml"), goal, release, f"-DoutputDirectory={folder}")


def fetch_set(jar_set: JarSet, folder: Path) -> None:
    """The jars of a set and nothing that they name in turn: Spark has that, or it is in the set."""
    say(f"{jar_set.name}: {len(jar_set.jars)} jars for Spark")
    pom = folder / "pom.xml"
    pom.write_text(POM.format(dependencies="".join(map(_dependency, jar_set.jars))))
    run(maven(), "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={folder}")
    pom.unlink()


POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>apportion</groupId><artifactId>jars</artifactId><version>1</version>
<dependencies>{dependencies}</dependencies></project>
"""


def _dependency(coordinate: str) -> str:
    group, artifact, version = coordinate.split(":")
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
        "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"
    )


def compile_peers(folder: Path) -> None:
    """Our own Java classes against the jars of Kafka."""
    sources = [str(path) for path in sorted(SOURCES.glob("**/*.java"))]
    run(java("javac"), "-nowarn", "-proc:none", "-d", str(folder), "-cp", str(home() / "kafka" / "*"), *sources)


def run(*command: str) -> None:
    """Run a command to its end, or raise with the end of its output."""
    with tempfile.TemporaryDirectory() as away:  # not among other people's pom.xml
        process = subprocess.run(command, capture_output=True, text=True, check=False, cwd=away)
    if process.returncode:
        output = (process.stdout + process.stderr).strip()[-2000:]
        raise Unavailable(
            f"{Path(command[0]).name} failed (exit {process.returncode}): {' '.join(command[:6])} ...\n{output}"
        )


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file; a process that dies lets go of it."""
    try:
        import fcntl
    except ImportError:
        raise Unavailable("the jars for tests are fetched under a POSIX file lock, which this system has not") from None
    with path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def stamp(*paths: Path) -> str:
    """A digest of some files' contents."""
    return digest(*(path.read_bytes() for path in paths))


def digest(*parts: bytes) -> str:
    """A digest of some bytes."""
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def say(artifacts: str) -> None:
    """Show a person which file is being fetched."""
    print(f"== {artifacts} into {home()}", file=sys.stderr, flush=True)


def main(words: Sequence[str] = ()) -> int:
    """Fetch and compile all missing parts; with ``--spark`` only Spark's, as an image of the pipeline does.

    Without Java or Maven the set-up goes on and says what that costs, unless nothing may be skipped
    (``APPORTION_REQUIRE_BROKER=1``, as in continuous integration).
    """
    spark_alone = "--spark" in words
    try:
        if not spark_alone:
            java(), java("javac")
            for version in KAFKA:
                kafka(version)
        for jar_set in packages.SETS:
            spark(jar_set)
    except ApportionError as wrong:
        print(wrong, file=sys.stderr)
        if spark_alone or os.environ.get("APPORTION_REQUIRE_BROKER") == "1":
            return 2
        print("== Going on without: tests that need them are skipped, and named at the end.", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

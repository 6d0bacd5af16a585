"""What only our own tests and benches build: an S3 server, an HDFS, the jar for the brokers, Java programs of a test.

Kept beside the jars of ``apportion.testing.jars``: ``s3/`` is versitygw, which speaks S3 over a folder, built by Go;
``hdfs/`` is Hadoop's own name node and data node (58 MB); ``broker/`` is our class. Each on demand, once.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from apportion.errors import Unavailable
from apportion.spark.packages import JarSet
from apportion.testing import jars

S3_SERVER = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"

HDFS = JarSet(
    "hdfs",
    (
        "org.apache.hadoop:hadoop-client-minicluster:3.5.0",
        "org.junit.jupiter:junit-jupiter-api:5.11.4",
        "org.junit.platform:junit-platform-commons:1.11.4",
        "org.opentest4j:opentest4j:1.3.0",
        "org.mockito:mockito-core:4.11.0",
    ),
    (),
)
"""Beside PySpark's own jars: the cluster that Hadoop's tests run on, with what its classes name."""

MOVED = {
    "4.4.0": {
        "kafka.common.utils.LogContext": "kafka.common.utils.internals.LogContext",
        ".withStaticMembers(group.staticMembers())": "",
    }
}
"""Release -> text of our programs for the first release -> what it is there."""


def s3_server() -> Path:
    """The program of an S3 server over a folder; built by Go where it is missing, which takes some minutes.

    Raises
        Unavailable: there is no Go, or the build failed.
    """
    if shutil.which("go") is None:
        raise Unavailable("an S3 server for tests is built with Go 1.24 or newer, and no go is on the PATH")
    jars.made(jars.home() / "s3", jars.digest(S3_SERVER.encode()), build_s3_server)
    return jars.home() / "s3" / "versitygw"


def hdfs() -> str:
    """The class path of an HDFS of one machine; fetched where it is missing.

    Raises
        Unavailable: there is no Maven, or no PySpark, whose jars have the rest.
    """
    pyspark = find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        raise Unavailable("an HDFS for tests needs PySpark, whose jars hold Hadoop's client")
    jars.spark(HDFS)
    return os.pathsep.join([str(jars.home() / HDFS.name / "*"), str(Path(pyspark.origin).parent / "jars" / "*")])


def build_s3_server(folder: Path) -> None:
    """versitygw from its source, through Go's module proxy."""
    jars.say("versitygw, an S3 server (some minutes)")
    jars.run("env", f"GOBIN={folder}", "go", "install", "-ldflags=-s -w", S3_SERVER)


def broker_jar(module: Path = Path(__file__).parents[2] / "broker", kept_as: str = "broker") -> Path:
    """The jar with ``GovernedAssignor``, packaged by Maven from ``broker/`` of this source tree, or of another.

    Raises
        Unavailable: there is no Maven, or no source tree.
    """
    if not (module / "pom.xml").is_file():
        raise Unavailable("the class for the brokers is built from broker/ of the source tree, which is not here")

    def package(folder: Path) -> None:
        jars.say("the class for the brokers")
        build = folder / "build"
        shutil.copytree(module, build, ignore=shutil.ignore_patterns("target"))
        jars.run(jars.maven(), "-q", "-B", "-f", str(build / "pom.xml"), "package")
        shutil.copy(next(build.glob("target/*.jar")), folder / "apportion-broker.jar")
        shutil.rmtree(build)

    stamp = jars.stamp(module / "pom.xml", *sorted(module.glob("src/main/**/*.java")))
    jars.made(jars.home() / kept_as, stamp, package)
    return jars.home() / kept_as / "apportion-broker.jar"


def compile_program(source: Path, folder: Path, version: str = jars.KAFKA[0], more: Sequence[Path] = ()) -> str:
    """Compile one Java program of a test against a release of Apache Kafka; the class path to run it with.

    Coordinator classes are nobody's interface: what moved or went after the release that the program is written for
    is replaced in its text.
    """
    text = source.read_text(encoding="utf-8")
    for old, new in MOVED.get(version, {}).items():
        text = text.replace(old, new)
    (folder / source.name).write_text(text, encoding="utf-8")
    libraries = os.pathsep.join([*map(str, more), jars.kafka(version)])
    jars.run(
        jars.java("javac"), "-nowarn", "-proc:none", "-cp", libraries, "-d", str(folder), str(folder / source.name)
    )
    return f"{folder}{os.pathsep}{libraries}"

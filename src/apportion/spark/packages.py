"""Spark's needs in addition to its own jars, by Maven coordinates: all of them, and nowhere else.

Where the jars of a set are on this machine (``make setup`` brings them), Spark is given those. Elsewhere it is given
coordinates as ``spark.jars.packages``, and fetches them and what they need by itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SPARK: Final = "4.2.0"
"""The version that the jars below are of, with its Hadoop's; they serve every 4.2, and no other PySpark is taken."""

_AWS: Final = "2.35.4"
_AWS_PARTS: Final = (
    "annotations", "apache-client", "arns", "auth", "aws-core", "aws-query-protocol", "aws-xml-protocol", "checksums",
    "checksums-spi", "crt-core", "endpoints-spi", "http-auth", "http-auth-aws", "http-auth-aws-eventstream",
    "http-auth-spi", "http-client-spi", "identity-spi", "json-utils", "metrics-spi", "netty-nio-client", "profiles",
    "protocol-core", "regions", "retries", "retries-spi", "s3", "s3-transfer-manager", "sdk-core", "sts",
    "third-party-jackson-core", "utils", "utils-lite",
)  # fmt: skip


@dataclass(frozen=True)
class JarSet:
    """Jars that one ability needs.

    name
        The folder below ``.jars`` that holds them.
    jars
        Every jar that Spark has not, as ``group:artifact:version``; copied one by one, without what they name in turn.
    packages
        What a Spark that resolves by itself is told.
    """

    name: str
    jars: tuple[str, ...]
    packages: tuple[str, ...]


KAFKA: Final = JarSet(
    "spark",
    (
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK}",
        # That of 4.2.0 is not in every repository; the one of 4.0.0 serves the connector of 4.2.0.
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.2",
        "org.apache.commons:commons-pool2:2.13.1",
    ),
    (f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK}",),
)
"""Spark's own Kafka connector."""

DELTA: Final = JarSet(
    "delta",
    (
        "io.delta:delta-spark_4.2_2.13:4.4.0",
        "io.delta:delta-storage:4.4.0",
        "io.delta:delta-kernel-api:4.4.0",
        "io.delta:delta-kernel-defaults:4.4.0",
        "io.delta:delta-kernel-unitycatalog:4.4.0",
        "io.unitycatalog:unitycatalog-client:0.6.0",
        "io.unitycatalog:unitycatalog-hadoop:0.6.0",
    ),
    ("io.delta:delta-spark_4.2_2.13:4.4.0",),
)
"""Delta tables."""

S3A: Final = JarSet(
    "s3a",
    (
        "org.apache.hadoop:hadoop-aws:3.5.0",
        *(f"software.amazon.awssdk:{part}:{_AWS}" for part in _AWS_PARTS),
        "software.amazon.eventstream:eventstream:1.0.1",
        "org.reactivestreams:reactive-streams:1.0.4",
        "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1",
        "org.wildfly.openssl:wildfly-openssl:2.2.5.Final",
    ),
    # By itself it would bring the AWS SDK in one jar of 600 MB, of which these are what s3a uses.
    ("org.apache.hadoop:hadoop-aws:3.5.0",),
)
"""``s3a://``: the parts of the AWS SDK that it uses."""

SETS: Final = (KAFKA, DELTA, S3A)


def local_jars(jar_set: JarSet) -> list[Path]:
    """The jars of a set on this machine: in ``$APPORTION_JARS``, the source tree or the user's cache; maybe none."""
    root = Path(__file__).parents[3]
    named = os.environ.get("APPORTION_JARS")
    homes = [Path(named).expanduser()] if named else [root / ".jars", Path.home() / ".cache" / "apportion" / "jars"]
    for home in homes:
        if jars := sorted((home / jar_set.name).glob("*.jar")):
            return jars
    return []


def settings(sets: Iterable[JarSet]) -> dict[str, str]:
    """Spark's settings that bring these sets: ``spark.jars`` for those that are here, coordinates for the others."""
    jars: list[str] = []
    coordinates: list[str] = []
    for jar_set in sets:
        if local := local_jars(jar_set):
            jars += map(str, local)
        else:
            coordinates += jar_set.packages
    by_name = {"spark.jars": ",".join(jars), "spark.jars.packages": ",".join(coordinates)}
    return {name: value for name, value in by_name.items() if value}

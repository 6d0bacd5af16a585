"""Spark's settings: the tables' needs, one machine's or a cluster's, and the user's, which win.

``APPORTION_SPARK_MASTER``
    ``spark://HOST:PORT``, ``yarn``, ``k8s://...``; absent: this machine.
``APPORTION_SPARK_CONF``
    ``key=value;key=value``, or one on each line. Values may hold passwords: none is ever printed.
``AWS_*``
    Keys, region and endpoint as the AWS tools know them; Spark itself takes the keys and carries them to executors.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Final

from apportion.errors import BadInput
from apportion.spark import packages
from apportion.spark.packages import DELTA, S3A, JarSet

MASTER: Final = "APPORTION_SPARK_MASTER"
CONF: Final = "APPORTION_SPARK_CONF"

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

OLD_FETCHING: Final = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
"""Whether Spark's connector asks a consumer for partitions, as a capture needs it to."""

# A table's log is small: read by one task it takes a tenth of the time that fifty need. Deletion vectors cost more than
# they spare at these sizes, and readers without Spark cannot read them.
DELTA_SETTINGS: Final = {
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.databricks.delta.properties.defaults.enableDeletionVectors": "false",
}
_DELTA_AT_START: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def is_local(master: str) -> bool:
    """Whether tasks run in the driver's own process."""
    return master.startswith("local") and not master.startswith("local-cluster")


def settings(scratch: Path, cores: int, quick: bool, sets: Collection[JarSet]) -> dict[str, str]:
    """All settings of a session of our own, ``spark.master`` among them.

    scratch
        Where this machine's files go.
    quick
        A local session is for inputs below a million rows; a cluster's never is.
    Raises
        BadInput: ``APPORTION_SPARK_CONF`` holds something else than settings.
    """
    users = from_environment()
    master = users.get("spark.master") or os.environ.get(MASTER) or f"local[{cores}]"
    local = is_local(master)
    all_settings = {"spark.master": master, **TABLE_SETTINGS, **_everywhere(scratch, quick and local)}
    executors = {"spark.pyspark.python": os.environ.get("PYSPARK_PYTHON") or "python3"}
    all_settings |= _on_this_machine(scratch, cores, quick) if local else executors
    all_settings |= packages.settings(sets)
    if DELTA in sets:
        all_settings |= {**_DELTA_AT_START, **DELTA_SETTINGS}
    if S3A in sets:
        all_settings |= _s3()
    return all_settings | users


def from_environment() -> dict[str, str]:
    """The settings in ``APPORTION_SPARK_CONF``."""
    settings: dict[str, str] = {}
    for number, piece in enumerate(os.environ.get(CONF, "").replace("\n", ";").split(";"), 1):
        name, equals, value = piece.strip().partition("=")
        if not name and not equals:
            continue
        if not equals or not name.strip():
            # What stands there may be half a password: its place is told, not its text.
            raise BadInput(f"{CONF}, part {number}", "no setting", "key=value;key=value")
        settings[name.strip()] = value.strip()
    return settings


def _everywhere(scratch: Path, quick: bool) -> dict[str, str]:
    log4j = Path(__file__).with_name("log4j2.properties").as_uri()
    every_jvm = ["-XX:+UseSerialGC"]
    if quick:
        # That alone would leave 48 MB for compiled code, which a long build fills; 240 MB is Java's own measure.
        every_jvm += ["-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m"]
    of_driver = f"-Dlog4j2.configurationFile={log4j} -Djava.io.tmpdir={scratch} -Dderby.system.home={scratch}"
    return {
        "spark.driver.memory": os.environ.get("APPORTION_SPARK_MEMORY", "2g"),
        "spark.driver.extraJavaOptions": " ".join([of_driver, *every_jvm]),
        "spark.executor.extraJavaOptions": " ".join(every_jvm),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        # A Python worker on a busy machine may need long to come up; 15 s is Spark's own patience.
        "spark.python.authenticate.socketTimeout": "120s",
        "spark.ui.showConsoleProgress": "false",
    }


def _on_this_machine(scratch: Path, cores: int, quick: bool) -> dict[str, str]:
    """Settings for one machine and a command that ends soon; a cluster keeps Spark's own splits, planning and pages."""
    return {
        "spark.sql.files.maxPartitionBytes": "16m",
        "spark.sql.adaptive.enabled": "false" if quick else "true",
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(scratch),
        "spark.sql.shuffle.partitions": str(cores),
    }


def _s3() -> dict[str, str]:
    """The ``AWS_*`` settings that Spark does not take by itself."""
    environment, settings = os.environ, dict[str, str]()
    if region := environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION"):
        settings["spark.hadoop.fs.s3a.endpoint.region"] = region
    if endpoint := environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL"):
        # A server of one's own has no name for each bucket; and may speak plain HTTP.
        settings["spark.hadoop.fs.s3a.endpoint"] = endpoint
        settings["spark.hadoop.fs.s3a.path.style.access"] = "true"
        settings["spark.hadoop.fs.s3a.connection.ssl.enabled"] = str(endpoint.startswith("https:")).lower()
        settings.setdefault("spark.hadoop.fs.s3a.endpoint.region", "us-east-1")
    return settings

"""How the one Spark session of all tests reaches an object store that a test brings."""

from __future__ import annotations

from typing import Any

from apportion.testing.s3 import S3Server


def reach(spark: Any, server: S3Server) -> None:
    """Point the session at a store, and forget drivers that an earlier one of the same bucket left open."""
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    for name, value in server.hadoop.items():
        settings.set(name, value)
    # Hadoop keeps one driver for each bucket, with the address of the server that was there at first.
    spark._jvm.org.apache.hadoop.fs.FileSystem.closeAll()

"""The stores that tests bring, and how the one Spark session of all tests reaches them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import pytest

from apportion.errors import Unavailable
from apportion.spark import packages
from apportion.testing.s3 import S3Server

Store = TypeVar("Store", bound=AbstractContextManager[Any])


def store(make: Callable[[], Store], *needed: packages.JarSet) -> Store:
    """A store, for Spark with these jars; where one of them or the store is not to be had, the test is skipped."""
    if not all(packages.local_jars(one) for one in needed):
        pytest.skip(f"the jars of {' and '.join(one.name for one in needed)} are not here: make setup")
    try:
        return make()
    except Unavailable as missing:
        pytest.skip(str(missing))


def reach(spark: Any, server: S3Server) -> None:
    """Point the session at a store, and forget drivers that an earlier one of the same bucket left open."""
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    for name, value in server.hadoop.items():
        settings.set(name, value)
    # Hadoop keeps one driver for each bucket, with the address of the server that was there at first.
    spark._jvm.org.apache.hadoop.fs.FileSystem.closeAll()

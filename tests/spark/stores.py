"""The stores that tests bring, and how the one Spark session of all tests reaches them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final, TypeVar

import pytest
from tests.spark.conftest import rows_of
from tests.support.s3 import S3Server

from apportion.errors import Unavailable
from apportion.spark import packages
from apportion.tables.schemas import TABLES

Store = TypeVar("Store", bound=AbstractContextManager[Any])
NEWEST: Final[Mapping[str, int | None]] = {}


def store(make: Callable[[], Store], *needed: packages.JarSet) -> Store:
    """A store, for Spark with these jars; where one of them or the store is not to be had, the test is skipped."""
    if not all(packages.local_jars(one) for one in needed):
        pytest.skip(f"the jars of {' and '.join(one.name for one in needed)} are not here: make setup")
    try:
        return make()
    except Unavailable as missing:
        pytest.skip(str(missing))


def rows_in(
    server: S3Server, root: str, names: Iterable[str] = TABLES, versions: Mapping[str, int | None] = NEWEST
) -> dict[str, list[str]]:
    """The rows of Delta tables below a root, in some versions, or in the newest where none is named; without Spark."""
    deltalake = pytest.importorskip("deltalake", reason="pip install 'apportion[delta]'")
    options = {**server.environment, "AWS_ALLOW_HTTP": "true"}
    rows = {}
    for name in names:
        table = deltalake.DeltaTable(f"{root}/{name}", version=versions.get(name), storage_options=options)
        rows[name] = rows_of(table.to_pyarrow_table())
    return rows


def copied(server: S3Server, place: str, other: str) -> str:
    """The objects below a prefix once more, with their tags of the file system, as they are at this moment."""
    bucket = server.root / server.bucket
    subprocess.run(["cp", "--archive", str(bucket / place), str(bucket / other)], check=True)
    return other


def reach(spark: Any, server: S3Server) -> None:
    """Point the session at a store, and forget drivers that an earlier one of the same bucket left open."""
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    for name, value in server.hadoop.items():
        settings.set(name, value)
    # Hadoop keeps one driver for each bucket, with the address of the server that was there at first.
    spark._jvm.org.apache.hadoop.fs.FileSystem.closeAll()

"""One Spark for all tests of the pipeline, and small dumps to feed it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark", reason="the pipeline's tests need PySpark: pip install 'apportion[spark]'")

from tests.spark import made

from apportion.errors import Unavailable
from apportion.spark import packages, session


@pytest.fixture(scope="session")
def java_for_spark() -> None:
    """Skips without Java 17: for tests that start a Spark of their own."""
    try:
        session.java()
    except Unavailable as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def spark(java_for_spark: None) -> Iterator[SparkSession]:
    """A local session with the Kafka connector, Delta and S3A, if their jars are here; skips without Java 17."""
    with session.session(jars=list(filter(packages.local_jars, packages.SETS))) as running:
        yield running


@pytest.fixture
def dump(tmp_path: Path) -> Callable[..., Path]:
    """``dump(records)`` writes a dump of them and gives its folder."""

    def write(*args: object, **named: object) -> Path:
        return made.write_dump(tmp_path / "dump", *args, **named)  # type: ignore[arg-type]

    return write


def rows_of(table: Path | pa.Table) -> list[str]:
    """Every row of a table, each value as text, in an order of its own: to compare tables of any form."""
    whole = table if isinstance(table, pa.Table) else pq.read_table(table)
    return sorted(repr(row) for row in whole.to_pylist())

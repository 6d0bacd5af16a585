"""Delta tables on a real S3 server: what other engines and our own readers see of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.spark import made
from tests.spark.conftest import rows_of
from tests.spark.stores import reach, store
from tests.support.s3 import S3Server

from apportion.errors import BadInput, Unavailable
from apportion.spark import job, lock, packages, shelves, sources
from apportion.spark.location import locate
from apportion.tables.schemas import TABLES

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]
ASSIGNORS = ["range"]
RECORDS = made.every_kind()
"""With records of every kind, some of them broken."""


@pytest.fixture(scope="module")
def s3(spark: Any) -> Iterator[S3Server]:
    """An S3 server that the session of all tests reaches."""
    with store(S3Server, packages.DELTA, packages.S3A) as server:
        reach(spark, server)
        yield server


@pytest.fixture(scope="module")
def local(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dump, and its tables as plain Parquet: what every other place must hold."""
    root = tmp_path_factory.mktemp("local")
    made.write_dump(root / "dump", RECORDS, files=2)
    job.build(root / "dump", root / "tables", assignors=ASSIGNORS, spark=spark)
    return root


@pytest.fixture(scope="module")
def far(spark: Any, s3: S3Server, local: Path) -> str:
    """The same built on S3, from a dump there that was copied file by file."""
    s3.upload(local / "dump", "dump")
    out = "s3a://lake/tables"
    job.build("s3a://lake/dump", out, assignors=ASSIGNORS, spark=spark)
    return out


def test_tables_on_s3_are_read_by_other_engines(s3: S3Server, local: Path, far: str) -> None:
    """By deltalake, and by DuckDB through Arrow: no deletion vectors, no feature that they lack."""
    deltalake = pytest.importorskip("deltalake", reason="pip install 'apportion[delta]'")
    duckdb = pytest.importorskip("duckdb", reason="pip install duckdb")
    options = {**s3.environment, "AWS_ALLOW_HTTP": "true"}
    for name in TABLES:
        table = deltalake.DeltaTable(far.replace("s3a:", "s3:") + f"/{name}", storage_options=options)
        assert rows_of(table.to_pyarrow_table()) == rows_of(local / "tables" / name), name
        protocol = table.protocol()
        assert (protocol.min_reader_version, protocol.reader_features) == (1, None), name
    lag = deltalake.DeltaTable(far.replace("s3a:", "s3:") + "/gold/lag", storage_options=options).to_pyarrow_dataset()
    connection = duckdb.connect()
    connection.register("lag", lag)
    [(count,)] = connection.execute("SELECT count(*) FROM lag").fetchall()
    assert count == len(rows_of(local / "tables" / "gold/lag")) > 0


def test_a_file_that_did_not_change_is_uploaded_once(s3: S3Server, tmp_path: Path) -> None:
    """As a build that goes on needs it: an object of another time is another file to it."""
    file, stored = tmp_path / "a", s3.root / s3.bucket / "once" / "a"
    file.write_text("first")
    s3.upload(tmp_path, "once")
    before = stored.stat().st_mtime_ns
    s3.upload(tmp_path, "once")
    assert stored.stat().st_mtime_ns == before
    file.write_text("second")
    s3.upload(tmp_path, "once")
    assert stored.read_text() == "second"


def test_the_lock_of_an_object_store_is_made_by_one_alone(spark: Any, s3: S3Server) -> None:
    """Only if absent, by the store's word; and it is overwritten, read and deleted as any text."""
    one, other = (shelves.HadoopShelf(spark, "s3a://lake/locks") for _ in range(2))
    assert one.names() == []
    assert [one.create("a", "first"), other.create("a", "second")] == [True, False]
    assert other.read("a") == "first"
    assert one.create("a", "first"), "a second try of what came through the first time"
    one.overwrite("a", "anew")
    assert (other.read("a"), other.read("b"), other.names()) == ("anew", None, ["a"])
    one.delete("a")
    assert other.read("a") is None
    with lock.held(one, "s3a://lake/locks"), pytest.raises(Unavailable, match="another build"):
        lock._acquire(other, "s3a://lake/locks", 60, lambda line: None)


def test_a_task_that_reads_a_dump_first_can_write_to_the_store_afterwards(
    spark: Any, s3: S3Server, tmp_path: Path
) -> None:
    """The driver of a store is made once a process, with the settings of who comes first: on executors often a read."""
    s3.upload(made.write_dump(tmp_path / "dump", RECORDS), "read-first")
    records = sources.open_dump(spark, locate("s3a://lake/read-first")).read("records")
    spark._jvm.org.apache.hadoop.fs.FileSystem.closeAll()
    rows = records.collect()
    spark.createDataFrame(rows, records.schema).write.parquet("s3a://lake/written")
    assert spark.read.parquet("s3a://lake/written").count() == len(rows) == len(RECORDS)


def test_groups_and_histories_are_read_from_a_uri(spark: Any, local: Path, far: str, tmp_path: Path) -> None:
    """The same as from the folder, of all groups or of one alone."""
    from apportion.sources.load_history import load_histories
    from apportion.spark.local_copy import copy

    here = load_histories(local / "tables")
    for number, groups in enumerate(([], ["g"])):
        folder = tmp_path / str(number)
        folder.mkdir()
        copy(far, folder, groups, spark=spark)
        there = load_histories(folder)
        assert set(there.groups) == (set(groups) or set(here.groups))
        assert there.group("g").raw == here.group("g").raw
    folder = tmp_path / "dump"
    folder.mkdir()
    copy("s3a://lake/dump", folder, spark=spark)
    assert set(load_histories(folder).groups) == set(load_histories(local / "dump").groups)
    with pytest.raises(BadInput, match="neither tables nor a dump"):
        copy("s3a://lake/nothing", tmp_path, spark=spark)

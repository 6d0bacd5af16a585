"""Tables on a real HDFS: the rows of a local build, one build at a time, read without Spark.

The 58 MB of Hadoop that it takes come from Maven the first time, so it is left to ``make thorough``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.spark import made
from tests.spark.conftest import rows_of
from tests.spark.stores import store

from apportion.errors import Unavailable
from apportion.inputs.load_history import load_histories
from apportion.spark import job, lake, packages, schemas
from apportion.spark.local_copy import copy
from apportion.spark.location import locate
from apportion.testing.hdfs import HdfsServer

pytestmark = [pytest.mark.spark, pytest.mark.thorough, pytest.mark.timeout(1800)]
ASSIGNORS = ["range"]


@pytest.fixture(scope="module")
def hdfs(spark: Any) -> Iterator[HdfsServer]:
    with store(HdfsServer, packages.DELTA) as server:
        yield server


def test_a_dump_is_built_on_hdfs_as_in_a_folder(spark: Any, hdfs: HdfsServer, tmp_path: Path) -> None:
    """The same rows; a second build finds nothing new, one beside another is refused, new records are added."""
    pairs = made.every_kind()
    made.write_dump(tmp_path / "dump", pairs, files=2)
    job.build(tmp_path / "dump", tmp_path / "tables", assignors=ASSIGNORS, spark=spark)
    dump, out = f"{hdfs.address}/kafka/dump", f"{hdfs.address}/kafka/tables"
    upload(spark, tmp_path / "dump", dump)
    assert job.build(dump, out, assignors=ASSIGNORS, spark=spark).whole
    same(spark, out, tmp_path / "tables")

    again = job.build(dump, out, assignors=ASSIGNORS, spark=spark)
    assert (again.whole, again.new_records, again.written) == ("", 0, ())
    with lake.opened(spark, locate(out), "delta"), pytest.raises(Unavailable, match="another build"):
        job.build(dump, out, assignors=ASSIGNORS, spark=spark)

    there = {state.name: state.rows for state in job.status(out, spark=spark)}
    assert there == {state.name: state.rows for state in job.status(tmp_path / "tables")}
    (tmp_path / "copy").mkdir()
    copy(out, tmp_path / "copy", spark=spark)
    here, far = load_histories(tmp_path / "tables"), load_histories(tmp_path / "copy")
    assert {name: group.raw for name, group in far.groups.items()} == {
        name: group.raw for name, group in here.groups.items()
    }
    assert job.rebuild(out, spark=spark).whole == "as asked"


def test_a_build_that_died_on_hdfs_is_put_back_by_the_next(spark: Any, hdfs: HdfsServer) -> None:
    place, name, table = locate(f"{hdfs.address}/kafka/changes"), "gold/commits", schemas.NEWEST

    def rows(*groups: str) -> Any:
        columns = dict.fromkeys(table.schema.names)
        full = [{**columns, "group": group, "topic": "t", "partition": 0, "committed": 1} for group in groups]
        return spark.createDataFrame(full, table.schema)

    with lake.opened(spark, place, "delta") as sink:
        sink.write(name, rows("a", "b"), table, 1)
        sink.publish()
    with lake.opened(spark, place, "delta") as sink:
        sink.write(name, rows("c"), table, 1)  # and gives up
    with lake.opened(spark, place, "delta") as sink:
        assert {row["group"] for row in sink.read(name).collect()} == {"a", "b"}
    newest = lake.tables_of(place, "delta").read(spark, name, None)
    assert {row["group"] for row in newest.collect()} == {"a", "b"}, "for who reads the newest version too"


def upload(spark: Any, folder: Path, target: str) -> None:
    """Put a folder's files there by Hadoop's own client, as ``hdfs dfs -put`` does."""
    path = spark._jvm.org.apache.hadoop.fs.Path
    files = path(target).getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    files.mkdirs(path(target).getParent())
    files.copyFromLocalFile(False, True, path(f"file://{folder}"), path(target))


def same(spark: Any, out: str, folder: Path) -> None:
    for name in schemas.TABLES:
        rows = spark.read.format("delta").load(f"{out}/{name}").toArrow()
        assert rows_of(rows) == rows_of(folder / name), name

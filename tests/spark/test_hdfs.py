"""Dumps and tables on a real HDFS: the rows of a local build, one build at a time, read without Spark.

The 58 MB of Hadoop that it takes come from Maven the first time, so it is left to ``make thorough``.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.spark import made
from tests.spark.conftest import rows_of
from tests.spark.stores import store
from tests.spark.test_capture import CHILD, commit, records
from tests.support.hdfs import HdfsServer

from apportion.errors import Unavailable
from apportion.sources.load_history import load_histories
from apportion.spark import job, lake, packages
from apportion.spark.arrow_rows import ROW
from apportion.spark.local_copy import copy
from apportion.spark.location import locate
from apportion.tables.schemas import NEWEST, TABLES, arrow_schema
from apportion.testing.broker import Broker
from apportion.testing.plugin import needs_java

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
    with lake.alone(spark, locate(out), "delta"), pytest.raises(Unavailable, match="another build"):
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


@pytest.mark.broker
def test_a_capture_to_hdfs_that_is_killed_goes_on_where_it_was(spark: Any, hdfs: HdfsServer, tmp_path: Path) -> None:
    """kill -9 while Spark streams to HDFS; then each record once, and tables as from a capture into a folder."""
    needs_java()
    dump, out = f"{hdfs.address}/captured/dump", f"{hdfs.address}/captured/tables"
    with Broker(properties={"offsets.topic.num.partitions": "5"}) as kafka:
        kafka.create_topic("t", 3)
        commit(kafka, "far", 200)
        command = [sys.executable, "-c", CHILD, kafka.bootstrap, dump, "connector"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            for line in child.stdout:
                if line.startswith("reading"):
                    break
            child.kill()
        job.capture(kafka.bootstrap, dump, source="connector", rows_a_batch=100, spark=spark)
        commit(kafka, "further", 5)
        last = job.capture(kafka.bootstrap, dump, spark=spark)
        job.capture(kafka.bootstrap, tmp_path / "calm", source="python", spark=spark)
    calm = records(tmp_path / "calm")
    order = [(name, "ascending") for name in ("partition", "offset")]
    far = spark.read.format("delta").load(f"{dump}/records").toArrow().sort_by(order)
    assert rows_of(far) == rows_of(calm)
    assert last.records == sum(1 for row in calm.to_pylist() if b"further" in row["key"])
    job.build(dump, out, assignors=ASSIGNORS, spark=spark)
    job.build(tmp_path / "calm", tmp_path / "tables", assignors=ASSIGNORS, spark=spark)
    commits = spark.read.format("delta").load(f"{out}/silver/commits").toArrow()
    assert rows_of(commits) == rows_of(tmp_path / "tables" / "silver" / "commits")


def test_a_build_that_died_on_hdfs_is_put_back_by_the_next(spark: Any, hdfs: HdfsServer) -> None:
    place, name = locate(f"{hdfs.address}/kafka/changes"), "gold/commits"

    def frames(*groups: str) -> list[Any]:
        columns = dict.fromkeys(arrow_schema(NEWEST).names)
        rows = [{**columns, "group": group, "topic": "t", "partition": 0, "committed": 1} for group in groups]
        batches = lake._handed_on(name, pa.Table.from_pylist(rows, arrow_schema(NEWEST)), "0")
        return [spark.createDataFrame(pa.Table.from_batches(batches), schema=ROW)]

    with lake.alone(spark, place, "delta") as made_first:
        made_first.write(name, frames("a", "b"), 2, None, True)
        made_first.publish()
    with lake.alone(spark, place, "delta") as dies:
        dies.write(name, frames("c"), 1, None, True)  # and gives up
    with lake.alone(spark, place, "delta") as put_back:
        published = put_back.read(name)
        assert published is not None
        assert {row["group"] for row in published.collect()} == {"a", "b"}
    newest = lake.tables_of(place, "delta").read(spark, name, None)
    assert {row["group"] for row in newest.collect()} == {"a", "b"}, "for who reads the newest version too"


def upload(spark: Any, folder: Path, target: str) -> None:
    """Put a folder's files there by Hadoop's own client, as ``hdfs dfs -put`` does."""
    path = spark._jvm.org.apache.hadoop.fs.Path
    files = path(target).getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    files.mkdirs(path(target).getParent())
    files.copyFromLocalFile(False, True, path(f"file://{folder}"), path(target))


def same(spark: Any, out: str, folder: Path) -> None:
    for name in TABLES:
        rows = spark.read.format("delta").load(f"{out}/{name}").toArrow()
        assert rows_of(rows) == rows_of(folder / name), name

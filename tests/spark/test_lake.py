"""Tables as Delta on a real S3 server, in a local folder, in a catalog: the same rows, one commit each, one build."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as sql
from tests.spark import made
from tests.spark.conftest import rows_of
from tests.spark.stores import reach, store

from apportion.errors import BadInput, Unavailable
from apportion.spark import delta_log, incremental, job, lake, lock, packages, schemas, shelves, sources
from apportion.spark.location import locate
from apportion.testing.s3 import S3Server

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


def test_tables_on_s3_have_the_rows_of_plain_parquet(spark: Any, local: Path, far: str) -> None:
    """Each value of each table; and each table is one commit."""
    for name in schemas.TABLES:
        frame = spark.read.format("delta").load(f"{far}/{name}")
        assert rows_of(frame.toArrow()) == rows_of(local / "tables" / name), name
    manifest = lake.Manifest.read(spark, lake.tables_of(locate(far), "delta"))
    assert manifest.versions == dict.fromkeys(schemas.TABLES, 0)


def test_tables_on_s3_are_read_by_other_engines(s3: S3Server, local: Path, far: str) -> None:
    """By deltalake, and by DuckDB through Arrow: no deletion vectors, no feature that they lack."""
    deltalake = pytest.importorskip("deltalake", reason="pip install 'apportion[delta]'")
    duckdb = pytest.importorskip("duckdb", reason="pip install duckdb")
    options = {**s3.environment, "AWS_ALLOW_HTTP": "true"}
    for name in schemas.TABLES:
        table = deltalake.DeltaTable(far.replace("s3a:", "s3:") + f"/{name}", storage_options=options)
        assert rows_of(table.to_pyarrow_table()) == rows_of(local / "tables" / name), name
        protocol = table.protocol()
        assert (protocol.min_reader_version, protocol.reader_features) == (1, None), name
    lag = deltalake.DeltaTable(far.replace("s3a:", "s3:") + "/gold/lag", storage_options=options).to_pyarrow_dataset()
    connection = duckdb.connect()
    connection.register("lag", lag)
    [(count,)] = connection.execute("SELECT count(*) FROM lag").fetchall()
    assert count == len(rows_of(local / "tables" / "gold/lag")) > 0


def test_a_catalog_holds_the_same_rows(spark: Any, local: Path) -> None:
    """As ``catalog.schema.silver_commits`` and so on; its locks are tables too, and none is left but the newest."""
    built = job.build(local / "dump", "spark_catalog.kafka", assignors=ASSIGNORS, spark=spark)
    for name in schemas.TABLES:
        frame = spark.table(f"spark_catalog.kafka.{name.replace('/', '_')}")
        assert rows_of(frame.toArrow()) == rows_of(local / "tables" / name), name
    assert built.rows == {state.name: state.rows for state in job.status("spark_catalog.kafka", spark=spark)}
    with pytest.raises(BadInput, match="no catalog named 'nowhere'"):
        job.build(local / "dump", "nowhere.kafka", spark=spark)
    shelf = shelves.CatalogShelf(spark, "spark_catalog.kafka", lake.LOCKS, "delta")
    assert sorted(shelf.names()) == ["000000001", "000000001.released"]


@pytest.fixture(scope="module")
def delta(spark: Any, local: Path) -> tuple[Path, job.Built]:
    """The same in a folder, as Delta tables."""
    out = local / "a [b] {c} * 100%"
    return out, job.build(local / "dump", out, form="delta", assignors=ASSIGNORS, spark=spark)


def test_delta_in_a_local_folder_holds_the_same_rows(spark: Any, local: Path, delta: tuple[Path, job.Built]) -> None:
    """Where it is asked for; plain Parquet is not written over it, and readers without Spark read it."""
    out, built = delta
    plain = {state.name: state.rows for state in job.status(local / "tables")}
    assert built.rows == plain
    deltalake = pytest.importorskip("deltalake", reason="pip install 'apportion[delta]'")
    for name in schemas.TABLES:
        rows = deltalake.DeltaTable(str(out / name)).to_pyarrow_table()
        assert rows_of(rows) == rows_of(local / "tables" / name), name
    with pytest.raises(BadInput, match="Delta tables"):
        job.build(local / "dump", out, spark=spark)


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_tables_of_an_older_version_are_made_anew_without_being_asked(
    spark: Any, local: Path, delta: tuple[Path, job.Built], form: str
) -> None:
    """A table that was not there, a column that was not there: the build says why it begins again, and all is there."""
    out = shutil.copytree(local / "tables" if form == "parquet" else delta[0], local / f"older-{form}")
    before = json.loads(_aged(out, form, spark))
    lines: list[str] = []
    built = job.build(local / "dump", out, form=form, assignors=ASSIGNORS, spark=spark, progress=lines.append)
    assert built.whole == f"another version made them: {before['version']}, this is {incremental.version()}"
    assert f"making everything anew: {built.whole}" in lines
    for name in schemas.TABLES:
        rows = spark.read.format(form).load(str(out / name)).toArrow()
        assert rows_of(rows) == rows_of(local / "tables" / name), name
    assert job.build(local / "dump", out, form=form, assignors=ASSIGNORS, spark=spark).written == ()


def _aged(out: Path, form: str, spark: Any) -> str:
    """Make of tables what a version left that had no gold/epochs, and a column less in gold/whatif; its build.json."""
    older = spark.read.format(form).load(str(out / "gold/whatif")).drop("lag_max_then").persist()
    assert older.count() > 0
    if form == "parquet":
        text = (out / incremental.STATE).read_text()
    else:
        tables = lake.tables_of(locate(out), form)
        manifest = lake.Manifest.read(spark, tables)
        text = manifest.texts[incremental.STATE]
    text = json.dumps({**json.loads(text), "version": "0.0.9, 1"})
    shutil.rmtree(out / "gold/epochs")
    if form == "parquet":
        shutil.rmtree(out / "gold/whatif")
        older.write.parquet(str(out / "gold/whatif"))
        (out / incremental.STATE).write_text(text)
    else:
        tables.overwrite("gold/whatif", older)
        del manifest.versions["gold/epochs"]
        manifest.versions["gold/whatif"] = lake.newest_version(spark, tables, "gold/whatif")
        manifest.texts[incremental.STATE] = text
        manifest.write(spark, tables)
    older.unpersist()
    return text


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
    source = sources.open_dump(spark, locate("s3a://lake/read-first"))
    spark._jvm.org.apache.hadoop.fs.FileSystem.closeAll()
    rows = source.records.collect()
    spark.createDataFrame(rows, source.records.schema).write.parquet("s3a://lake/written")
    assert spark.read.parquet("s3a://lake/written").count() == len(rows) == len(RECORDS)


def test_changes_of_a_table_on_s3_are_one_commit_each(spark: Any, s3: S3Server, monkeypatch: Any) -> None:
    """Rows added, rows of some groups replaced by a merge or anew, in one version; until published nobody is told."""
    table = schemas.NEWEST
    place, name = locate("s3a://lake/changes"), "gold/commits"

    def commits(*rows: tuple[str, int, int]) -> Any:
        columns = {field.name: None for field in table.schema}
        full = [{**columns, "group": g, "topic": "t", "partition": p, "committed": c} for g, p, c in rows]
        return spark.createDataFrame(full, table.schema)

    def seen(frame: Any) -> list[tuple[str, int, int]]:
        return sorted((row["group"], row["partition"], row["committed"]) for row in frame.collect())

    touched = spark.createDataFrame([("a",), ("c",), ("gone",)], "group string")
    with lake.opened(spark, place, "delta") as sink:
        assert sink.read(name) is None
        sink.write(name, commits(("a", 0, 1), ("a", 1, 2), ("b", 0, 3)), table, 1)
        sink.publish()
    for few in (10**9, 0):  # written anew; merged
        monkeypatch.setattr(lake, "_MERGE_ROWS", few)
        with lake.opened(spark, place, "delta") as sink:
            before = seen(sink.read(name))
            sink.replace_groups(name, commits(("a", 1, 9), ("c", 0, 5)), touched, table, 1)
            assert seen(sink.now(name)) == [("a", 1, 9), ("b", 0, 3), ("c", 0, 5)]
            assert seen(sink.read(name)) == before, "what is not published is not read"
            sink.publish()
            assert seen(sink.read(name)) == [("a", 1, 9), ("b", 0, 3), ("c", 0, 5)]
    with lake.opened(spark, place, "delta") as sink:
        sink.append(name, commits(("d", 0, 1)), table, 1)
        sink.keep("note", "kept")
        sink.publish()
    tables = lake.tables_of(place, "delta")
    assert lake.newest_version(spark, tables, name) == 3
    with lake.opened(spark, place, "delta") as sink:
        sink.write(name, commits(), table, 1)  # and gives up
    with lake.opened(spark, place, "delta") as sink:
        assert sink.text("note") == "kept"
        assert len(seen(tables.read(spark, name, None))) == 4, "put back, for who reads the newest version too"
        assert len(seen(sink.read(name))) == 4


@pytest.mark.parametrize("most", [10**9, 0], ids=["put together here", "merged"])
def test_rows_of_this_process_replace_those_of_some_groups_in_one_commit(
    spark: Any, s3: S3Server, monkeypatch: Any, most: int
) -> None:
    """A group that changes, one that comes, one that goes; where nothing changes there is no commit."""
    table, name, place = schemas.NEWEST, "gold/commits", locate(f"s3a://lake/here-{most}")
    monkeypatch.setattr(lake, "_HERE_ROWS", most)
    monkeypatch.setattr(lake, "_MERGE_ROWS", 0)

    def commits(*rows: tuple[str, int]) -> pa.Table:
        full = [{"group": group, "topic": "t", "partition": 0, "committed": committed} for group, committed in rows]
        return pa.Table.from_pylist(full, schema=schemas.arrow_schema(table))

    def groups(*names: str) -> pa.Table:
        return pa.table({"group": pa.array(names, pa.string())})

    def seen(frame: Any) -> list[tuple[str, int]]:
        return sorted((row["group"], row["committed"]) for row in frame.collect())

    with lake.opened(spark, place, "delta") as sink:
        sink.write(name, commits(("b", 3), ("a", 1), ("c", 2)), table, 1)
        sink.publish()
    with lake.opened(spark, place, "delta") as sink:
        sink.replace_groups(name, commits(("a", 9), ("d", 5)), groups("a", "c", "d"), table, 1)
        assert seen(sink.now(name)) == [("a", 9), ("b", 3), ("d", 5)]
        assert seen(sink.read(name)) == [("a", 1), ("b", 3), ("c", 2)], "what is not published is not read"
        some = sink.rows_with(name, "group", ["a", "b"], ["group", "committed"])
        assert some is not None
        assert sorted(zip(*some.to_pydict().values(), strict=True)) == [("a", 9), ("b", 3)], "what was written is read"
        words = sink.rows_with(name, "", None, ["group", "committed"], words=True)
        assert words is not None
        assert pa.types.is_dictionary(words["group"].type)
        assert sorted(zip(*words.to_pydict().values(), strict=True)) == [("a", 9), ("b", 3), ("d", 5)]
        sink.publish()
    with lake.opened(spark, place, "delta") as sink:
        sink.replace_groups(name, commits(), groups("nobody"), table, 1)
        assert seen(sink.now(name)) == [("a", 9), ("b", 3), ("d", 5)]
        assert name not in sink.written or not most
    history = spark.sql(f"DESCRIBE HISTORY {lake.tables_of(place, 'delta').quoted(name)}").collect()
    assert [row["operation"] for row in history][-2:] == ["WRITE" if most else "MERGE", "WRITE"]


def test_a_log_says_what_spark_says_of_its_table(spark: Any, s3: S3Server) -> None:
    """At every version that is known, through checkpoints too; a form that is not known is left to Spark."""
    root = "s3a://lake/logs"
    path = f"{root}/t"
    for turn in range(13):  # a checkpoint after ten
        frame = spark.range(turn, turn + 3).withColumn("group", sql.col("id").cast("string"))
        frame.coalesce(1).write.format("delta").mode("append" if turn % 4 else "overwrite").save(path)
        if turn in (3, 9, 11):
            spark.sql(f"DELETE FROM delta.`{path}` WHERE id = {turn}")  # noqa: S608 - ours
        if turn == 7:
            before = delta_log.logs_of(spark, root)
            seven = before.newest("t")
    fresh = delta_log.logs_of(spark, root)
    for logs in (before, fresh):
        version = logs.newest("t")
        [last] = spark.sql(f"DESCRIBE HISTORY delta.`{path}` LIMIT 1").collect()
        detail = spark.sql(f"DESCRIBE DETAIL delta.`{path}`").first()
        assert version is not None
        assert version.number == last["version"] == 15
        assert (len(version.files), version.size) == (detail["numFiles"], detail["sizeInBytes"])
        assert version.rows == spark.read.format("delta").load(path).count()
        copies = logs.copies("t", None)
        assert copies is not None
        ids = sorted(pa.concat_tables(map(pq.read_table, copies))["id"].to_pylist())
        assert ids == sorted(row["id"] for row in spark.read.format("delta").load(path).collect())
        assert logs.copies("t", None, bytes_max=version.size - 1) is None
    assert seven is not None
    assert before.at("t", seven.number) == seven
    assert seven.rows == spark.read.format("delta").option("versionAsOf", seven.number).load(path).count()
    assert fresh.at("t", 1) is None, "before the checkpoint"
    for number in range(10, 16):
        old = fresh.at("t", number)
        assert old is not None
        assert old.number == number
        assert old.rows == spark.read.format("delta").option("versionAsOf", number).load(path).count()
    assert fresh.newest("nothing") is None
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')")
    timed = fresh.newest("t")
    assert timed is not None
    assert (version.writable, timed.readable, timed.writable) == (True, True, False)
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 13")  # noqa: S608 - ours
    marked = fresh.newest("t")
    assert marked is not None
    assert not marked.readable
    assert marked.rows is None, "the log counts rows that are deleted, too"
    assert fresh.copies("t", None) is None


def test_groups_and_histories_are_read_from_a_uri(spark: Any, local: Path, far: str, tmp_path: Path) -> None:
    """The same as from the folder, of all groups or of one alone."""
    from apportion.inputs.load_history import load_histories
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

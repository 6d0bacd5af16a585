"""Tables are published whole or not at all, in the same bytes each time."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame
from tests.spark import made

from apportion.errors import BadInput, Unavailable
from apportion.spark import decode, errors, files, incremental, job, schemas, session, sinks, sources
from apportion.spark.bundles import Bundled


def bytes_of(root: Path) -> dict[str, bytes]:
    """Every visible file below a folder."""
    found = ((str(file.relative_to(root)), file) for file in root.rglob("*") if file.is_file())
    return {name: file.read_bytes() for name, file in found if not name.startswith(".")}


def written(root: Path, name: str, text: str, publish: bool) -> None:
    with sinks.parquet(root) as sink:
        stage = sink.staging / "new" / name
        stage.mkdir(parents=True)
        (stage / "part.parquet").write_text(text)
        sink.written.append(name)
        if publish:
            sink.publish()


def test_a_table_is_replaced_only_by_a_whole_one(tmp_path: Path) -> None:
    """What was staged and not published is forgotten; what is published leaves nothing of the old one."""
    written(tmp_path, "silver/commits", "old", publish=True)
    written(tmp_path, "silver/commits", "half", publish=False)
    assert bytes_of(tmp_path) == {"silver/commits/part.parquet": b"old"}
    written(tmp_path, "silver/commits", "new", publish=True)
    assert bytes_of(tmp_path) == {"silver/commits/part.parquet": b"new"}
    assert not list(tmp_path.glob(f"{sinks.STAGING}*"))


@pytest.mark.parametrize("died_after", range(5))
def test_a_run_that_died_while_publishing_is_finished_by_the_next(tmp_path: Path, died_after: int) -> None:
    """At every point between the renames: old or new table by table, and all new after recovery."""
    names = ["silver/a", "gold/b"]
    for name in names:
        written(tmp_path, name, "old", publish=True)
    staging = tmp_path / f"{sinks.STAGING}x"
    for name in names:
        (staging / "new" / name).mkdir(parents=True)
        (staging / "new" / name / "part.parquet").write_text("new")
    (staging / "publish.json").write_text(json.dumps(names))
    moves = [(tmp_path / n, staging / "old" / n, staging / "new" / n) for n in names]
    steps = [step for place, old, fresh in moves for step in ((place, old), (fresh, place))]
    for source, target in steps[:died_after]:
        target.parent.mkdir(parents=True, exist_ok=True)
        os.rename(source, target)
    sinks.recover(tmp_path)
    assert bytes_of(tmp_path) == {f"{name}/part.parquet": b"new" for name in names}
    assert not staging.exists()


def test_two_runs_into_one_folder_are_refused(tmp_path: Path) -> None:
    """The second says so and touches nothing; when the first has ended the folder is free, and holds no lock."""
    with sinks.parquet(tmp_path), pytest.raises(Unavailable, match="another run"), sinks.parquet(tmp_path):
        pass
    with sinks.parquet(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_of_many_runs_one_at_a_time_has_the_folder(tmp_path: Path) -> None:
    """Though each takes its lock's file away: four threads take turns, and never two are inside."""
    inside, most, turns = 0, 0, 0

    def run(_: int) -> None:
        nonlocal inside, most, turns
        for _ in range(150):
            try:
                with sinks._alone(tmp_path):
                    inside += 1
                    most = max(most, inside)
                    time.sleep(0.0002)
                    inside -= 1
                    turns += 1
            except Unavailable:
                time.sleep(0.0001)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(4)))
    assert most == 1
    assert turns > 10


def test_a_run_that_makes_nothing_leaves_no_folder(tmp_path: Path) -> None:
    """Unless it was there before."""
    for folder, stays in ((tmp_path / "new", False), (tmp_path, True)):
        with pytest.raises(Unavailable), sinks.parquet(folder):
            raise Unavailable("something")
        assert folder.exists() is stays


def test_a_small_file_is_published_with_the_tables(tmp_path: Path) -> None:
    """So that what tells of the tables is never that of others."""
    for text in ("one", "two"):
        with sinks.parquet(tmp_path) as sink:
            sink.keep("source.json", text)
            assert not (tmp_path / "source.json").exists() or (tmp_path / "source.json").read_text() == "one"
            sink.publish()
        assert bytes_of(tmp_path) == {"source.json": text.encode()}


def test_delta_and_plain_tables_are_never_mixed(tmp_path: Path) -> None:
    """In a folder with both, who reads every file would see each row twice."""
    written(tmp_path, "silver/commits", "plain", publish=True)
    sinks.check_form(tmp_path, "parquet")
    with pytest.raises(BadInput, match="found plain Parquet tables"):
        sinks.check_form(tmp_path, "delta")
    (tmp_path / "silver" / "commits" / "_delta_log").mkdir()
    sinks.check_form(tmp_path, "delta")
    with pytest.raises(BadInput, match="found Delta tables; needed --format delta"):
        sinks.check_form(tmp_path, "parquet")


def test_a_file_where_the_folder_should_be_is_said(tmp_path: Path) -> None:
    """One sentence, no traceback."""
    (tmp_path / "out").write_text("")
    with pytest.raises(BadInput, match="folder"), sinks.parquet(tmp_path / "out"):
        pass


def test_days_get_their_own_files(tmp_path: Path) -> None:
    """Rows sorted by day are cut where the day changes, and a file without rows still shows its columns."""
    schema = pa.schema([("n", pa.int32())])
    days = pa.array(["2026-01-01"] * 3 + ["2026-01-02"] * 2)
    batch = pa.RecordBatch.from_arrays([days, pa.array(range(5), pa.int32())], ["_day", "n"])
    made_files = [
        row for out in files.writing(tmp_path, schema, "_day")([batch, batch.slice(3)]) for row in out.to_pylist()
    ]
    assert [(row["file"], row["rows"]) for row in made_files] == [
        ("2026-01-01-00000.parquet", 3),
        ("2026-01-02-00000.parquet", 4),
    ]
    assert pq.read_table(tmp_path / "2026-01-02-00000.parquet")["n"].to_pylist() == [3, 4, 3, 4]
    files.write_empty(tmp_path / "empty.parquet", schema)
    assert pq.read_table(tmp_path / "empty.parquet").schema == schema


def silver(spark: Any, dump: Path, out: Path) -> None:
    """The silver tables of a dump, published."""
    with sinks.parquet(out) as sink:
        records = decode.deduplicate(sources.read_dump(spark, dump).records)
        tables = {
            "silver/commits": decode.commits(records),
            "silver/generations": decode.generations(records),
            "silver/epochs": decode.epochs(records),
            "silver/rejects": decode.rejects(records),
            "silver/gaps": decode.gaps(records),
        }
        for name, frame in tables.items():
            sink.write(name, frame, schemas.TABLES[name], 2)
        three: Any = [sink.now(f"silver/{n}") for n in ("commits", "generations", "epochs")]
        sink.write("silver/counts", decode.counts(three[0], three[1], three[2], records), schemas.COUNTS, 1)
        sink.publish()


@pytest.mark.spark
def test_silver_holds_each_record_once_in_the_same_bytes_every_time(spark: Any, tmp_path: Path) -> None:
    """Whatever the order of the rows and the number of files; types and names are those of the schemas."""
    pairs = made.every_kind() * 20
    one = made.write_dump(tmp_path / "one", pairs, files=1)
    silver(spark, one, tmp_path / "a")
    silver(spark, one, tmp_path / "b")
    records = [pq.read_table(one / "records").slice(n * 300, 300) for n in range(-(-len(pairs) // 300))]
    other = made.write_dump(tmp_path / "other", [])
    for number, piece in enumerate(reversed(records)):
        pq.write_table(piece, other / "records" / f"part-{number}.parquet")
    silver(spark, other, tmp_path / "c")
    assert bytes_of(tmp_path / "a") == bytes_of(tmp_path / "b") == bytes_of(tmp_path / "c")
    total = 0
    for name in ("commits", "generations", "epochs", "rejects", "counts", "gaps"):
        table = pq.read_table(tmp_path / "a" / "silver" / name)
        assert table.schema.equals(schemas.arrow_schema(schemas.TABLES[f"silver/{name}"]))
        if name == "counts":
            total += sum(table["records"].to_pylist())
        if name == "rejects":
            assert table.num_rows == 20 * len(made.BAD)
            total += table.num_rows
    assert total == len(pairs)
    assert (tmp_path / "a" / "silver" / "commits" / "2025-11-21-00000.parquet").exists()


@pytest.mark.spark
def test_a_dump_is_read_as_people_store_it(spark: Any, tmp_path: Path) -> None:
    """Nanoseconds, times without a zone, 64-bit numbers and large strings, file by file."""
    dump = made.write_dump(tmp_path / "d", [made.commit(i) for i in range(40)], files=4)
    first, second, third, _ = sorted((dump / "records").glob("*.parquet"))
    rewrite(first, "timestamp", pa.timestamp("ns", tz="UTC"))
    rewrite(second, "timestamp", pa.timestamp("ms"))
    rewrite(third, "partition", pa.int64())
    rewrite(third, "topic", pa.large_string())
    ends = pq.read_table(dump / "ends.parquet")
    (dump / "ends.parquet").unlink()
    (dump / "ends.parquet").mkdir()
    for number in range(2):
        pq.write_table(ends.slice(2 * number, 2), dump / "ends.parquet" / f"part-{number}.parquet")
    pq.write_table(
        pa.table({"topic": ["t"], "topic_id": pa.nulls(1), "partition": [0], "racks": [[None]]}),
        dump / "topics.parquet",
    )
    there = sources.read_dump(spark, dump)
    assert there.ends.count() == ends.num_rows
    assert [tuple(row) for row in there.topics.collect()] == [("t", None, 0, [None])]
    rows = sorted(sources.read_dump(spark, dump).records.select("partition", "offset", "timestamp").collect())
    start = datetime.fromtimestamp(made.START_MS / 1000, UTC)
    expected = sorted((i % 3, i // 3, (start + timedelta(seconds=i)).timestamp()) for i in range(40))
    assert [(p, o, t.astimezone(UTC).timestamp()) for p, o, t in rows] == expected


def rewrite(file: Path, column: str, kind: pa.DataType) -> None:
    """A file with one column in another type."""
    table = pq.read_table(file)
    place = table.schema.get_field_index(column)
    pq.write_table(table.set_column(place, column, table[column].cast(kind)), file)


@pytest.mark.spark
def test_a_dump_that_spark_cannot_reach_is_named_and_not_the_tables(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"^s3://bucket/dump: Spark reads and writes S3 as s3a://"):
        job.build("s3://bucket/dump", tmp_path / "out", spark=spark)
    with pytest.raises(Unavailable, match=r"no driver for gs://bucket/dump;"):
        job.build("gs://bucket/dump", tmp_path / "out", spark=spark)


def test_what_is_no_dump_is_said_in_one_sentence(spark: Any, tmp_path: Path) -> None:
    """A folder without records, a cut file, a wrong type, a missing column, missing ends: each names the place."""
    whole = made.write_dump(tmp_path / "whole", [made.commit(i) for i in range(9)])
    file = whole / "records" / "part-0.parquet"

    def complains(words: str, change: Any) -> None:
        shutil.rmtree(tmp_path / "bad", ignore_errors=True)
        shutil.copytree(whole, tmp_path / "bad")
        change(tmp_path / "bad")
        with pytest.raises(BadInput, match=words) as raised:
            sources.read_dump(spark, tmp_path / "bad")
        assert "\n" not in str(raised.value)

    raw = file.read_bytes()
    complains("no folder records", lambda d: shutil.rmtree(d / "records"))
    complains("no such folder", shutil.rmtree)
    complains("part-0.parquet: found no whole Parquet", lambda d: (d / "records/part-0.parquet").write_bytes(raw[:-20]))
    complains("part-1.parquet, column key", lambda d: rewrite(d / "records/part-1.parquet", "key", pa.string()))
    complains(
        "column offset: found type string", lambda d: rewrite(d / "records/part-1.parquet", "offset", pa.string())
    )
    complains("found no ends.parquet", lambda d: (d / "ends.parquet").unlink())
    complains(
        "column partition: found no such column",
        lambda d: pq.write_table(pa.table({"topic": ["t"]}), d / "ends.parquet"),
    )


@pytest.mark.spark
def test_records_that_stand_twice_count_once_unless_they_differ(spark: Any, tmp_path: Path) -> None:
    """Two copies of a file are one; two clusters in a folder are refused."""
    dump = made.write_dump(tmp_path / "d [1] {a,b} * 100%", [made.commit(i) for i in range(30)], files=1)
    shutil.copy(dump / "records/part-0.parquet", dump / "records/copy.parquet")
    assert decode.deduplicate(sources.read_dump(spark, dump).records).count() == 30
    other = made.write_dump(tmp_path / "o", [made.commit(i + 1) for i in range(30)], files=1)
    shutil.copy(other / "records/part-0.parquet", dump / "records/copy.parquet")
    with pytest.raises(BadInput, match="two different records"):
        decode.deduplicate(sources.read_dump(spark, dump).records)


@pytest.mark.spark
def test_commits_are_light_unless_one_is_so_large_that_a_batch_of_them_would_not_fit(
    spark: Any, tmp_path: Path
) -> None:
    """A group's record may be as large as it likes: only commits are dealt by rows alone. Both ways give one table."""
    group = made.generation(1, members=[f"member-{i}" for i in range(200)])
    light = [made.commit(i) for i in range(30)]
    heavy = [made.commit(30 + i, metadata="x" * 30_000) for i in range(3)]
    looked = {}
    for name, records in (("light", [*light, group]), ("heavy", [*light, group, *heavy])):
        dump = made.write_dump(tmp_path / name, records, files=2)
        records_of = sources.read_dump(spark, dump).records
        seen = looked[name] = decode.scan(records_of)
        roomy = decode.commits(sources.read_dump(session.by_rows(spark), dump).records)
        assert sorted(map(tuple, roomy.collect())) == sorted(map(tuple, decode.commits(records_of).collect()))
        assert seen.largest_commit == max(len(key) + len(value) for key, value in records if record_type(key) < 2)  # type: ignore[arg-type]
    assert looked["light"].light
    assert not looked["heavy"].light


@pytest.mark.spark
def test_every_table_is_made_of_the_same_files_while_a_capture_goes_on(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commits are read by another session, later: they must not have what no other table knows of."""
    dump = made.write_dump(tmp_path / "d", [made.commit(i) for i in range(30)], files=1)
    more = made.write_dump(tmp_path / "m", [made.commit(i) for i in range(40)], files=1)
    look = decode.scan

    def look_while_captured(records: Any) -> decode.Seen:
        shutil.copy(more / "records/part-0.parquet", dump / "records/part-1.parquet")
        return look(records)

    monkeypatch.setattr(decode, "scan", look_while_captured)
    source = sources.read_dump(spark, dump)
    by_spark = job._steps(replace(source, files=None), 0, None, "drop")["silver/commits"]({})
    assert isinstance(by_spark, DataFrame)
    assert by_spark.count() == 30
    steps = job._steps(source, 0, None, "drop")  # the second file is there already
    here = steps["silver/commits"]({})
    assert isinstance(here, Bundled)
    assert here.rows().count() == 30


@pytest.mark.spark
def test_batches_by_rows_have_few_whatever_the_session_was_told(spark: Any) -> None:
    """Of rows without a limit not even small ones fit."""
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    settings = spark.sparkContext._jsc.sc().conf()  # what a cluster's own file of settings fills
    settings.set(name, "0")
    try:
        assert spark.newSession().conf.get(name) == "0"
        assert session.by_rows(spark).conf.get(name) == "10000"
    finally:
        settings.remove(name)


def record_type(key: bytes) -> int:
    return int.from_bytes(key[:2], "big")


@pytest.mark.spark
def test_gaps_are_the_offsets_without_a_record(spark: Any, tmp_path: Path) -> None:
    """At the beginning and in between, partition by partition."""
    dump = made.write_dump(tmp_path / "d", [made.commit(i) for i in range(30)], files=1)
    file = dump / "records/part-0.parquet"
    table = pq.read_table(file)
    keep = [i for i in range(30) if i // 3 not in (0, 5, 6) or i % 3 != 1]
    pq.write_table(table.take(keep), file)
    found = sorted(tuple(row) for row in decode.gaps(sources.read_dump(spark, dump).records).collect())
    assert found == [(1, -1, 1, 1), (1, 4, 7, 2)]


def small_disk(size: str, commands: str) -> subprocess.CompletedProcess[str]:
    """Run Python with /mnt a tmpfs of a size, in a mount namespace of its own."""
    script = f"mount -t tmpfs -o size={size} none /mnt && exec {sys.executable} -c '{commands}'"
    return subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, check=False)


@pytest.mark.skipif(
    not shutil.which("unshare") or small_disk("1m", "pass").returncode != 0,
    reason="a small disk needs the right to mount one: run the tests as root",
)
def test_a_full_disk_is_one_sentence_and_the_old_table_stays(tmp_path: Path) -> None:
    """ENOSPC while a table is being staged."""
    code = """
import pathlib
from apportion.spark import errors, files, sinks
import pyarrow as pa, os
root = pathlib.Path("/mnt/out")
schema = pa.schema([("b", pa.binary())])
try:
    with errors.plainly(root), sinks.parquet(root) as sink:
        stage = sink.staging / "new" / "t"
        stage.mkdir(parents=True)
        batches = (pa.RecordBatch.from_arrays([pa.array([os.urandom(200000)] * 1)], schema=schema) for _ in range(20))
        list(files.writing(stage, schema, None)(batches))
except Exception as error:
    print(type(error).__name__, error)
print(sorted(p.name for p in root.rglob("*")))
"""
    done = small_disk("1m", code)
    said = done.stdout.splitlines()
    assert said[0].startswith("Unavailable the disk that holds /mnt/out is full"), done.stderr
    assert said[1] == "[]"


def test_java_errors_become_sentences() -> None:
    """The ones that people meet."""
    for text, words in (
        ("java.io.IOException: No space left on device", "is full"),
        ("org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized to access topics", "may not read"),
        ("java.nio.file.AccessDeniedException: /x", "may not be written"),
        (
            "[FAILED_READ_FILE.NO_HINT] error while reading file file:///d/a%20b.parquet. SQLSTATE",
            "/d/a%20b.parquet cannot",
        ),
        ('UnsupportedFileSystemException: No FileSystem for scheme "s3"', "/out: Spark reads and writes S3 as s3a://"),
        ('UnsupportedFileSystemException: No FileSystem for scheme "gs"', "Spark has no driver for /out"),
        ("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: delta. SQLSTATE: 42K02", "no Delta"),
        (
            "UnknownHostException; NoSuchBucket: The specified bucket does not exist (Status Code: 404)",
            "no such bucket",
        ),
        ("AccessDeniedException: s3a://b: InvalidAccessKeyId: The key you provided (Status Code: 403)", "the keys"),
        ("[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9", "another version"),
        ('java.io.IOException: Cannot run program "python3": error=2', "no Python where"),
        ("ModuleNotFoundError: No module named 'pyarrow'", "lacks NumPy or pyarrow"),
        ("x\nCaused by: java.lang.Foo: the inner reason\n\tat y", "the inner reason"),
    ):
        assert words in errors.sentence(RuntimeError(text), "/out")


def test_a_desktops_own_files_beside_those_of_a_table_are_left_alone(tmp_path: Path) -> None:
    """As readers leave them out; a folder that holds nothing else has no table, and ``status`` says that."""
    table, rows = (
        schemas.TABLES["silver/counts"],
        [{"key_type": 1, "value_version": 1, "tombstone": False, "records": 1}],
    )
    counts = pa.Table.from_pylist(rows, schema=schemas.arrow_schema(table))
    with sinks.parquet(tmp_path) as sink:
        sink.write("silver/counts", counts, table, 1)
        sink.publish()
    (tmp_path / "silver/gaps").mkdir()
    for name in ("silver/counts", "silver/gaps"):
        (tmp_path / name / "._part-00000.parquet").write_bytes(b"no Parquet")
        (tmp_path / name / "_part-00000.parquet").write_bytes(b"no Parquet")
    assert [(one.name, one.rows, one.files) for one in job.status(tmp_path)] == [("silver/counts", 1, 1)]
    with sinks.parquet(tmp_path) as sink:
        assert sink.names() == {"silver/counts"}
        assert sink.rows_with("silver/counts", "", None) == counts
        sink.append("silver/counts", counts, table, 1)
        assert sink.rows_with("silver/counts", "", None) == pa.concat_tables([counts, counts])


@pytest.mark.parametrize("name", ["build.json", "source.json", f"{sinks.STAGING}x/publish.json"])
def test_a_text_that_the_disk_lost_is_no_text_or_a_sentence(tmp_path: Path, name: str) -> None:
    """A build that finds no word of the one before makes everything anew; what was to be moved is for a person."""
    written(tmp_path, "silver/commits", "old", publish=True)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(b"\xff\xfe\x00")
    if name.endswith("publish.json"):
        with pytest.raises(BadInput, match=r"publish\.json: found what no run wrote"), sinks.parquet(tmp_path):
            pass
        return
    with sinks.parquet(tmp_path) as sink:
        assert incremental.BuildState.from_text(sink.text(name)) is None


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["Invalid maximum heap size: -Xmxabc", "Error: Could not create the Java Virtual Machine.",
          "Error: A fatal exception has occurred. Program will exit."], "Invalid maximum heap size: -Xmxabc"),
        (["# There is insufficient memory for the Java Runtime Environment to continue.", "# An error report file is"],
         "# There is insufficient memory for the Java Runtime Environment to continue."),
        (["java.lang.Foo: what", "\tat x"], "\tat x"),
        ([], "the last word"),
    ],
)  # fmt: skip
def test_why_java_did_not_start_is_told_by_the_line_that_says_it(lines: list[str], reason: str) -> None:
    assert session._reason(lines, RuntimeError("the last word\nmore")) == reason


@pytest.mark.spark
def test_a_table_takes_more_rows_and_new_rows_of_some_groups(spark: Any, tmp_path: Path) -> None:
    """Appended files stand beside the old ones, which stay as they are; other groups keep their rows."""

    def commits_of(*groups: str, offset: int) -> Any:
        pairs = [made.commit(offset + i, group=group) for i, group in enumerate(groups)]
        dump = made.write_dump(tmp_path / f"d{offset}", pairs, files=1)
        return decode.commits(sources.read_dump(spark, dump).records)

    def turn(change: Callable[[sinks.ParquetSink], Any]) -> list[tuple[str, int]]:
        with sinks.parquet(tmp_path / "t") as sink:
            sink.reader = lambda: spark
            change(sink)
            now = sink.now("silver/commits")
            assert now is not None
            staged = sorted((r.group, r.committed) for r in now.collect())
            sink.publish()
            published = sink.read("silver/commits")
            assert published is not None
            assert sorted((r.group, r.committed) for r in published.collect()) == staged
        return staged

    with sinks.parquet(tmp_path / "t") as sink:
        assert sink.read("silver/commits") is None
    table = ("silver/commits", schemas.COMMITS)
    name, schema = table
    assert turn(lambda sink: sink.append(name, commits_of("a", "b", offset=0), schema, 1)) == [("a", 0), ("b", 1)]
    first = bytes_of(tmp_path / "t")
    assert turn(lambda sink: sink.append(name, commits_of("a", offset=10), schema, 1))[1] == ("a", 10)
    assert first.items() < bytes_of(tmp_path / "t").items()
    touched = spark.createDataFrame([("a",), ("gone",)], "group string")
    new = commits_of("a", offset=20)
    assert turn(lambda sink: sink.replace_groups(name, new, touched, schema, 1)) == [("a", 20), ("b", 1)]
    for turns in range(sinks.PIECES + 2):
        rows = turn(lambda sink, n=turns: sink.append(name, commits_of("c", offset=100 + n), schema, 1))
    assert len(rows) == 2 + sinks.PIECES + 2
    assert len(list((tmp_path / "t" / "silver/commits").glob("*.parquet"))) < 4, "many small pieces were made one"


def test_nothing_is_published_before_it_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file, and the folder that names it, is synced before the rename that shows it; the journal goes last."""
    steps: list[tuple[str, str]] = []
    real_sync, real_replace, real_rename = os.fsync, os.replace, os.rename

    def note(step: str, path: Any) -> None:
        steps.append((step, str(Path(path)).replace(str(tmp_path), "").replace(staging, "S")))

    def fsync(handle: int) -> None:
        note("sync", os.readlink(f"/proc/self/fd/{handle}"))
        real_sync(handle)

    def replace(source: Any, target: Any) -> None:
        note("rename", target)
        real_replace(source, target)

    def rename(source: Any, target: Any) -> None:
        note("rename", target)
        real_rename(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    monkeypatch.setattr(os, "rename", rename)
    schema = pa.schema([("n", pa.int64())])
    with sinks.parquet(tmp_path) as sink:
        staging = sink.staging.name
        stage = sink._stage("silver/a")
        list(files.writing(stage, schema, None)(iter([pa.record_batch({"n": [1]}, schema=schema)])))
        sink.written.append("silver/a")
        files.sync(stage)
        sink.keep("source.json", "{}")
        sink.publish()
    moved = steps.index(("rename", "/silver/a"))
    assert steps.index(("sync", "/S/new/silver/a/.0-0")) < steps.index(("rename", "/S/new/silver/a/part-00000.parquet"))
    assert steps.index(("rename", "/S/new/silver/a/part-00000.parquet")) < steps.index(("sync", "/S/new/silver/a"))
    for before in ("/S/new/silver/a", "/S/new/silver", "/S/new/source.json", "/S/new", "/S/publish.json.draft", "/S"):
        assert steps.index(("sync", before)) < moved, before
    assert {path for step, path in steps[moved:] if step == "sync"} == {"/silver", ""}

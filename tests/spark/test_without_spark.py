"""What is new in Delta tables on S3 and on this disk is built by this process alone: same rows, one commit each."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark import traps
from tests.spark.conftest import rows_of
from tests.spark.stores import copied, reach, rows_in, store
from tests.spark.test_incremental import SETTINGS, Growing

from apportion.errors import BadInput, Unavailable
from apportion.inputs.load_history import load_histories
from apportion.spark import commits, delta_log, job, lake, lock, packages, session, shelves, stores
from apportion.spark.local_copy import copy
from apportion.spark.location import Location, locate
from apportion.spark.schemas import TABLES
from apportion.testing.s3 import S3Server

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1500)]
deltalake = pytest.importorskip("deltalake", reason="pip install 'apportion[delta]'")
Rows = dict[str, list[str]]


@pytest.fixture(scope="module")
def s3(spark: Any) -> Iterator[S3Server]:
    """An S3 server that the session of all tests reaches, and this process by its environment."""
    with store(S3Server, packages.DELTA, packages.S3A) as server, pytest.MonkeyPatch.context() as patch:
        reach(spark, server)
        for name, value in server.environment.items():
            patch.setenv(name, value)
        patch.delenv("APPORTION_SPARK_CONF", raising=False)
        yield server


@pytest.fixture(scope="module")
def growing(tmp_path_factory: pytest.TempPathFactory) -> Growing:
    """A dump of which a half was built."""
    folder = tmp_path_factory.mktemp("growing")
    dump = Growing(traps.write(folder / "traps"), folder / "dump", 6)
    dump.grow(0.4)
    return dump


@pytest.fixture(scope="module")
def old(spark: Any, s3: S3Server, growing: Growing) -> Rows:
    """The tables of that half, made by Spark: on S3 below ``base``, and as Delta in a folder; then the dump grows."""
    s3.upload(growing.folder, "dump")
    job.build("s3a://lake/dump", "s3a://lake/base", spark=spark, **SETTINGS)
    job.build(growing.folder, growing.folder.parent / "base", form="delta", spark=spark, **SETTINGS)
    before = published("s3://lake/base", s3)
    growing.grow(1.0)
    growing.describe(7)
    s3.upload(growing.folder, "dump")
    reach(spark, s3)  # its driver remembers the tags of objects that were written anew since
    return before


@pytest.fixture(scope="module")
def new(spark: Any, growing: Growing, old: Rows) -> Rows:
    """The rows of a full build of all there is, by Spark in plain files."""
    out = growing.folder.parent / "fresh"
    job.build(growing.folder, out, spark=spark, **SETTINGS)
    return {name: rows_of(out / name) for name in TABLES}


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody starts a Spark."""

    def refused(*args: Any, **named: Any) -> NoReturn:
        raise AssertionError("Spark is not needed")

    monkeypatch.setattr(session, "session", refused)
    monkeypatch.setattr(session, "java", refused)


def published(place: str, s3: S3Server) -> Rows:
    """The rows of each table in the versions that belong together."""
    options = {**s3.environment, "AWS_ALLOW_HTTP": "true"}
    manifest = deltalake.DeltaTable(f"{place}/{lake.BUILD}", storage_options=options).to_pyarrow_table().to_pylist()
    versions = {row["name"]: row["version"] for row in manifest if row["kind"] == "table"}
    assert set(versions) == set(TABLES)
    return rows_in(s3, place, TABLES, versions)


def base(s3: S3Server, other: str) -> str:
    """What Spark built of the half, once more."""
    return f"s3a://lake/{copied(s3, 'base', other)}"


def test_what_is_new_on_s3_is_built_without_spark(s3: S3Server, old: Rows, new: Rows, no_spark: None) -> None:
    """The rows are those of a full build by Spark; a table that changed has one version more, the others none."""
    place = base(s3, "incremental")
    logs = _reached(place).logs()
    before = {name: logs.newest(name) for name in TABLES}
    built = job.build("s3a://lake/dump", place, **SETTINGS)
    assert (built.whole, bool(built.touched_groups), bool(built.new_records)) == ("", True, True)
    assert published("s3://lake/incremental", s3) == rows_in(s3, "s3://lake/incremental") == new
    for name in TABLES:
        was, now = before[name], logs.newest(name)
        assert was is not None
        assert now is not None
        assert now.number - was.number == (name in built.written), name
    assert built.rows == {state.name: state.rows for state in job.status(place)}
    again = job.build("s3a://lake/dump", place, **SETTINGS)
    assert (again.whole, again.written, again.rows) == ("", (), built.rows)


def test_spark_goes_on_from_what_was_built_without_it(spark: Any, s3: S3Server, old: Rows, new: Rows) -> None:
    """It reads the same rows, by the protocol of its own tables, and finds nothing to do."""
    place = base(s3, "for-spark")
    assert job.build("s3a://lake/dump", place, **SETTINGS).whole == ""
    for name in TABLES:
        frame = spark.read.format("delta").load(f"{place}/{name}")
        assert rows_of(frame.toArrow()) == new[name], name
        detail = spark.sql(f"DESCRIBE DETAIL delta.`{place}/{name}`").first()
        assert (detail["minReaderVersion"], detail["tableFeatures"]) == (1, ["appendOnly", "invariants"]), name
    again = job.build("s3a://lake/dump", place, spark=spark, **SETTINGS)
    assert (again.whole, again.written) == ("", ())
    shutil.rmtree(s3.root / s3.bucket / "for-spark" / "gold/lag")
    assert job.build("s3a://lake/dump", place, spark=spark, **SETTINGS).whole == "gold/lag is gone"
    assert published("s3://lake/for-spark", s3) == new


def test_what_is_new_in_a_local_folder_of_delta_tables_is_built_without_spark(
    growing: Growing, s3: S3Server, new: Rows, no_spark: None
) -> None:
    """As on S3."""
    out = shutil.copytree(growing.folder.parent / "base", growing.folder.parent / "out")
    built = job.build(growing.folder, out, form="delta", **SETTINGS)
    assert (built.whole, bool(built.touched_groups)) == ("", True)
    assert published(str(out), s3) == rows_in(s3, str(out)) == new


def test_groups_and_histories_of_a_lake_are_read_without_spark(
    growing: Growing, s3: S3Server, new: Rows, tmp_path: Path, no_spark: None
) -> None:
    """As from the local tables and the local dump; of one group alone, where it is named."""
    place = base(s3, "read")
    job.build("s3a://lake/dump", place, **SETTINGS)
    for where, here in ((place, growing.folder.parent / "fresh"), ("s3a://lake/dump", growing.folder)):
        expected = load_histories(here)
        name = min(expected.groups)
        for number, groups in enumerate(([], [name])):
            folder = tmp_path / f"{here.name}-{number}"
            folder.mkdir()
            copy(where, folder, groups)
            there = load_histories(folder)
            of_dump = where != place
            assert set(there.groups) == ({name} if groups and not of_dump else set(expected.groups))
            assert there.group(name).raw == expected.group(name).raw
            assert there.group(name).lags == expected.group(name).lags
    with pytest.raises(BadInput, match="neither tables nor a dump"):
        copy("s3a://lake/nothing", tmp_path)
    with pytest.raises(BadInput, match="no table records"):
        job.build("s3a://lake/nothing", place, **SETTINGS)


KILLED = """
import os, signal, sys, threading
from apportion.spark import job
place, stage, delay = sys.argv[1:]
def tell(line):
    print(line, flush=True)
    if line == stage:
        threading.Timer(float(delay), os.kill, (os.getpid(), signal.SIGKILL)).start()
job.build("s3a://lake/dump", place, assignors=["range", "lag-aware"], progress=tell)
"""


def test_a_build_that_is_killed_at_any_table_leaves_whole_tables_and_the_next_one_is_right(
    s3: S3Server, old: Rows, new: Rows, no_spark: None
) -> None:
    """kill -9 at each commit: who goes by what belongs together sees the build before, others each table old or new."""
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    def run(place: str, stage: str = "", delay: float = 0) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-c", KILLED, place, stage, str(delay)]
        return subprocess.run(words, env=variables, stdout=subprocess.PIPE, text=True, check=False)

    ended = run(base(s3, "to-the-end"))
    assert ended.returncode == 0
    stages = [line for line in ended.stdout.splitlines() if line.rpartition(" ")[2] in TABLES]
    assert len(stages) >= 10
    put_back = 0
    for number, stage in enumerate(stages):
        place = base(s3, f"killed-{number}")
        ended = run(place, stage, random.Random(stage).uniform(0, 0.05))
        assert ended.returncode == -signal.SIGKILL, stage
        left = rows_in(s3, f"s3://lake/killed-{number}")
        for name in TABLES:
            assert left[name] in (old[name], new[name]), (stage, name)
        seen = published(f"s3://lake/killed-{number}", s3)
        lines: list[str] = []
        job.build("s3a://lake/dump", place, progress=lines.append, **SETTINGS)
        put_back += any("putting" in line for line in lines)
        if seen != new:  # else the last table was published before the signal came
            assert seen == old, stage
        assert published(f"s3://lake/killed-{number}", s3) == rows_in(s3, f"s3://lake/killed-{number}") == new, stage
    assert put_back >= len(stages) - 1


def test_the_lock_is_one_for_builds_with_spark_and_without(spark: Any, s3: S3Server, tmp_path: Path) -> None:
    """Whoever makes it first keeps all others out, by the store's word."""
    place = locate("s3a://lake/one-lock")
    ours, sparks = _reached("s3a://lake/one-lock").shelf(lake.LOCKS), lake.shelf_of(spark, place, "delta")
    assert isinstance(sparks, shelves.HadoopShelf)
    assert ours.names() == sparks.names() == []
    assert [ours.create("a", "first"), sparks.create("a", "second"), ours.create("a", "third")] == [True, False, False]
    assert sparks.read("a") == ours.read("a") == "first"
    assert ours.create("a", "first"), "a second try of what came through the first time"
    ours.overwrite("a", "anew")
    assert (sparks.read("a"), ours.read("b"), ours.names(), sparks.names()) == ("anew", None, ["a"], ["a"])
    ours.delete("a")
    ours.delete("a")
    assert sparks.read("a") is None
    for one, other in ((ours, sparks), (sparks, ours)):
        with lock.held(one, "there"), pytest.raises(Unavailable, match="another build"):
            lock._acquire(other, "there", 60, lambda line: None)
    assert ours.listed("nothing") is None
    assert not ours.copy("nothing", tmp_path / "nothing")


def here(place: stores.StoreAddress, name: str = "t") -> commits.TableVersion:
    """A table as it is now."""
    version = place.logs().newest(name)
    assert version is not None
    return commits.TableVersion(place, name, version)


def numbers(*groups: str, n: int) -> pa.Table:
    """(group, n): a row for each group."""
    return pa.table({"group": pa.array(groups, pa.string()), "n": pa.array([n] * len(groups), pa.int64())})


def opened(place: stores.StoreAddress) -> Any:
    """The table as deltalake reads it."""
    return deltalake.DeltaTable(place.table("t"), storage_options=place.options)


def test_groups_of_any_name_are_replaced_and_files_without_them_stay(s3: S3Server) -> None:
    """Quotes, comments and line ends are part of a name, not of the predicate."""
    hostile = ["a'b", "'; --", 'c"d\\', "e\nf", "é", "", "g OR 1=1"]
    place = _reached("s3a://lake/names")
    deltalake.write_deltalake(place.table("t"), numbers("stays", n=1), storage_options=place.options)
    kept = set(opened(place).file_uris())
    assert here(place).append(numbers(*hostile, n=1)) == 1
    for turn, one in enumerate(hostile, 2):
        assert here(place).replace_groups(numbers(one, n=turn), numbers(one, "nobody", n=0).select(["group"])) == turn
    here(place).replace_groups(numbers(n=0), numbers("é", n=0).select(["group"]))
    now = opened(place)
    assert kept < set(now.file_uris())
    expected = {one: turn for turn, one in enumerate(hostile, 2) if one != "é"} | {"stays": 1}
    assert dict(zip(*now.to_pyarrow_table().to_pydict().values(), strict=True)) == expected
    here(place).restore(0)
    assert rows_of(opened(place).to_pyarrow_table()) == rows_of(numbers("stays", n=1))
    wider = numbers("a", n=2).append_column("more", pa.array(["text"]))
    here(place).overwrite(wider)
    assert rows_of(opened(place).to_pyarrow_table()) == rows_of(wider), "with another column"


def test_who_was_held_up_commits_nothing_to_what_another_wrote(s3: S3Server) -> None:
    """Each kind of commit goes on from the version that it knows, or is refused."""
    place = _reached("s3a://lake/held-up")
    deltalake.write_deltalake(place.table("t"), numbers("a", n=1), storage_options=place.options)
    here(place).append(numbers("b", n=1))
    late = here(place)
    here(place).append(numbers("c", n=1))
    groups = numbers("a", n=0).select(["group"])
    for commit in (
        lambda: late.append(numbers("a", n=2)), lambda: late.overwrite(numbers("a", n=2)),
        lambda: late.replace_groups(numbers("a", n=2), groups), lambda: late.restore(0),
    ):  # fmt: skip
        with pytest.raises(Unavailable, match="somebody else wrote to this table after version 1"):
            commit()
    assert rows_of(opened(place).to_pyarrow_table()) == rows_of(numbers("a", "b", "c", n=1))


@pytest.mark.parametrize("kind", ["added to", "of new groups"])
def test_a_table_that_is_changed_again_and_again_stays_in_shape(spark: Any, s3: S3Server, kind: str) -> None:
    """Few files, and a log that is read from a checkpoint; the rows are all there, for Spark too."""
    root = f"s3a://lake/{kind.replace(' ', '-')}"
    place = _reached(root)
    spark.createDataFrame([("g", 0)], "group string, n bigint").write.format("delta").save(f"{root}/t")
    for n in range(1, 60):
        rows = numbers(f"g{n:03}", n=n)
        if kind == "added to":
            here(place).append(rows)
        else:
            here(place).replace_groups(rows, rows.select(["group"]))
    logs = place.logs()
    now = logs.newest("t")
    assert now is not None
    assert now.readable
    assert now.writable
    assert len(now.files) <= commits.SMALL_MAX + 2
    known = [number for number in range(now.number + 1) if logs.at("t", number) is not None]
    assert now.number - 12 <= known[0], "the newest checkpoint"
    copies = logs.copies("t", None)
    assert copies is not None
    assert sorted(pa.concat_tables(map(pq.read_table, copies))["n"].to_pylist()) == list(range(60))
    assert sorted(row["n"] for row in spark.read.format("delta").load(f"{root}/t").collect()) == list(range(60))


def test_spark_reads_a_local_log_after_a_checkpoint_of_ours(spark: Any, s3: S3Server, tmp_path: Path) -> None:
    """It keeps a check sum beside the name of the newest checkpoint, which is another one then."""
    for n in range(12):
        rows = spark.createDataFrame([("g", n)], "group string, n bigint")
        rows.coalesce(1).write.format("delta").mode("append").save(str(tmp_path / "t"))
    place = _reached(locate(tmp_path))
    for n in range(12, 22):
        here(place).append(numbers("g", n=n))
    logs = delta_log.logs_of(spark, f"file://{tmp_path}")
    assert logs is not None
    now = logs.newest("t")
    assert now is not None
    assert now.rows == 22
    assert logs.at("t", 12) is None, "before the newest checkpoint"
    assert spark.read.format("delta").load(str(tmp_path / "t")).count() == 22


@pytest.mark.parametrize(
    ("where", "changed", "how"),
    [
        ("s3a://lake/a", {}, "s3://lake/a"),
        ("s3a://lake/a", {"AWS_ENDPOINT_URL": None}, "s3://lake/a"),
        ("s3a://lake/a", {"AWS_ENDPOINT_URL": None, "AWS_REGION": None}, None),
        ("s3a://lake/a", {"AWS_ACCESS_KEY_ID": None}, None),
        ("s3a://lake/a", {"APPORTION_SPARK_CONF": "spark.hadoop.fs.s3a.access.key=other"}, None),
        ("s3a://lake/a b", {}, None),
        ("s3a://lake/100%", {}, None),
        ("hdfs://name:8020/a", {}, None),
        ("abfss://lake@account.dfs.core.windows.net/a", {}, None),
        ("spark_catalog.kafka", {}, None),
    ],
)
def test_places_that_are_reached(
    where: str, changed: dict[str, str | None], how: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3 with the environment's keys; what else Spark is told of it, other stores and odd names are Spark's alone."""
    given = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "c", "AWS_ENDPOINT_URL": "http://d"}
    for name in (*stores._KEYS, *stores._REGIONS, "AWS_ENDPOINT_URL_S3", "APPORTION_SPARK_CONF"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {**given, **changed}.items():
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    place = stores.reached(locate(where))
    assert (None if place is None else place.url) == how


@pytest.mark.parametrize(
    ("out", "variables", "sentence"),
    [
        ("s3a://nowhere/a", {}, "s3a://nowhere/a: there is no such bucket"),
        ("s3a://lake/a", {"AWS_SECRET_ACCESS_KEY": "another"}, "the store of s3a://lake/a refused the keys"),
        ("s3a://lake/a", {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "the store of s3a://lake/a did not answer"),
    ],
)
def test_what_a_store_refuses_is_said_in_a_sentence(
    s3: S3Server, growing: Growing, out: str, variables: dict[str, str], sentence: str, no_spark: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Before a Spark is started; no key is in it."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    for call in (lambda: job.build(growing.folder, out, **SETTINGS), lambda: job.status(out)):
        with pytest.raises(Unavailable, match=sentence) as refused:
            call()
        assert s3.access_key not in str(refused.value)


@pytest.mark.parametrize(("code", "sentence"), [("ExpiredToken", "refused the keys"), ("Strange", "gave up")])
def test_what_a_store_repeats_of_a_token_is_not_printed(
    code: str, sentence: str, monkeypatch: pytest.MonkeyPatch, no_spark: None
) -> None:
    """Some answers hold what was sent."""
    token = "a-token-of-somebody"  # noqa: S105 - made up

    class Repeating(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Token-0>{token}</Token-0></Error>".encode()
            self.send_response(400)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Repeating) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        given = {"ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b", "SESSION_TOKEN": token, "ENDPOINT_URL": address}
        for name, value in given.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        with pytest.raises(Unavailable, match=sentence) as refused:
            job.status("s3a://lake/a")
        server.shutdown()
    assert token not in str(refused.value)


def _reached(where: str | Location) -> stores.StoreAddress:
    place = stores.reached(where if isinstance(where, Location) else locate(where))
    assert place is not None
    return place

"""What a person means by the name of a place, which jars and settings a session gets, and who has a lock."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from apportion.errors import BadInput, Unavailable
from apportion.spark import lock, packages, session, settings
from apportion.spark.location import form_of, locate
from apportion.spark.shelves import FolderShelf


def test_a_place_is_a_folder_a_uri_or_a_catalogs_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that is there stays one, whatever its name looks like; so does a path."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "main.there").mkdir()
    for given, kind, root in (
        ("s3a://lake/kafka/", "uri", "s3a://lake/kafka"),
        ("hdfs://name:8020/x", "uri", "hdfs://name:8020/x"),
        ("main.kafka", "catalog", "main.kafka"),
        ("main.there", "folder", str(tmp_path / "main.there")),
        ("./main.kafka", "folder", str(tmp_path / "main.kafka")),
        ("tables", "folder", str(tmp_path / "tables")),
        (Path("main.kafka"), "folder", str(tmp_path / "main.kafka")),
        ("file:///a%20b", "folder", "/a b"),
        ("file:///a#1?x", "folder", "/a#1?x"),
        ("file://localhost/a", "folder", "/a"),
        ("file:tables", "folder", str(tmp_path / "tables")),
        ("FILE:///a", "folder", "/a"),
        ("S3A://Lake/Kafka", "uri", "s3a://Lake/Kafka"),
        ("abfss://lake@account.dfs.core.windows.net/a", "uri", "abfss://lake@account.dfs.core.windows.net/a"),
        ("hdfs://[::1]:8020/x", "uri", "hdfs://[::1]:8020/x"),
        ("hdfs://[x/y", "uri", "hdfs://[x/y"),
        ("hdfs://name:8020/x@y", "uri", "hdfs://name:8020/x@y"),
        ("hdfs://ann@name:8020/x:@y", "uri", "hdfs://ann@name:8020/x:@y"),
        ("s3a://lake/a:b@c", "uri", "s3a://lake/a:b@c"),
    ):
        place = locate(given)
        assert (place.kind, place.root) == (kind, root), given
    for given, what in (
        ("s3a://lake", "a bucket alone"),
        ("hdfs:/kafka", r"one slash behind a scheme; needed hdfs:///kafka, or \./hdfs:/kafka"),
        ("s3a:/lake/kafka", r"one slash behind a scheme; needed s3a://lake/kafka, or \./s3a:/lake/kafka"),
        ("", "found ''"),
        ("  ", "'  '"),
        ("https://x/y", "web address"),
        ("file://data/tables", r"of another machine, data; needed file:///data/tables"),
        ("file:", "no path"),
        ("file://", "no path"),
        ("s3a://AKIA:hidden@lake/kafka", "a key in an address"),
        ("s3a://AKIA:hidden/+key@lake/kafka", "a key in an address"),
    ):
        with pytest.raises(BadInput, match=what) as refused:
            locate(given)
        assert "hidden" not in str(refused.value)


def test_each_place_has_its_forms() -> None:
    """Plain Parquet stays what a local folder gets; many files at once nobody can replace elsewhere."""
    assert form_of(locate("tables"), None) == "parquet"
    assert form_of(locate("tables"), "delta") == "delta"
    assert form_of(locate("s3a://b/x"), None) == "delta"
    assert form_of(locate("main.kafka"), None) == ""
    assert form_of(locate("spark_catalog.kafka"), None) == "delta"
    assert form_of(locate("main.kafka"), "iceberg") == "iceberg"
    with pytest.raises(BadInput, match="plain Parquet"):
        form_of(locate("s3a://b/x"), "parquet")
    with pytest.raises(BadInput, match="parquet or delta"):
        form_of(locate("tables"), "orc")


def test_the_users_settings_win_and_reach_the_executors_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a cluster nothing of this machine's is told to the executors."""
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    here = settings.settings(tmp_path, 2, True, [])
    assert here["spark.master"] == "local[2]"
    assert here["spark.local.dir"] == str(tmp_path)
    assert "spark.task.maxFailures" not in here
    monkeypatch.setenv(settings.MASTER, "spark://m:7077")
    monkeypatch.setenv(settings.CONF, "spark.pyspark.python=/opt/py/bin/python;\nspark.driver.memory = 9g ;")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    there = settings.settings(tmp_path, 2, False, [packages.S3A])
    assert there["spark.master"] == "spark://m:7077"
    assert (there["spark.pyspark.python"], there["spark.driver.memory"]) == ("/opt/py/bin/python", "9g")
    assert not {"spark.local.dir", "spark.driver.host", "spark.sql.shuffle.partitions"} & there.keys()
    assert there["spark.hadoop.fs.s3a.path.style.access"] == "true"
    assert there["spark.hadoop.fs.s3a.connection.ssl.enabled"] == "false"


def test_a_setting_that_is_none_is_told_by_its_place_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands there may be half a password."""
    monkeypatch.setenv(settings.CONF, "spark.a=1;s3cret")
    with pytest.raises(BadInput, match="part 2") as raised:
        settings.from_environment()
    assert "s3cret" not in str(raised.value)


def test_jars_are_those_of_this_machine_else_coordinates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each set by itself."""
    monkeypatch.setenv("APPORTION_JARS", str(tmp_path))
    (tmp_path / "delta").mkdir()
    (tmp_path / "delta" / "a.jar").write_bytes(b"")
    chosen = packages.settings([packages.KAFKA, packages.DELTA])
    assert chosen["spark.jars"] == str(tmp_path / "delta" / "a.jar")
    assert chosen["spark.jars.packages"].startswith("org.apache.spark:spark-sql-kafka-0-10_2.13:4.")
    every = ",".join(packages.settings(packages.SETS)["spark.jars.packages"].split(","))
    assert "{" not in every
    assert "org.apache.hadoop:hadoop-aws:3." in every


@pytest.mark.slow
def test_the_package_that_travels_has_all_that_tasks_import_and_needs_nothing_else(tmp_path: Path) -> None:
    """The functions that run in tasks are imported from the zip by a Python with NumPy, pyarrow and PySpark alone."""
    with zipfile.ZipFile(session._zip()) as packed:
        names = packed.namelist()
    assert "apportion/pipeline/decode.py" in names
    assert not any("/demo/" in name or name.endswith(".parquet") for name in names)
    code = """
import sys
sys.path.insert(0, sys.argv[1])
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in missing:
            raise ImportError(name)
missing = ["rich", "kafka", "pandas", "ssl"]
sys.meta_path.insert(0, Block())
import apportion.pipeline.decode, apportion.pipeline.group_rows, apportion.pipeline.whatif, apportion.spark.build
missing.remove("ssl")  # who writes plain files has a whole Python: Arrow's Parquet asks for it
import apportion.spark.files
from apportion.assignors import known
assert apportion.pipeline.decode.__file__.startswith(sys.argv[1]), apportion.pipeline.decode.__file__
print(len(known()))
"""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-c", code, str(session._zip())]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 8


# -- locks -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def shelf(tmp_path: Path) -> FolderShelf:
    return FolderShelf(tmp_path / "locks")


def test_a_lock_whose_store_was_away_at_the_end_does_not_keep_out_its_own_process(shelf: FolderShelf) -> None:
    """As of a session whose Java process was killed: what called it lives, and builds again."""
    away = shelf.folder.with_name("away")
    with lock.held(shelf, "here"):
        shelf.folder.rename(away)
        shelf.folder.write_text("no folder")
    shelf.folder.unlink()
    away.rename(shelf.folder)
    with lock.held(shelf, "here") as mine:
        assert mine.after_death


def test_a_second_build_is_kept_out_until_the_first_has_ended(shelf: FolderShelf) -> None:
    """It is told who has the place; afterwards only the newest lock is left, and the next one knows of no death."""
    with lock.held(shelf, "here") as mine:
        with pytest.raises(Unavailable, match=f"another build is writing to here .process {os.getpid()}"):
            lock._acquire(shelf, "here", 60, lambda line: None)
        mine.finished = True
    with lock.held(shelf, "here") as mine:
        assert not mine.after_death
    with lock.held(shelf, "here") as mine:
        assert mine.after_death, "the one before gave up half way"
        assert sorted(shelf.names()) == ["000000003"]


def owned_by_a_dead_process(change: Callable[[lock.Owner], lock.Owner] = lambda owner: owner) -> str:
    child = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    dead = replace(lock.this_process(), pid=int(child.stdout), started="1", beat=3)
    return json.dumps(asdict(change(dead)))


def test_the_lock_of_a_process_that_is_gone_is_taken_over_by_exactly_one(shelf: FolderShelf) -> None:
    """Twelve that saw the same dead owner at the same time: one has the place, the others are kept out."""
    for turn in range(20):
        number = max([int(name[:9]) for name in shelf.names()], default=0) + 1
        shelf.create(f"{number:09d}", owned_by_a_dead_process() if turn < 2 else json.dumps(DEAD))
        start = threading.Barrier(12)

        def attempt(_: int, start: threading.Barrier = start) -> lock.Held | None:
            start.wait()
            try:
                return lock._acquire(shelf, "here", 60, lambda line: None)
            except Unavailable:
                return None

        with ThreadPoolExecutor(12) as pool:
            held = [one for one in pool.map(attempt, range(12)) if one is not None]
        assert len(held) == 1
        assert held[0].after_death
        held[0].finished = True
        held[0].release()


DEAD = asdict(replace(lock.this_process(), pid=2**22 + 7, started="1"))


def test_an_owner_on_another_machine_is_dead_when_its_beat_stays_away(shelf: FolderShelf) -> None:
    """By the clock of who waits; one that beats is alive, however long its build takes."""
    away = replace(lock.this_process(), machine="another", host="far")
    shelf.create("000000001", json.dumps(asdict(away)))
    ended = threading.Event()

    def beat() -> None:
        number = 0
        while not ended.wait(0.05):
            number += 1
            shelf.overwrite("000000001", json.dumps(asdict(replace(away, beat=number))))

    beating = threading.Thread(target=beat)
    beating.start()
    with pytest.raises(Unavailable, match="on far"):
        lock._acquire(shelf, "here", 5, lambda line: None)
    ended.set()
    beating.join()
    heard: list[str] = []
    mine = lock._acquire(shelf, "here", 0.5, heard.append)
    assert mine.after_death
    assert "locked by far" in heard[0]


@pytest.mark.parametrize("boot", [None, "5B1C"])
def test_where_no_proc_is_a_living_owner_is_not_taken_for_dead(
    shelf: FolderShelf, monkeypatch: pytest.MonkeyPatch, boot: str | None
) -> None:
    """As on two Macs of one name: a number that no process has here says nothing of another boot's.

    Of this boot a process that is there may be another one of that number, so that the beat decides.
    """
    exists, read_text = Path.exists, Path.read_text

    def is_there(self: Path) -> bool:
        return not str(self).startswith("/proc") and exists(self)

    def text_of(self: Path, *args: Any, **named: Any) -> str:
        if str(self).startswith("/proc"):
            raise FileNotFoundError(self)
        return read_text(self, *args, **named)

    monkeypatch.setattr(Path, "exists", is_there)
    monkeypatch.setattr(Path, "read_text", text_of)
    monkeypatch.setattr(lock, "_boot_of_mac", lambda: boot)
    lock._machine.cache_clear()
    try:
        here = lock.this_process()
        assert here.machine == lock.this_process().machine != here.host
        nobody = replace(here, pid=2**22 + 7)
        assert nobody.seen_dead() is True
        assert here.seen_dead() is None
        assert replace(here, pid=1).seen_dead() is None, "another user's, or ours"
        lock._machine.cache_clear()
        if boot is None:
            assert nobody.seen_dead() is None, "another process's word"
        assert replace(nobody, machine="9F0A").seen_dead() is None, "another boot's"
        with lock.held(shelf, "here", beat_s=0.02), pytest.raises(Unavailable, match="another build is writing"):
            lock._acquire(shelf, "here", 5, lambda line: None)
    finally:
        lock._machine.cache_clear()


def test_one_that_was_taken_for_dead_and_wakes_up_commits_nothing(shelf: FolderShelf) -> None:
    """Nor does its beat bring its old lock back to life."""
    with lock.held(shelf, "here") as sleeper:
        shelf.create("000000002", json.dumps(DEAD))
        shelf.delete("000000001")
        with pytest.raises(Unavailable, match="took it for dead"):
            sleeper.check()
        sleeper.beat()
        assert sorted(shelf.names()) == ["000000002"]


def test_a_number_that_others_took_and_swept_away_meanwhile_is_nobodys_lock(
    shelf: FolderShelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two builds come and go between our look and our lock: the second one's is the highest, so ours is behind it."""
    create = FolderShelf.create

    def late(self: FolderShelf, name: str, text: str) -> bool:
        monkeypatch.undo()
        for _ in range(2):
            with lock.held(shelf, "here"):
                pass
        return create(self, name, text)

    with lock.held(shelf, "here"):
        pass
    monkeypatch.setattr(FolderShelf, "create", late)
    with lock.held(shelf, "here") as mine:
        assert shelf.names() == ["000000004"]
        mine.check()


def test_a_lock_that_was_cut_short_is_nobodys_only_after_a_silence(shelf: FolderShelf) -> None:
    """Where a store shows an object before it is whole, its owner may be about to write it."""
    shelf.create("000000001", '{"host": ')
    mine = lock._acquire(shelf, "here", 0.2, lambda line: None)
    assert mine.after_death


def test_a_lock_that_a_full_disk_cuts_short_leaves_nothing(shelf: FolderShelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither one that is made nor one that is written anew; who has it keeps it."""
    assert shelf.create("000000001", "whole")

    def full(self: Path, text: str) -> int:
        self.write_bytes(text.encode()[:1])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    for write in (lambda: shelf.create("000000002", "more"), lambda: shelf.overwrite("000000001", "more")):
        with pytest.raises(OSError, match="No space"):
            write()
    assert [file.name for file in shelf.folder.iterdir()] == ["000000001"]
    assert shelf.read("000000001") == "whole"

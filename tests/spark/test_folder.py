"""Tables in a folder are published whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from apportion.errors import BadInput, Unavailable
from apportion.spark import build, errors, files, folder, job
from apportion.tables.schemas import COMMITS, COUNTS, arrow_schema


def bytes_of(root: Path) -> dict[str, bytes]:
    """Every visible file below a folder."""
    found = ((file.relative_to(root), file) for file in root.rglob("*") if file.is_file())
    return {
        str(name): file.read_bytes() for name, file in found if not any(part.startswith(".") for part in name.parts)
    }


def written(root: Path, name: str, text: str, publish: bool) -> None:
    """A table of one file, published or only staged."""
    with folder.staged(root) as (staging, mine):
        store = folder.FolderStore(root, staging, mine, None)  # type: ignore[arg-type]
        stage = staging / "new" / name
        stage.mkdir(parents=True)
        (stage / "part.parquet").write_text(text)
        store.write(name, [], 1, None, True)
        if publish:
            store.publish()


def counts(*numbers: int) -> pa.Table:
    rows = [{"key_type": n, "value_version": 1, "tombstone": False, "records": n} for n in numbers]
    return pa.Table.from_pylist(rows, arrow_schema(COUNTS))


def deliver(store: folder.FolderStore, name: str, rows: pa.Table, part: str, whole: bool = True) -> None:
    list(store.deliver("+1")(name, rows, part))
    store.write(name, [], rows.num_rows, None, whole)


def test_a_table_is_replaced_only_by_a_whole_one(tmp_path: Path) -> None:
    """What was staged and not published is forgotten; what is published leaves nothing of the old one."""
    written(tmp_path, "silver/commits", "old", publish=True)
    written(tmp_path, "silver/commits", "half", publish=False)
    assert bytes_of(tmp_path) == {"silver/commits/part.parquet": b"old"}
    written(tmp_path, "silver/commits", "new", publish=True)
    assert bytes_of(tmp_path) == {"silver/commits/part.parquet": b"new"}
    assert not list(tmp_path.glob(f"{folder.STAGING}*"))


@pytest.mark.parametrize("died_after", range(5))
def test_a_run_that_died_while_publishing_is_finished_by_the_next(tmp_path: Path, died_after: int) -> None:
    """At every point between the renames: old or new table by table, and all new after recovery."""
    names = ["silver/a", "gold/b"]
    for name in names:
        written(tmp_path, name, "old", publish=True)
    staging = tmp_path / f"{folder.STAGING}x"
    for name in names:
        (staging / "new" / name).mkdir(parents=True)
        (staging / "new" / name / "part.parquet").write_text("new")
    (staging / "publish.json").write_text(json.dumps(names))
    moves = [(tmp_path / n, staging / "old" / n, staging / "new" / n) for n in names]
    steps = [step for place, old, fresh in moves for step in ((place, old), (fresh, place))]
    for source, target in steps[:died_after]:
        target.parent.mkdir(parents=True, exist_ok=True)
        os.rename(source, target)
    folder.recover(tmp_path)
    assert bytes_of(tmp_path) == {f"{name}/part.parquet": b"new" for name in names}
    assert not staging.exists()


def test_a_build_that_makes_nothing_leaves_no_folder(tmp_path: Path) -> None:
    """Unless it was there before."""
    for place, stays in ((tmp_path / "new", False), (tmp_path, True)):
        with pytest.raises(Unavailable), folder.staged(place):
            raise Unavailable("something")
        assert place.exists() is stays


def test_one_that_was_taken_for_dead_publishes_nothing(tmp_path: Path) -> None:
    """It was silent for so long that another build is at work now."""
    with folder.staged(tmp_path) as (staging, mine):
        store = folder.FolderStore(tmp_path, staging, mine, None)  # type: ignore[arg-type]
        deliver(store, "silver/counts", counts(1), "0")
        (tmp_path / folder.LOCKS / "000000002").write_text("{}")
        with pytest.raises(Unavailable, match="took it for dead"):
            store.publish()
    assert bytes_of(tmp_path) == {}


def test_a_file_where_the_folder_should_be_is_said(tmp_path: Path) -> None:
    """One sentence, no traceback."""
    (tmp_path / "out").write_text("")
    with pytest.raises(BadInput, match="folder"), folder.staged(tmp_path / "out"):
        pass


def test_rows_are_added_beside_the_files_that_are_there(tmp_path: Path) -> None:
    """A table without rows shows its columns, until it has some; a desktop's own files are left alone."""
    for turn, rows in enumerate((counts(), counts(1), counts(2))):
        with folder.staged(tmp_path) as (staging, mine):
            store = folder.FolderStore(tmp_path, staging, mine, None)  # type: ignore[arg-type]
            deliver(store, "silver/counts", rows, f"{turn}", whole=turn == 0)
            store.publish()
        for name in ("._part-00000.parquet", "_part-00000.parquet"):
            (tmp_path / "silver/counts" / name).write_bytes(b"no Parquet")
        shown = pq.read_table([*(tmp_path / "silver/counts").glob(files.SHOWN)])
        assert shown.schema.equals(arrow_schema(COUNTS))
        assert sorted(shown["records"].to_pylist()) == list(range(1, turn + 1))
    assert [(one.name, one.rows, one.files) for one in job.status(tmp_path)] == [("silver/counts", 2, 2)]


def test_days_get_their_own_files(tmp_path: Path) -> None:
    """Rows are cut where the day changes; those of no day are undated."""
    day = 86_400_000_000
    columns = dict.fromkeys(arrow_schema(COMMITS).names)
    rows = [
        {**columns, "group": "g", "source_partition": 0, "source_offset": n, "at": at}
        for n, at in enumerate((1_700_000_000_000_000, 1_700_000_000_000_000 + day, -5, 1_700_000_000_000_001))
    ]
    files.write_table(tmp_path, COMMITS, pa.Table.from_pylist(rows, arrow_schema(COMMITS)), "7")
    found = {file.name: pq.read_table(file)["source_offset"].to_pylist() for file in tmp_path.iterdir()}
    assert found == {"2023-11-14-7.parquet": [0, 3], "2023-11-15-7.parquet": [1], "undated-7.parquet": [2]}


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
from apportion.spark import errors, files, folder
import pyarrow as pa, os
root = pathlib.Path("/mnt/out")
try:
    with errors.plainly(root), folder.staged(root) as (staging, _):
        for n in range(20):
            files.write_rows(staging / str(n), pa.table({"b": [os.urandom(200000)]}))
except Exception as error:
    print(type(error).__name__, error)
print(sorted(p.name for p in pathlib.Path("/mnt").iterdir()))
"""
    done = small_disk("1m", code)
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Unavailable the disk that holds /mnt/out is full"), done.stderr
    assert lines[1] == "[]"


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


@pytest.mark.parametrize("name", ["build.json", "source.json", f"{folder.STAGING}x/publish.json"])
def test_a_text_that_the_disk_lost_is_no_text_or_a_sentence(tmp_path: Path, name: str) -> None:
    """A build that finds no word of the one before makes everything anew; what was to be moved is for a person."""
    written(tmp_path, "silver/commits", "old", publish=True)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(b"\xff\xfe\x00")
    if name.endswith("publish.json"):
        with pytest.raises(BadInput, match=r"publish\.json: found what no run wrote"), folder.staged(tmp_path):
            pass
        return
    with folder.staged(tmp_path) as (staging, mine):
        store = folder.FolderStore(tmp_path, staging, mine, None)  # type: ignore[arg-type]
        assert build.BuildState.from_text(store.text(name)) is None


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
    with folder.staged(tmp_path) as (drafts, mine):
        staging = drafts.name
        store = folder.FolderStore(tmp_path, drafts, mine, None)  # type: ignore[arg-type]
        deliver(store, "silver/counts", counts(1), "00000")
        store.keep("source.json", "{}")
        store.publish()
    moved = steps.index(("rename", "/silver/counts"))
    shown = steps.index(("rename", "/S/new/silver/counts/part-00000+1.parquet"))
    assert any(step == "sync" and "/silver/counts/.part-" in path for step, path in steps[:shown])
    assert shown < steps.index(("sync", "/S/new/silver/counts"))
    for before in (
        "/S/new/silver/counts",
        "/S/new/silver",
        "/S/new/source.json",
        "/S/new",
        "/S",
    ):
        assert steps.index(("sync", before)) < moved, before
    assert any(step == "sync" and path.startswith("/S/.publish.json.") for step, path in steps[:moved])
    assert {path for step, path in steps[moved:] if step == "sync" and "lock" not in path} == {"/silver", ""}

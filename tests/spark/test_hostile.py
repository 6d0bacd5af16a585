"""What people and machines do to a build: it ends with a sentence, the right exit code, and nothing lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.spark import made
from tests.spark.test_folder import bytes_of, written
from tests.support.examples import thorough

from apportion.errors import ApportionError, BadInput
from apportion.sources import tables
from apportion.spark import bronze, folder, job, scratch
from apportion.spark.location import locate
from apportion.wire.coordinator import NEWEST_VERSION

pytestmark = pytest.mark.spark
THOROUGH = os.environ.get("APPORTION_THOROUGH") == "1"
PLAIN_RIGHTS = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"]
"""Root without the right to pass by permissions; for others they hold anyway."""


def pipeline(*words: str | Path, before: list[str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [*(before or []), sys.executable, "-m", "apportion", "pipeline", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=800)


def sentence(done: subprocess.CompletedProcess[str]) -> str:
    """The one that a command ended with; there must be one, and no trace of our insides."""
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    (said,) = [line for line in done.stderr.splitlines() if line.startswith("apportion: ")]
    return said


@pytest.mark.usefixtures("java_for_spark")
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("moment", "number", "code"),
    [
        thorough("decoding records", signal.SIGINT, 130),
        thorough("making rows of groups", signal.SIGINT, 130),
        ("making rows of groups", signal.SIGTERM, 143),
    ],
)
def test_a_signal_ends_a_build_and_leaves_the_earlier_tables(
    tmp_path: Path, moment: str, number: int, code: int
) -> None:
    """Ctrl-C as a terminal does it: the signal goes to Spark's processes too. SIGTERM as a supervisor does it."""
    dump = made.write_dump(tmp_path / "dump", made.every_kind())
    out = tmp_path / "out"
    written(out, "silver/commits", "earlier", publish=True)
    command = [sys.executable, "-m", "apportion", "pipeline", "build", "--from", str(dump), "--to", str(out)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as child:
        assert child.stderr is not None
        for line in child.stderr:
            if moment in line:
                break
        os.killpg(child.pid, number) if number == signal.SIGINT else child.send_signal(number)
        rest = child.stderr.read()
    assert child.returncode == code
    assert "Traceback" not in rest, rest
    assert bytes_of(out) == {"silver/commits/part.parquet": b"earlier"}
    assert {file.name for file in out.iterdir()} == {"silver", folder.LOCKS}
    assert not [*Path(tempfile.gettempdir()).glob(f"{scratch.PREFIX}{child.pid}-*")]


INTERRUPTED = """
import sys, time
from pathlib import Path
from types import SimpleNamespace
from pyspark import java_gateway
from apportion.spark import session

popen, started = java_gateway.Popen, []

def remembered(*given, **settings):
    started.append(popen(*given, **settings))
    return started[-1]

def interrupted(seconds):  # called where PySpark waits for the JVM
    raise KeyboardInterrupt

java_gateway.Popen, java_gateway.time = remembered, SimpleNamespace(sleep=interrupted)
try:
    session.start(Path(sys.argv[1]))
except KeyboardInterrupt:
    print(*(process.poll() for process in started))
"""


@pytest.mark.usefixtures("java_for_spark")
def test_ctrl_c_while_spark_starts_leaves_no_jvm(tmp_path: Path) -> None:
    """PySpark forgets it, and it would not end by itself."""
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert done.stdout.split() == [str(-signal.SIGKILL)], done.stderr


@pytest.mark.usefixtures("java_for_spark")
def test_two_builds_at_once_into_one_folder(tmp_path: Path) -> None:
    dump = made.write_dump(tmp_path / "dump", made.every_kind())
    with folder.staged(tmp_path / "out"):
        assert "another build is writing to" in sentence(pipeline("build", "--from", dump, "--to", tmp_path / "out"))


@pytest.mark.skipif(os.geteuid() == 0 and not shutil.which("setpriv"), reason="root passes by permissions")
def test_without_permission_it_says_on_what(tmp_path: Path) -> None:
    """To write the tables' folder, to read the dump's; no folder is made."""
    before = PLAIN_RIGHTS if os.geteuid() == 0 else []
    dump = made.write_dump(tmp_path / "dump", made.every_kind())
    (tmp_path / "out").mkdir(mode=0o500)
    done = pipeline("build", "--from", dump, "--to", tmp_path / "out", before=before)
    assert f"may not read or write {tmp_path}/out" in sentence(done)
    (dump / "records").chmod(0)
    done = pipeline("build", "--from", dump, "--to", tmp_path / "new", before=before)
    (dump / "records").chmod(0o700)
    assert f"cannot read '{dump}/records': Permission denied" in sentence(done)
    assert not (tmp_path / "new").exists()


@pytest.mark.usefixtures("java_for_spark")
def test_tables_of_another_version_are_neither_read_nor_written_over(tmp_path: Path) -> None:
    dump = made.write_dump(tmp_path / "dump", made.every_kind())
    out = tmp_path / "out"
    written(out, "silver/commits", "theirs", publish=True)
    (out / tables.SOURCE).write_text(json.dumps({"version": 2, "dump": "../dump", "settings": {}}))
    before = bytes_of(out)
    for attempt in (lambda: job.build(dump, out), lambda: job.rebuild(out), lambda: tables.load_histories(out)):
        with pytest.raises(BadInput, match=r"source\.json: found tables of version 2; needed version 1"):
            attempt()
    assert bytes_of(out) == before


@pytest.mark.parametrize("settings", [{"evil": 1}, {"allowed_lag": "x"}, {"personal_days": [1]}])
def test_settings_that_no_build_wrote_are_refused(tmp_path: Path, settings: dict[str, Any]) -> None:
    (tmp_path / tables.SOURCE).write_text(json.dumps({"version": 1, "dump": ".", "settings": settings}))
    with pytest.raises(BadInput, match=f"{next(iter(settings))}: found"):
        job.rebuild(tmp_path)


def test_a_page_spoilt_in_the_middle_names_its_file(spark: Any, tmp_path: Path) -> None:
    """The footer is whole, so only Spark finds it; the earlier tables stay."""
    dump = made.write_dump(tmp_path / "dump", made.every_kind() * 20)
    file = dump / "records" / "part-0.parquet"
    raw = bytearray(file.read_bytes())
    raw[100:1000] = bytes(900)
    file.write_bytes(raw)
    written(tmp_path / "out", "silver/commits", "earlier", publish=True)
    with pytest.raises(ApportionError, match=r"part-0\.parquet cannot be read to its end|no whole Parquet"):
        job.build(dump, tmp_path / "out", spark=spark)
    assert bytes_of(tmp_path / "out") == {"silver/commits/part.parquet": b"earlier"}


@pytest.mark.timeout(1800)
def test_each_mutated_record_stands_once_in_the_tables(spark: Any, tmp_path: Path) -> None:
    """Through Spark itself: in commits, generations, epochs or rejects once, or among the counted others."""
    count = 100_000 if THOROUGH else 5_000
    pairs = made.mutated(made.every_kind(), count, seed=4)
    job.build(made.write_dump(tmp_path / "dump", pairs, files=1), tmp_path / "out", assignors=["range"], spark=spark)
    seen: Counter[tuple[int, int]] = Counter()
    for name in ("commits", "generations", "epochs", "rejects"):
        table = pq.read_table(tmp_path / "out" / "silver" / name, columns=["source_partition", "source_offset"])
        seen.update(zip(*(column.to_pylist() for column in table.columns), strict=True))
    counted = pq.read_table(tmp_path / "out" / "silver" / "counts").to_pylist()
    others = sum(row["records"] for row in counted if row["key_type"] not in NEWEST_VERSION)
    assert set(seen.values()) == {1}
    assert len(seen) + others == count
    assert (
        sum(row["records"] for row in counted)
        == count - pq.read_table(tmp_path / "out" / "silver" / "rejects").num_rows
    )


@pytest.mark.parametrize(
    "offsets", [b"", b"\xff", b"7", b"[]", b'{"__consumer_offsets": 7}', b'{"a": {}}', b'{"x": "y"}', None]
)
def test_a_checkpoint_that_another_program_wrote_is_a_sentence(tmp_path: Path, offsets: bytes | None) -> None:
    (tmp_path / "checkpoint" / "commits").mkdir(parents=True)
    (tmp_path / "checkpoint" / "commits" / "0").touch()
    (tmp_path / "checkpoint" / "offsets").mkdir()
    if offsets is not None:
        (tmp_path / "checkpoint" / "offsets" / "0").write_bytes(offsets)
    with pytest.raises(BadInput, match="checkpoint: found a checkpoint that cannot be read"):
        bronze.FolderBronze(locate(tmp_path), tmp_path).position()


@pytest.mark.parametrize("origin", [b"", b"\xff", b"7", b"[]", b"{}", b'{"version": 1}', None])
def test_a_description_that_no_capture_wrote_is_a_sentence(tmp_path: Path, origin: bytes | None) -> None:
    if origin is None:
        (tmp_path / "capture.json").mkdir()
    else:
        (tmp_path / "capture.json").write_bytes(origin)
    with pytest.raises(BadInput, match=r"capture\.json: found .*; needed the capture's files; use a new place"):
        bronze.read_origin(tmp_path)

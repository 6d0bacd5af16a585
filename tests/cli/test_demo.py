"""The demo shows every group of the recorded cluster, however often it runs and wherever it was killed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from apportion.demo import dump
from apportion.model.group_json import group_to_dict
from apportion.sources.dump import recorded_histories, sighted
from apportion.sources.load_history import load_histories
from apportion.sources.pasted import groups_in

from .conftest import Runner

pytest.importorskip("pyarrow")


def groups_of_truth() -> list[str]:
    """Every group that Kafka's own tool described."""
    return [group.name for group in groups_in((dump() / "truth" / "offsets.txt").read_bytes())]


@pytest.mark.slow
def test_the_demo_without_spark_shows_every_group_and_names_its_page(run: Runner, tmp_path: Path) -> None:
    done = run("demo", "--to", str(tmp_path / "demo"))
    assert done.code == 0
    assert len(groups_of_truth()) >= 15
    for name in groups_of_truth():
        assert f"\n{name}: " in "\n" + done.out
    page = done.out.strip().splitlines()[-1].removeprefix("The page: ")
    assert all(name in Path(page).read_text() or "\\u" in ascii(name) for name in groups_of_truth())
    assert [path.name for path in (tmp_path / "demo").iterdir()] == ["report.html"]


def test_the_text_that_ships_is_the_dump_and_is_read_without_arrow() -> None:
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from apportion.model.group_json import group_to_dict\n"
        "from apportion.sources.dump import sighted, recorded_histories\n"
        "import json; print(json.dumps([group_to_dict(sighted(group).group) for group in recorded_histories().living]))"
    )
    text = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    from_dump = load_histories(dump()).living
    assert json.loads(text) == [group_to_dict(sighted(group).group) for group in from_dump]
    for group, other in zip(recorded_histories().living, from_dump, strict=True):
        assert list(group.rebalances) == list(other.rebalances), group.name


@pytest.mark.slow
def test_the_demo_says_the_same_twice(run: Runner, tmp_path: Path) -> None:
    once, twice = (run("demo", "--to", str(tmp_path)).out for _ in range(2))
    assert once == twice


def test_a_file_in_place_of_the_folder_is_told_of_before_anything_is_shown(run: Runner, tmp_path: Path) -> None:
    (tmp_path / "demo").write_text("")
    done = run("demo", "--to", str(tmp_path / "demo"))
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert str(tmp_path / "demo") in done.err


def test_a_dump_that_is_none_is_a_sentence(run: Runner, tmp_path: Path) -> None:
    for args in ([], ["--spark"]):
        done = run("demo", *args, "--from", str(tmp_path), "--to", str(tmp_path / "demo"))
        assert (done.code, done.out) == (2, "")
        assert "Traceback" not in done.err


@pytest.mark.spark
@pytest.mark.thorough  # tests/spark/test_killed.py kills a build in each run
def test_a_demo_that_was_killed_half_way_and_runs_again_is_as_if_nothing_had_been(
    run: Runner, tmp_path: Path, jars: str
) -> None:
    folder, scratch = tmp_path / "demo", tmp_path / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-m", "apportion", "demo", "--spark", "--to", str(folder)]
    env = {**os.environ, "TMPDIR": str(scratch)}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=env) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "making gold/" in line:
                process.send_signal(signal.SIGKILL)
                break
    again = subprocess.run(command, capture_output=True, text=True, env=env, timeout=800, check=False)
    assert again.returncode == 0, again.stderr[-2000:]
    straight = run("demo", "--to", str(folder))
    assert again.stdout == straight.out, "from Spark's tables as from the records themselves"
    assert sorted(path.name for path in folder.iterdir()) == ["report.html", "tables"]
    strays = [
        str(path) for path in (folder / "tables").rglob("*") if re.search(r"temporary|\.crc$|_SUCCESS|draft", path.name)
    ]
    assert strays == []

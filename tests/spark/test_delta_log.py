"""What a Delta table's log says is read as delta-rs reads it, whatever names and files are in it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from apportion.errors import Unavailable
from apportion.spark import stores
from apportion.spark.delta_log import Logs
from apportion.spark.location import locate

deltalake = pytest.importorskip("deltalake", reason="pip install 'apportion[delta]'")
pytest.importorskip("obstore", reason="pip install 'apportion[delta]'")


def logs(folder: Path) -> Logs:
    place = stores.reached(locate(folder))
    assert place is not None
    return place.logs()


def grown(folder: Path, *names: str) -> Path:
    """A table ``t`` with a commit of one row for each name."""
    for name in names:
        deltalake.write_deltalake(folder / "t", pa.table({"group": pa.array([name], pa.string())}), mode="append")
    return folder / "t" / "_delta_log"


def test_a_name_may_hold_what_unicode_calls_the_end_of_a_line(tmp_path: Path) -> None:
    """A commit tells the least and greatest name of a file, as they are; only a line feed ends an action."""
    names = ["a\u2028b", "a\u2029b", "a\x85b", "a\x1cb", "a\x0bb", "a\x0cb", "a\nb", "a\r\nb"]
    grown(tmp_path, *names)
    known = logs(tmp_path)
    version = known.newest("t")
    assert version is not None
    assert (version.number, version.rows) == (len(names) - 1, len(names))
    copies = known.copies("t", None)
    assert copies is not None
    assert sorted(name for file in copies for name in pq.read_table(file)["group"].to_pylist()) == sorted(names)


@pytest.mark.parametrize("torn", ["", "{", "[]", '{"size":1}', '{"version":"x"}'])
def test_a_hint_at_the_newest_checkpoint_that_says_nothing_is_passed_over(tmp_path: Path, torn: str) -> None:
    """Every commit is there; the hint only spares reading them."""
    log = grown(tmp_path, "a", "b", "c")
    deltalake.DeltaTable(tmp_path / "t").create_checkpoint()
    assert (log / "_last_checkpoint").exists()
    (log / "_last_checkpoint").write_text(torn)
    version = logs(tmp_path).newest("t")
    assert version is not None
    assert (version.number, version.rows) == (2, 3)


def test_a_commit_that_is_cut_short_is_told_by_its_file(tmp_path: Path) -> None:
    log = grown(tmp_path, "a", "b")
    commit = log / f"{1:020d}.json"
    commit.write_text(commit.read_text()[:-10])
    with pytest.raises(Unavailable, match=r"t/_delta_log/0{19}1\.json cannot be read to its end"):
        logs(tmp_path).newest("t")

"""A dump whose log ends were sampled more than once tells of time: every command that measures, to the last letter.

The demo's dump, with two older samples of its log ends beside it. ``APPORTION_WRITE=1`` writes ``sampled_twice.json``.
"""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.support.written_down import as_written

from apportion import demo

from .conftest import HERE, Runner

LINES = [
    "describe DUMP",
    "describe DUMP --sort catch-up -o csv",
    "describe DUMP --sort trend --window 60",
    "describe DUMP --odd",
    "describe DUMP --group feed-cooperative --time",
    "describe DUMP --group feed-cooperative --time --window 90 -o csv",
    "describe DUMP --group feed-cooperative --group ads-range --time -o wide",
    "describe DUMP --group ads-range -o json",
    "replay DUMP --group feed-cooperative -A lag-aware --acting",
    "replay DUMP --group ads-range --acting gain=0.1,hold=1,rest=1",
    "replay DUMP --group feed-cooperative -A lag-aware --acting gain=0.01,hold=1,rest=1,moves=3 -o json",
    "size DUMP --group feed-cooperative --capacity learned",
    "size DUMP --group feed-cooperative --capacity 50 --window 60",
    "size DUMP --group ads-range --capacity 20 --by weight -o json",
    "size DUMP --group search-sticky --capacity 500",
    "compare DUMP --group feed-cooperative -A range -A sticky --speeds --window 120",
    "compare DUMP --group feed-cooperative -A range --speeds -o json",
    "compare DUMP --group feed-cooperative -A range --speeds -o wide",
    "switch DUMP --group feed-cooperative -o json",
]


def sampled(folder: Path) -> Path:
    """The dump, with what its log ends were one and two minutes before."""
    shutil.copytree(demo.dump(), folder)
    ends = pq.read_table(folder / "ends.parquet")
    (folder / "samples").mkdir()
    for minutes in (2, 1):
        at = pc.subtract(ends["at"], pa.scalar(timedelta(minutes=minutes), pa.duration("us")))
        end = pc.subtract(ends["end"], pc.divide(ends["end"], pa.scalar(10 // minutes)))
        older = ends.set_column(5, "at", at).set_column(3, "end", end.cast(pa.int64()))
        pq.write_table(older, folder / "samples" / f"ends-{9 - minutes}.parquet")
    return folder


@pytest.mark.parametrize("line", LINES)
def test_a_command_measures_what_it_measured(
    run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.chdir(sampled(tmp_path / "DUMP").parent)
    done = run(*line.split())
    as_written(HERE / "sampled_twice.json", line, {"code": done.code, "out": done.out, "err": done.err})

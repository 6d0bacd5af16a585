"""Offsets are read from CSV, JSON and the pipeline's Parquet table, and a lag-aware plan then sees the lag."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import apportion
from apportion.errors import BadInput, Unavailable
from apportion.lag.sources import FileSource, KnownOffsets, LagSource, Offsets, merged, with_offsets

ROWS: list[dict[str, Any]] = [
    {"group": "g", "topic": "t", "partition": 0, "begin": 0, "end": 100, "committed": 10},
    {"group": "g", "topic": "t", "partition": 1, "begin": 40, "end": 100, "committed": None},
    {"group": "g", "topic": "u", "partition": 0, "begin": None, "end": None, "committed": 5},
]
KNOWN = {("t", 0): Offsets(0, 100, 10), ("t", 1): Offsets(40, 100, None)}
GROUP = {"auto_offset_reset": "earliest", "topics": {"t": 3}, "members": {"a": {"topics": ["t"]}}}


def as_csv(folder: Path, rows: list[dict[str, Any]]) -> Path:
    lines = ["group,topic,partition,begin,end,committed"]
    lines += [",".join("" if value is None else str(value) for value in row.values()) for row in rows]
    path = folder / "lag.csv"
    path.write_text("\n".join(lines))
    return path


def as_json(folder: Path, rows: list[dict[str, Any]]) -> Path:
    path = folder / "lag.json"
    path.write_text(json.dumps(rows))
    return path


def as_parquet(folder: Path, rows: list[dict[str, Any]]) -> Path:
    """Two files and a stray hidden one, with more columns than are needed, as Spark writes ``gold/lag``."""
    (folder / "lag").mkdir()
    for i, part in enumerate((rows[:1], rows[1:])):
        table = pa.Table.from_pylist([{**row, "raw_lag": 1, "status": "ok"} for row in part])
        pq.write_table(table, folder / "lag" / f"part-{i}.parquet")
    (folder / "lag" / "_SUCCESS").write_text("")
    (folder / "lag" / ".part-9.parquet").write_text("half written")
    return folder / "lag"


@pytest.mark.parametrize("write", [as_csv, as_json, as_parquet])
def test_the_same_rows_are_read_from_every_form(write: Any, tmp_path: Path) -> None:
    source = FileSource(write(tmp_path, ROWS))
    assert isinstance(source, LagSource)
    assert source.read(["t"]) == KNOWN
    assert source.read(["u", "nowhere"]) == {("u", 0): Offsets(None, None, 5)}


@pytest.mark.parametrize("write", [as_csv, as_json, as_parquet])
def test_rows_of_other_groups_are_left_alone_and_a_mixture_must_be_named(write: Any, tmp_path: Path) -> None:
    other = {"group": "h", "topic": "t", "partition": 0, "begin": 0, "end": 100, "committed": 99}
    path = write(tmp_path, [*ROWS, other])
    assert FileSource(path, group="g").read(["t"]) == KNOWN
    assert FileSource(path, group="h").read(["t"]) == {("t", 0): Offsets(0, 100, 99)}
    with pytest.raises(BadInput, match="rows of groups g, h"):
        FileSource(path).read(["t"])


def test_a_group_gets_the_offsets_and_so_its_lag() -> None:
    group = apportion.read_group(with_offsets(GROUP, KnownOffsets({**KNOWN, ("v", 0): Offsets(0, 9, 9)})))
    assert group.lag.tolist() == [90, 60, 0]
    assert group.lag_known.tolist() == [True, True, False]


def test_a_lag_that_is_given_still_wins() -> None:
    given = {**GROUP, "topics": {"t": [{"partition": 0, "lag": 7, "racks": ["a"]}]}}
    made = with_offsets(given, KnownOffsets(KNOWN))
    assert made["topics"]["t"] == [{"partition": 0, "lag": 7, "racks": ["a"], "begin": 0, "end": 100, "committed": 10}]
    assert apportion.read_group(made).lag.tolist() == [7]


def test_two_sources_are_merged_field_by_field() -> None:
    ends, commits = {("t", 0): Offsets(begin=1, end=9)}, {("t", 0): Offsets(end=8, committed=3), ("t", 1): Offsets()}
    assert merged(ends, commits) == {("t", 0): Offsets(1, 9, 3), ("t", 1): Offsets()}


@pytest.mark.parametrize(
    ("row", "where"),
    [
        ({"topic": "t", "partition": -1}, "lag.json[0].partition"),
        ({"topic": "t", "partition": None}, "lag.json[0].partition"),
        ({"topic": "t", "partition": True}, "lag.json[0].partition"),
        ({"topic": 5, "partition": 0}, "lag.json[0].topic"),
        ({"topic": "t", "partition": 0, "end": "many"}, "lag.json[0].end"),
        ({"topic": "t", "partition": 0, "end": 2**63}, "lag.json[0].end"),
        ({"topic": "t", "partition": 0, "committed": 1.5}, "lag.json[0].committed"),
        ("t-0", "lag.json[0]"),
    ],
)
def test_a_wrong_row_is_an_error_that_names_its_place(row: Any, where: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        FileSource(as_json(tmp_path, [row])).read(["t"])
    assert caught.value.where == where


def test_a_partition_twice_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="t-0 a second time"):
        FileSource(as_json(tmp_path, [ROWS[0], ROWS[0]])).read(["t"])


@pytest.mark.parametrize("name", ["no.csv", "no.json", "no.parquet", "empty"])
def test_what_is_not_there_is_unavailable(name: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(Unavailable, match="cannot read"):
        FileSource(tmp_path / name).read(["t"])


@pytest.mark.parametrize("name", ["bad.csv", "bad.json", "bad.parquet"])
def test_bytes_that_are_no_such_file_are_bad_input(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"topic,partition\n\xff\xfe\x00{")
    with pytest.raises(BadInput, match="bad"):
        FileSource(tmp_path / name).read(["t"])

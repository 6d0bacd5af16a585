"""The pipeline's tables read without Spark: the same groups and histories as from the dump they were made of."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from apportion.errors import BadInput
from apportion.history import rows
from apportion.history.commits import GroupCommits
from apportion.history.group_history import GroupHistories, GroupHistory
from apportion.sources import parquet
from apportion.sources.dump import ends_in, read_world, rows_of
from apportion.sources.dump_files import ENDS, TOPICS
from apportion.sources.parquet import BIGINT, BOOLEAN, INT, LIST, TEXT, TIME

_SOURCE: Final = {"source_partition": INT, "source_offset": BIGINT}
COMMITS: Final = {
    "group": TEXT, "topic": TEXT, "partition": INT, "committed": BIGINT, "topic_id": TEXT, "commit_time": TIME,
    "tombstone": BOOLEAN, **_SOURCE,
}  # fmt: skip
GENERATIONS: Final = {
    "group": TEXT, "generation": INT, "protocol_type": TEXT, "protocol": TEXT, "tombstone": BOOLEAN, "at": TIME,
    "state_time": TIME, "members": LIST, **_SOURCE,
}  # fmt: skip
EPOCHS: Final = {
    "group": TEXT, "key_type": INT, "member_id": TEXT, "epoch": INT, "tombstone": BOOLEAN, "body": TEXT, "at": TIME,
    **_SOURCE,
}  # fmt: skip
GAPS: Final = {"source_partition": INT, "before_offset": BIGINT, "missing": BIGINT}
FILLED: Final = ("group", "topic", "partition", "before_offset", "missing", *_SOURCE)
"""Columns that have a value in each row: what a row is about, and where its record stands."""
VERSION: Final = 1
"""Of the tables; those of another version are neither read nor written over."""

SOURCE: Final = "source.json"
"""What a build leaves beside its tables: their version, the dump that they are of, its settings."""

NEEDED: Final = "tables that `apportion pipeline build` made: a folder with silver/ and gold/"


def load_histories(path: str | Path) -> GroupHistories:
    """All groups of the silver tables with their histories."""
    folder = Path(path)
    if not (folder / "silver").is_dir():
        raise BadInput(str(path), "no folder silver/", NEEDED)
    check_version(folder)
    holes = _holes(folder)
    generations = _by_group(folder, "silver/generations", GENERATIONS, holes)
    epochs = _by_group(folder, "silver/epochs", EPOCHS, holes)
    commits: dict[str, list[dict[str, Any]]] = {}
    names: set[tuple[str, str]] = set()
    for row in _rows(folder, "silver/commits", COMMITS):
        commits.setdefault(row["group"], []).append(row)
        if row["topic_id"]:
            names.add((row["topic_id"], row["topic"]))
    ends, topics = (rows_of(_files(folder, f"silver/{name}"), of) for name, of in (("ends", ENDS), ("topics", TOPICS)))
    world = read_world(ends, topics, names)
    groups = {}
    for name in sorted({*generations, *epochs, *commits}):
        try:
            events = rows.events(name, generations.get(name, ()), epochs.get(name, ()))
        except ValueError:
            where = f"{folder / 'silver/epochs'}, column body"
            raise BadInput(where, f"a record of {name!r} that is no JSON", "the pipeline's files there") from None
        taken = _commits(commits.get(name, []), [event.offset for event in events])
        groups[name] = GroupHistory(name, events, taken.standing, taken.times.intervals(), world)
    return GroupHistories(groups, world)


def every_commit(path: str | Path) -> Iterator[tuple[str, tuple[str, int], int, int]]:
    """Every commit as group, (topic, partition), commit time (ms) and offset."""
    for row in _rows(Path(path), "silver/commits", COMMITS):
        if not row["tombstone"] and row["commit_time"] is not None:
            yield row["group"], (row["topic"], row["partition"]), row["commit_time"], row["committed"]


def end_samples(path: str | Path) -> Iterator[tuple[tuple[str, int], int, int]]:
    """Every sample of a log's end as (topic, partition), time (ms) and end."""
    return ends_in(_files(Path(path), "silver/ends"))


def next_offsets(path: str | Path) -> dict[int, int]:
    """Partition of the topic to the offset behind the last record that a silver table has."""
    tables = ("silver/commits", "silver/generations", "silver/epochs")
    files = [file for table in tables for file in _files(Path(path), table)]
    return parquet.behind_newest(files, _SOURCE, FILLED, *_SOURCE)


def check_version(folder: Path) -> None:
    """Refuse the tables of another version; a folder without a version is taken as it is."""
    try:
        text = (folder / SOURCE).read_bytes()
    except OSError:
        return
    check_version_of(f"{folder / SOURCE}", text)


def check_version_of(where: str, text: str | bytes | None) -> None:
    """Refuse the files that a build of another version kept next to its tables; None for nothing."""
    try:
        source = json.loads(text or "null")
    except ValueError:
        return
    version = source.get("version") if isinstance(source, dict) else None
    if isinstance(version, int) and version != VERSION:
        raise BadInput(where, f"tables of version {version}", f"version {VERSION}; take another folder")


def _files(folder: Path, table: str) -> list[Path]:
    files = parquet.files(folder / table)
    if not files and not (folder / table / "_delta_log").is_dir():  # a Delta table without rows has no file
        raise BadInput(str(folder), f"no table {table}", NEEDED)
    return files


def _rows(folder: Path, table: str, columns: Mapping[str, parquet.Check]) -> Iterator[dict[str, Any]]:
    for file in _files(folder, table):
        for batch in parquet.read(file, columns, FILLED).to_batches(max_chunksize=10_000):
            yield from batch.to_pylist()


def _holes(folder: Path) -> dict[int, tuple[Any, Any]]:
    """Source partition to the offsets after its gaps, ascending, and how many are missing up to each."""
    gaps: dict[int, list[tuple[int, int]]] = {}
    for row in _rows(folder, "silver/gaps", GAPS):
        gaps.setdefault(row["source_partition"], []).append((row["before_offset"], row["missing"]))
    ordered = {partition: np.array(sorted(pairs), dtype=np.int64) for partition, pairs in gaps.items()}
    return {partition: (pairs[:, 0], np.cumsum(pairs[:, 1])) for partition, pairs in ordered.items()}


def _by_group(
    folder: Path, table: str, columns: Mapping[str, parquet.Check], holes: Mapping[int, tuple[Any, Any]]
) -> dict[str, list[dict[str, Any]]]:
    rows_of: dict[str, list[dict[str, Any]]] = {}
    for row in _rows(folder, table, columns):
        after, missing = holes.get(row["source_partition"], ((), ()))
        i = int(np.searchsorted(after, row["source_offset"], side="right"))
        more = {"at_ms": row["at"], "state_ms": row.get("state_time"), "holes": int(missing[i - 1]) if i else 0}
        rows_of.setdefault(row["group"], []).append({**row, **more})
    return rows_of


def _commits(rows: list[dict[str, Any]], marks: list[int]) -> GroupCommits:
    """The commits of a group, and how they came between its records."""
    commits = GroupCommits()
    for row in sorted(rows, key=lambda row: row["source_offset"]):
        i = bisect_left(marks, row["source_offset"])
        committed = None if row["tombstone"] else row["committed"]
        partition, after = (row["topic"], row["partition"]), marks[i - 1] if i else -1
        commits.take(partition, committed, row["topic_id"], row["commit_time"], after)
    return commits

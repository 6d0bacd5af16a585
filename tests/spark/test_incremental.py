"""A build that goes on from another one does what is new, and makes everything anew, with the reason, where it must."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.pipeline import in_process
from tests.spark import made, traps
from tests.spark.conftest import rows_of

from apportion.errors import BadInput, Unavailable
from apportion.spark import build, job
from apportion.tables.schemas import TABLES

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1500)]
SETTINGS: dict[str, Any] = {"assignors": ["range", "lag-aware"]}


def same(out: Path, dump: Path) -> None:
    """Tables hold what all records and samples of the dump come to, made in this process without Spark."""
    tables = in_process.tables_of(dump)
    for name in TABLES:
        assert rows_of(out / name) == rows_of(tables[name]), name


class Growing:
    """A dump that grows to another one, step by step."""

    def __init__(self, whole: Path, folder: Path, seed: int) -> None:
        self.whole, self.folder, self.rng = whole, folder, random.Random(seed)
        files = sorted((whole / "records").glob("[!.]*.parquet"))
        self.records = pa.concat_tables([pq.read_table(file) for file in files], promote_options="permissive")
        self.steps = 0
        (folder / "records").mkdir(parents=True)
        self.done = dict.fromkeys(pc.unique(self.records["partition"]).to_pylist(), -1)
        self.describe(0)

    def grow(self, share: float) -> None:
        """Some more of each partition's log."""
        pieces = []
        for partition, last in self.done.items():
            mine = self.records.filter(pc.field("partition") == partition).sort_by("offset")
            left = mine.filter(pc.field("offset") > last)
            n = left.num_rows if share >= 1 else int(left.num_rows * self.rng.random() * 2 * share)
            if n:
                pieces.append(left.slice(0, n))
                self.done[partition] = left["offset"][n - 1].as_py()
        self.steps += 1
        table = pa.concat_tables(pieces) if pieces else self.records.slice(0, 0)
        pq.write_table(table, self.folder / "records" / f"part-{self.steps}.parquet")

    def describe(self, moved: int, without: str = "") -> None:
        """The log ends and topics, so many messages later; perhaps without a topic."""
        ends = pq.read_table(self.whole / "ends.parquet")
        keep = pc.invert(pc.starts_with(ends["topic"], without)) if without else None
        ends = ends.filter(keep) if keep is not None else ends
        at = ends.schema.get_field_index("at")
        for name in ("end", "last_stable"):
            later = pc.add(ends[name], moved)
            ends = ends.set_column(ends.schema.get_field_index(name), name, later)
        if moved:
            ends = ends.set_column(at, "at", pc.add(ends["at"], pa.scalar(moved * 1000, pa.duration("ms"))))
        (self.folder / "samples").mkdir(exist_ok=True)
        pq.write_table(ends, self.folder / "ends.parquet")
        pq.write_table(ends, self.folder / "samples" / f"ends-{moved:05d}.parquet")
        if (self.whole / "topics.parquet").exists():
            topics = pq.read_table(self.whole / "topics.parquet")
            if without:
                topics = topics.filter(pc.invert(pc.starts_with(topics["topic"], without)))
            pq.write_table(topics, self.folder / "topics.parquet")


GOLD_OF_ENDS = {"gold/commits", "gold/groups", "gold/lag", "gold/group_state", "gold/verdicts"}


def test_each_round_does_what_is_new_and_gives_the_rows_of_all(spark: Any, tmp_path: Path) -> None:
    """New records; log ends alone, after which who is silent is not planned; ends that went back and are gone."""
    growing = Growing(traps.write(tmp_path / "traps"), tmp_path / "dump", 5)
    growing.grow(0.6)
    out = tmp_path / "out [1] {a,b} * 100%"  # a name that Spark, and people, could take for a pattern
    first = job.build(growing.folder, out, spark=spark, **SETTINGS)
    assert first.whole == "there were none yet"

    growing.grow(1.0)
    growing.describe(7)
    second = job.build(growing.folder, out, spark=spark, **SETTINGS)
    assert second.whole == ""
    assert second.new_records > 0
    assert second.touched_groups is not None
    assert second.planned_groups is not None
    assert second.touched_groups > 0
    assert second.planned_groups > 0
    same(out, growing.folder)

    growing.describe(1_000_000)
    job.build(growing.folder, out, spark=spark, **SETTINGS)
    growing.describe(2_000_000)
    moved = job.build(growing.folder, out, spark=spark, **SETTINGS)
    assert (moved.whole, moved.touched_groups, moved.planned_groups) == ("", 0, 0)
    assert set(moved.written) - {"silver/topics"} == {"silver/ends", *GOLD_OF_ENDS}
    same(out, growing.folder)

    (growing.folder / "samples" / "ends-00000.parquet").unlink()
    with pytest.raises(BadInput, match=r"1 file .* gone .*: samples/ends-00000\.parquet; needed .*--full"):
        job.build(growing.folder, out, spark=spark, **SETTINGS)
    job.build(growing.folder, out, spark=spark, full=True, **SETTINGS)
    same(out, growing.folder)


def test_what_somebody_did_to_a_builds_files_makes_everything_anew(spark: Any, tmp_path: Path) -> None:
    growing = Growing(traps.write(tmp_path / "traps"), tmp_path / "dump", 5)
    growing.grow(0.6)
    out = tmp_path / "out"
    job.build(growing.folder, out, spark=spark, **SETTINGS)
    growing.grow(1.0)
    state = json.loads((out / build.BUILD).read_text())
    (out / build.BUILD).write_text(json.dumps({**state, "state": {**state["state"], "read": {"0": 7}}}))
    lines: list[str] = []
    built = job.build(growing.folder, out, spark=spark, progress=lines.append, **SETTINGS)
    assert built.whole == "build.json is not as a build leaves it"
    assert f"rebuilding everything: {built.whole}" in lines
    same(out, growing.folder)
    shutil.rmtree(out / "gold/lag")
    assert job.build(growing.folder, out, spark=spark, **SETTINGS).whole == "gold/lag is gone"
    same(out, growing.folder)
    file = sorted((growing.folder / "records").glob("*.parquet"))[0]
    os.utime(file, ns=(1, 1))
    reason = "files of records that were read before are others, or gone"
    assert job.build(growing.folder, out, spark=spark, **SETTINGS).whole == reason
    same(out, growing.folder)
    assert job.build(growing.folder, out, spark=spark, assignors=["range"]).whole == "the settings changed"
    shutil.rmtree(out / "gold/epochs")
    (out / build.BUILD).write_text('{"version": "0.0.9, 1", "seen": {}}')
    older = job.build(growing.folder, out, spark=spark, **SETTINGS)
    assert older.whole == f"another version made them: 0.0.9, 1, this is {build.version()}"
    same(out, growing.folder)


def contents(folder: Path) -> dict[str, bytes]:
    """What the files of a place hold, but for its lock."""
    files = (file for file in sorted(folder.rglob("*")) if file.is_file() and ".apportion_lock" not in file.parts)
    return {str(file): file.read_bytes() for file in files}


def test_a_build_never_deletes_history_because_a_file_of_the_dump_is_gone_or_emptied(
    spark: Any, tmp_path: Path
) -> None:
    """Whatever else would make everything anew: the settings, another version."""
    growing = Growing(traps.write(tmp_path / "traps"), tmp_path / "dump", 5)
    growing.grow(0.6)
    growing.grow(1.0)
    out = tmp_path / "out"
    job.build(growing.folder, out, spark=spark, **SETTINGS)
    records = (growing.folder / "records").glob("*.parquet")
    file = max(records, key=lambda part: pq.read_metadata(part).num_rows)
    before, content = contents(out), file.read_bytes()
    state = json.loads((out / build.BUILD).read_text())
    for spoil in (Path.unlink, lambda part: pq.write_table(growing.records.slice(0, 0), part)):
        spoil(file)
        for settings in (SETTINGS, {"assignors": ["range"]}):
            with pytest.raises(BadInput, match=f"1 file .*: records/{file.name}; needed .*--full"):
                job.build(growing.folder, out, spark=spark, **settings)
        assert contents(out) == before
        (out / build.BUILD).write_text(json.dumps({**state, "version": "0.0.1, 1, x"}))
        with pytest.raises(BadInput, match="--full"):
            job.build(growing.folder, out, spark=spark, **SETTINGS)
        (out / build.BUILD).write_text(json.dumps(state))
        file.write_bytes(content)
        before = contents(out)
    file.unlink()
    assert job.build(growing.folder, out, spark=spark, full=True, **SETTINGS).whole == "as asked"
    same(out, growing.folder)


@pytest.mark.thorough  # each other test here adds to tables, too
def test_a_table_that_was_added_to_often_is_written_anew(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many small files are slow to read."""
    monkeypatch.setattr(build, "APPENDED_MAX", 1)
    growing = Growing(traps.write(tmp_path / "traps"), tmp_path / "dump", 3)
    out = tmp_path / "out"
    files = []
    for share in (0.3, 0.3, 1.0):
        growing.grow(share)
        job.build(growing.folder, out, spark=spark, **SETTINGS)
        files.append(len({file.name.rpartition("+")[2] for file in (out / "silver/commits").glob("*.parquet")}))
    assert files == [1, 2, 1]
    same(out, growing.folder)


def test_a_round_of_few_tasks_goes_on_from_many_buckets(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round has tasks for what stands and what is new; what is kept stays dealt as the first build dealt it."""
    monkeypatch.setattr(build, "FEW_RECORDS", 0)
    monkeypatch.setattr(build, "RECORDS_A_BUCKET", 3)
    growing = Growing(traps.write(tmp_path / "traps"), tmp_path / "dump", 5)
    out = tmp_path / "out"
    tasks = []
    for share in (0.5, 0.1, 1.0):
        growing.grow(share)
        growing.describe(7 * growing.steps)
        job.build(growing.folder, out, spark=spark, **SETTINGS)
        kept = json.loads((out / build.BUILD).read_text())["state"]
        tasks.append((kept["buckets"], len(list((out / "apportion_state").glob("g*.parquet")))))
    assert tasks[1][1] < tasks[0][1]
    assert {buckets for buckets, _ in tasks} == {tasks[0][0]}
    same(out, growing.folder)


def test_a_table_that_is_spoilt_is_made_anew_when_asked_to(spark: Any, tmp_path: Path) -> None:
    """Nobody has another copy of it: the sentence says how to make it again, and that does."""
    dump, out = made.write_dump(tmp_path / "dump", made.every_kind()), tmp_path / "out"
    job.build(dump, out, spark=spark, **SETTINGS)
    last = pq.read_table(min((dump / "records").iterdir())).slice(0, 1)
    at = last.schema.get_field_index("offset")
    later = last.set_column(at, last.schema.field(at), pa.array([10**6], last.schema.field(at).type))
    pq.write_table(later, dump / "records" / "later.parquet")
    remedy = "cannot be read to its end; rebuild the tables with pipeline build --full$"
    for hurt in (lambda read: read[:-9], lambda read: read[:4] + bytes(b ^ 0x5A for b in read[4:200]) + read[200:]):
        for file in (out / "apportion_state").glob("*.parquet"):
            file.write_bytes(hurt(file.read_bytes()))
        with pytest.raises(Unavailable, match=remedy):
            job.build(dump, out, spark=spark, **SETTINGS)
        assert job.build(dump, out, spark=spark, full=True, **SETTINGS).whole == "as asked"
        pq.write_table(later.set_column(at, last.schema.field(at), pa.array([2 * 10**6], last.schema.field(at).type)),
                       dump / "records" / "latest.parquet")  # fmt: skip
    for file in (out / "gold/lag").glob("*.parquet"):
        file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(Unavailable, match=remedy):
        job.status(out)


@pytest.mark.parametrize(
    ("name", "value"),
    [("version", None), ("version", 5), ("digest", "0"), ("digest", None), ("state", None), ("state", ["0"]),
     ("state", {"read": {"0": 6}}), ("state", {"records": "6"}), ("state", {"nothing": 1})],
)  # fmt: skip
def test_a_state_that_no_build_writes_is_none(name: str, value: Any) -> None:
    state = build.BuildState(
        build.version(), {"allowed_lag": 0}, "{}", {"records": {"f": "6 3"}}, {"0": 5}, 6, 7, {"id": None}, 2
    )
    assert build.BuildState.from_text(state.to_text()) == state
    kept = json.loads(state.to_text())
    changed = {**kept, name: {**kept["state"], **value} if isinstance(value, dict) else value}
    assert build.BuildState.from_text(json.dumps(changed)) is None
    older = build.BuildState.from_text(json.dumps({"version": "0.0.9, 1"}))
    assert older is not None
    assert older.version == "0.0.9, 1"


@pytest.mark.parametrize("text", [None, "", "[1]", "{", "[" * 100_000, '"text"'])
def test_what_is_no_state_at_all_is_none(text: str | None) -> None:
    assert build.BuildState.from_text(text) is None


class Enough(Exception):
    """The test has seen what it wanted."""


def test_run_builds_what_each_round_brings_stops_if_a_file_is_lost_and_outlives_its_broker(
    spark: Any, tmp_path: Path
) -> None:
    """A lost file is named before a table is touched: a round that went on would delete history."""
    from tests.spark.test_capture import commit, wait_for_quiet

    from apportion.testing.broker import Broker

    dump, tables = tmp_path / "dump", tmp_path / "tables"

    def progress(line: str) -> None:
        if "trying again" in line:
            raise Enough

    with Broker() as kafka:

        def rounds() -> Iterator[Any]:
            return job.run(
                kafka.bootstrap, dump, tables, interval_s=0, source="python", assignors=["range"], spark=spark,
                progress=progress,
            )  # fmt: skip

        kafka.create_topic("t", 3)
        commit(kafka, "one", 5)
        running = rounds()
        assert next(running).whole == "there were none yet"
        commit(kafka, "two", 5)
        wait_for_quiet(kafka)
        second = next(running)
        assert second.whole == ""
        assert second.new_records >= 5
        assert "gold/commits" in second.written
        assert {row["group"] for row in pq.read_table(tables / "gold/groups").to_pylist()} >= {"one", "two"}
        file = max((dump / "records").glob("*.parquet"), key=lambda part: part.stat().st_size)
        before = rows_of(tables / "silver/commits")
        file.rename(tmp_path / file.name)
        commit(kafka, "three", 5)
        with pytest.raises(BadInput, match=f"records/{file.name}; needed .*--full"):
            next(running)
        assert rows_of(tables / "silver/commits") == before
        (tmp_path / file.name).rename(file)
        running = rounds()
        assert next(running).new_records >= 5
    with pytest.raises(Enough):
        next(running)

"""An incremental build gives the rows of a full one, bit for bit, and does no more than it must."""

from __future__ import annotations

import json
import os
import random
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from tests.spark import made, traps

from apportion.errors import BadInput, Unavailable
from apportion.spark import (
    few_groups,
    few_records,
    few_update,
    incremental,
    job,
    kept_ends,
    log_ends,
    logs,
    packages,
    planned_ends,
    session,
)
from apportion.spark import sources as sources_of
from apportion.spark.schemas import TABLES, arrow_schema
from apportion.spark.sinks import frame_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1500)]
THOROUGH = os.environ.get("APPORTION_THOROUGH") == "1"
SETTINGS: dict[str, Any] = {"assignors": ["range", "lag-aware"]}


def rows(out: Path, name: str) -> list[dict[str, Any]]:
    order = [(column, "ascending") for column in TABLES[name].order]
    return ds.dataset(out / name).to_table().sort_by(order).to_pylist()


def same(one: Path, other: Path) -> None:
    for name in TABLES:
        assert rows(one, name) == rows(other, name), name


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

    def sampled_a_day_before(self) -> None:
        """The log ends so far as if every record came after them."""
        for file in (self.folder / "ends.parquet", *(self.folder / "samples").iterdir()):
            ends = pq.read_table(file)
            at = pc.subtract(ends["at"], pa.scalar(timedelta(days=1), pa.duration("us")))
            pq.write_table(ends.set_column(ends.schema.get_field_index("at"), "at", at), file)


def sources(tmp: Path) -> list[Path]:
    import apportion.demo

    recorded = Path(apportion.demo.__file__).parent / "dump"
    generated = traps.write(tmp / "traps")
    return [recorded, generated]


GOLD = {name for name in TABLES if name.startswith("gold/")}


@pytest.mark.parametrize("which", [pytest.param(0, marks=pytest.mark.thorough), 1])
@pytest.mark.parametrize("seed", range(4 if THOROUGH else 1))
@pytest.mark.parametrize(
    "size",
    ["few", "many groups", "many records, elsewhere",
     *(pytest.param(one, marks=pytest.mark.thorough) for one in ("many records", "many groups, elsewhere"))],
)  # fmt: skip
def test_random_cuts_give_the_rows_of_a_full_build(
    which: int, size: str, seed: int, tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made in this process where few; where many, gold is made anew, or what changed by Spark on other machines."""
    if size == "few":
        monkeypatch.setattr(few_update, "COMMITS_AT_ONCE", 5)
        monkeypatch.setattr(kept_ends, "FEW_ROWS", 0)
        monkeypatch.setattr(kept_ends, "FEW", 0)
    else:
        monkeypatch.setattr(few_update, "WHOLE_MAX", 0)
        monkeypatch.setattr(
            *(few_update, "GROUPS_MAX", -1) if size.startswith("many groups") else (few_records, "RECORDS_MAX", -1)
        )
    anew = size in ("many groups", "many records")
    if size != "few" and not anew:
        monkeypatch.setattr(incremental, "is_here", lambda spark: False)
    growing = Growing(sources(tmp_path)[which], tmp_path / "dump", seed)
    out = tmp_path / "out"
    topic = pq.read_table(growing.whole / "ends.parquet")["topic"][0].as_py()
    growing.describe(0, without=topic)
    for step, share in enumerate((0.5, 0.3, 1.0) if THOROUGH else (0.5, 1.0)):
        growing.grow(share)
        if step == 1:
            growing.describe(7, without=topic)
        built = job.build(growing.folder, out, spark=spark, **SETTINGS)
        assert (built.whole == "") == (step > 0)
    monkeypatch.setattr(incremental, "NOT_COMPARED", 0)
    growing.describe(9)
    assert job.build(growing.folder, out, spark=spark, **SETTINGS).whole == ""
    lags_before = rows(out, "gold/lag")
    growing.describe(1_000_000)
    moved = job.build(growing.folder, out, spark=spark, **SETTINGS)
    assert (moved.whole, moved.touched_groups) == ("", 0)
    assert rows(out, "gold/lag") != lags_before
    if anew:
        assert (set(moved.written), moved.planned_groups) == ({"silver/ends", *GOLD}, None)
    else:
        assert moved.planned_groups == 0, "who is silent is not planned anew"
        assert set(moved.written) == {"silver/ends", "gold/lag", "gold/group_state", "gold/verdicts"}
    job.build(growing.folder, tmp_path / "fresh", spark=spark, **SETTINGS)
    same(out, tmp_path / "fresh")
    if THOROUGH:
        shutil.rmtree(growing.folder / "samples")
        assert job.build(growing.folder, out, spark=spark, **SETTINGS).whole == ""
        job.build(growing.folder, tmp_path / "newest", spark=spark, **SETTINGS)
        same(out, tmp_path / "newest")


def test_new_records_are_the_same_by_spark_as_from_files(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each place once, with every bad key and value; none where they are too many or too large."""
    dump = sources_of.read_dump(spark, traps.write(tmp_path / "traps"))
    assert dump.files is not None
    partitions = pq.read_table(next(iter(dump.files.records)))["partition"].unique().to_pylist()
    for read in ({}, dict.fromkeys(partitions, 20)):
        asked = dump.records.where(incremental.behind(read))
        from_files = few_records.new_records(dump.files, read, 1)
        by_spark = few_records.new_records_by_spark(asked, 1)
        assert from_files is not None
        assert by_spark is not None
        assert from_files.num_rows > 0
        assert from_files.schema == by_spark.schema
        places = [("partition", "ascending"), ("offset", "ascending")]
        assert from_files.sort_by(places).to_pylist() == by_spark.sort_by(places).to_pylist()
    twice = asked.unionByName(asked.selectExpr("key", "key AS value", "partition", "offset", "timestamp"))
    with pytest.raises(BadInput, match="two different records"):
        few_records.new_records_by_spark(twice, 1)
    assert few_records.new_records_by_spark(asked, few_records.RECORDS_MAX + 1) is None
    monkeypatch.setattr(few_records, "BYTES_MAX", 10)
    assert few_records.new_records_by_spark(asked, 1) is None


def test_a_few_groups_of_plain_files_are_built_without_spark(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where records came, where log ends moved, where nothing is new: none is asked for, and the rows are right."""
    growing = Growing(traps.write(tmp_path / "traps"), tmp_path / "dump", 4)
    growing.sampled_a_day_before()
    growing.grow(0.4)
    out = tmp_path / "out"
    job.build(growing.folder, out, spark=spark, **SETTINGS)

    def refused(*args: Any, **named: Any) -> Any:
        raise AssertionError("Spark is not needed")

    lines: list[str] = []
    with monkeypatch.context() as without:
        without.setattr(session, "session", refused)
        without.setattr(session, "java", refused)
        for turn, share in enumerate((0.5, 1.0, 1.0)):
            growing.grow(share)
            if turn:
                growing.describe(7)
            built = job.build(growing.folder, out, progress=lines.append, **SETTINGS)
            assert (built.whole, bool(built.new_records)) == ("", turn < 2)
            if turn == 1:
                assert built.planned_groups > built.touched_groups > 0, (
                    "who was heard since the last samples is planned"
                )
            assert built.rows == {state.name: state.rows for state in job.status(out)}
    assert "starting Spark" not in lines
    job.build(growing.folder, tmp_path / "fresh", spark=spark, **SETTINGS)
    same(out, tmp_path / "fresh")
    shutil.rmtree(out / "gold/lag")
    assert job.build(growing.folder, out, spark=spark, **SETTINGS).whole == "gold/lag is gone"
    same(out, tmp_path / "fresh")


def test_what_somebody_did_to_a_builds_files_is_a_sentence_or_a_build_that_makes_all_anew(
    spark: Any, tmp_path: Path
) -> None:
    growing = Growing(traps.write(tmp_path / "traps"), tmp_path / "dump", 5)
    growing.grow(0.6)
    out = tmp_path / "out"
    job.build(growing.folder, out, spark=spark, **SETTINGS)
    growing.grow(1.0)
    state = json.loads((out / incremental.STATE).read_text())
    (out / incremental.STATE).write_text(json.dumps({**state, "read": {"0": "far"}}))
    lines: list[str] = []
    built = job.build(growing.folder, out, spark=spark, progress=lines.append, **SETTINGS)
    assert built.whole == "build.json is not as a build leaves it"
    assert f"making everything anew: {built.whole}" in lines
    job.build(growing.folder, tmp_path / "fresh", spark=spark, **SETTINGS)
    same(out, tmp_path / "fresh")


def test_a_table_that_is_spoilt_is_made_anew_when_asked_to(spark: Any, tmp_path: Path) -> None:
    """Nobody has another copy of it: the sentence says how to make it again, and that does."""
    dump, out = made.write_dump(tmp_path / "dump", made.every_kind()), tmp_path / "out"
    job.build(dump, out, spark=spark, **SETTINGS)
    last = pq.read_table(min((dump / "records").iterdir())).slice(0, 1)
    at = last.schema.get_field_index("offset")
    later = last.set_column(at, last.schema.field(at), pa.array([10**6], last.schema.field(at).type))
    pq.write_table(later, dump / "records" / "later.parquet")
    remedy = "cannot be read to its end; make the tables anew with pipeline build --full$"
    for hurt in (lambda read: read[:-9], lambda read: read[:4] + bytes(b ^ 0x5A for b in read[4:200]) + read[200:]):
        for file in (out / "gold/lag").glob("*.parquet"):
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
    [
        ("version", None), ("settings", 3), ("dump", ["d"]), ("records", "9"), ("records_sum", None), ("ends", 1.0),
        ("ends_at", "now"), ("topics_sum", True), ("read", 5), ("read", ["0"]), ("read", {"x": 3}),
        ("read", {"0": "3"}), ("read", {"0": 2**70}), ("kept", [1]), ("kept", {"at": 1}),
        ("kept", {"at": "a", "rows": 1, "of": 1}), ("seen", []), ("seen", {"records": 5}),
        ("seen", {"records": {"f": "ab"}}), ("seen", {"records": {"f": [1]}}), ("seen", {"topics": 7}),
        ("seen", {"topics": {"f": None}}), ("seen", {"ends": 7}), ("seen", {"ends": [7]}), ("seen", {"other": {}}),
        ("nothing", 1),
    ],
)  # fmt: skip
def test_a_state_that_no_build_writes_is_none(name: str, value: Any) -> None:
    state = incremental.BuildState(
        "1", {"allowed_lag": 0}, "{}", {"0": 5}, 6, -3, 2, 2**64 - 1, 7, 8,
        {"records": {"f": [6, -3]}, "ends": ["g"], "topics": {"h": 8}}, {"at": 7, "rows": 2, "of": 2},
    )  # fmt: skip
    assert incremental.BuildState.from_text(state.to_text()) == state
    assert incremental.BuildState.from_text(incremental.BuildState("1", {}, "{}").to_text()) is not None
    changed = json.dumps({**json.loads(state.to_text()), name: value})
    assert incremental.BuildState.from_text(changed) is None


@pytest.mark.parametrize("text", [None, "", "[1]", "{", "[" * 100_000, '"text"'])
def test_what_is_no_state_at_all_is_none(text: str | None) -> None:
    assert incremental.BuildState.from_text(text) is None


def test_log_ends_that_went_back_new_partitions_and_topics_that_are_gone(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group's rows follow its topics' logs, whatever became of them; few groups at a time give the rows of all."""
    monkeypatch.setattr(few_update, "COMMITS_AT_ONCE", 5)
    monkeypatch.setattr(kept_ends, "FEW_ROWS", 0)
    monkeypatch.setattr(kept_ends, "FEW", 0)
    certain, doubted = kept_ends.KeptEnds.uncertain, set[str]()

    def of_every_other_more(kept: kept_ends.KeptEnds, asked: pa.Table) -> set[str]:
        names = set(asked["topic"].unique().to_pylist()[::2])
        doubted.update(names)
        return certain(kept, asked) | names

    monkeypatch.setattr(kept_ends.KeptEnds, "uncertain", of_every_other_more)
    growing = Growing(traps.write(tmp_path / "traps"), tmp_path / "dump", 5)
    growing.grow(0.6)
    out = tmp_path / "out"
    job.build(growing.folder, out, spark=spark, **SETTINGS)
    read = {row["topic"] for row in rows(out, "gold/lag") if row["status"] == "ok"}
    back, gone = sorted(read)[:2]

    growing.describe(5)
    assert job.build(growing.folder, out, spark=spark, **SETTINGS).whole == ""
    assert not doubted, "none are kept yet"
    growing.grow(0.2)
    growing.describe(7)
    ends = pq.read_table(growing.folder / "ends.parquet")
    shorter = pc.if_else(pc.equal(ends["topic"], back), ends["begin"], ends["end"])
    ends = ends.set_column(ends.schema.get_field_index("end"), "end", shorter)
    more = ends.filter(pc.field("topic") == back).slice(0, 1)
    column = more.schema.get_field_index("partition")
    more = more.set_column(column, more.schema.field(column), pa.array([77], more.schema.field(column).type))
    sampled = pa.concat_tables([ends.filter(pc.field("topic") != gone), more])
    for file in (growing.folder / "ends.parquet", growing.folder / "samples" / "ends-00007.parquet"):
        pq.write_table(sampled, file)
    assert job.build(growing.folder, out, spark=spark, **SETTINGS).whole == ""
    job.build(growing.folder, tmp_path / "sampled", spark=spark, **SETTINGS)
    same(out, tmp_path / "sampled")
    assert len(doubted) > 1
    assert any(row["lost"] or row["status"] != "ok" for row in rows(out, "gold/lag") if row["topic"] == back)

    for moved in (0, 5):  # now nothing tells of the topic
        (growing.folder / "samples" / f"ends-{moved:05d}.parquet").unlink()
    topics = pq.read_table(growing.folder / "topics.parquet")
    pq.write_table(topics.filter(pc.field("topic") != gone), growing.folder / "topics.parquet")
    assert job.build(growing.folder, out, spark=spark, **SETTINGS).whole == ""
    job.build(growing.folder, tmp_path / "gone", spark=spark, **SETTINGS)
    same(out, tmp_path / "gone")
    assert {row["sampled_at"] for row in rows(out, "gold/lag") if row["topic"] == gone} == {None}
    assert any(
        entry["partition"] == 77
        for row in rows(out, "gold/group_state") for topic in row["topics"] for entry in topic["partitions"]
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_groups_whose_log_ends_may_be_others_are_those_that_spark_tells(seed: int, spark: Any) -> None:
    """Of topics with partitions sampled before and after, only after, or never; of groups heard of at any time."""
    rng, began = random.Random(seed), datetime(2026, 1, 1, tzinfo=UTC)
    ends = [
        {
            "topic": f"t{t}",
            "partition": p,
            "begin": 0,
            "end": at,
            "last_stable": at,
            "at": began + timedelta(seconds=at),
        }
        for t in range(8)
        for p in range(rng.randint(0, 3))
        for at in rng.sample(range(12), rng.randint(1, 4))
    ]
    sampled = pa.Table.from_pylist(ends, schema=arrow_schema(TABLES["silver/ends"]))
    before_ms = round((began + timedelta(seconds=6)).timestamp() * 1000)
    named = [(f"g{n}", rng.sample(range(8), rng.randint(0, 2))) for n in range(60)]
    schema = arrow_schema(TABLES["gold/group_state"])
    state = pa.Table.from_pylist(
        [{"group": name, "topics": [{"topic": f"t{t}"} for t in topics]} for name, topics in named], schema=schema
    )
    heard = pa.table({"group": state["group"], "heard_ms": [before_ms + rng.randint(-7, 5) * 1000 for _ in named]})
    ours = few_groups.unsettled(state, heard, logs.described(sampled, logs.NO_TOPICS), before_ms)
    frames = [frame_of(spark, one, TABLES[name].schema) for one, name in
              ((state, "gold/group_state"), (sampled, "silver/ends"))]  # fmt: skip
    samples = log_ends.samples(frames[1])
    by_spark = planned_ends.unsettled(frames[0], spark.createDataFrame(heard), samples, before_ms)
    assert ours == {row["group"] for row in by_spark.collect()}
    assert 0 < len(ours) < len(named)


def test_a_few_groups_of_delta_tables_are_replaced_too(spark: Any, tmp_path: Path) -> None:
    """Rows of touched groups are asked of the tables in the version that this build goes on from, or wrote."""
    deltalake = pytest.importorskip("deltalake")
    if not packages.local_jars(packages.DELTA):
        pytest.skip("Delta's jars are not on this machine")
    growing = Growing(traps.write(tmp_path / "traps"), tmp_path / "dump", 3)
    growing.grow(0.4)
    job.build(growing.folder, tmp_path / "delta", form="delta", spark=spark, **SETTINGS)
    growing.grow(0.5)
    assert job.build(growing.folder, tmp_path / "delta", form="delta", spark=spark, **SETTINGS).whole == ""
    growing.grow(1.0)
    growing.describe(7)
    built = job.build(growing.folder, tmp_path / "delta", form="delta", spark=spark, **SETTINGS)
    assert (built.whole, bool(built.touched_groups)) == ("", True)
    job.build(growing.folder, tmp_path / "fresh", spark=spark, **SETTINGS)
    for name in TABLES:
        order = [(column, "ascending") for column in TABLES[name].order]
        table = deltalake.DeltaTable(str(tmp_path / "delta" / name)).to_pyarrow_table()
        assert table.select(TABLES[name].schema.names).sort_by(order).to_pylist() == rows(tmp_path / "fresh", name), (
            name
        )


class Enough(Exception):
    """The test has seen what it wanted."""


def test_run_builds_what_each_round_brings_and_outlives_its_broker(spark: Any, tmp_path: Path) -> None:
    from tests.spark.test_capture import commit, wait_for_quiet

    from apportion.testing.broker import Broker

    lines: list[str] = []

    def progress(line: str) -> None:
        lines.append(line)
        if "trying again" in line:
            raise Enough

    with Broker() as kafka:
        kafka.create_topic("t", 3)
        commit(kafka, "one", 5)
        rounds = job.run(
            kafka.bootstrap, tmp_path / "dump", tmp_path / "tables", interval_s=0, source="python",
            assignors=["range"], spark=spark, progress=progress,
        )  # fmt: skip
        assert next(rounds).whole == "there were none yet"
        commit(kafka, "two", 5)
        wait_for_quiet(kafka)
        second = next(rounds)
        assert second.whole == ""
        assert second.new_records >= 5
        assert "gold/commits" in second.written
        assert {row["group"] for row in rows(tmp_path / "tables", "gold/groups")} >= {"one", "two"}
    with pytest.raises(Enough):
        next(rounds)

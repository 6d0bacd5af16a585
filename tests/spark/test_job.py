"""Build, rebuild and status on the recorded cluster: what Kafka's own classes read, every row, and the same again."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark import made
from tests.spark.conftest import rows_of

from apportion.demo import dump as recorded
from apportion.errors import BadInput, UnknownName
from apportion.pipeline import personal
from apportion.pipeline.personal import nameless_body
from apportion.spark import job, session, sources
from apportion.spark.location import locate
from apportion.tables.schemas import TABLES, arrow_schema
from apportion.wire.coordinator import VALUES

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def out(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """In a folder whose name Spark, and people, could take for a pattern."""
    folder = tmp_path_factory.mktemp("tables") / "out [1] {a,b} * 100%"
    job.build(recorded(), folder, spark=spark)
    return folder


def rows(out: Path, name: str) -> list[dict[str, Any]]:
    return pq.read_table(out / name).to_pylist()


def truth() -> Iterator[dict[str, Any]]:
    """Each record as Kafka's own classes read it."""
    with gzip.open(recorded() / "truth" / "records.ndjson.gz", "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def place(row: dict[str, Any]) -> tuple[int, int]:
    return row["source_partition"], row["source_offset"]


def millis(time: datetime | None) -> int | None:
    return None if time is None else round(time.timestamp() * 1000)


def test_commits_are_those_of_kafkas_own_classes(out: Path) -> None:
    """Field by field, tombstones too."""
    mine = {place(row): row for row in rows(out, "silver/commits")}
    theirs = {(line["partition"], line["offset"]): line for line in truth() if line["type"] in (0, 1)}
    assert mine.keys() == theirs.keys()
    for at, line in theirs.items():
        row, value = mine[at], line["value"]
        assert (row["group"], row["topic"], row["partition"]) == tuple(
            line["key"][n] for n in ("group", "topic", "partition")
        )
        assert row["tombstone"] == (value is None)
        if value is None:
            continue
        epoch = value.get("leaderEpoch", -1)
        expected = (value["offset"], None if epoch == -1 else epoch, value["metadata"], value["commitTimestamp"])
        assert (row["committed"], row["leader_epoch"], row["metadata"], millis(row["commit_time"])) == expected
        assert row["value_version"] == line["version"]
        assert row["topic_id"] == {"AAAAAAAAAAAAAAAAAAAAAA": None}.get(value.get("topicId"), value.get("topicId"))


def test_generations_are_those_of_kafkas_own_classes(out: Path) -> None:
    """Members in their order with ids, hosts and instance ids."""
    mine = {place(row): row for row in rows(out, "silver/generations")}
    theirs = {(line["partition"], line["offset"]): line for line in truth() if line["type"] == 2}
    assert mine.keys() == theirs.keys()
    for at, line in theirs.items():
        row, value = mine[at], line["value"]
        assert (row["group"], row["tombstone"]) == (line["key"]["group"], value is None)
        if value is not None:
            names = {
                "generation": "generation",
                "protocol": "protocol",
                "leader": "leader",
                "protocol_type": "protocolType",
            }
            assert {n: row[n] for n in names} == {n: value[theirs_name] for n, theirs_name in names.items()}
            ids = [(m["memberId"], m["groupInstanceId"], m["clientId"], m["clientHost"]) for m in value["members"]]
            assert [(m["member_id"], m["instance_id"], m["client_id"], m["host"]) for m in row["members"]] == ids


def test_epochs_are_those_of_kafkas_own_classes(out: Path) -> None:
    """The whole body as JSON, but for tagged fields at their default."""
    mine = {place(row): row for row in rows(out, "silver/epochs")}
    theirs = {(line["partition"], line["offset"]): line for line in truth() if line["type"] in VALUES}
    assert mine.keys() == theirs.keys()
    for at, line in theirs.items():
        row = mine[at]
        assert (row["key_type"], row["tombstone"]) == (line["type"], line["value"] is None)
        body = None if row["body"] is None else json.loads(row["body"])
        assert body == line["value"] or body == {**line["value"], **(body or {})}
        assert row["member_id"] == line["key"].get("memberId")


def test_counts_and_rejects_are_every_record(out: Path) -> None:
    """By type, version and tombstone."""
    theirs = Counter(
        (line["type"], None if line["value"] is None else line["version"], line["value"] is None) for line in truth()
    )
    mine = {(r["key_type"], r["value_version"], r["tombstone"]): r["records"] for r in rows(out, "silver/counts")}
    assert mine == dict(theirs)
    assert rows(out, "silver/rejects") == []


def test_every_table_has_its_columns_and_no_null_that_is_not_told(out: Path) -> None:
    """The schemas' word on nulls holds on a real cluster's records."""
    for name, table in TABLES.items():
        found = pq.read_table(out / name)
        assert found.schema.equals(arrow_schema(table)), name
        for column in table.columns.columns:
            assert column.comment, (name, column.name)
            if not column.null:
                assert found[column.name].null_count == 0, (name, column.name)


@pytest.mark.timeout(1800)
def test_building_again_gives_the_same_rows(spark: Any, out: Path) -> None:
    """By ``rebuild``, which knows the dump and the settings."""
    before = {name: rows_of(out / name) for name in TABLES}
    shutil.rmtree(out / "silver" / "commits")
    assert job.rebuild(out, spark=spark).whole == "as asked"
    assert {name: rows_of(out / name) for name in TABLES} == before


def test_status_tells_rows_and_times_without_spark(out: Path) -> None:
    """Of tables and of dumps; anything else is said in a sentence."""
    found = {state.name: state for state in job.status(out)}
    assert found.keys() == TABLES.keys()
    commits = found["silver/commits"]
    assert commits.rows == len(rows(out, "silver/commits"))
    assert commits.newest == max(row["at"] for row in rows(out, "silver/commits"))
    assert commits.written is not None
    assert commits.written <= datetime.now(UTC)
    assert [state.name for state in job.status(recorded())] == ["records"]
    with pytest.raises(BadInput, match="no such folder"):
        job.status(out / "nowhere")
    with pytest.raises(BadInput, match="no tables"):
        job.status(out / "silver" / "commits")


def test_times_in_any_form_of_parquet_are_the_same_times(spark: Any, dump: Callable[..., Path]) -> None:
    """Milliseconds, nanoseconds, and the INT96 that Spark wrote by default for years, beside each other."""
    folder = dump([made.commit(i) for i in range(300)], partitions=1, files=1)
    file = folder / "records" / "part-0.parquet"
    table = pq.read_table(file)
    # Odd milliseconds: no double holds all their nanoseconds.
    times = [(made.START_MS + 1_001 * i) * 1_000 for i in table["offset"].to_pylist()]
    place = table.column_names.index("timestamp")
    micros = table.set_column(place, "timestamp", pa.array(times, pa.timestamp("us", "UTC")))
    nanos = table.set_column(place, "timestamp", micros["timestamp"].cast(pa.timestamp("ns", "UTC")))
    pq.write_table(micros.slice(0, 100), file, coerce_timestamps="ms")
    pq.write_table(micros.slice(100, 100), file.with_name("int96.parquet"), use_deprecated_int96_timestamps=True)
    pq.write_table(nanos.slice(200), file.with_name("nanos.parquet"))
    records = sources.open_dump(spark, locate(folder)).read("records").orderBy("offset").select("timestamp").toArrow()
    assert records["timestamp"].cast(pa.int64()).to_pylist() == times


@pytest.mark.usefixtures("java_for_spark")
def test_a_bad_dump_is_said_before_spark_starts(tmp_path: Path) -> None:
    """And makes no folder."""
    with pytest.raises(BadInput, match="no such folder"):
        job.build(tmp_path / "none", tmp_path / "out")
    with pytest.raises(BadInput, match="where the records are"):
        job.rebuild(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("how", ["drop", "hash"])
def test_personal_data_of_old_records_goes(spark: Any, tmp_path: Path, how: str) -> None:
    """A record a day for five days; those more than two days before the newest lose names, hosts and user data."""
    pairs = [pair for n in range(5) for pair in (made.generation(n), made.member_epoch(), made.BAD[4])]
    dump = made.write_dump(tmp_path / "dump", pairs, partitions=3)
    for file in (dump / "records").iterdir():
        table = pq.read_table(file)
        times = [(made.START_MS + offset * made.DAY_MS) * 1000 for offset in table["offset"].to_pylist()]
        at = table.schema.get_field_index("timestamp")
        pq.write_table(table.set_column(at, "timestamp", pa.array(times, pa.timestamp("us", "UTC"))), file)
    out = tmp_path / "out"
    job.build(dump, out, personal_days=2, personal=how, assignors=["range"], spark=spark)
    members = {r["source_offset"]: r["members"][0] for r in rows(out, "silver/generations")}
    bodies = {r["source_offset"]: json.loads(r["body"]) for r in rows(out, "silver/epochs")}
    rejects = {r["source_offset"]: r for r in rows(out, "silver/rejects")}
    for n in range(5):
        kept = n >= 2
        assert (members[n]["client_id"] == "client-a") is kept
        assert (members[n]["user_data"] == b"memory") is kept
        assert (bodies[n]["clientHost"] == "/10.0.0.9") is kept
        assert (rejects[n]["key"] == made.BAD[4][0]) is kept
        assert members[n]["assigned"]
        assert rejects[n]["reason"]
    if how == "hash":
        assert members[0]["host"] == members[1]["host"] != ""
        assert len(rejects[0]["key"]) == 32
    else:
        assert (members[0]["host"], members[0]["user_data"], rejects[0]["key"]) == ("", None, None)


def test_what_a_classic_member_said_goes_too() -> None:
    """The metadata of a classic member inside an upgraded group holds its user data."""
    classic = '{"supportedProtocols":[{"name":"x","metadata":"AAE="}]}'
    body = f'{{"clientId":"a","clientHost":"h","classicMemberMetadata":{classic}}}'
    assert '"metadata":""' in str(nameless_body(body, "hash"))
    with pytest.raises(BadInput):
        personal.check(3, "forget")


def test_the_questions_of_the_docs_have_answers(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each SQL example of docs/pipeline-queries.md runs as it stands there, on the recorded cluster."""
    duckdb = pytest.importorskip("duckdb", reason="the SQL examples are tried with DuckDB: pip install duckdb")
    (out.parent / "tables").unlink(missing_ok=True)
    (out.parent / "tables").symlink_to(out)
    monkeypatch.chdir(out.parent)
    page = (Path(__file__).parents[2] / "docs" / "pipeline-queries.md").read_text(encoding="utf-8")
    views, *questions = re.findall(r"```sql\n(.+?)```", page, re.DOTALL)
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(views)
    answers = [connection.execute(question).fetchall() for question in questions]
    assert len(answers) >= 6
    assert all(answers[number] for number in (0, 2, 3))


def test_what_if_asks_only_the_strategies_that_were_named(spark: Any, tmp_path: Path) -> None:
    """A rebuild asks them again; a name that nobody knows is refused before anything is made."""
    with pytest.raises(UnknownName, match="no-such"):
        job.build(recorded(), tmp_path, assignors=["range", "no-such"], spark=spark)
    job.build(recorded(), tmp_path, assignors=["range"], spark=spark)
    before = rows_of(tmp_path / "gold/whatif")
    assert {row["assignor"] for row in rows(tmp_path, "gold/whatif")} == {"range"}
    job.rebuild(tmp_path, spark=spark)
    assert rows_of(tmp_path / "gold/whatif") == before


def test_a_session_that_was_handed_in_is_left_as_it_was(spark: Any, tmp_path: Path) -> None:
    """Its settings, also after builds that overlap; and nothing of a build is kept in it."""
    zone, parquet = "spark.sql.session.timeZone", "spark.sql.parquet.outputTimestampType"
    theirs = spark.newSession()
    theirs.conf.set(zone, "Asia/Tokyo")
    theirs.conf.unset(parquet)
    kept = spark.sparkContext._jsc.getPersistentRDDs
    before = set(kept())
    settings = {name: theirs.conf.get(name, None) for name in ("spark.sql.parquet.datetimeRebaseModeInRead", parquet)}
    job.build(recorded(), tmp_path / "one", assignors=["range"], spark=theirs)
    with session.session(theirs), session.session(theirs) as again:
        assert again.conf.get(zone) == "UTC"
        with session.session(theirs), pytest.raises(BadInput):
            job.build(tmp_path / "nothing", tmp_path / "two", spark=theirs)
        assert theirs.conf.get(zone) == "UTC", "the other blocks go on"
    assert theirs.conf.get(zone) == "Asia/Tokyo"
    assert {name: theirs.conf.get(name, None) for name in settings} == settings
    assert set(kept()) <= before
    assert theirs._jsparkSession.sharedState().cacheManager().isEmpty()


def test_a_build_that_fails_ends_its_own_jobs_and_nobody_elses(spark: Any) -> None:
    """A session that was handed in may be at work for others."""

    def pause(seconds: int) -> int:
        time.sleep(seconds)
        return seconds

    def slow(seconds: int) -> list[int]:
        done: list[int] = spark.sparkContext.parallelize([seconds], 1).map(pause).collect()
        return done

    with ThreadPoolExecutor(2) as pool:
        others = pool.submit(slow, 5)
        with pytest.raises(OSError, match="disk is full"), session.ours(spark):
            raise OSError("the disk is full")
        assert others.result() == [5]

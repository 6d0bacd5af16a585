"""A build gives the same rows in every place that it can go to: of all records, of what is new, then of nothing."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.pipeline import in_process
from tests.spark import traps
from tests.spark.conftest import rows_of
from tests.spark.stores import reach, store
from tests.support.examples import thorough
from tests.support.s3 import S3Server

from apportion.errors import BadInput, Unavailable
from apportion.spark import job, lake, lock, packages, schemas, statuses, stores
from apportion.spark.folder import check_form
from apportion.spark.location import form_of, locate
from apportion.spark.session import holds_delta
from apportion.tables.schemas import TABLES

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]
SETTINGS: dict[str, Any] = {"assignors": ["range", "lag-aware"]}
Rows = dict[str, list[str]]
Place = tuple[str, str, Callable[[Path], object], Callable[[str], pa.Table]]
"""Where the dump is, where tables go, what brings more files to the dump, and what reads a table."""


@pytest.fixture(scope="module")
def halves(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A dump of the first part of each partition's records, and a folder with the file that brings the rest."""
    root = tmp_path_factory.mktemp("halves")
    dump = traps.write(root / "dump")
    records = pa.concat_tables([pq.read_table(file) for file in sorted((dump / "records").glob("[!.]*.parquet"))])
    records = records.sort_by([("partition", "ascending"), ("offset", "ascending")])
    shutil.rmtree(dump / "records")
    (dump / "records").mkdir()
    numbers = records["partition"].to_pylist()
    counts, seen, late = Counter(numbers), Counter[int](), []
    for number in numbers:
        seen[number] += 1
        late.append(seen[number] > 0.6 * counts[number])
    pq.write_table(records.filter(pc.invert(pa.array(late))), dump / "records" / "part-0.parquet")
    (root / "rest" / "records").mkdir(parents=True)
    pq.write_table(records.filter(pa.array(late)), root / "rest" / "records" / "part-1.parquet")
    return dump, root / "rest"


@pytest.fixture(scope="module")
def expected(halves: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Rows, Rows]:
    """The rows of each table of the first part, and of all; made in this process, without Spark."""
    dump = tmp_path_factory.mktemp("expected") / "dump"
    shutil.copytree(halves[0], dump)
    first = in_process.tables_of(dump)
    shutil.copytree(halves[1], dump, dirs_exist_ok=True)
    whole = in_process.tables_of(dump)
    first_rows, rows = ({name: rows_of(tables[name]) for name in TABLES} for tables in (first, whole))
    return first_rows, rows


def _bring(root: Path) -> Callable[[Path], object]:
    return lambda rest: shutil.copytree(rest, root / "dump", dirs_exist_ok=True)


@contextmanager
def folder(spark: Any, root: Path) -> Iterator[Place]:
    """Plain Parquet, in a folder whose name Spark, and people, could take for a pattern."""
    out = root / "out [1] {a,b} * 100%"
    yield str(root / "dump"), str(out), _bring(root), lambda name: pq.read_table(out / name)


@contextmanager
def delta(spark: Any, root: Path) -> Iterator[Place]:
    """Delta tables in a folder, read without Spark."""
    deltalake = pytest.importorskip("deltalake", reason="pip install 'apportion[delta]'")
    out = root / "out"
    dump = str(root / "dump")
    yield dump, str(out), _bring(root), lambda name: deltalake.DeltaTable(str(out / name)).to_pyarrow_table()


@contextmanager
def catalog(spark: Any, root: Path) -> Iterator[Place]:
    """Tables of a catalog."""
    place = "spark_catalog.places"
    yield (
        str(root / "dump"),
        place,
        _bring(root),
        lambda name: spark.table(f"{place}.{name.replace('/', '_')}").toArrow(),
    )


@contextmanager
def s3(spark: Any, root: Path) -> Iterator[Place]:
    """Delta tables on an S3 server, read without Spark; the dump is there too."""
    deltalake = pytest.importorskip("deltalake", reason="pip install 'apportion[delta]'")
    with store(S3Server, packages.DELTA, packages.S3A) as server:
        reach(spark, server)
        options = {**server.environment, "AWS_ALLOW_HTTP": "true"}

        def read(name: str) -> pa.Table:
            return deltalake.DeltaTable(f"s3://lake/tables/{name}", storage_options=options).to_pyarrow_table()

        server.upload(root / "dump", "dump")
        yield "s3a://lake/dump", "s3a://lake/tables", lambda rest: server.upload(rest, "dump"), read


PLACES: dict[str, Callable[[Any, Path], AbstractContextManager[Place]]] = {
    "folder": folder, "delta": delta, "catalog": catalog, "s3": s3
}  # fmt: skip


# A folder goes through the same rounds in test_incremental.py.
@pytest.mark.parametrize("kind", [*map(thorough, ("folder", "delta", "s3")), "catalog"])
def test_every_place_has_the_same_rows(
    kind: str, spark: Any, halves: tuple[Path, Path], expected: tuple[Rows, Rows], tmp_path: Path
) -> None:
    if kind != "folder" and not packages.local_jars(packages.DELTA):
        pytest.skip("the jars of Delta are not here: make setup")
    shutil.copytree(halves[0], tmp_path / "dump")
    settings = {**SETTINGS, **({"form": "delta"} if kind == "delta" else {})}
    with PLACES[kind](spark, tmp_path) as (dump, out, bring, read):
        first = job.build(dump, out, spark=spark, **settings)
        assert first.whole == "there were none yet"
        for name in TABLES:
            assert rows_of(read(name)) == expected[0][name], name
        bring(halves[1])
        second = job.build(dump, out, spark=spark, **settings)
        assert second.whole == ""
        assert 0 < second.new_records < second.records
        for name in TABLES:
            assert rows_of(read(name)) == expected[1][name], name
        third = job.build(dump, out, spark=spark, **settings)
        assert (third.whole, third.written, third.new_records) == ("", (), 0)
        assert third.rows == {name: len(rows) for name, rows in expected[1].items()}
        assert third.rows == {state.name: state.rows for state in job.status(out, spark=spark)}
        _check_lock(spark, dump, out, settings)
        _check_sizes(spark, out)
        if kind != "folder":
            _check_put_back(spark, dump, out, settings, read, expected[1])


def _check_lock(spark: Any, dump: str, out: str, settings: dict[str, Any]) -> None:
    """A second build is refused by the name of who is at work, in every kind of place."""
    location = locate(out)
    form = form_of(location, settings.get("form"))
    with stores.alone(spark, location, form, job.silent), pytest.raises(Unavailable, match="another build is writing"):
        job.build(dump, out, spark=spark, **settings)


def _check_sizes(spark: Any, out: str) -> None:
    """What a build keeps of the sizes of Delta's tables, one of them added to, is what Spark counts."""
    location = locate(out)
    if location.kind == "folder" and not holds_delta(location):
        return
    for kept in job.status(out, spark=spark):
        counted = statuses._by_spark(spark, lake.tables_in(location), kept.name, kept.name, None)
        assert replace(counted, written=kept.written) == kept
        assert abs(counted.written - kept.written) < timedelta(seconds=60)


def _check_put_back(
    spark: Any, dump: str, out: str, settings: dict[str, Any], read: Callable[[str], pa.Table], whole: Rows
) -> None:
    """What a dead build committed is put back by the next one, for who reads the newest versions too."""
    location = locate(out)
    form = form_of(location, settings.get("form"))
    with lock.held(lake.shelf_of(spark, location, form), out):
        pass  # ends without having finished, as one that died
    tables = lake.tables_of(location, form)
    tables.overwrite("gold/lag", spark.createDataFrame([], schemas.spark_schema("gold/lag")))
    assert read("gold/lag").num_rows == 0
    lines: list[str] = []
    built = job.build(dump, out, spark=spark, progress=lines.append, **settings)
    assert any("putting" in line for line in lines)
    assert (built.whole, built.written) == ("", ())
    assert rows_of(read("gold/lag")) == whole["gold/lag"]


def test_a_catalog_that_the_session_does_not_know_is_named(spark: Any, halves: tuple[Path, Path]) -> None:
    with pytest.raises(BadInput, match="no catalog named 'nowhere'"):
        job.build(halves[0], "nowhere.kafka", spark=spark)


def test_plain_tables_are_not_written_over_those_of_delta(tmp_path: Path) -> None:
    """In a folder with both, who reads every file would see each row twice."""
    (tmp_path / "silver/commits").mkdir(parents=True)
    (tmp_path / "silver/commits/part.parquet").write_text("")
    check_form(tmp_path, "parquet")
    with pytest.raises(BadInput, match="found plain Parquet tables"):
        check_form(tmp_path, "delta")
    (tmp_path / "silver/commits/_delta_log").mkdir()
    check_form(tmp_path, "delta")
    with pytest.raises(BadInput, match="found Delta tables; needed --format delta"):
        check_form(tmp_path, "parquet")

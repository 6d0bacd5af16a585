"""Rows of groups without Spark: of all records at once, or of some at a time on what was kept, they are the same."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.pipeline import in_process
from tests.spark import traps

import apportion.demo
from apportion.pipeline import decode, whatif
from apportion.tables.schemas import TABLES

RECORDED = Path(apportion.demo.__file__).parent / "dump"


def ordered(name: str, rows: pa.Table) -> pa.Table:
    return rows.sort_by([(column, "ascending") for column in TABLES[name].order]).combine_chunks()


def same(left: in_process.Tables, right: in_process.Tables) -> None:
    for name in left:
        if name.startswith("gold/"):
            one, other = (ordered(name, tables[name]) for tables in (left, right))
            assert one.to_pylist() == other.to_pylist(), name


def parts_of(records: pa.Table, parts: int, seed: int) -> list[pa.Table]:
    """Records cut into so many parts, each partition's by offset."""
    cut = np.zeros(records.num_rows, dtype=np.int64)
    chance = random.Random(seed)
    partition, offset = (records[name].to_numpy() for name in ("partition", "offset"))
    for number in np.unique(partition).tolist():
        rows = np.flatnonzero(partition == number)
        rows = rows[np.argsort(offset[rows], kind="stable")]
        bounds = sorted(chance.randrange(len(rows) + 1) for _ in range(parts - 1))
        cut[rows] = np.searchsorted(bounds, np.arange(len(rows)), side="right")
    return [records.filter(pa.array(cut == part)) for part in range(parts)]


def samples_of(ends: pa.Table, parts: int) -> list[pa.Table]:
    """The newest samples so many times, a moment and three messages apart; the first time with all older ones."""
    last = pc.equal(ends["at"], pc.max(ends["at"]))
    newest, samples = ends.filter(last), [ends.filter(pc.invert(last))]
    for back in range(parts - 1, -1, -1):
        at = pc.subtract(newest["at"], pa.scalar(timedelta(milliseconds=40 * back), pa.duration("us")))
        end = pc.max_element_wise(pc.subtract(newest["end"], 3 * back), newest["begin"], skip_nulls=False)
        sample = newest.set_column(newest.schema.get_field_index("at"), "at", at)
        samples.append(sample.set_column(sample.schema.get_field_index("end"), "end", end))
    return [pa.concat_tables(samples[:2]), *samples[2:]]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("generated", [False, True])
def test_some_records_at_a_time_give_the_rows_of_all_at_once(generated: bool, seed: int, tmp_path: Path) -> None:
    """Log ends are sampled anew each time, and last once more without any record."""
    dump = traps.write(tmp_path / "traps") if generated else RECORDED
    records, (newest, topics) = in_process.records_of(dump), in_process.logs_in(dump)
    parts = [*parts_of(records, 3, seed), records.slice(0, 0)]
    ends = samples_of(newest, len(parts))
    kept = None
    for some, sample in zip(parts, ends, strict=True):
        tables, kept, planned = in_process.built(some, sample, topics, kept)
    whole, _, every = in_process.built(records, pa.concat_tables(ends), topics)
    same(tables, whole)
    assert 0 <= planned < every


def test_topics_that_grow_or_move_have_the_histories_of_their_readers_made_anew() -> None:
    """Without any new record, every topic gets a partition more, and racks."""
    records, (ends, topics) = in_process.records_of(RECORDED), in_process.logs_in(RECORDED)
    _, kept, _ = in_process.built(records, ends, topics)
    first = topics.filter(pc.equal(topics["partition"], 0))
    at = topics.schema.get_field_index("partition")
    later = pa.concat_tables([topics, first.set_column(at, "partition", pa.array([12] * first.num_rows, pa.int32()))])
    racks = pa.array([["x"], ["y"]] * later.num_rows, topics.schema.field("racks").type)[: later.num_rows]
    later = later.set_column(later.schema.get_field_index("racks"), "racks", racks).combine_chunks()
    tables, _, planned = in_process.built(records.slice(0, 0), ends.slice(0, 0), later, kept)
    whole, _, _ = in_process.built(records, ends, later)
    same(tables, whole)
    assert planned > 0


def after_the_last_change(records: pa.Table) -> pa.Array:
    """Whether each record comes after its partition's last record of a group's own: a commit, that moves lag alone."""
    tables = decode.decoded(records)
    own = pa.concat_tables(
        [tables[name].select(["source_partition", "source_offset"]) for name in ("generations", "epochs")]
    )
    newest = own.group_by("source_partition").aggregate([("source_offset", "max")])
    last = dict(zip(*newest.to_pydict().values(), strict=True))
    rows = zip(records["partition"].to_pylist(), records["offset"].to_pylist(), strict=True)
    return pa.array([offset > last.get(number, -1) for number, offset in rows])


@pytest.mark.slow
def test_plans_kept_from_build_to_build_give_the_rows_of_plans_made_anew() -> None:
    """Lag alone moves, then topics grow, then other strategies are asked for."""
    records, (newest, topics) = in_process.records_of(RECORDED), in_process.logs_in(RECORDED)
    ends = samples_of(newest, 3)
    last = topics.filter(pc.equal(topics["partition"], 0))
    at = topics.schema.get_field_index("partition")
    grown = pa.concat_tables([topics, last.set_column(at, "partition", pa.array([12] * last.num_rows, pa.int32()))])
    late = after_the_last_change(records)
    four, two = ("range", "sticky", "broker-uniform", "lag-aware"), ("lag-aware", "range")
    whatif._plans.cache_clear()
    _, kept, _ = in_process.built(records.filter(pc.invert(late)), ends[0], topics, assignors=four)
    lag, kept, by_lag = in_process.built(records.filter(late), ends[1], topics, kept, assignors=four)
    structure, _, by_structure = in_process.built(records.slice(0, 0), ends[2], grown, kept, assignors=four)
    settings, _, every = in_process.built(records, pa.concat_tables(ends), grown, assignors=two)
    assert by_lag
    assert 0 < by_structure < every
    for tables, rounds, of_topics, names in (
        (lag, 2, topics, four),
        (structure, 3, grown, four),
        (settings, 3, grown, two),
    ):
        whatif._plans.cache_clear()
        whole, _, _ = in_process.built(records, pa.concat_tables(ends[:rounds]), of_topics, assignors=names)
        same(tables, whole)
        assert set(tables["gold/whatif"]["assignor"].to_pylist()) == set(names)

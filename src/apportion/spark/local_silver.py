"""Silver out of plain files of this machine: workers read, decode and sort, and Spark carries the names of bundles.

To the JVM a record is bytes to be copied, cell by cell, twice to Python and back, sorted and exchanged: two thirds of
what silver costs. Where all tasks run on the machine that has the dump's files, Arrow reads them in the tasks, and what
a slice of the files decodes to is sorted there: one look at each record gives the rows of every table. Which offsets
there are goes on as runs of following ones, from which come the gaps, and whether a record stands twice.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import finalize

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from apportion.arrays import Ints
from apportion.model.to_names import collector_paused
from apportion.spark import bundles, few_records, rows, schemas, session
from apportion.spark.bundles import (
    BUNDLE,
    ROWS_A_TASK,
    TASK,
    Bundled,
    Tables,
    for_tasks,
    met,
    packed,
    task_of,
    unpacked,
)
from apportion.spark.files import nulls_first
from apportion.spark.slices import Batches, Slice, read_slice, slices_of
from apportion.spark.sorted_rows import day_codes, longs, ranked, starts_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from apportion.inputs.dump_files import DumpFiles

DECODED: Final = ("commits", "generations", "epochs", "rejects")
_COLUMNS: Final = ("key", "value", "partition", "offset", "timestamp")
_RUNS: Final = pa.schema([("partition", pa.int32()), ("first", pa.int64()), ("last", pa.int64())])


class LocalSilver:
    """The silver tables of a dump; each is a ``Bundled``. Work is done once, and kept while this lives.

    files
        The dump's files, which every task can read.
    count
        Rows of its records.
    """

    def __init__(self, spark: SparkSession, files: DumpFiles, count: int) -> None:
        self._spark, self._files = spark, files
        self._shelf = bundles.shelf(spark)
        if self._shelf is not None:
            finalize(self, shutil.rmtree, self._shelf, ignore_errors=True)
        self._tasks = 1 + count // ROWS_A_TASK
        self._decoded = session.keep(
            self._sliced(slices_of(files.records), _COLUMNS, schemas.RECORDS, partial(_decoded, tasks=self._tasks))
        )
        runs = self._decoded.where("kind in ('runs', 'there')")
        self._offsets = session.keep(met([runs], self._tasks, _offsets, shelf=self._shelf))

    @cached_property
    def _there(self) -> set[str]:
        """What all records came to: tables that have rows, and ``twice``, where two stand at one place."""
        few = self._offsets.where("kind = 'there'").toArrow().to_batches()
        return {name for _, _, some in unpacked(few) for name in some["name"].to_pylist()}

    def stand_twice(self) -> bool:
        """Whether some place has several records, which have to be compared."""
        return "twice" in self._there

    def decoded(self, name: str) -> Bundled | pa.Table:
        """``silver/commits``, ``generations``, ``epochs`` or ``rejects``; one without rows is not asked of Spark."""
        table = schemas.TABLES[f"silver/{name}"]
        if name not in self._there:
            return schemas.arrow_schema(table).empty_table()
        return Bundled(self._decoded, name, table.schema)

    def counts(self) -> Bundled:
        """``silver/counts``."""
        counted = met([self._decoded.where("kind = 'counts'")], 1, _counts, shelf=self._shelf)
        return Bundled(counted, "counts", schemas.COUNTS.schema)

    def gaps(self) -> Bundled | pa.Table:
        """``silver/gaps``."""
        if "gaps" not in self._there:
            return schemas.arrow_schema(schemas.GAPS).empty_table()
        return Bundled(self._offsets, "gaps", schemas.GAPS.schema)

    def ends(self) -> Bundled:
        """``silver/ends``: every sample once."""
        return self._of_topics({**self._files.samples, **self._files.ends}, "ends", schemas.ENDS, True)

    def topics(self) -> Bundled:
        """``silver/topics``."""
        return self._of_topics(self._files.topics, "topics", schemas.TOPICS, False)

    def _of_topics(self, files: Iterable[Path], kind: str, table: schemas.TableSchema, once: bool) -> Bundled:
        slices = slices_of(files)
        tasks = 1 + sum(one.rows for one in slices) // ROWS_A_TASK
        names = table.schema.names
        dealt = self._sliced(slices, names, table, partial(_dealt, kind=kind, tasks=tasks))
        sort = partial(_sorted, kind=kind, order=(*table.order, *names), once=once)
        return Bundled(met([dealt], tasks, sort, shelf=self._shelf), kind, table.schema)

    def _sliced(
        self,
        slices: Sequence[Slice],
        columns: Sequence[str],
        table: schemas.TableSchema,
        make: Callable[..., Iterator[pa.RecordBatch]],
    ) -> DataFrame:
        """Bundles of what is made from the columns of each slice, by the task that reads it."""
        shelf = self._shelf

        def run(batches: Batches) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield from make(read_slice(slices[number], columns, table), number, shelf)

        return self._spark.range(0, len(slices), 1, len(slices)).mapInArrow(run, BUNDLE)


def local_silver(spark: SparkSession, files: DumpFiles | None, count: int) -> LocalSilver | None:
    """The silver tables of a dump's plain files; None where tasks run elsewhere, or a record stands twice."""
    if files is None or not bundles.is_here(spark):
        return None
    silver = LocalSilver(spark, files, count)
    return None if silver.stand_twice() else silver


# -- records ---------------------------------------------------------------------------------------------------------


def _decoded(records: Iterable[pa.Table], number: int, shelf: Path | None, tasks: int) -> Iterator[pa.RecordBatch]:
    """Bundles of a slice: rows of each table, in its order; ``counts`` of all records, ``runs`` for those of theirs."""
    pieces: dict[str, list[pa.RecordBatch]] = defaultdict(list)
    places = [schemas.arrow_schema(schemas.RECORDS, ("partition", "offset")).empty_table()]
    for some in records:
        places.append(some.select(["partition", "offset"]))
        # Nothing that is decoded stands in a cycle; to look for such among so many small objects costs a quarter.
        with collector_paused():
            for batch in some.combine_chunks().to_batches():
                for name, decoded in rows.every_row(batch):
                    pieces[name].append(decoded)
    tables = {
        name: pa.Table.from_batches(pieces.pop(name, []), schema=rows.arrow_schema(f"silver/{name}"))
        for name in (*DECODED, "counts")
    }
    counts = [tables.pop("counts"), *(few_records.counts_of(tables[name]) for name in DECODED[:-1])]
    yield from packed("counts", few_records.added_up(pa.concat_tables(counts)), 0, shelf)
    for name, table in tables.items():
        if table.num_rows:
            yield from packed(name, _in_order(table, schemas.TABLES[f"silver/{name}"]), number, shelf)
    yield from packed("there", _names_of(name for name, table in tables.items() if table.num_rows), 0, shelf)
    runs = _runs(pa.concat_tables(places))
    task = pa.array(longs(runs["partition"]) % tasks, pa.int32())
    yield from for_tasks(runs.append_column(TASK, task), "runs", shelf)


def _in_order(decoded: pa.Table, table: schemas.TableSchema) -> pa.Table:
    """Decoded rows as their table has them: by day, partition and offset; what comes so is not copied once more."""
    day = day_codes(decoded["at"])
    keys = [longs(decoded["source_offset"]), longs(decoded["source_partition"]), day]
    order = np.lexsort(keys)
    sorted_already = bool((order[1:] > order[:-1]).all())
    return decoded if sorted_already else decoded.combine_chunks().take(pa.array(order))


def _runs(places: pa.Table) -> pa.Table:
    """(partition, first, last): the offsets of some records, following ones together; one that is there twice twice."""
    partition, offset = longs(places["partition"]), longs(places["offset"])
    order = np.lexsort((offset, partition))
    partition, offset = partition[order], offset[order]
    start = starts_of(partition, offset - np.arange(len(offset)))
    columns = (partition[start[:-1]], offset[start[:-1]], offset[start[1:] - 1])
    arrays = [pa.array(values).cast(field.type) for values, field in zip(columns, _RUNS, strict=True)]
    return pa.Table.from_arrays(arrays, schema=_RUNS)


def _offsets(tables: Tables) -> dict[str, pa.Table]:
    """``gaps`` between the runs of some partitions; ``there``, names of tables that have rows.

    Where two runs share an offset, ``twice`` is one of the names.
    """
    names = set(tables["there"]["name"].to_pylist()) if "there" in tables else set()
    if "runs" not in tables:
        return {"there": _names_of(names)}
    partition, first, last = (longs(tables["runs"][name]) for name in _RUNS.names)
    order = np.lexsort((first, partition))
    partition, first, last = partition[order], first[order], last[order]
    new = np.ones(len(first), dtype=np.bool_)
    new[1:] = partition[1:] != partition[:-1]
    before = np.where(new, -1, np.roll(last, 1))
    gaps = few_records.gaps_before(partition, before, first)
    # Sorted by their beginnings, of runs that share an offset two are neighbours.
    names |= {name for name, so in (("gaps", gaps.num_rows > 0), ("twice", (~new & (first <= before)).any())) if so}
    return {"gaps": gaps, "there": _names_of(names)}


def _names_of(kinds: Iterable[str]) -> pa.Table:
    return pa.table({"name": pa.array(sorted(kinds), pa.string())})


def _counts(tables: Tables) -> dict[str, pa.Table]:
    counts = few_records.added_up(tables["counts"])
    return {"counts": nulls_first(counts, schemas.COUNTS.order)}


# -- log ends and topics ---------------------------------------------------------------------------------------------


def _dealt(
    some: Iterable[pa.Table], number: int, shelf: Path | None, kind: str, tasks: int
) -> Iterator[pa.RecordBatch]:
    """Rows for the tasks that sort them: partitions of one topic may be many, and have many samples each."""
    for table in some:
        task = (longs(task_of(table["topic"], tasks)) + longs(table["partition"])) % tasks
        yield from for_tasks(table.append_column(TASK, pa.array(task, pa.int32())), kind, shelf)


def _sorted(tables: Tables, kind: str, order: Sequence[str], once: bool) -> dict[str, pa.Table]:
    """The rows of a task in the table's order; equal ones once, if that is wanted."""
    table = tables[kind]
    keys = [key for name in dict.fromkeys(order) for key in _keys(table[name])]
    by: Ints = np.lexsort(keys[::-1])
    if once and len(by):
        by = by[starts_of(*(key[by] for key in keys))[:-1]]
    return {kind: table.take(pa.array(by))}


def _keys(column: pa.ChunkedArray) -> Iterator[Ints]:
    """Numbers in the order of a column's values, null before all: Spark's order."""
    if pa.types.is_list(column.type):
        texts = pc.binary_join(pc.fill_null(column.combine_chunks(), []), "\0")
        column = pc.if_else(column.combine_chunks().is_valid(), texts, None)
    if pa.types.is_string(column.type):
        yield ranked(column)[0][0]
        return
    yield np.asarray(column.is_valid(), dtype=np.int64)
    yield longs(column.cast(pa.int64()))

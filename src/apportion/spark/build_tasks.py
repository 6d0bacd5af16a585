"""The work of a build's tasks, Arrow in, Arrow out: the rules of ``apportion.pipeline``, and the target of each row.

``build`` gives each function what it needs. Rows of tables go to ``delivery``, all others, in ``arrow_rows``' form, to
later jobs and to the driver.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from apportion.errors import BadInput
from apportion.pipeline import decode, end_samples, group_rows, newest_commits
from apportion.pipeline.columns import bucket_of
from apportion.pipeline.group_rows import BuildFacts
from apportion.pipeline.personal import Personal
from apportion.pipeline.whatif import whatif
from apportion.spark.arrow_rows import (
    ARROW,
    DRIVER,
    STATE,
    Batches,
    Delivery,
    Tables,
    distributed,
    distributed_by,
    gathered,
    packed,
    part_of_task,
    unpacked,
)

OF_GROUPS: Final = ("commits", "generations", "epochs")
PAIRS: Final = pa.schema([("topic_id", pa.string()), ("topic", pa.string())])


def joined_pairs(*facts: Mapping[str, pa.Table]) -> pa.Table:
    """(topic_id, topic) of all commits, each once."""
    pairs = pa.concat_tables([PAIRS.empty_table(), *(of_place["pairs"] for of_place in facts if "pairs" in of_place)])
    return pairs.group_by(PAIRS.names).aggregate([]).combine_chunks()


def decoded(batches: Batches, delivery: Delivery, buckets: int, personal: Personal | None) -> Iterator[pa.RecordBatch]:
    """New records: rows of silver, and for each bucket of groups the input of its rows."""
    task = part_of_task()
    for number, records in enumerate(gathered(batches)):
        if any(records[name].null_count for name in ("partition", "offset", "timestamp")):
            raise BadInput("records", "rows without a partition, offset or time", "each has them")
        tables = decode.decoded(records)
        for name in decode.DECODED:
            if personal is not None:
                tables[name] = personal.nameless(name, tables[name])
            yield from delivery(f"silver/{name}", tables[name], f"{task:05d}-{number:03d}")
        for name in ("counts", "runs"):
            yield from packed(name, DRIVER, tables[name])
        commits = tables["commits"].select(newest_commits.COLUMNS)
        rows = {"commits": commits, **{name: group_rows.compact(name, tables[name]) for name in group_rows.RECORDS}}
        for name, of_kind in rows.items():
            yield from distributed_by(name, of_kind, "group", buckets)
        yield from _facts_of(rows, buckets)


def _facts_of(rows: Mapping[str, pa.Table], buckets: int) -> Iterator[pa.RecordBatch]:
    """Names of groups with records of their own, ids and names of topics, and which bucket reads which topic."""
    pairs = rows["commits"].select(PAIRS.names)
    yield from packed("pairs", DRIVER, pairs.filter(pc.is_valid(pairs["topic_id"])).group_by(PAIRS.names).aggregate([]))
    names = pa.concat_tables([rows[name].select(["group"]) for name in group_rows.RECORDS])
    yield from packed("recorded", DRIVER, names.group_by("group").aggregate([]))
    spoken = [(topic_id, group) for group, ids in group_rows.spoken_ids(rows["epochs"]).items() for topic_id in ids]
    if spoken:
        ids, groups = (pa.array(column, pa.string()) for column in zip(*spoken, strict=True))
        spoken_of = pa.table({"topic_id": ids, "bucket": bucket_of(groups, buckets)})
        yield from packed("spoken", DRIVER, spoken_of.group_by(["topic_id", "bucket"]).aggregate([]))
    wanted = pa.concat_tables([rows["commits"].select(["group", "topic"]), group_rows.topics_of(rows["generations"])])
    bodies = rows["epochs"].select(["group", "body"])
    wanted = pa.concat_tables([wanted, group_rows.topics_named(bodies)])
    yield from _readers(wanted["topic"], bucket_of(wanted["group"], buckets), buckets)


def _readers(topics: pa.ChunkedArray, bucket: pa.Array, buckets: int) -> Iterator[pa.RecordBatch]:
    readers = pa.table([topics, bucket], schema=end_samples.READERS)
    readers = readers.group_by(readers.column_names).aggregate([]).select(end_samples.READERS.names).combine_chunks()
    yield from distributed_by("readers", readers, "topic", buckets)


def log_rows(
    bucket: int, tables: Tables, delivery: Delivery, buckets: int, state_buckets: int, known: int | None,
    readers: pa.Table, of_driver: Tables,
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    """The logs of a bucket of topics, for those that read them."""
    part = f"{bucket:05d}"
    own_readers = readers.filter(pc.equal(bucket_of(readers["topic"], buckets), bucket))
    whole = pa.concat_tables([tables.get("readers", end_samples.READERS.empty_table()), own_readers])
    # Readers that were kept are of the state's buckets, of which a task may have several.
    of_tasks = pc.bit_wise_and(whole["bucket"], pa.scalar(buckets - 1, pa.int32()))
    whole = pa.table([whole["topic"], of_tasks], schema=end_samples.READERS)
    logs = end_samples.logs_of({**tables, "readers": whole}, known)
    yield from distributed("logs", logs["logs"])
    for name in ("silver/ends", "silver/topics"):
        yield from delivery(name, logs[name], part)
    if "ends" in tables and (at := pc.max(tables["ends"]["at"].cast(pa.int64())).as_py()) is not None:
        yield from packed("newest", DRIVER, pa.table({"at": [at]}))
    yield from packed("reshaped", DRIVER, logs["reshaped"])
    state_rows = [
        batch for name in ("known_ends", "known_topics", "shapes")
        for batch in distributed_by(name, logs[name], "topic", state_buckets)
    ]  # fmt: skip
    if bucket == 0:
        yield from delivery("silver/gaps", of_driver["gaps"], part)
        counts = decode.added_up(
            pa.concat_tables([counted["counts"] for counted in (tables, of_driver) if "counts" in counted])
        )
        if "counts" in of_driver:
            yield from delivery("silver/counts", counts, part)
        state_rows += [*packed("counts", bucket, counts), *packed("pairs", bucket, joined_pairs(tables, of_driver))]
    yield from _kept(delivery, state_rows, f"l{part}")


def _kept(delivery: Delivery, rows: list[pa.RecordBatch], part: str) -> Iterator[pa.RecordBatch]:
    if rows:
        yield from delivery(STATE, pa.Table.from_batches(rows, schema=ARROW), part)


def rows_of_groups(
    bucket: int, tables: Tables, build: BuildFacts, buckets: int, delivery: Delivery, delivered: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """All rows of a bucket of groups, but for plans.

    buckets
        Those of what is kept for the next build.
    """
    rows = group_rows.group_rows(tables, build)
    part = f"{bucket:05d}"
    for name in delivered:
        if name in rows:
            yield from delivery(name, rows[name], part)
    state_rows = [batch for name in group_rows.KEPT for batch in distributed_by(name, rows[name], "group", buckets)]
    readers = rows["readers"]
    state_rows += _readers(readers["topic"], bucket_of(readers["group"], buckets), buckets)
    yield from _kept(delivery, state_rows, f"g{part}")
    yield from distributed("asked", rows["asked"])
    yield from packed("astray", DRIVER, rows["astray"])
    new = [tables[name]["group"] for name in OF_GROUPS if name in tables]
    yield from packed("touched", DRIVER, pa.table({"groups": [len(pa.chunked_array(new, pa.string()).unique())]}))
    yield from packed("planned", DRIVER, pa.table({"group": rows["asked"]["group"].unique()}))


def planned(task: int, tables: Tables, assignors: Sequence[str], delivery: Delivery) -> Iterator[pa.RecordBatch]:
    """The groups of a task's structures, planned."""
    for number, rows in enumerate(whatif(tables["asked"], assignors)):
        yield from delivery("gold/whatif", pa.Table.from_batches([rows]), f"{task:05d}-{number:03d}")


def carried(batches: Batches, delivery: Delivery, name: str) -> Iterator[pa.RecordBatch]:
    """Published rows of a table once more."""
    task = part_of_task()
    for number, rows in enumerate(gathered(batches)):
        yield from delivery(name, rows, f"{task:05d}-{number:03d}")


def wanting(batches: Batches, topics: frozenset[str]) -> Iterator[pa.RecordBatch]:
    """Groups that want, or ever wanted, one of some topics."""
    for _, _, rows in unpacked(batches):
        groups = rows.filter(pc.is_in(rows["topic"], pa.array(sorted(topics), pa.string())))["group"].unique()
        yield pa.RecordBatch.from_arrays([groups], names=["group"])


def past(rows: pa.Table, kind: str, buckets: int) -> Iterator[pa.RecordBatch]:
    """Older commits, or records of groups, as ``group_rows`` takes them."""
    rows = rows if kind == "commits" else group_rows.compact(kind, rows)
    yield from distributed_by("history" if kind == "commits" else kind, rows, "group", buckets)

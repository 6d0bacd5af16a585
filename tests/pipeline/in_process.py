"""A build's tasks one after the other in this process, without Spark: what its jobs make of a dump."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from apportion.history.commits import topic_names
from apportion.history.scenarios import REPLAY
from apportion.pipeline import decode, end_samples, group_rows, newest_commits
from apportion.pipeline.columns import TASK, of_groups
from apportion.pipeline.group_rows import KEPT, BuildFacts
from apportion.pipeline.whatif import whatif
from apportion.sources import dump_files
from apportion.tables import schemas
from apportion.tables.schemas import TABLES, arrow_schema

Tables = dict[str, pa.Table]


@dataclass
class Kept:
    """What one build keeps for the next."""

    groups: Tables = field(default_factory=dict)
    topics: Tables = field(default_factory=dict)
    silver: Tables = field(default_factory=dict)
    pairs: pa.Table | None = None
    read: dict[int, int] = field(default_factory=dict)
    missing: dict[int, int] = field(default_factory=dict)
    ends_at: int | None = None
    whatif: pa.Table | None = None


def typed(files: Iterable[Path], table: schemas.Table, names: Iterable[str]) -> pa.Table:
    """Columns of files in a table's types."""
    schema = arrow_schema(table, names)
    pieces = [schema.empty_table()]
    for file in files:
        with pq.ParquetFile(file, coerce_int96_timestamp_unit="us") as opened:
            rows = opened.read(columns=schema.names)
        pieces.append(pa.table([rows[one.name].cast(one.type, safe=False) for one in schema], schema=schema))
    return pa.concat_tables(pieces).combine_chunks()


def records_of(dump: Path) -> pa.Table:
    """All records of a dump."""
    return typed(dump_files.find(dump).records, schemas.RECORDS, decode.COLUMNS)


def logs_in(dump: Path) -> tuple[pa.Table, pa.Table]:
    """All samples of log ends, and the topics."""
    files = dump_files.find(dump)
    ends = typed([*files.samples, *files.ends], schemas.ENDS, end_samples.ENDS.names)
    return ends, typed(files.topics, schemas.TOPICS, end_samples.TOPICS.names)


def built(
    records: pa.Table, ends: pa.Table, topics: pa.Table, before: Kept | None = None, allowed_lag: int = 0,
    assignors: Iterable[str] = ("range", "lag-aware"),
) -> tuple[Tables, Kept, int]:  # fmt: skip
    """All tables (of silver the new rows), what is kept for the next build, and how many groups were planned.

    records, ends
        New ones alone.
    """
    before = Kept() if before is None else before
    silver = decode.decoded(records)
    runs = decode.joined_runs(silver["runs"])
    new_gaps = decode.gaps(runs, before.read)
    whole_silver = {name: pa.concat_tables([before.silver[name], silver[name]]) if before.silver else silver[name]
                    for name in ("commits", *group_rows.RECORDS)}  # fmt: skip
    pairs = silver["commits"].select(["topic_id", "topic"]).drop_null()
    pairs = pairs if before.pairs is None else pa.concat_tables([before.pairs, pairs])
    names = topic_names(
        zip(*(pairs[name].to_pylist() for name in pairs.column_names), strict=True),
        zip(*(topics[name].to_pylist() for name in ("topic_id", "topic")), strict=True),
    )
    newest = pc.max(ends["at"].cast(pa.int64())).as_py()
    ends_at = max((at for at in (newest, before.ends_at) if at is not None), default=None)
    holes = decode.holes(new_gaps, before.missing, before.read)
    build = BuildFacts(max(0, (ends_at or 0) // 1000), allowed_lag, holes, names, 1)
    readers = pa.table({"topic": pa.concat_arrays([ends["topic"].combine_chunks(), topics["topic"].combine_chunks()])})
    readers = readers.append_column("bucket", pa.array([0] * readers.num_rows, pa.int32()))
    if before.topics:
        known = before.topics["known_ends"]["topic"].combine_chunks()
        more = pa.table([known, pa.array([0] * len(known), pa.int32())], schema=end_samples.READERS)
        readers = pa.concat_tables([readers, more])
    logs = end_samples.logs_of({"ends": ends, "topics": topics, **{
        name: rows for name, rows in before.topics.items() if name in ("known_ends", "shapes")
    }, "readers": readers}, before.ends_at)  # fmt: skip
    folded = pa.concat_tables([silver[name].select(["group"]) for name in group_rows.RECORDS])
    if before.groups:
        wanted = before.groups["wanted"]
        wanted = wanted.filter(pc.is_in(wanted["topic"], logs["reshaped"]["topic"].combine_chunks()))
        folded = pa.concat_tables([folded, wanted.select(["group"])])
    groups = folded["group"].combine_chunks()
    tables = {
        "commits": silver["commits"].select(newest_commits.COLUMNS),
        **{name: group_rows.compact(name, of_groups(whole_silver[name], groups)) for name in group_rows.RECORDS},
        "logs": logs["logs"].drop_columns([TASK]), **before.groups,
    }  # fmt: skip
    if before.silver:
        tables["history"] = before.silver["commits"].select(newest_commits.COLUMNS)
    made = group_rows.group_rows(tables, build)
    asked = made["asked"].drop_columns([TASK])
    rows = list(whatif(asked, list(assignors))) if asked.num_rows else []
    planned = pa.Table.from_batches(rows, schema=arrow_schema(schemas.WHATIF))
    whole = {name: rows for name, rows in made.items() if name in TABLES}
    if before.whatif is None:
        whole["gold/whatif"] = planned
    else:
        replay = pc.equal(before.whatif["scenario"], REPLAY)
        sides = ((replay, groups), (pc.invert(replay), asked["group"].combine_chunks()))
        stay = [of_groups(before.whatif.filter(which), anew, inverted=True) for which, anew in sides]
        whole["gold/whatif"] = pa.concat_tables([*stay, planned])
    kept = Kept(
        {name: made[name] for name in KEPT}, {name: logs[name] for name in ("known_ends", "shapes")}, whole_silver,
        pairs, decode.last_offsets(runs, before.read),
        dict(zip(*(holes[name].to_pylist() for name in ("source_partition", "holes")), strict=True)), ends_at,
        whole["gold/whatif"],
    )  # fmt: skip
    of_records = {f"silver/{name}": silver[name] for name in (*decode.DECODED, "counts")}
    of_logs = {name: logs[name] for name in ("silver/ends", "silver/topics")}
    return {**of_records, "silver/gaps": new_gaps, **of_logs, **whole}, kept, len(asked["group"].unique())


def tables_of(dump: Path, assignors: Iterable[str] = ("range", "lag-aware")) -> Tables:
    """Every table of a dump."""
    return built(records_of(dump), *logs_in(dump), assignors=assignors)[0]

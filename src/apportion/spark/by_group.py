"""All that a group left, met in one task: folded, its commits put in order, and what it asks to know of topics' logs.

Every table of gold but ``whatif`` is made from what this pass leaves, by ``facts`` and by what stands here; see
``bundles`` for why. Nothing is kept of a group that one task of Spark's does not see whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.pandas.types import to_arrow_schema

from apportion.arrays import Longs
from apportion.model.to_names import collector_paused
from apportion.spark import groups, histories, schemas, standing
from apportion.spark.bundles import Tables, bundled, met, sent
from apportion.spark.classic_alike import ClassicAlike
from apportion.spark.python_rows import rows_of
from apportion.spark.sorted_rows import day_codes, listed, longs, millis_or_null, ranked, spans, starts_of, united

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

GENERATION: Final = (
    "group", "source_offset", "source_partition", "at", "tombstone", "generation", "protocol_type", "protocol",
    "state_time", "members",
)  # fmt: skip
EPOCH: Final = (
    "group", "source_offset", "source_partition", "at", "tombstone", "key_type", "member_id", "epoch", "body",
)  # fmt: skip
_TIMES: Final = {"at": "at_ms", "state_time": "state_ms"}
GROUPS_AT_ONCE: Final = 256
"""Groups that are Python objects at one time, if they are small."""
BYTES_AT_ONCE: Final = 2 << 20
"""Of Arrow's bytes, which are some 20 times as many as Python objects; one group may be larger."""
HOLE = pa.schema([("group", pa.string()), ("source_partition", pa.int32()), ("source_offset", pa.int64()),
                   ("holes", pa.int64())])  # fmt: skip
_PAIR: Final = ["group", "topic"]
_SOURCE: Final = ("source_partition", "source_offset")
NAME = pa.schema([("group", pa.string()), ("topic_id", pa.string()), ("topic", pa.string())])


def left(
    generations: DataFrame,
    epochs: DataFrame,
    commits: DataFrame,
    beside: Mapping[str, DataFrame | pa.Table],
    since_ms: int,
    tasks: int,
    shelf: Path | None = None,
) -> DataFrame:
    """Bundles of what each group left, from the silver tables: ``places``, ``present``, ``named`` and more.

    beside
        ``holes`` and ``names``, the columns of ``HOLE`` and ``NAME``, of all groups; as ``beside`` gives them, or
        whoever found them in this process.
    since_ms
        As ``standing.places`` takes it.
    shelf
        As ``bundled`` takes it.
    """
    sides = {
        "commits": (commits, standing.ASKED), "generations": (generations, GENERATION), "epochs": (epochs, EPOCH),
    }  # fmt: skip
    bundles = [bundled(table, columns, kind, "group", tasks, shelf) for kind, (table, columns) in sides.items()]
    for kind, schema in (("holes", HOLE), ("names", NAME)):
        table = beside[kind]
        if not isinstance(table, pa.Table):
            bundles.append(bundled(table, schema.names, kind, "group", tasks, shelf))
        elif table.num_rows:
            bundles.append(sent(commits.sparkSession, table, kind, "group", tasks, shelf))
    return met(bundles, tasks, partial(left_of, since_ms=since_ms), shelf=shelf)


def beside(generations: DataFrame, epochs: DataFrame, gaps: DataFrame, names: DataFrame) -> dict[str, DataFrame]:
    """What ``left`` takes beside the records of groups, by Spark from the silver tables.

    names
        (topic_id, topic), as ``histories.topic_names`` gives them.
    """
    return {"holes": _holes(generations, epochs, gaps), "names": names_in(epochs, names)}


def names_in(epochs: DataFrame, names: DataFrame) -> DataFrame:
    """(group, topic_id, topic): the ids that groups' epochs speak of, as far as they have a name."""
    return histories.names_of(epochs, names).select("group", "name.topic_id", "name.topic")


def left_again(
    present: DataFrame, commits: DataFrame, generations: DataFrame, named: DataFrame, since_ms: int, tasks: int
) -> DataFrame:
    """Bundles ``places``, ``present`` and ``named`` as ``left`` has them, of groups that were folded before.

    present
        The groups as they stand: columns ``groups.PRESENT``.
    commits, generations
        The silver tables.
    named
        (group, topic_id, topic) of the ids that the groups' epochs speak of.
    """
    sides = {
        "present": (present, groups.PRESENT), "commits": (commits, standing.ASKED),
        "generations": (generations, ("group", "members")), "names": (named, NAME.names),
    }  # fmt: skip
    bundles = [bundled(table, columns, kind, "group", tasks) for kind, (table, columns) in sides.items()]
    return met(bundles, tasks, partial(_left_again, since_ms=since_ms))


def _left_again(tables: Tables, since_ms: int) -> dict[str, pa.Table]:
    commits = standing.sorted_commits(_of(tables, "commits", schemas.COMMITS, standing.ASKED))
    places = standing.places(commits, since_ms)
    present = _of(tables, "present", schemas.GROUP_STATE, groups.PRESENT).cast(_SCHEMAS["present"])
    generations = _of(tables, "generations", schemas.GENERATIONS, ("group", "members"))
    named = named_topics(topics_of(generations), tables.get("names", NAME.empty_table()), present, places)
    return {"places": places, "present": present.sort_by("group").combine_chunks(), "named": named}


def _holes(generations: DataFrame, epochs: DataFrame, gaps: DataFrame) -> DataFrame:
    """(group, source_partition, source_offset, holes): records before which offsets are missing in their partition."""
    missing = gaps.select("source_partition", F.col("before_offset").alias("source_offset"), "missing")
    records = generations.select("group", *_SOURCE).unionByName(epochs.select("group", *_SOURCE))
    both = records.unionByName(missing, allowMissingColumns=True)
    # rangeBetween: a gap that ends right before a record stands at the record's own offset.
    before = Window.partitionBy("source_partition").orderBy("source_offset")
    holes = F.sum("missing").over(before.rangeBetween(Window.unboundedPreceding, 0)).cast("bigint")
    return both.withColumn("holes", holes).where("`group` is not null and holes > 0").select("group", *_SOURCE, "holes")


def left_of(tables: Tables, since_ms: int) -> dict[str, pa.Table]:
    """Every kind of bundle that ``left`` leaves, of the groups of one task, from the tables that met there.

    tables
        ``commits``, ``generations``, ``epochs``, ``holes``, ``names``; one that is not there has no rows.
    """
    commits = standing.sorted_commits(_of(tables, "commits", schemas.COMMITS, standing.ASKED))
    records = {
        "generations": _of(tables, "generations", schemas.GENERATIONS, GENERATION),
        "epochs": _of(tables, "epochs", schemas.EPOCHS, EPOCH),
    }
    holes = tables.get("holes", HOLE.empty_table())
    names = tables.get("names", NAME.empty_table())
    kept = standing.places(commits, since_ms)
    folding = GroupsFolding(records, holes, names, commits)
    folding.run()
    present = _present(folding.table("present"), kept)
    named = named_topics(topics_of(records["generations"]), names, present, kept)
    return {
        "places": kept, "present": present, "named": named,
        "rebalances": _by_day(folding.table("rebalances")), "epochs": _by_day(folding.table("epochs")),
        "histories": folding.histories(),
    }  # fmt: skip


def _by_day(rows: pa.Table) -> pa.Table:
    """Rows by the day of ``at``, which is a file each; those of a day stay as they were, by group and offset."""
    return rows.take(pa.array(np.argsort(day_codes(rows["at"]), kind="stable")))


def named_topics(wanted: pa.Table, names: pa.Table, present: pa.Table, places: pa.Table) -> pa.Table:
    """(group, topic): what a group's members want, ever wanted, what its epochs name, or that it has commits on.

    wanted
        What they ever wanted, as ``topics_of`` tells it of their generations.
    names
        (group, topic_id, topic) of the ids that the groups' epochs speak of.
    """
    committed = places.select(_PAIR).filter(places["standing"])
    pieces = [wanted, names.select(_PAIR), topics_of(present), committed]
    # Pairs as numbers: most of them are a group's commits, one for each partition of a topic.
    of_group, groups = ranked(*[piece["group"] for piece in pieces])
    of_topic, topics = ranked(*[piece["topic"] for piece in pieces])
    width = len(topics) + 1
    pairs = united(*[group * width + topic + 1 for group, topic in zip(of_group, of_topic, strict=True)])
    group, topic = pairs // width, pairs % width - 1
    columns = [names.take(pa.array(code, mask=code < 0)) for names, code in ((groups, group), (topics, topic))]
    return pa.Table.from_arrays(columns, names=_PAIR)


def _of(tables: Tables, kind: str, table: schemas.TableSchema, columns: Sequence[str]) -> pa.Table:
    """The rows of a kind; where a task got none, an empty table of its columns."""
    return tables[kind] if kind in tables else schemas.arrow_schema(table, columns).empty_table()


def topics_of(table: pa.Table) -> pa.Table:
    """(group, topic): what the members of each row subscribe to."""
    row, topics = member_topics(table["members"])
    return pa.table({"group": table["group"].take(row), "topic": topics})


def member_topics(members: pa.ChunkedArray) -> tuple[pa.Array, pa.Array]:
    """Rows and topics of a column of lists of members: a pair for each topic that one subscribes to."""
    lists = members.combine_chunks()
    topics = pc.struct_field(pc.list_flatten(lists), "topics")
    member = pc.list_parent_indices(topics)
    return pc.list_parent_indices(lists).take(member), pc.list_flatten(topics)


# -- folding ---------------------------------------------------------------------------------------------------------

_SCHEMAS: Final = {
    "present": schemas.arrow_schema(schemas.GROUP_STATE, groups.PRESENT),
    "rebalances": schemas.arrow_schema(schemas.REBALANCES),
    "epochs": schemas.arrow_schema(schemas.GOLD_EPOCHS),
}
"""Of what folding gives."""


def _present(folded: pa.Table, places: pa.Table) -> pa.Table:
    """Groups that are not gone, by name; those that only commit as ``simple``."""
    living = folded.filter(pc.is_valid(folded["type"]))
    committed = pc.unique(places.filter(places["standing"])["group"])
    simple = committed.filter(pc.invert(pc.is_in(committed, value_set=living["group"].combine_chunks())))
    n, kinds = len(simple), living.schema
    columns = {
        "group": simple, "type": pa.array(["simple"] * n, pa.string()), "state": pa.array(["Empty"] * n, pa.string()),
        "protocol": pa.nulls(n, pa.string()), "generation": pa.nulls(n, pa.int32()),
        "readable": pa.array([True] * n, pa.bool_()), "members": pa.array([[]] * n, kinds.field("members").type),
    }  # fmt: skip
    alone = pa.table([columns[name] for name in kinds.names], schema=kinds)
    return pa.concat_tables([living, alone]).sort_by("group").combine_chunks()


def groups_of(present: pa.Table) -> pa.Table:
    """``gold/groups``."""
    schema = schemas.arrow_schema(schemas.GROUPS)
    lists, fields = present["members"].combine_chunks(), list(schema.field("members").type.value_type)
    members = lists.flatten()
    columns = dict(zip([one.name for one in members.type], members.flatten(), strict=True))
    few = pa.StructArray.from_arrays([columns[one.name] for one in fields], fields=fields)
    whole = listed(np.asarray(pc.list_value_length(lists)), few)
    return pa.Table.from_arrays([whole if name == "members" else present[name] for name in schema.names], schema=schema)


@dataclass
class GroupsFolding:
    """Some groups folded one by one; their rows are gathered as columns.

    records
        ``generations`` and ``epochs``, the columns of silver.
    holes, names, commits
        As ``left`` bundles them, commits sorted.
    """

    records: dict[str, pa.Table]
    holes: pa.Table
    names: pa.Table
    commits: pa.Table
    _pieces: dict[str, list[pa.Table]] = field(default_factory=dict)
    _sides: dict[str, _Side] = field(default_factory=dict)
    _groups: pa.Array = None

    def run(self) -> None:
        """Fold every group that has a record of its own."""
        marks = pa.concat_tables([one.select(["group", "source_offset"]) for one in self.records.values()])
        marks = marks.sort_by([("group", "ascending"), ("source_offset", "ascending")]).combine_chunks()
        habits = standing.cadence(self.commits, marks)
        several = [*self.records.values(), habits, self.names, self.holes]
        # A group that left commits alone has a history too, an empty one.
        codes, self._groups = ranked(*[table["group"] for table in (*several, self.commits)])
        names = self._groups
        sides = [_Side.of(table, code, len(names)) for table, code in zip(several, codes[:-1], strict=True)]
        self._sides = dict(zip(("generations", "epochs", "habits", "names", "holes"), sides, strict=True))
        for name in self.records:
            self._sides[name] = self._sides[name].with_holes(self.holes)
        self._fold_all(names)

    def _fold_all(self, names: pa.Array) -> None:
        """Fold the groups that are not like one before; lay what that came to on the others."""
        generations = self._sides["generations"]
        epochs, habits = (np.diff(self._sides[name].start) > 0 for name in ("epochs", "habits"))
        alike = ClassicAlike(generations.table, generations.start, names, alone=epochs | habits)
        self._fold_some(names, np.flatnonzero(alike.folded))
        if not alike.folded.all():
            laid, left_out = alike.laid(self.table("present"), self.table("rebalances"))
            for name, rows in laid.items():
                self._pieces.setdefault(name, []).append(rows)
            self._fold_some(names, left_out)

    def _fold_some(self, names: pa.Array, some: Longs) -> None:
        """Fold some groups one by one."""
        sides = [self._sides[name] for name in ("generations", "epochs", "habits", "names")]
        if len(some) < len(names):
            names, sides = names.take(pa.array(some)), [side.of_groups(some) for side in sides]
        for first, behind in _few(sides, len(names)):
            # Few of a fold's objects are in cycles; to look for them among so many costs a third of its time.
            with collector_paused():
                self._fold(names.slice(first, behind - first).to_pylist(), [side.rows(first, behind) for side in sides])

    def _fold(self, names: list[str], rows: list[list[list[dict[str, Any]]]]) -> None:
        """Some groups, with the rows of each side."""
        folded: dict[str, list[Any]] = {"present": [], "rebalances": [], "epochs": []}
        for group, *sides in zip(names, *rows, strict=True):
            generations, epochs, habits, ids = sides
            if not generations and not epochs:
                continue
            row = {
                "group": group, "generations": generations, "epochs": epochs, "habits": habits,
                "names": {one["topic_id"]: one["topic"] for one in ids},
            }  # fmt: skip
            for name, some in groups.folded_rows(row).items():
                folded[name] += some
        for name, some in folded.items():
            if some:
                self._pieces.setdefault(name, []).append(_table(some, _SCHEMAS[name]))

    def histories(self) -> pa.Table:
        """The records of each group in one row: the columns of ``histories.SCHEMA``."""
        schema = to_arrow_schema(histories.SCHEMA)
        columns = {"group": self._groups}
        for name in self.records:
            columns[name] = self._sides[name].lists(schema.field(name).type)
        names = self._sides["names"]
        offsets = pa.array(names.start.astype(np.int32))
        columns["names"] = pa.MapArray.from_arrays(
            offsets, *[names.table[name].combine_chunks() for name in ("topic_id", "topic")]
        )
        return pa.Table.from_arrays([columns[one.name].cast(one.type) for one in schema], schema=schema)

    def table(self, name: str) -> pa.Table:
        """``present``, ``rebalances`` or ``epochs``: the rows of all groups, by group."""
        rows = pa.concat_tables([_SCHEMAS[name].empty_table(), *self._pieces.get(name, [])]).combine_chunks()
        group = longs(pc.index_in(rows["group"], self._groups))
        return rows if (group[1:] >= group[:-1]).all() else rows.take(pa.array(np.argsort(group, kind="stable")))


@dataclass(frozen=True)
class _Side:
    """One table of all groups, sorted by them.

    start
        (groups + 1,) where each one's rows begin.
    """

    table: pa.Table
    start: Longs

    @classmethod
    def of(cls, table: pa.Table, code: Longs, count: int) -> _Side:
        order = _order(table, code)
        start = np.concatenate(([0], np.cumsum(np.bincount(code, minlength=count))))
        taken = table.take(pa.array(order)).combine_chunks()
        for name, millis_name in _TIMES.items():
            if name in taken.column_names:
                taken = taken.drop_columns([name]).append_column(millis_name, millis_or_null(taken[name]))
        if "members" in taken.column_names:
            column = taken.schema.get_field_index("members")
            taken = taken.set_column(column, "members", _members(taken["members"].combine_chunks()))
        return cls(taken, start)

    def of_groups(self, some: Longs) -> _Side:
        """The rows of some groups."""
        counts = np.diff(self.start)[some]
        rows = self.table.take(pa.array(spans(self.start[some], counts))).combine_chunks()
        return _Side(rows, np.concatenate(([0], np.cumsum(counts))))

    def with_holes(self, holes: pa.Table) -> _Side:
        """Records, each with ``holes``: offsets missing before it in its partition."""
        missing = {
            (partition, offset): count
            for partition, offset, count in zip(*[holes[name].to_pylist() for name in (*_SOURCE, "holes")], strict=True)
        }
        counts = np.zeros(self.table.num_rows, dtype=np.int64)
        if missing:
            pairs = zip(*[self.table[name].to_pylist() for name in _SOURCE], strict=True)
            counts[:] = [missing.get(pair, 0) for pair in pairs]
        return _Side(self.table.append_column("holes", pa.array(counts)), self.start)

    def lists(self, kind: pa.DataType) -> pa.Array:
        """A list of structs for each group."""
        fields = list(kind.value_type)
        columns = [self.table[one.name].combine_chunks() for one in fields]
        columns = [column.cast(one.type) for column, one in zip(columns, fields, strict=True)]
        return listed(np.diff(self.start), pa.StructArray.from_arrays(columns, fields=fields))

    def size(self, first: int, behind: int) -> int:
        """Bytes of the rows of some groups."""
        begin, end = int(self.start[first]), int(self.start[behind])
        return int(self.table.slice(begin, end - begin).nbytes)

    def rows(self, first: int, behind: int) -> list[list[dict[str, Any]]]:
        """The rows of some groups as Python's, group by group."""
        begin, end = int(self.start[first]), int(self.start[behind])
        if begin == end:
            return [[] for _ in range(first, behind)]
        some = self.table.slice(begin, end - begin).combine_chunks()
        rows = [row for batch in some.to_batches() for row in rows_of(batch)]
        bounds = (self.start[first : behind + 1] - begin).tolist()
        return [rows[one:other] for one, other in pairwise(bounds)]


def _order(table: pa.Table, code: Longs) -> Longs:
    """By group, and within it as ``histories`` sorts: records by offset, and where offsets of several partitions meet
    by what else is told of them; names by id.
    """
    keys = [code]
    for name in ("source_offset", "topic_id"):
        if name in table.column_names:
            keys.append(_sortable(table[name]))
    order = np.lexsort(keys[::-1])
    if "tombstone" in table.column_names and len(starts_of(*[key[order] for key in keys])) <= len(order):
        ties = [
            name for name in ("at", "tombstone", "key_type", "generation", "member_id") if name in table.column_names
        ]
        order = np.lexsort([*[_sortable(table[name]) for name in reversed(ties)], *keys[::-1]])
    return order


def _sortable(column: pa.ChunkedArray) -> Longs:
    """Numbers in the order of a column's values; null comes first."""
    if pa.types.is_string(column.type):
        return ranked(column)[0][0]
    return np.asarray(column.cast(pa.int64()).fill_null(-(2**63)), dtype=np.int64)


def _members(lists: pa.Array) -> pa.Array:
    """Members with the fields that a fold looks at."""
    structs = lists.values
    fields = [structs.type.field(name) for name in histories.MEMBER]
    columns = dict(zip([one.name for one in structs.type], structs.flatten(), strict=True))
    mask = pc.is_null(structs) if structs.null_count else None
    few = pa.StructArray.from_arrays([columns[name] for name in histories.MEMBER], fields=fields, mask=mask)
    return pa.ListArray.from_arrays(lists.offsets, few, mask=pc.is_null(lists) if lists.null_count else None)


def _few(sides: Sequence[_Side], count: int) -> Iterator[tuple[int, int]]:
    """Runs of groups that are small together, or one group."""
    first = 0
    while first < count:
        n = min(GROUPS_AT_ONCE, count - first)
        while n > 1 and sum(side.size(first, first + n) for side in sides) > BYTES_AT_ONCE:
            n //= 2
        yield first, first + n
        first += n


def _table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    columns = [pa.array([row[one.name] for row in rows], one.type) for one in schema]
    return pa.Table.from_arrays(columns, schema=schema)

"""A group's rows of all tables from its records and its topics' logs: of all groups, or of those with something new.

A task has some groups whole: their new commits, what stood before, and all records of the groups that are folded: those
with new records of their own, or whose topics have other partitions or racks. What history says is made anew for these;
what commits and log ends say, for all, from what stood before and what is new.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from apportion.arrays import Bools, Ints, Longs
from apportion.history.ends_then import SILENT, last_heard
from apportion.model.lag import WINDOW_S
from apportion.model.protocols import OTHERS
from apportion.model.to_names import collector_paused
from apportion.pipeline import fold_rows, newest_commits
from apportion.pipeline.columns import (
    TASK,
    bucket_of,
    day_codes,
    fields_of,
    flattened,
    in_order,
    listed,
    longs,
    member_topics,
    millis,
    millis_or_null,
    of_groups,
    piece_of,
    ranked,
    starts_of,
    united,
    valid,
    values_of,
    with_columns,
    with_fields,
)
from apportion.pipeline.decode import HOLES
from apportion.pipeline.digests import row_digests
from apportion.pipeline.end_samples import ENDS, TOPICS, described, topics_then
from apportion.pipeline.lag_tables import lag_tables
from apportion.tables import schemas
from apportion.tables.schemas import EPOCHS, GENERATIONS, GROUP_STATE, arrow_schema

GROUPS_AT_ONCE: Final = 256
"""Groups that are Python objects at one time, if they are small."""
BYTES_AT_ONCE: Final = 2 << 20
"""Of Arrow's bytes, which are some 20 times as many as Python objects; one group may be larger."""
SELDOM_ALIKE: Final = 200
"""Partitions of a group that has hardly its like, and is then planned by itself."""
LARGE: Final = 10_000
"""Partitions of a group that holds up others for seconds."""
LARGE_TASKS: Final = 8
"""Tasks that have nothing but such groups; they are begun first."""
_MIX: Final = np.int64(0x9E3779B97F4A7C1)
"""An odd number that spreads small ones over 64 bits."""
_MEMBER: Final = (
    "member_id", "instance_id", "client_id", "host", "rack", "topics", "owned", "owned_generation", "assigned",
    "session_timeout_ms", "unreadable",
)  # fmt: skip
"""Fields of a member that a history is made from."""
SPEAK_OF_TOPICS: Final = (7, 8, 13, 14)
"""Types of keys whose bodies name topics by their ids."""
_TOPIC_ID: Final = re.compile('"topicId":"([A-Za-z0-9_-]{22})"')
_TOPIC: Final = re.compile(r'"([A-Za-z0-9._-]{1,249})"')
_PAIR: Final = ["group", "topic"]
_TIMES: Final = {"at": "at_ms", "state_time": "state_ms"}
_SOURCE: Final = ("source_partition", "source_offset")


def _record(table: schemas.Table, *names: str) -> pa.Schema:
    """Columns of a group's own records, as a history is made from them; times in milliseconds."""
    stored = arrow_schema(table)
    fields = [pa.field("group", pa.string())]
    for name in names:
        if name == "members":
            member = stored.field(name).type.value_type
            struct = pa.struct([member.field(inner) for inner in _MEMBER])
            fields.append(pa.field(name, pa.list_(struct)))
        else:
            fields.append(pa.field(name, pa.int64()) if name.endswith("_ms") else stored.field(name))
    return pa.schema([*fields, pa.field("holes", pa.int64())])


RECORDS: Final[dict[str, pa.Schema]] = {
    "generations": _record(
        GENERATIONS, "source_offset", "at_ms", "tombstone", "generation", "protocol_type", "protocol", "state_ms",
        "members",
    ),
    "epochs": _record(
        EPOCHS, "source_offset", "at_ms", "tombstone", "key_type", "member_id", "epoch", "body"
    ),
}  # fmt: skip
"""Columns of generations and epochs, with ``holes``: offsets missing before a record in its partition."""
NAMES: Final = pa.schema([("group", pa.string()), ("topic_id", pa.string()), ("topic", pa.string())])
WANTED: Final = pa.schema([("group", pa.string()), ("topic", pa.string())])
HEARD: Final = pa.schema([("group", pa.string()), ("heard_ms", pa.int64())])
HOLES_OF_GROUPS: Final = pa.schema([("group", pa.string()), *HOLES])
DIGESTS: Final = pa.schema([("group", pa.string()), ("digest", pa.uint64())])
_STATE: Final = arrow_schema(GROUP_STATE)
_SCHEMAS: Final = {
    "present": arrow_schema(GROUP_STATE, fold_rows.PRESENT),
    "rebalances": arrow_schema(schemas.REBALANCES),
    "epochs": arrow_schema(schemas.GOLD_EPOCHS),
}
"""Of what folding gives."""
FOLDED: Final = ("gold/rebalances", "gold/epochs")
"""Tables of what folding gives: rows of other groups stay."""
KEPT: Final = ("places", "wanted", "heard", "present", "holes", "digests", *FOLDED)
"""What is kept of groups for the next build, by the names under which it comes back."""


@dataclass(frozen=True)
class BuildFacts:
    """The facts that all tasks of a build are given.

    now_ms
        When any log end was sampled last; 0 where none was.
    allowed_lag
        Messages that count as none.
    holes
        As ``decode.holes`` gives them of the new records.
    names
        Topic id to name.
    planners
        Tasks that plan.
    """

    now_ms: int
    allowed_lag: int
    holes: pa.Table
    names: Mapping[str, str]
    planners: int

    @property
    def since_ms(self) -> int:
        """The start of the window that shows how fast a group reads."""
        return self.now_ms - round(WINDOW_S * 1000)


def compact(kind: str, records: pa.Table) -> pa.Table:
    """Rows of ``silver/generations`` or ``silver/epochs`` as ``group_rows`` takes them: columns of ``RECORDS``.

    In place of ``holes`` is their partition.
    """
    schema = RECORDS[kind]
    columns: dict[str, Any] = {name: records[name] for name in records.column_names if name in schema.names}
    for name, millis_name in _TIMES.items():
        if millis_name in schema.names:
            columns[millis_name] = millis_or_null(records[name])
    if "members" in columns:
        columns["members"] = _members(piece_of(records["members"]))
    names = [name for name in schema.names if name != "holes"]
    arrays = [columns[name].cast(schema.field(name).type) for name in names]
    return pa.table([*arrays, records["source_partition"]], names=[*names, "source_partition"])


def read_by_compact(kind: str) -> list[str]:
    """The columns of ``silver/generations`` or ``silver/epochs`` that ``compact`` takes."""
    times = {millis_name: name for name, millis_name in _TIMES.items()}
    return [*(times.get(name, name) for name in RECORDS[kind].names if name != "holes"), "source_partition"]


def group_rows(tables: Mapping[str, pa.Table], build: BuildFacts) -> dict[str, pa.Table]:
    """All rows of some groups.

    tables
        ``commits``: new rows, as ``newest_commits.COLUMNS`` has them; ``generations`` and ``epochs``: all rows of the
        groups that are folded, as ``compact`` gives them; ``history``: older commits of these; ``KEPT``: what this kept
        before; ``logs`` of the groups' topics. One that is not there has no rows.
    Returns
        Rows of tables of gold by their names; ``KEPT``; ``asked``, what is to be planned, with its task as ``TASK``;
        ``readers``, (group, topic); ``astray``, with a row where a new commit does not come after older ones of its
        place.
    """
    commits = newest_commits.sorted_commits(_of(tables, "commits", _COMMITS))
    before = _of(tables, "places", newest_commits.SCHEMA)
    places = newest_commits.places(commits, build.since_ms, before)
    holes_before = _of(tables, "holes", HOLES_OF_GROUPS)
    known = pa.concat_tables([build.holes, holes_before.select(HOLES.names)])
    with_holes = {name: _with_holes(tables[name], known) for name in RECORDS if name in tables}
    holes = [HOLES_OF_GROUPS.empty_table(), *(rows.select(HOLES_OF_GROUPS.names) for rows in with_holes.values())]
    records = {
        name: with_holes[name].select(schema.names) if name in with_holes else schema.empty_table()
        for name, schema in RECORDS.items()
    }
    folded = ranked(*[rows["group"] for rows in records.values()])[1]
    names = _names_of(records["epochs"], build.names)
    history = of_groups(pa.concat_tables([_of(tables, "history", _COMMITS), commits]), folded)
    folding = GroupsFolding(records, names, newest_commits.sorted_commits(history))
    folding.run()
    anew = _living(folding.table("present"))
    living = _together(_of(tables, "present", _SCHEMAS["present"]), anew, folded)
    wanted = pa.concat_tables([topics_of(records["generations"]), names.select(_PAIR), topics_of(anew)])
    wanted = _together(_of(tables, "wanted", WANTED), wanted.group_by(_PAIR).aggregate([]), folded)
    heard = _together(_of(tables, "heard", HEARD), _heard(folded, records), folded)
    present = _present(living, places)
    named = named_topics(wanted, places)
    logs = tables["logs"].combine_chunks() if "logs" in tables else described(ENDS.empty_table(), TOPICS.empty_table())
    judged = lag_tables(
        {"places": places, "present": present, "named": named, "logs": logs}, build.now_ms, build.allowed_lag
    )
    state = judged["group_state"]
    standing = state.filter(_can_be_asked(state)).combine_chunks()
    groups = piece_of(standing["group"])
    standing = _as_then(standing, _heard_ms(groups, heard, places), logs)
    digests = row_digests(standing)
    is_asked = _differ(groups, digests, _of(tables, "digests", DIGESTS)) | np.asarray(pc.is_in(groups, folded))
    to_plan = [_asked_of_past(folded, records, names, _topics_of_past(state, anew, wanted))]
    to_plan.append(_asked_of_present(standing.filter(pa.array(is_asked)), to_plan[0].schema))
    return {
        "gold/commits": newest_commits.newest(places), "gold/groups": _groups_of(present),
        **{
            name: _by_day(_together(_of(tables, name, _SCHEMAS[kind]), folding.table(kind), folded))
            for name, kind in zip(FOLDED, ("rebalances", "epochs"), strict=True)
        },
        **{f"gold/{name}": rows for name, rows in judged.items()},
        "places": places, "wanted": wanted, "heard": heard, "present": living,
        "holes": _together(holes_before, pa.concat_tables(holes), folded),
        "digests": pa.table([groups, pa.array(digests)], schema=DIGESTS),
        "asked": _dealt(pa.concat_tables(to_plan).combine_chunks(), build.planners),
        "readers": named,
        "astray": pa.table({"astray": pa.array([True] * newest_commits.are_astray(commits, before), pa.bool_())}),
    }  # fmt: skip


_COMMITS: Final = arrow_schema(schemas.COMMITS, newest_commits.COLUMNS)


def _of(tables: Mapping[str, pa.Table], kind: str, schema: pa.Schema) -> pa.Table:
    """The rows of a kind; if there are none, an empty table of its columns."""
    return tables[kind].combine_chunks() if kind in tables else schema.empty_table()


def _together(before: pa.Table, now: pa.Table, groups: pa.Array) -> pa.Table:
    """Rows of before with those of some groups replaced, by group."""
    whole = pa.concat_tables([of_groups(before, groups, inverted=True), now.cast(before.schema)]).combine_chunks()
    (group,), _ = ranked(whole["group"])
    return whole.take(pa.array(np.argsort(group, kind="stable"))).combine_chunks()


def _with_holes(records: pa.Table, known: pa.Table) -> pa.Table:
    """Records of groups, each with ``holes``: how many offsets are missing before it in its partition.

    known
        Columns of ``HOLES``, in any order.
    """
    partition, offset = (longs(records[name]) for name in _SOURCE)
    of, up_to, total = (longs(known[name]) for name in HOLES.names)
    order = in_order(of, up_to)
    of, up_to, total = of[order], up_to[order], np.append(total[order], 0)
    holes = np.zeros(len(partition), dtype=np.int64)
    for number in np.unique(partition).tolist():
        first, behind = np.searchsorted(of, [number, number + 1])
        rows = np.flatnonzero(partition == number)
        last = first - 1 + np.searchsorted(up_to[first:behind], offset[rows], "right")
        holes[rows] = total[np.where(last < first, -1, last)]
    return with_columns(records, holes=pa.array(holes)).combine_chunks()


def spoken_ids(epochs: pa.Table) -> dict[str, set[str]]:
    """Group to the ids of topics that its epochs speak of; only groups with some."""
    ids: dict[str, set[str]] = {}
    speak = epochs.filter(pc.is_in(epochs["key_type"], pa.array(SPEAK_OF_TOPICS, pa.int32())))
    for group, body in zip(speak["group"].to_pylist(), speak["body"].to_pylist(), strict=True):
        if body is not None and (spoken := _TOPIC_ID.findall(body)):
            ids.setdefault(group, set()).update(spoken)
    return ids


def topics_named(epochs: pa.Table) -> pa.Table:
    """(group, topic): every word in the bodies of a group's epochs that may be the name of a topic; most are none."""
    words: dict[str, set[str]] = {}
    for group, body in zip(epochs["group"].to_pylist(), epochs["body"].to_pylist(), strict=True):
        words.setdefault(group, set()).update(_TOPIC.findall(body or ""))
    pairs = [(group, word) for group, spoken in words.items() for word in spoken]
    return pa.table(
        [pa.array(column, pa.string()) for column in zip(*pairs, strict=True)] or [[], []], names=_PAIR
    ).cast(pa.schema([(name, pa.string()) for name in _PAIR]))


def _names_of(epochs: pa.Table, names: Mapping[str, str]) -> pa.Table:
    """(group, topic_id, topic) of the ids that a group's epochs speak of, if they have a name."""
    rows = [
        {"group": group, "topic_id": spoken, "topic": names[spoken]}
        for group, ids in sorted(spoken_ids(epochs).items())
        for spoken in sorted(ids & names.keys())
    ]
    return pa.Table.from_pylist(rows, schema=NAMES)


def _by_day(rows: pa.Table) -> pa.Table:
    """Rows by the day of ``at``, which is a file each; those of a day stay as they were, by group and offset."""
    return rows.take(pa.array(np.argsort(day_codes(rows["at"]), kind="stable")))


def named_topics(wanted: pa.Table, places: pa.Table) -> pa.Table:
    """(group, topic): the topics that members want or ever wanted, that its epochs name, or that it has commits on.

    wanted
        All of these but the last.
    """
    pieces = [wanted, places.select(_PAIR).filter(places["standing"])]
    # Pairs as numbers: most of them are a group's commits, one for each partition of a topic.
    of_group, groups = ranked(*[piece["group"] for piece in pieces])
    of_topic, topics = ranked(*[piece["topic"] for piece in pieces])
    width = len(topics) + 1
    pairs = united(*[group * width + topic + 1 for group, topic in zip(of_group, of_topic, strict=True)])
    group, topic = pairs // width, pairs % width - 1
    columns = [names.take(pa.array(code, mask=code < 0)) for names, code in ((groups, group), (topics, topic))]
    return pa.Table.from_arrays(columns, names=_PAIR)


def topics_of(table: pa.Table) -> pa.Table:
    """(group, topic): the topics that the members of each row subscribe to."""
    row, topics = member_topics(table["members"])
    return pa.table({"group": table["group"].take(row), "topic": topics})


def _living(folded: pa.Table) -> pa.Table:
    """Groups that are not gone."""
    return folded.filter(pc.is_valid(folded["type"])).combine_chunks()


def _present(living: pa.Table, places: pa.Table) -> pa.Table:
    """Groups that are there, by name; those that only commit as ``simple``."""
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


def _groups_of(present: pa.Table) -> pa.Table:
    """``gold/groups``."""
    schema = arrow_schema(schemas.GROUPS)
    lists, fields = present["members"].combine_chunks(), list(schema.field("members").type.value_type)
    columns = fields_of(lists.flatten())
    trimmed = pa.StructArray.from_arrays([columns[column.name] for column in fields], fields=fields)
    whole = listed(np.asarray(pc.list_value_length(lists)), trimmed)
    return pa.Table.from_arrays([whole if name == "members" else present[name] for name in schema.names], schema=schema)


# -- what plans are made from ----------------------------------------------------------------------------------------


def _asked_of_past(groups: pa.Array, records: Mapping[str, pa.Table], names: pa.Table, topics: pa.Table) -> pa.Table:
    """What-if's input, a row a group: its records, its names of topics, and its topics without offsets.

    topics
        (group, topics); without a row of a group that is gone, whose history alone counts.
    """
    columns: dict[str, Any] = {"group": groups}
    for kind, rows in records.items():
        ordered, counts = _by_group(rows, groups)
        fields = [field for field in ordered.schema if field.name != "group"]
        arrays = [piece_of(ordered[field.name]) for field in fields]
        columns[kind] = listed(counts, pa.StructArray.from_arrays(arrays, fields=fields))
    ordered, counts = _by_group(names, groups)
    offsets = pa.array(np.concatenate(([0], np.cumsum(counts))).astype(np.int32))
    columns["names"] = pa.MapArray.from_arrays(offsets, *[piece_of(ordered[name]) for name in ("topic_id", "topic")])
    columns["generations"] = _without_owned(columns["generations"])
    columns |= {field.name: pa.nulls(len(groups), field.type) for field in _STATE if field.name != "group"}
    columns["topics"] = piece_of(topics["topics"]).take(pc.index_in(groups, piece_of(topics["group"])))
    return pa.table(columns)


def _asked_of_present(state: pa.Table, schema: pa.Schema) -> pa.Table:
    """What-if's input, a row of ``gold/group_state`` each; without a past."""
    gone = {field.name: pa.nulls(state.num_rows, field.type) for field in schema}
    return pa.table({name: state[name] if name in state.column_names else gone[name] for name in schema.names})


def _can_be_asked(state: pa.Table) -> pa.Array:
    """Rows of groups about whose present a strategy can be asked."""
    without_strategy = pc.is_in(state["type"], pa.array(sorted(OTHERS), pa.string()))
    members = pc.greater(pc.list_value_length(state["members"]), 0)
    return pc.fill_null(pc.and_(pc.and_(state["readable"], pc.invert(without_strategy)), members), False)


def _topics_of_past(state: pa.Table, living: pa.Table, wanted: pa.Table) -> pa.Table:
    """(group, topics) of groups that are there by their own records: topics that they ever wanted, without offsets."""
    rows = of_groups(state.select(["group", "topics"]), piece_of(living["group"]))
    lists = piece_of(rows["topics"])
    whose = piece_of(rows["group"]).take(pc.list_parent_indices(lists))
    topics = lists.flatten()
    pairs = pa.table([whose, pc.struct_field(topics, "topic"), pa.array(np.arange(len(topics)))], names=[*_PAIR, "at"])
    at = np.sort(longs(pairs.join(wanted, _PAIR, join_type="left semi")["at"]))
    entries = pc.struct_field(topics, "partitions")
    without = listed(
        longs(pc.list_value_length(entries)), with_fields(entries.flatten(), dict.fromkeys(("begin", "end")))
    )
    counts = np.bincount(longs(pc.list_parent_indices(lists))[at], minlength=rows.num_rows)
    whole = listed(counts, with_fields(topics, {"partitions": without}).take(pa.array(at)))
    return pa.table({"group": rows["group"], "topics": whole.cast(_STATE.field("topics").type)})


def _by_group(rows: pa.Table, groups: pa.Array) -> tuple[pa.Table, Ints]:
    """Rows in the order of groups, those of one as a history has them; and how many each has."""
    code = longs(pc.index_in(piece_of(rows["group"]), groups))
    ordered = rows.take(pa.array(_order(rows, code))).combine_chunks()
    return ordered, np.bincount(code, minlength=len(groups))


def _without_owned(generations: pa.ListArray) -> pa.ListArray:
    """Generations without the members' words about their partitions, which no plan looks at: a quarter of all bytes."""
    members = pc.struct_field(generations.values, "members")
    trimmed = with_fields(members.values, dict.fromkeys(("owned", "owned_generation")))
    lists = pa.ListArray.from_arrays(members.offsets, trimmed, mask=members.is_null() if members.null_count else None)
    return pa.ListArray.from_arrays(generations.offsets, with_fields(generations.values, {"members": lists}))


def _heard(groups: pa.Array, records: Mapping[str, pa.Table]) -> pa.Table:
    """(group, heard_ms): when each left its newest record of its own."""
    counted = []
    for rows in records.values():
        group = longs(pc.index_in(piece_of(rows["group"]), groups))
        counted.append((group, longs(rows["at_ms"]), valid(rows["at_ms"])))
    return pa.table([groups, pa.array(last_heard(len(groups), *counted))], schema=HEARD)


def _heard_ms(groups: pa.Array, heard: pa.Table, places: pa.Table) -> Longs:
    """(groups,) when each left its newest record, by ``history.ends_then``."""
    own = longs(pc.index_in(groups, piece_of(heard["group"])))  # who can be asked has records of its own
    time = places["commit_time"]
    group = pc.index_in(piece_of(places["group"]), groups)
    stands = valid(time) & np.asarray(places["standing"]) & valid(group)
    return np.maximum(longs(heard["heard_ms"])[own], last_heard(len(groups), (longs(group), millis(time), stands)))


def _as_then(rows: pa.Table, heard_ms: Longs, logs: pa.Table) -> pa.Table:
    """What-if's input with the log ends behind the plans: those sampled first after a group's newest record."""
    older = _are_older(rows, heard_ms, logs)
    if not older.any():
        return rows
    then = topics_then(rows["topics"].filter(pa.array(older)), heard_ms[older], logs)
    row = np.where(older, len(older) + np.cumsum(older) - 1, np.arange(len(older)))
    whole = pa.concat_arrays([piece_of(rows["topics"]), then]).take(pa.array(row))
    return rows.set_column(rows.schema.get_field_index("topics"), "topics", whole)


def _are_older(rows: pa.Table, heard_ms: Longs, logs: pa.Table) -> Bools:
    """(rows,) whether the last sample but one of a topic that a group names is no older than its newest record."""
    pairs = flattened(rows, "topics", "topic")
    sampled_twice = logs.select(["topic", "earlier_ms"]).drop_null()
    (topic, of_log), names = ranked(pairs["topic"], sampled_twice["topic"])
    latest = np.full(len(names) + 1, SILENT)
    np.maximum.at(latest, of_log, longs(sampled_twice["earlier_ms"]))
    sampled = np.zeros(len(names) + 1, dtype=np.bool_)
    sampled[of_log] = True
    group = longs(pc.index_in(piece_of(pairs["group"]), piece_of(rows["group"])))
    older = np.zeros(rows.num_rows, dtype=np.bool_)
    older[group[sampled[topic] & (latest[topic] >= heard_ms[group])]] = True
    return older


def _differ(groups: pa.Array, digests: Any, before: pa.Table) -> Bools:
    """(groups,) whether the input of a group's plans has changed."""
    row = longs(pc.fill_null(pc.index_in(groups, piece_of(before["group"])), -1))
    digest_before = np.append(np.asarray(before["digest"], dtype=np.uint64), np.uint64(0))
    return np.asarray((row < 0) | (digest_before[row] != digests))


def _dealt(rows: pa.Table, planners: int) -> pa.Table:
    """Rows of what-if's input with the task that plans each: groups that may be of one structure meet in one.

    Large groups are by themselves, in the tasks that are begun first, so that nobody waits behind one.
    """
    topics = piece_of(rows["topics"])
    sizes = piece_of(pc.list_value_length(pc.struct_field(topics.flatten(), "partitions")))
    partitions = np.bincount(
        np.asarray(pc.list_parent_indices(topics)), weights=longs(sizes), minlength=rows.num_rows
    ).astype(np.int64)
    mixed = partitions
    for name in ("members", "generations", "epochs"):
        mixed = mixed * _MIX + longs(pc.list_value_length(piece_of(rows[name])))
    mixed = mixed * _MIX
    mixed = (mixed >> 32) & 0x7FFFFFFF
    large = LARGE_TASKS if planners > 2 * LARGE_TASKS else 0
    usual = planners - large
    # Tasks are begun in the order of their numbers: those at the end have none of the groups that take long.
    task = large + mixed % np.where(partitions >= SELDOM_ALIKE, -(-usual // 2), usual)
    if large:
        task = np.where(partitions >= LARGE, longs(bucket_of(rows["group"], large)), task)
    return rows.append_column(TASK, pa.array(task, pa.int32()))


# -- folding ---------------------------------------------------------------------------------------------------------


@dataclass
class GroupsFolding:
    """Some groups folded one by one; their rows are gathered as columns.

    records
        ``generations`` and ``epochs``, the columns of ``RECORDS``.
    names
        Columns of ``NAMES``.
    commits
        As ``newest_commits.sorted_commits`` gives them.
    """

    records: Mapping[str, pa.Table]
    names: pa.Table
    commits: pa.Table
    _pieces: dict[str, list[pa.Table]] = field(default_factory=dict)
    _groups: pa.Array = None

    def run(self) -> None:
        """Fold every group that has a record of its own."""
        marks = pa.concat_tables([rows.select(["group", "source_offset"]) for rows in self.records.values()])
        marks = marks.sort_by([("group", "ascending"), ("source_offset", "ascending")]).combine_chunks()
        several = [*self.records.values(), newest_commits.cadence(self.commits, marks), self.names]
        codes, names = ranked(*[rows["group"] for rows in several])
        self._groups = names
        sides = [_Side.of(table, code, len(names)) for table, code in zip(several, codes, strict=True)]
        for first, behind in _runs(sides, len(names)):
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
                "names": {topic["topic_id"]: topic["topic"] for topic in ids},
            }  # fmt: skip
            for name, rows_of in fold_rows.folded_rows(row).items():
                folded[name] += rows_of
        for name, rows_of in folded.items():
            if rows_of:
                self._pieces.setdefault(name, []).append(_table(rows_of, _SCHEMAS[name]))

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
        start = np.concatenate(([0], np.cumsum(np.bincount(code, minlength=count))))
        return cls(table.take(pa.array(_order(table, code))).combine_chunks(), start)

    def size(self, first: int, behind: int) -> int:
        """Bytes of the rows of some groups."""
        begin, end = int(self.start[first]), int(self.start[behind])
        return int(self.table.slice(begin, end - begin).nbytes)

    def rows(self, first: int, behind: int) -> list[list[dict[str, Any]]]:
        """The rows of some groups as Python's, group by group."""
        begin, end = int(self.start[first]), int(self.start[behind])
        if begin == end:
            return [[] for _ in range(first, behind)]
        rows = values_of(piece_of(self.table.slice(begin, end - begin).to_struct_array()))
        bounds = (self.start[first : behind + 1] - begin).tolist()
        return [rows[a:b] for a, b in pairwise(bounds)]


def _order(table: pa.Table, code: Longs) -> Longs:
    """By group, and within it records by offset, and if offsets of several partitions meet
    by what else is told of them; names by id.
    """
    keys = [code]
    for name in ("source_offset", "topic_id"):
        if name in table.column_names:
            keys.append(_sortable(table[name]))
    order = np.lexsort(keys[::-1])
    if "tombstone" in table.column_names and len(starts_of(*[key[order] for key in keys])) <= len(order):
        ties = [
            name for name in ("at_ms", "tombstone", "key_type", "generation", "member_id") if name in table.column_names
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
    fields = [structs.type.field(name) for name in _MEMBER]
    columns = fields_of(structs)
    mask = pc.is_null(structs) if structs.null_count else None
    trimmed = pa.StructArray.from_arrays([columns[name] for name in _MEMBER], fields=fields, mask=mask)
    return pa.ListArray.from_arrays(lists.offsets, trimmed, mask=pc.is_null(lists) if lists.null_count else None)


def _runs(sides: Sequence[_Side], count: int) -> Iterator[tuple[int, int]]:
    """Runs of groups that are small together, or one group."""
    first = 0
    while first < count:
        n = min(GROUPS_AT_ONCE, count - first)
        while n > 1 and sum(side.size(first, first + n) for side in sides) > BYTES_AT_ONCE:
            n //= 2
        yield first, first + n
        first += n


def _table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    columns = [pa.array([row[column.name] for row in rows], column.type) for column in schema]
    return pa.Table.from_arrays(columns, schema=schema)

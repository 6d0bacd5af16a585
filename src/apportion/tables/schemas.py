"""Every table of the pipeline: its columns, their meaning, when they are null, and the order of its rows.

All that speaks of columns is made from this file: Spark's types and Arrow's, ``docs/tables.md``, the data contract and
dbt's sources (``python -m tools.tables docs``). All columns are nullable for an engine; which ones really
can be null stands here. Times are UTC. Columns may be added, never renamed.

``silver/ends`` holds every sample that was ever taken, ``silver/topics`` the newest alone; ``silver/gaps`` says which
offsets are missing, so a record at offset ``b`` follows one at ``a`` completely if no gap of their partition has
``after_offset >= a and before_offset <= b``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa

_STRING, _INT, _LONG, _BOOLEAN, _TIME, _BINARY = "string", "int", "bigint", "boolean", "timestamp", "binary"


@dataclass(frozen=True)
class Many:
    """A list of values of one type; ``nulls`` says whether an engine may take one of them for null."""

    element: Kind
    nulls: bool = True


@dataclass(frozen=True)
class Column:
    """A column with its meaning, and when it is null ("" for never)."""

    name: str
    kind: Kind
    comment: str
    null: str = ""


@dataclass(frozen=True)
class Struct:
    """Named values."""

    columns: Sequence[Column]


Kind = str | Many | Struct
"""``string``, ``int`` (32 bits), ``bigint`` (64), ``double``, ``boolean``, ``timestamp``, ``binary``, or a shape."""

_STRINGS: Final = Many(_STRING)


@dataclass(frozen=True)
class Table:
    """One table.

    rows
        What one row stands for.
    columns
        In the order of the files.
    order
        Columns that sort the rows; together they tell two rows apart.
    day
        The column whose UTC day a file holds; None where the table is a whole.
    follows
        What a build makes its rows of. ``records``: of new records, whose rows are added; ``generations``: of all
        records of a group's own, again for the groups with new ones; ``commits and ends``: of what stood before and
        what is new, again for all groups.
    """

    rows: str
    columns: Struct
    order: tuple[str, ...]
    day: str | None = None
    follows: str = "records"


def struct(*columns: Column) -> Struct:
    """Named values."""
    return Struct(columns)


def table(
    rows: str, *columns: Column, order: tuple[str, ...], day: str | None = None, follows: str = "records"
) -> Table:
    """One table; its fields are explained at ``Table``."""
    return Table(rows, Struct(columns), order, day, follows)


def fingerprint() -> str:
    """A few letters that differ if any table has other columns: a build goes on only from tables of its own form."""
    form = {name: (_named_kinds(table.columns), table.order, table.day) for name, table in TABLES.items()}
    return sha256(repr(form).encode()).hexdigest()[:12]


def _named_kinds(kind: Kind) -> object:
    """Names and types alone, without their meaning."""
    if isinstance(kind, Many):
        return [_named_kinds(kind.element)]
    if isinstance(kind, Struct):
        return [(column.name, _named_kinds(column.kind)) for column in kind.columns]
    return kind


def arrow_schema(table: Table, columns: Iterable[str] | None = None) -> pa.Schema:
    """The Arrow form of a table's columns: times in microseconds of UTC, every column nullable.

    columns
        Those that are wanted, in their order; all by default.
    """
    import pyarrow as pa

    kinds = {column.name: column.kind for column in table.columns.columns}
    return pa.schema([pa.field(name, _arrow(kinds[name])) for name in (kinds if columns is None else columns)])


def _arrow(kind: Kind) -> pa.DataType:
    import pyarrow as pa

    if isinstance(kind, Many):
        return pa.list_(pa.field("element", _arrow(kind.element), nullable=kind.nulls))
    if isinstance(kind, Struct):
        return pa.struct([pa.field(column.name, _arrow(column.kind)) for column in kind.columns])
    plain = {
        "string": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "double": pa.float64(),
        "boolean": pa.bool_(), "timestamp": pa.timestamp("us", tz="UTC"), "binary": pa.binary(),
    }  # fmt: skip
    return plain[kind]


# -- pieces ----------------------------------------------------------------------------------------------------------

HELD: Final = Many(
    struct(
        Column("topic", _STRING, "topic"),
        Column("partitions", Many(_INT), "partition ids, in the order of the bytes"),
    )
)
"""Partitions topic by topic."""

_SOURCE: Final = [
    Column("source_partition", _INT, "partition of `__consumer_offsets` that held the record"),
    Column("source_offset", _LONG, "offset of the record there: within a group, the order of events"),
]
_PLACE: Final = (
    Column("group", _STRING, "group"),
    Column("topic", _STRING, "topic"),
    Column("partition", _INT, "partition"),
)
_AT: Final = Column("at", _TIME, "the record's timestamp")
_TOMBSTONE: Final = Column("tombstone", _BOOLEAN, "the record has no value: it deletes its key")

MEMBER: Final = struct(
    Column("member_id", _STRING, "id that the coordinator gave"),
    Column("instance_id", _STRING, "`group.instance.id`", "a dynamic member"),
    Column("client_id", _STRING, "`client.id`; personal data"),
    Column("host", _STRING, "address as the broker saw it; personal data"),
    Column("rack", _STRING, "`client.rack`", "not set"),
    Column("topics", _STRINGS, "its subscription; empty where its bytes are not ours to read"),
    Column("owned", HELD, "what it said it owned when it joined"),
    Column("owned_generation", _INT, "the generation of `owned`", "none said"),
    Column("assigned", HELD, "what the leader gave it"),
    Column("user_data", _BINARY, "its subscription's user data; personal data", "none sent"),
    Column("rebalance_timeout_ms", _INT, "rebalance timeout", "value version 0"),
    Column("session_timeout_ms", _INT, "session timeout"),
    Column("unreadable", _STRING, "why its subscription or assignment could not be read", "they could"),
)
"""One member of a classic generation."""

# -- bronze ----------------------------------------------------------------------------------------------------------

RECORDS: Final = table(
    "a record of `__consumer_offsets` as it came",
    Column("key", _BINARY, "the record's key", "a record without one"),
    Column("value", _BINARY, "the record's value", "a tombstone"),
    Column("topic", _STRING, "`__consumer_offsets`"),
    Column("partition", _INT, "its partition"),
    Column("offset", _LONG, "its offset"),
    Column("timestamp", _TIME, "its timestamp"),
    Column("timestampType", _INT, "0: the producer's, 1: the broker's"),
    order=("partition", "offset"),
)

ENDS: Final = table(
    "the ends of a partition's log at one moment",
    Column("topic", _STRING, "topic"),
    Column("partition", _INT, "partition"),
    Column("begin", _LONG, "log start offset"),
    Column("end", _LONG, "high watermark"),
    Column("last_stable", _LONG, "last stable offset: where `read_committed` ends"),
    Column("at", _TIME, "when it was sampled"),
    order=("topic", "partition", "at"),
)

TOPICS: Final = table(
    "a partition of a topic, when the log ends were sampled",
    Column("topic", _STRING, "topic"),
    Column("topic_id", _STRING, "its id as Kafka prints it, 22 characters", "unknown"),
    Column("partition", _INT, "partition"),
    Column("racks", _STRINGS, "racks that hold a replica; empty where brokers have none"),
    order=("topic", "partition"),
)

# -- silver ----------------------------------------------------------------------------------------------------------

COMMITS: Final = table(
    "a committed offset, or its deletion (key types 0 and 1)",
    *_PLACE,
    Column("committed", _LONG, "next offset to read", "tombstone"),
    Column("leader_epoch", _INT, "leader epoch of the last message read", "tombstone, or none said"),
    Column("metadata", _STRING, "free text of the client", "tombstone"),
    Column("commit_time", _TIME, "when it was committed", "tombstone, or 292,000 years away"),
    Column("expire_time", _TIME, "when it expires", "no time of its own (all but value version 1)"),
    Column("topic_id", _STRING, "id of the topic", "tombstone, or none said"),
    _TOMBSTONE,
    Column("value_version", _INT, "version of the value", "tombstone"),
    *_SOURCE,
    _AT,
    Column("key_type", _INT, "0 or 1"),
    order=("source_partition", "source_offset"),
    day="at",
)

GENERATIONS: Final = table(
    "a record of a classic group: a generation, or the group's deletion (key type 2)",
    Column("group", _STRING, "group"),
    Column("generation", _INT, "generation", "tombstone"),
    Column("protocol_type", _STRING, "`consumer`, `connect`, ..., or empty", "tombstone"),
    Column("protocol", _STRING, "the strategy that the members agreed on", "tombstone, or no members"),
    Column("leader", _STRING, "member id of the leader", "tombstone, or no members"),
    _TOMBSTONE,
    _AT,
    Column("members", Many(MEMBER), "its members; none in a tombstone"),
    *_SOURCE,
    Column("state_time", _TIME, "when the group entered its state", "tombstone, or value version below 2"),
    Column("value_version", _INT, "version of the value", "tombstone"),
    order=("source_partition", "source_offset"),
    day="at",
)

EPOCHS: Final = table(
    "a record of a group whose broker assigns: KIP-848 (key types 3 to 8), share (10 to 15), streams (17, 19 to 23)",
    Column("group", _STRING, "group"),
    Column(
        "key_type",
        _INT,
        "3, 11, 17 group; 4, 15 topics; 5, 10, 19 member; 6, 12, 20 target; 7, 13, 21 target of a member; "
        "8, 14, 22 current; 23 topology",
    ),
    Column("member_id", _STRING, "member id", "key types of a whole group"),
    Column("epoch", _INT, "epoch of types 3, 6, 8, 11, 12, 14, 17, 20, 22", "tombstone, or another type"),
    _TOMBSTONE,
    Column("body", _STRING, "the value as Kafka's JSON", "tombstone"),
    *_SOURCE,
    _AT,
    Column("value_version", _INT, "version of the value", "tombstone"),
    order=("source_partition", "source_offset"),
    day="at",
)

REJECTS: Final = table(
    "a record that could not be read",
    *_SOURCE,
    Column("reason", _STRING, "what was found, and at which byte"),
    Column("key", _BINARY, "the key, whole", "a record without one"),
    Column("value", _BINARY, "the value, whole", "a tombstone"),
    _AT,
    order=("source_partition", "source_offset"),
    day="at",
)

COUNTS: Final = table(
    "how many records of one kind were read; rejects are not counted here",
    Column("key_type", _INT, "type of the key; 9, 16, 18 and from 24 on only counted"),
    Column("value_version", _INT, "version of the value", "tombstone"),
    _TOMBSTONE,
    Column("records", _LONG, "how many"),
    order=("key_type", "tombstone", "value_version"),
)

GAPS: Final = table(
    "a run of offsets of `__consumer_offsets` that holds no record: compaction, a transaction's marker, or a gap",
    Column("source_partition", _INT, "partition of `__consumer_offsets`"),
    Column("after_offset", _LONG, "last offset before the gap; -1 at the beginning of the log"),
    Column("before_offset", _LONG, "first offset after the gap"),
    Column("missing", _LONG, "offsets between the two"),
    order=("source_partition", "after_offset"),
)

# -- gold ------------------------------------------------------------------------------------------------------------

NEWEST: Final = table(
    "the newest commit that stands, for each group and partition",
    *_PLACE,
    Column("committed", _LONG, "next offset to read"),
    Column("leader_epoch", _INT, "leader epoch of the last message read", "none said"),
    Column("metadata", _STRING, "free text of the client"),
    Column("commit_time", _TIME, "when it was committed", "292,000 years away"),
    Column("topic_id", _STRING, "id of the topic", "none said"),
    *_SOURCE,
    order=("group", "topic", "partition"),
    follows="commits and ends",
)

LAG: Final = table(
    "how far a group is behind on a partition",
    *_PLACE,
    Column("committed", _LONG, "next offset to read", "never committed"),
    Column("begin", _LONG, "log start offset", "unknown topic"),
    Column("end", _LONG, "high watermark", "unknown topic"),
    Column("last_stable", _LONG, "last stable offset", "unknown topic"),
    Column("raw_lag", _LONG, "`end - committed`, negative where the commit is ahead", "either is unknown"),
    Column("lag", _LONG, "messages that can still be read", "unknown, or status invalid"),
    Column(
        "status",
        _STRING,
        "the first that fits: never_committed, unknown_topic, invalid, unsubscribed, ahead, expired_data, ok",
    ),
    Column("stable_lag", _LONG, "as `lag`, for a `read_committed` reader: up to `last_stable`", "unknown"),
    Column(
        "seconds",
        "double",
        "age of the first unread message when log ends were last sampled",
        "unknown, or older than the first sample",
    ),
    Column("lost", _LONG, "messages that retention deleted unread; 0 where unsubscribed", "unknown"),
    Column("commit_time", _TIME, "when it was committed", "never committed, or 292,000 years away"),
    Column("sampled_at", _TIME, "when the log ends were sampled", "unknown topic"),
    Column("seconds_least", "double", "what `seconds` is at least", "unknown"),
    Column("seconds_most", "double", "what `seconds` is at most", "unknown, or older than the first sample"),
    Column("written", "double", "messages a second that the log grew by in the last 600 s", "too few samples"),
    Column("read", "double", "messages a second that were committed in the last 600 s", "too few commits"),
    Column("trend", "double", "messages a second by which the lag grows, `written - read`", "either is unknown"),
    Column(
        "in_words",
        _STRING,
        "caught up, maybe at a marker (1 or 2 unread, which may be markers of transactions), keeping up "
        "(nothing unread is older than 15 s), growing, standing, shrinking, unknown",
    ),
    Column("catch_up_s", "double", "seconds until the lag is gone at these rates", "never, or unknown"),
    order=("group", "topic", "partition"),
    follows="commits and ends",
)

ROLE: Final = struct(
    Column("role", _STRING, "active, standby or warmup task; of a share group: shared, or target"),
    Column("of", _STRING, "sub-topology, or a share group's topic"),
    Column("numbers", Many(_INT, nulls=False), "task numbers, or partitions"),
)
"""What a member of a streams or share group has in one role."""

GROUP_MEMBER: Final = struct(
    Column("member_id", _STRING, "id that the coordinator, or the member, gave"),
    Column("instance_id", _STRING, "`group.instance.id`", "a dynamic member"),
    Column("client_id", _STRING, "`client.id`; personal data"),
    Column("host", _STRING, "address as the broker saw it; personal data"),
    Column("rack", _STRING, "`client.rack`", "not set"),
    Column("assigned", HELD, "what it owns"),
    Column("process_id", _STRING, "process of a streams group's member", "another type"),
    Column("roles", Many(ROLE), "tasks of a streams group's member, partitions of a share group's; else none"),
)
"""A member as it stands at the end."""

STATE_MEMBER: Final = struct(
    *GROUP_MEMBER.columns,
    Column("topics", _STRINGS, "its subscription"),
    Column("session_timeout_ms", _INT, "session timeout", "a KIP-848 member"),
)
"""A member of a group's state: its fields, and what it wants."""

PARTITION: Final = struct(
    Column("partition", _INT, "partition"),
    Column("racks", _STRINGS, "racks that hold a replica", "unknown"),
    Column("begin", _LONG, "log start offset", "unknown"),
    Column("end", _LONG, "high watermark", "unknown"),
    Column("last_stable", _LONG, "last stable offset", "unknown"),
)

TOPIC: Final = struct(
    Column("topic", _STRING, "topic"),
    Column("topic_id", _STRING, "its id", "unknown"),
    Column("partitions", Many(PARTITION), "its partitions"),
)

COMMITTED: Final = struct(
    Column("topic", _STRING, "topic"),
    Column("partition", _INT, "partition"),
    Column("committed", _LONG, "next offset to read"),
)

GROUPS: Final = table(
    "a group as it stands at the end",
    Column("group", _STRING, "group"),
    Column("type", _STRING, "classic, consumer, simple (commits alone), or another name of Kafka's"),
    Column("state", _STRING, "Stable or Empty; Unreadable and why, of a group whose records cannot be folded"),
    Column("protocol", _STRING, "the strategy", "empty or simple group"),
    Column("generation", _INT, "generation, or epoch", "simple group"),
    Column("members", Many(GROUP_MEMBER), "its members"),
    order=("group",),
    follows="commits and ends",
)

REBALANCES: Final = table(
    "a rebalance: a group's record and the one before it",
    Column("group", _STRING, "group"),
    Column("source_offset", _LONG, "offset of the later record"),
    Column("generation", _INT, "its generation"),
    Column("previous_generation", _INT, "the generation of the earlier record"),
    Column("cause", _STRING, "why, as far as the records tell"),
    Column("members", _INT, "members after it"),
    Column("joined", _STRINGS, "member ids that came"),
    Column("left", _STRINGS, "member ids that went"),
    Column(
        "moved", _INT, "partitions that another member that stays had; in a streams group active tasks, here and below"
    ),
    Column("kept", _INT, "partitions that kept their owner"),
    Column("given", _INT, "all others: partitions that no member that stays had"),
    Column("needless", _INT, "moves beyond the proved minimum", "no proof"),
    Column("duration_ms", _LONG, "from the end of the join to the assignment", "unknown"),
    Column("complete", _BOOLEAN, "nothing between the two records can be hidden"),
    Column("at", _TIME, "the later record's timestamp"),
    Column("kind", _STRING, "classic; consumer or streams for an epoch: targets, one row on key type 6 or 20"),
    Column("skipped", _INT, "generations between the two that left no record: rebalances that were broken off"),
    Column("handed", _INT, "of `moved`: what had been given up in a round before"),
    Column("dropped", _INT, "partitions that had an owner and have none"),
    Column("stopped", _INT, "partitions that stood still in it", "not classic: records tell targets alone"),
    Column("stopped_ms", _LONG, "how long each of these stood still at least", "no record tells"),
    Column("inherited", _INT, "of `given`: what a member that left had"),
    order=("group", "source_offset"),
    day="at",
    follows="generations",
)

GOLD_EPOCHS: Final = table(
    "an epoch of a group whose broker assigns (KIP-848, streams) with its owners; classic ones: silver/generations",
    Column("group", _STRING, "group"),
    Column("source_offset", _LONG, "offset of the record that completes it, as in gold/rebalances"),
    Column("epoch", _INT, "epoch"),
    Column("kind", _STRING, "consumer or streams"),
    Column("protocol", _STRING, "the broker's strategy", "no members"),
    Column(
        "members",
        Many(GROUP_MEMBER),
        "its members; `assigned`: what the epoch gives them. A static one may restart in it, as another id",
    ),
    _AT,
    order=("group", "source_offset"),
    day="at",
    follows="generations",
)

WHATIF: Final = table(
    "what a strategy would have done with a group, under a scenario",
    Column("group", _STRING, "group"),
    Column("assignor", _STRING, "strategy, with settings that are not its defaults"),
    Column("scenario", _STRING, "scenario"),
    Column("generations", _INT, "generations walked"),
    Column("moves", _LONG, "partitions moved in all", "error"),
    Column("load_min", _INT, "fewest partitions of a member, at the end", "error, or nobody"),
    Column("load_max", _INT, "most partitions of a member, at the end", "error, or nobody"),
    Column("rack_misses", _INT, "partitions whose owner is in none of their racks", "racks unknown"),
    Column(
        "lag_max",
        _LONG,
        "lag of the most loaded member, by the log ends sampled first after the group's newest record",
        "a replay, or lag unknown",
    ),
    Column("error", _STRING, "why there is no answer", "there is one"),
    Column("moves_then", _LONG, "partitions that really moved between members that stayed", "not a replay, or error"),
    Column("proof", _STRING, "goals whose answer is proved best, with commas", "none, or a replay"),
    Column("load_min_then", _INT, "fewest partitions that a member really had, at the end", "not a replay, or error"),
    Column("load_max_then", _INT, "most partitions that a member really had, at the end", "not a replay, or error"),
    Column(
        "rack_misses_then",
        _INT,
        "partitions whose real owner was in none of their racks, at the end",
        "not a replay, error, or racks unknown",
    ),
    Column(
        "lag_max_then",
        _LONG,
        "lag of the most loaded member as the group stands, by the same log ends",
        "not as-is, error, or lag unknown",
    ),
    order=("group", "scenario", "assignor"),
    follows="commits and ends",
)

GROUP_STATE: Final = table(
    "all that a strategy needs to know of a group's present: the arrays that gold/whatif is made from",
    Column("group", _STRING, "group"),
    Column("type", _STRING, "as in gold/groups"),
    Column("state", _STRING, "Stable or Empty; Unreadable and why, of a group whose records cannot be folded"),
    Column("protocol", _STRING, "the strategy", "empty or simple group"),
    Column("generation", _INT, "generation, or epoch", "simple group"),
    Column("readable", _BOOLEAN, "whether the members' bytes are those of consumers"),
    Column("members", Many(STATE_MEMBER), "its members"),
    Column(
        "topics",
        Many(TOPIC),
        "topics that it wants, ever wanted or has commits on, as far as they are known",
    ),
    Column("commits", Many(COMMITTED), "its standing commits"),
    order=("group",),
    follows="commits and ends",
)

VERDICTS: Final = table(
    "Burrow's word on a group's partition",
    *_PLACE,
    Column("verdict", _STRING, "OK, WARN, STALL, REWIND or STOP; OK where unsubscribed, or 1 or 2 messages wait"),
    Column("lag", _LONG, "messages that can still be read", "unknown, or status invalid"),
    Column("window", _INT, "commits that were looked at, at most ten"),
    Column("first_commit", _TIME, "when the oldest of them was made", "no commit has a time"),
    Column("last_commit", _TIME, "when the newest of them was made", "no commit has a time"),
    order=("group", "topic", "partition"),
    follows="commits and ends",
)

TABLES: Final[dict[str, Table]] = {
    "silver/commits": COMMITS,
    "silver/generations": GENERATIONS,
    "silver/epochs": EPOCHS,
    "silver/rejects": REJECTS,
    "silver/counts": COUNTS,
    "silver/gaps": GAPS,
    "silver/ends": ENDS,
    "silver/topics": TOPICS,
    "gold/commits": NEWEST,
    "gold/lag": LAG,
    "gold/groups": GROUPS,
    "gold/rebalances": REBALANCES,
    "gold/epochs": GOLD_EPOCHS,
    "gold/group_state": GROUP_STATE,
    "gold/verdicts": VERDICTS,
    "gold/whatif": WHATIF,
}
"""Folder below the output -> table, in the order they are made."""

BRONZE: Final[dict[str, Table]] = {"records": RECORDS, "ends": ENDS, "topics": TOPICS}
"""The tables of a dump."""

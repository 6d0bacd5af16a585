"""Only what is new: the records since the last build, the groups that they touch, and what follows for the others.

A build keeps in ``build.json`` how far it read in each partition of ``__consumer_offsets``, and a check sum of what it
had read. The next one decodes what stands behind that alone. It folds the groups that left a record of their own, or of
whose topic ids the names changed. It plans those again, and the ones of which a plan sees something else than before:
new commits, new partitions, whatever is in ``gold/group_state``; of the log ends those that ``planned_ends`` chooses,
which stay while a group is silent. All other rows stay as they are. Where anything is not as the last build left it
(settings, version, a record that came late) everything is made anew: a build gives the same rows either way, and only
time is at stake.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructType

from apportion import __version__
from apportion.spark import (
    by_group,
    decode,
    dump_sums,
    facts,
    groups,
    histories,
    log_ends,
    logs,
    planned_ends,
    session,
    standing,
    whatif,
)
from apportion.spark.bundles import Bundled, is_here
from apportion.spark.dump_sums import NO_TIME, Ends, Records
from apportion.spark.gold import tasks_of
from apportion.spark.log_ends import since
from apportion.spark.schemas import GROUP_STATE, TABLES
from apportion.tables.schemas import fingerprint
from apportion.wording import count

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from apportion.spark.sinks import Sink
    from apportion.spark.sources import Dump

STATE: Final = "build.json"
"""The text that a build keeps for the next one."""

RULES: Final = 4
"""Raised whenever a table gets other rows from the same records: then everything is made anew."""

SILVER: Final = ("silver/commits", "silver/generations", "silver/epochs", "silver/rejects")
_HEARD_IN: Final = ("silver/generations", "silver/epochs", "gold/commits")
PLANNED_FROM: Final = (*_HEARD_IN, "silver/ends", "silver/topics", "gold/group_state")
PRESENT: Final = StructType([GROUP_STATE.schema[name] for name in groups.PRESENT])
FOLLOW: Final = ("gold/lag", "gold/group_state", "gold/verdicts")
"""Tables that follow the log ends."""
FEW_TASKS: Final = 2
"""A core: pieces of ``gold/whatif`` in an incremental build."""

NOT_COMPARED: Final = 2_000
"""Groups of which a plan may see something else: so many are planned sooner than compared with what they were."""

Progress = Callable[[str], None]
GoldAnew = Callable[[Mapping[str, "DataFrame"]], None]
"""Makes the gold tables from silver's by their names."""
Answer = TypeVar("Answer")


def version() -> str:
    """What made the tables, as a build keeps it: our version, that of the rules, and the tables' columns."""
    return f"{__version__}, {RULES}, {fingerprint()}"


@dataclass(frozen=True)
class BuildState:
    """What a build saw of its dump, and how it was asked.

    read
        Partition of ``__consumer_offsets`` to the last offset that was decoded.
    records, records_sum
        How many records stood up to there, and the exclusive or of a hash of where and when each of them was.
    ends, ends_sum, topics_sum
        The same of the samples of log ends, and of the topics; ``ends_at`` is the newest sample's time in microseconds.
    seen
        What ``dump_sums`` tells of plain files, so that it need not read them again.
    kept
        Of the samples that are kept beside the tables (``kept_ends``) the newest one's time in microseconds, ``at``,
        how many there are, ``rows``, and how many samples there were then, ``of``; nothing where none are kept.
    """

    version: str
    settings: Mapping[str, Any]
    dump: str
    read: Mapping[str, int] = field(default_factory=dict)
    records: int = 0
    records_sum: int = 0
    ends: int = 0
    ends_sum: int = 0
    ends_at: int = NO_TIME
    topics_sum: int = 0
    seen: Mapping[str, Any] = field(default_factory=dict)
    kept: Mapping[str, int] = field(default_factory=dict)

    def to_text(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def from_text(cls, text: str | None) -> BuildState | None:
        """What ``to_text`` wrote; None for anything else, as a file that somebody changed by hand."""
        try:
            state = cls(**json.loads(text)) if text else None
        except (ValueError, TypeError, RecursionError):
            return None
        return state if state is None or state._well_formed() else None

    def _well_formed(self) -> bool:
        """Whether each field holds what a build writes there."""
        numbers = (self.records, self.records_sum, self.ends, self.ends_sum, self.ends_at, self.topics_sum)
        texts, mappings = (self.version, self.dump), (self.settings, self.read, self.seen, self.kept)
        if not all(isinstance(one, str) for one in texts) or not all(isinstance(one, dict) for one in mappings):
            return False
        by_file = {"records": {}, "ends": [], "topics": {}} | dict(self.seen)
        records, ends, topics = (by_file.pop(name) for name in ("records", "ends", "topics"))
        return (
            all(map(_is_number, [*numbers, *self.read.values(), *self.kept.values()]))
            and all(number.isascii() and number.isdecimal() for number in self.read)
            and (not self.kept or self.kept.keys() == {"at", "rows", "of"})
            and not by_file
            and isinstance(records, dict)
            and all(
                isinstance(pair, list) and len(pair) == 2 and all(map(_is_number, pair)) for pair in records.values()
            )
            and isinstance(ends, list)
            and all(isinstance(one, str) for one in ends)
            and isinstance(topics, dict)
            and all(map(_is_number, topics.values()))
        )


def _is_number(value: object) -> bool:
    """Whether it is a whole number of 64 bits, with a sign or without."""
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**64


@dataclass(frozen=True)
class News:
    """What came since the last build.

    before, now
        The state that the last build left, and the one that this one leaves.
    records, ends, topics
        Whether there are new records, new samples, other topics.
    appended
        All new samples are newer than the old ones, which are all there.
    settled
        Files of records that hold no new one.
    newer_ends
        Those new samples, where they are at hand.
    """

    before: BuildState
    now: BuildState
    new_records: int
    ends: bool
    topics: bool
    appended: bool
    settled: frozenset[Path] = frozenset()
    newer_ends: pa.Table | None = None


def look(source: Dump, asked: BuildState, before: BuildState | None) -> tuple[BuildState, News | None, str]:
    """The state to keep after this build; what is new; or why everything must be made anew.

    asked
        A state with this build's version, settings and dump.
    before
        What the last build kept.
    """
    if before is None:
        return _all(source, asked), None, "the last build left no word of what it had read"
    other = f"another version made them: {before.version}, this is {asked.version}"
    for name, reason in (("version", other), ("settings", "the settings changed"),
                       ("dump", "they were made from another dump")):  # fmt: skip
        if getattr(before, name) != getattr(asked, name):
            return _all(source, asked), None, reason
    read = {int(partition): offset for partition, offset in before.read.items()}
    records = _records(source, read, before.seen.get("records"))
    if (records.old_count, records.old_sum) != (before.records, before.records_sum):
        return _all(source, asked), None, "records that were read before are gone, or came late"
    ends = _ends(source, before)
    appended = (ends.sums["old"], ends.sums["old_sum"]) == (before.ends, before.ends_sum)
    state = _joined(asked, records, ends, _topics_sum(source, before.seen.get("topics")))
    differ = not appended or ends.sums["all"] != before.ends
    new, topics = state.records - before.records, state.topics_sum != before.topics_sum
    return state, News(before, state, new, differ, topics, appended, records.settled, ends.newer), ""


def _all(source: Dump, asked: BuildState) -> BuildState:
    return _joined(asked, _records(source, {}, None), _ends(source, asked), _topics_sum(source, None))


def _joined(asked: BuildState, records: Records, ends: Ends, topics: tuple[int, Mapping[str, int]]) -> BuildState:
    last = {str(partition): offset for partition, offset in records.last.items()}
    seen = {"records": records.seen, "ends": ends.seen, "topics": topics[1]}
    return BuildState(
        asked.version, asked.settings, asked.dump, last, records.count, records.sum,
        ends.sums["all"], ends.sums["all_sum"], ends.sums["at"], topics[0], seen if any(seen.values()) else {},
    )  # fmt: skip


def _records(source: Dump, read: Mapping[int, int], known: Mapping[str, Sequence[int]] | None) -> Records:
    """All records, and those up to what was read; only partition, offset and time are looked at."""
    seen = _of_files(source, dump_sums.records, read, known)
    if seen is not None:
        return seen
    records = source.records
    check = F.xxhash64("partition", "offset", "timestamp")
    old = ~behind(read)
    rows = records.groupBy("partition").agg(
        F.max("offset").alias("last"), F.count(F.lit(1)).alias("n"), F.bit_xor(check).alias("sum"),
        F.count(F.when(old, 1)).alias("old_n"), F.bit_xor(F.when(old, check)).alias("old_sum"),
    ).collect()  # fmt: skip
    return Records(
        {row["partition"]: row["last"] for row in sorted(rows)},
        sum(row["n"] for row in rows), _xor(row["sum"] for row in rows),
        sum(row["old_n"] for row in rows), _xor(row["old_sum"] or 0 for row in rows), {}, frozenset(),
    )  # fmt: skip


def _of_files(source: Dump, look: Callable[..., Answer], *asked: Any) -> Answer | None:
    """What a look at a dump's plain files tells; None where it has none, or they are broken: Spark says how."""
    if source.at_hand is None:
        return None
    try:
        return look(source.at_hand, *asked)
    except dump_sums.BROKEN:
        return None


def _xor(numbers: Any) -> int:
    result = 0
    for number in numbers:
        result ^= number
    return result


def behind(read: Mapping[int, int]) -> Column:
    """Whether a record stands behind what was read in its partition."""
    if not read:
        return F.lit(True)
    seen = F.create_map(*[F.lit(number) for pair in sorted(read.items()) for number in pair])
    return F.col("offset") > F.coalesce(F.try_element_at(seen, F.col("partition")), F.lit(-(2**63)))


def _ends(source: Dump, before: BuildState) -> Ends:
    before_us, known = before.ends_at, before.seen.get("ends", ())
    seen = _of_files(source, dump_sums.ends_since, before_us, known, before.ends, before.ends_sum)
    if seen is not None:
        return seen
    ends = source.ends
    check, at = F.xxhash64(*ends.columns), F.unix_micros("at")
    old = F.coalesce(at <= before_us, F.lit(True))
    row = ends.agg(
        F.count(F.lit(1)).alias("all"), F.coalesce(F.bit_xor(check), F.lit(0)).alias("all_sum"),
        F.coalesce(F.max(at), F.lit(NO_TIME)).alias("at"), F.count(F.when(old, 1)).alias("old"),
        F.coalesce(F.bit_xor(F.when(old, check)), F.lit(0)).alias("old_sum"),
    ).collect()[0]  # fmt: skip
    return Ends({name: int(row[name]) for name in ("all", "all_sum", "at", "old", "old_sum")}, [])


def _topics_sum(source: Dump, known: Mapping[str, int] | None) -> tuple[int, Mapping[str, int]]:
    seen = _of_files(source, dump_sums.topics_sum, known)
    if seen is not None:
        return seen
    topics = source.topics
    row = topics.agg(F.coalesce(F.bit_xor(F.xxhash64(*topics.columns)), F.lit(0)).alias("sum")).collect()[0]
    return int(row["sum"]), {}


# -- the tables ------------------------------------------------------------------------------------------------------


class Update:
    """One incremental build: what is new laid on the tables that are there."""

    def __init__(
        self, sink: Sink, source: Dump, news: News, files: int, progress: Progress, gold_anew: GoldAnew | None = None
    ) -> None:
        """Take what ``look`` found.

        files
            As in ``Sink.write``.
        gold_anew
            Makes every gold table from silver's, where tables are plain files: if all of this machine's cores work at
            it, that is done sooner than Spark has compared many groups with what they were.
        """
        self.sink, self.source, self.news, self.files, self.progress = sink, source, news, files, progress
        self._gold_anew = gold_anew
        self._tables: dict[str, DataFrame] = {}
        self.touched_groups: int | None = 0
        self.planned_groups: int | None = 0
        self.written: list[str] = []
        self.kept: Mapping[str, int] = news.before.kept if news.appended or not news.ends else {}
        """As in ``BuildState``, for the next build."""

    @property
    def spark(self) -> SparkSession:
        """The session, which may start only now."""
        return self.source.spark

    def run(self, allowed_lag: int, assignors: Sequence[str] | None) -> None:
        """Every table that changes, each in one commit."""
        self._silver()
        self._gold_by_spark(*self._touched(self._before["silver/topics"]), allowed_lag, assignors)

    def _made_anew(self, touched: int | None) -> bool:
        """Make every gold table anew, if that costs less than to follow what changed; whether it was done.

        touched
            Groups that have something new; None where they were not counted.
        """
        if self._gold_anew is None or not is_here(self.spark):
            return False
        self.touched_groups, self.planned_groups = touched, None
        self.progress("every table of gold is made anew: too much is new")
        self._gold_anew({name: self.table(name) for name in TABLES if name.startswith("silver/")})
        self.written += [name for name in TABLES if name.startswith("gold/")]
        return True

    def _gold_by_spark(
        self, recorded: DataFrame, committed: DataFrame, allowed_lag: int, assignors: Sequence[str] | None
    ) -> None:
        """The gold tables, from groups with a record of their own and groups with commits."""
        touched = kept(recorded.unionByName(committed).distinct())
        self.touched_groups = touched.count()
        moved = self.news.ends or self.news.topics
        if not self.touched_groups and not moved:
            return
        self.progress(f"{count(self.touched_groups, 'group')} with something new")
        folded = left = self._left(touched)
        present = Bundled(left, "present", PRESENT).rows()
        if self.touched_groups:
            if self.news.new_records:
                newest = Bundled(left, "places", TABLES["gold/commits"].schema, standing.newest)
                self._replace("gold/commits", _of(newest.rows(), committed), committed)
            for name in ("rebalances", "epochs"):
                rows = Bundled(left, name, TABLES[f"gold/{name}"].schema).rows()
                self._replace(f"gold/{name}", _of(rows, recorded), recorded)
            whole = Bundled(left, "present", TABLES["gold/groups"].schema, by_group.groups_of)
            self._replace("gold/groups", whole.rows(), touched)
        if moved:
            left = self._left_of_all(present, touched)
        self._follow_log_ends(left, None if moved else touched, allowed_lag)
        samples = kept(log_ends.samples(self.table("silver/ends")))
        # Without newer log ends only touched groups are planned: what they left is there already.
        planned = self._planned(recorded, touched, samples)
        self._plan(planned, samples, assignors, None if moved else folded)

    def _left(self, some: DataFrame) -> DataFrame:
        """What the pass over groups leaves of some: see ``by_group.left``."""
        generations, epochs, commits = (
            _of(self.table(f"silver/{name}"), some) for name in ("generations", "epochs", "commits")
        )
        beside = by_group.beside(generations, epochs, self.table("silver/gaps"), self._names())
        return kept(by_group.left(generations, epochs, commits, beside, since(self.now_ms), self._tasks))

    def _left_of_all(self, present: DataFrame, touched: DataFrame) -> DataFrame:
        """What the log ends of all groups are asked with; only those that were touched were folded now.

        present
            The touched groups that are there.
        """
        stayed = self._before["gold/group_state"].select(*present.columns).join(touched, "group", "left_anti")
        commits, generations, epochs = (self.table(f"silver/{name}") for name in ("commits", "generations", "epochs"))
        named = by_group.names_in(epochs, self._names())
        whole = stayed.unionByName(present)
        return kept(by_group.left_again(whole, commits, generations, named, since(self.now_ms), self._tasks))

    def _follow_log_ends(self, left: DataFrame, some: DataFrame | None, allowed_lag: int) -> None:
        """The tables that follow the log ends, of some groups or all; ``left`` is theirs."""
        asked = logs.logs(left, self.table("silver/ends"), self.table("silver/topics"), self._tasks)
        answers = kept(facts.facts(left, asked, self.now_ms, allowed_lag, self._tasks))
        for name in FOLLOW:
            rows = Bundled(answers, name.removeprefix("gold/"), TABLES[name].schema)
            if some is None:
                self._write(name, rows)
            elif self.touched_groups:
                self._replace(name, rows.rows(), some)

    @property
    def now_ms(self) -> int:
        """When any log end was sampled last; 0 where none was, as in ``log_ends.now_ms``."""
        return max(0, self.news.now.ends_at // 1000)

    @property
    def _tasks(self) -> int:
        return tasks_of(self.source.count)

    def _names(self) -> DataFrame:
        return histories.topic_names(self.table("silver/commits"), self.table("silver/topics"))

    def table(self, name: str) -> DataFrame:
        """A table as it is, or as it will be once it was written here."""
        if name not in self._tables:
            rows = self.sink.now(name)
            self._tables[name] = self._empty(name) if rows is None else rows
        return self._tables[name]

    @cached_property
    def _before(self) -> dict[str, DataFrame]:
        """What groups are planned from, as the last build left it."""
        return {name: self._published(name) for name in PLANNED_FROM}

    def _published(self, name: str) -> DataFrame:
        rows = self.sink.read(name)
        return self._empty(name) if rows is None else rows

    def _empty(self, name: str) -> DataFrame:
        return self.spark.createDataFrame([], TABLES[name].schema)

    def _write(self, name: str, rows: DataFrame | Bundled | pa.Table) -> None:
        self._tell("making", name)
        self._tables.pop(name, None)
        self.sink.write(name, rows, TABLES[name], self.files)

    def _append(self, name: str, rows: DataFrame | pa.Table) -> None:
        self._tell("adding to", name)
        self._tables.pop(name, None)
        self.sink.append(name, rows, TABLES[name], 1)

    def _replace(self, name: str, rows: DataFrame | pa.Table, touched: DataFrame | pa.Table) -> None:
        self._tell("changing", name)
        self._tables.pop(name, None)
        self.sink.replace_groups(name, rows, touched, TABLES[name], self.files)

    def _tell(self, verb: str, name: str) -> None:
        self.progress(f"{verb} {name}")
        self.written.append(name)

    # -- silver

    def _silver(self) -> None:
        """New rows of the silver tables, and the log ends and topics where they changed."""
        self.new: dict[str, DataFrame] = {}
        if self.news.new_records:
            self._decode()
        else:
            self._no_records()
        if self.news.ends:
            if self.news.appended:
                self._append("silver/ends", self._newer_ends())
            else:
                self._write("silver/ends", self.source.ends)
        if self.news.topics:
            self._write("silver/topics", self.source.topics)

    def _no_records(self) -> None:
        self.new = {name: self._empty(name) for name in SILVER}

    def _newer_ends(self) -> DataFrame | pa.Table:
        """Samples of log ends that were taken since the last build."""
        return self.source.ends.where(F.unix_micros("at") > self.news.before.ends_at)

    def _decode(self) -> None:
        read = {int(partition): offset for partition, offset in self.news.before.read.items()}
        news = self.source.records.where(behind(read))
        stats = decode.scan(news)
        records = decode.deduplicate(news, stats)
        committed = records
        if stats.light:
            roomy = session.by_rows(self.spark)
            committed = decode.deduplicate(self.source.records_in(roomy).where(behind(read)), stats)
        fresh = {
            "silver/commits": decode.commits(committed),
            "silver/generations": decode.generations(records),
            "silver/epochs": decode.epochs(records),
            "silver/rejects": decode.rejects(records),
        }
        self.new = {name: kept(rows) for name, rows in fresh.items()}
        commits, generations, epochs, _ = self.new.values()
        counts = decode.counts(commits, generations, epochs, records)
        for name, rows in self.new.items():
            if not rows.isEmpty():
                self._append(name, rows)
        kinds = ["key_type", "value_version", "tombstone"]
        both = self.table("silver/counts").unionByName(counts)
        self._write("silver/counts", both.groupBy(*kinds).agg(F.sum("records").alias("records")))
        gaps = kept(decode.gaps(records, read))
        if not gaps.isEmpty():
            self._append("silver/gaps", gaps)

    # -- touched groups

    def _touched(self, topics_before: DataFrame) -> tuple[DataFrame, DataFrame]:
        """Groups with a record of their own, or of whose topics the names changed; and those with commits."""
        records = [self.new[name].select("group") for name in ("silver/generations", "silver/epochs")]
        recorded = records[0].unionByName(records[1]).unionByName(self._renamed(topics_before)).distinct()
        return kept(recorded), kept(self.new["silver/commits"].select("group").distinct())

    def _renamed(self, topics_before: DataFrame) -> DataFrame:
        """Groups whose records speak of a topic id that has another name now, or has one now."""
        epochs = self.table("silver/epochs")
        if epochs.isEmpty() or not (self.news.topics or self.news.new_records):
            return epochs.select("group").limit(0)
        new = self.new["silver/commits"].select("source_partition", "source_offset")
        whole = self.table("silver/commits")
        before = histories.topic_names(whole.join(new, new.columns, "left_anti"), topics_before)
        now = histories.topic_names(whole, self.table("silver/topics"))
        changed = now.join(before, ["topic_id", "topic"], "left_anti").unionByName(
            before.join(now, ["topic_id", "topic"], "left_anti")
        )
        return (
            histories.spoken_ids(epochs)
            .join(changed.select("topic_id").distinct(), "topic_id", "left_semi")
            .select("group")
        )

    # -- gold

    def _planned(self, recorded: DataFrame, touched: DataFrame, samples: DataFrame) -> DataFrame:
        """(group): groups whose history is another, or of whose present a plan sees something else."""
        now = {name: self.table(name) for name in PLANNED_FROM}
        doubtful = kept(self._doubtful(now, touched, samples))
        if doubtful.count() > NOT_COMPARED:
            state = kept(self._as_planned(now, doubtful, samples))
            before = self._as_planned(self._before, doubtful)
            seen = [table.select("group", whatif.seen_by_plans().alias("seen")) for table in (before, state)]
            doubtful = _differing(*seen)
        return kept(recorded.unionByName(doubtful).distinct())

    def _plan(
        self, planned: DataFrame, samples: DataFrame, assignors: Sequence[str] | None, left: DataFrame | None = None
    ) -> None:
        """``gold/whatif`` of some groups.

        left
            As ``_left`` gives it, of them and perhaps of others, if it is at hand.
        """
        self.planned_groups = planned.count()
        if not self.planned_groups:
            return
        self.progress(f"{count(self.planned_groups, 'group')} to plan anew")
        tasks = int(self.spark.conf.get("spark.sql.shuffle.partitions") or 2) * FEW_TASKS
        state = self._as_planned({name: self.table(name) for name in PLANNED_FROM}, planned, samples)
        known = Bundled(self._left(planned) if left is None else left, "histories", histories.SCHEMA).rows()
        rows = whatif.whatif(state, _of(known, planned), assignors, tasks=tasks)
        self._replace("gold/whatif", rows, planned)

    def _doubtful(self, now: Mapping[str, DataFrame], touched: DataFrame, samples: DataFrame) -> DataFrame:
        """Groups of which a plan may see something else: what they are is another, or their log ends may be."""
        if not (self.news.ends or self.news.topics):
            return touched
        states = [tables["gold/group_state"] for tables in (self._before, now)]
        if not self.news.appended:
            return states[0].select("group").unionByName(states[1].select("group")).distinct()
        heard = planned_ends.last_heard(*[now[name] for name in _HEARD_IN])
        moved = planned_ends.unsettled(states[1], heard, samples, self.news.before.ends_at // 1000)
        doubtful = touched.unionByName(moved)
        if self.news.topics:  # else only samples bring partitions, and those of new ones are not settled
            seen = [state.select("group", whatif.seen_by_plans(log_ends=False).alias("seen")) for state in states]
            doubtful = doubtful.unionByName(_differing(*seen))
        return doubtful.distinct()

    def _as_planned(
        self, tables: Mapping[str, DataFrame], some: DataFrame, samples: DataFrame | None = None
    ) -> DataFrame:
        """The state of some groups as plans see it."""
        few = {name: _of(tables[name], some) for name in ("gold/group_state", *_HEARD_IN)}
        state, ends = few["gold/group_state"], tables["silver/ends"]
        if samples is None:
            topics = kept(state.select(F.explode("topics.topic").alias("topic")).distinct())
            samples = log_ends.samples(ends.join(topics, "topic", "left_semi"))
        heard = planned_ends.last_heard(*[few[name] for name in _HEARD_IN])
        return planned_ends.as_planned(state, heard, ends, planned_ends.earlier_of(samples))


def _differing(before: DataFrame, now: DataFrame) -> DataFrame:
    """(group): those of two tables (group, seen) that are not in both, or not the same."""
    return before.unionByName(now).groupBy("group", "seen").count().where("count = 1").select("group").distinct()


def _of(table: DataFrame, some: DataFrame | None) -> DataFrame:
    """The rows of some groups; of all where there is no such list."""
    return table if some is None else table.join(F.broadcast(some), "group", "left_semi")


def kept(table: DataFrame) -> DataFrame:
    """Computed once.

    On this machine without its lineage: a build of a hundred small steps would else have Spark compare each new plan,
    with all those before it inside, to every one that is kept. A cluster may lose an executor, and needs the lineage.
    """
    from pyspark import StorageLevel

    if session.is_remote(table.sparkSession):
        return session.keep(table)
    return table.localCheckpoint(eager=True, storageLevel=StorageLevel.DISK_ONLY)

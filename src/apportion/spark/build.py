"""A build: from records to tables, by the same jobs wherever Spark runs, of all records or of the new ones.

    look -> decode new records -> logs of topics -> rows of groups -> plans, dealt by structure -> write, publish

Spark reads, shuffles, retries and spills; the work in tasks is ``apportion.pipeline``'s, Arrow in, Arrow out. The
driver plans jobs and commits. What a table follows stands beside its columns (``tables.schemas``); ``_write`` obeys.

A build keeps in ``build.json`` which files of the dump it read and how far in each partition of ``__consumer_offsets``,
and in ``apportion_state`` what the next one goes on from: of each place its newest commits, of each group its present,
of each topic its samples. Of groups with new records of their own the older ones are read from silver. Where anything
is not as the last build left it everything is made anew: the rows are the same either way, and only time is at stake.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import functions as sql

from apportion import __version__
from apportion.errors import BadInput
from apportion.history.commits import topic_names
from apportion.history.scenarios import REPLAY
from apportion.pipeline import decode, end_samples, group_rows, newest_commits
from apportion.pipeline.columns import piece_of
from apportion.pipeline.group_rows import LARGE_TASKS, BuildFacts
from apportion.pipeline.personal import DAY_US, Personal
from apportion.spark import build_tasks
from apportion.spark.arrow_rows import (
    DRIVER,
    ROW,
    STATE,
    cells,
    collected,
    distributed_by,
    latest,
    met,
    of_kinds,
    united,
)
from apportion.spark.session import Progress
from apportion.spark.stores import TableStore
from apportion.tables.schemas import TABLES, fingerprint
from apportion.wording import count

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from apportion.spark.sources import Dump
    from apportion.spark.statuses import TableStatus

BUILD: Final = "build.json"
"""The text that a build keeps for the next one."""
RULES: Final = 7
"""Raised whenever a table gets other rows from the same records: then everything is made anew."""
RECORDS_A_BUCKET: Final = 75_000
"""About so many meet in a task of a first build; in one that goes on, of the newest at each place and the new ones."""
PLANNERS: Final = 16 + LARGE_TASKS
FEW_RECORDS: Final = 20_000
"""So many are one bucket, and planned by one task: a job is a second's work, whatever it does."""
MOST_NAMES: Final = 20
"""Files that an error names."""
APPENDED_MAX: Final = 20
"""Added to so many times, a table is written anew, for many small files are slow to read."""


def version() -> str:
    """The makers of the tables, as a build keeps them: our version, that of the rules, and the tables' columns."""
    return f"{__version__}, {RULES}, {fingerprint()}"


@dataclass(frozen=True)
class BuildState:
    """A build's view of its dump, and its settings.

    files
        Of each table of the dump its files, as ``sources.Dump`` has them.
    read
        Partition of ``__consumer_offsets`` to the last offset that was decoded.
    records
        How many there were.
    ends_at
        The newest sample's time in microseconds; None where none has one.
    names
        Topic ids that epochs speak of to their names; None of one without a name.
    buckets
        Among how many the groups of ``apportion_state`` are dealt.
    places, groups
        How many rows ``gold/commits`` and ``gold/group_state`` have.
    builds, appended
        How many builds there were, and how often each table was added to since it was written whole.
    rows
        Rows of the dump that hold those records, which may stand there twice.
    """

    version: str
    settings: Mapping[str, Any]
    dump: str
    files: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    read: Mapping[str, int] = field(default_factory=dict)
    records: int = 0
    ends_at: int | None = None
    names: Mapping[str, str | None] = field(default_factory=dict)
    buckets: int = 1
    places: int = 0
    groups: int = 0
    builds: int = 0
    appended: Mapping[str, int] = field(default_factory=dict)
    rows: int = 0

    def to_text(self) -> str:
        """As JSON, with a digest of it."""
        fields = asdict(self)
        return json.dumps({"version": self.version, "digest": _digest(fields), "state": fields}) + "\n"

    @classmethod
    def from_text(cls, text: str | None) -> BuildState | None:
        """The text that ``to_text`` wrote, of another version's only the part it read; None if it was changed."""
        try:
            stored = json.loads(text or "null")
            other_version, state = stored["version"] != version(), stored.get("state")
            known = state if stored.get("digest") == _digest(state) else {}
            if other_version:
                seen = {name: known[name] for name in ("dump", "files", "rows") if name in known}
                other = cls(stored["version"], {}, **{"dump": "", **seen})
                return other if isinstance(stored["version"], str) else None
            return cls(**known) if known else None
        except (ValueError, TypeError, KeyError, RecursionError):
            return None


def _digest(fields: Mapping[str, Any]) -> str:
    return sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Built:
    """A build's result.

    records, rows, tables
        Records of the dump; rows of each table and how fresh each is, told by ``job``.
    whole
        Why every table was made anew; "" where only what is new was done.
    new_records, touched_groups, planned_groups
        Records that were decoded, groups that left some of them, groups whose what-if was made; None: all of them.
    written
        Tables that were written, of a build that was not whole.
    """

    records: int
    rows: Mapping[str, int] = field(default_factory=dict)
    tables: Sequence[TableStatus] = ()
    whole: str = ""
    new_records: int = 0
    touched_groups: int | None = None
    planned_groups: int | None = None
    written: tuple[str, ...] = ()


class _Anew(Exception):
    """Why everything has to be rebuilt, seen only on the way."""


def build(
    store: TableStore, dump: Dump, request: BuildState, full: bool, before_publish: Callable[[], None],
    progress: Progress,
) -> Built:  # fmt: skip
    """Every table, or the new part of each, and the facts that the next build must know; published.

    request
        A state with this build's version, settings and dump.
    before_publish
        Keeps what else belongs beside the tables.
    """
    text = store.text(BUILD)
    before = BuildState.from_text(text)
    if before is not None and not full and _place_of(before) == _place_of(request) != "":
        _refuse_loss(dump, before)
    why = "as asked" if full else _why_anew(store, dump, request, before, text)
    if not why and before is not None:
        if dump.files == before.files:
            progress(count(0, "new record"))
            return Built(before.records, touched_groups=0, planned_groups=0)
        try:
            return _made(_Build(store, dump, request, before, progress), "", before_publish)
        except _Anew as reason:
            why = str(reason)
            store.begin_again()
    if text is not None:
        progress(f"rebuilding everything: {why}")
    return _made(_Build(store, dump, request, None, progress), why, before_publish)


def _made(build: _Build, why: str, before_publish: Callable[[], None]) -> Built:
    try:
        built = build.run(why)
        build.store.keep(BUILD, build.after.to_text())
        before_publish()
        build.store.publish()
    finally:
        build.let_go()
    return built


def _place_of(state: BuildState) -> str:
    """Where a build's dump was, without the settings next to it; "" unknown."""
    source = json.loads(state.dump or "{}")
    return f"{source.get('kind', '')} {source.get('dump', '')}".strip()


def _refuse_loss(dump: Dump, before: BuildState) -> None:
    """Raise BadInput if records or samples that the tables were made of are in the dump no more: they would lose them.

    A file that is another now, and one of a Delta table, which compaction replaces, is missed only if there are fewer
    records than before.
    """
    if dump.files is None:
        return
    known = [(name, *entry) for name in ("records", "samples") for entry in before.files.get(name, {}).items()]
    others = [(name, file, mark) for name, file, mark in known if dump.files[name].get(file) != mark]
    lost = [file for name, file, mark in others if mark and file not in dump.files[name]]
    changed = [file for name, file, _ in others if name == "records"]
    if not lost and changed and dump.count(None) < before.rows:
        lost = changed
    if lost:
        names = [file.removeprefix(str(dump.location)).lstrip("/") for file in sorted(lost)]
        shown = ", ".join(names[:MOST_NAMES]) + (f" and {len(names) - MOST_NAMES:,} more" if names[MOST_NAMES:] else "")
        lack = count(
            len(lost), "file that was read before is gone or emptied", "files that were read before are gone or emptied"
        )
        needed = "the files; or --full, which makes the tables without them and deletes their history"
        raise BadInput(str(dump.location), f"{lack}: {shown}", needed)


def _why_anew(store: TableStore, dump: Dump, request: BuildState, before: BuildState | None, text: str | None) -> str:
    """Why every table has to be rebuilt; "" if a build can go on from the present ones."""
    if before is None:
        if text is not None:
            return f"{BUILD} is not as a build leaves it"
        return "the last build left no record of its input" if store.names() else "there were none yet"
    if before.version != request.version:
        return f"another version made them: {before.version}, this is {request.version}"
    if before.settings != request.settings:
        return "the settings changed"
    if before.dump != request.dump:
        return "they were made from another dump"
    names = store.names()
    if missing := [name for name in (*TABLES, STATE) if name not in names]:
        return f"{missing[0]} is gone"
    if _buckets(before.records) >= 4 * before.buckets:
        return "there are many times the records that they were made for"
    if dump.files is None:
        return "the dump's place does not show which files are new"
    old, now = before.files.get("records", {}), dump.files["records"]
    if any(now.get(file) != mark for file, mark in old.items()):
        return "files of records that were read before are others, or gone"
    if request.settings.get("personal_days") is not None and dump.files != before.files:
        return "old personal data is dropped from all records"
    return ""


def _buckets(records: int) -> int:
    """Among how many tasks groups are dealt: a power of two, so that the buckets of a few are those of many, united."""
    return 1 if records <= FEW_RECORDS else 2 << (records // (2 * RECORDS_A_BUCKET)).bit_length()


class _Build:
    """One build, of all records or, with the last one's files, of the new ones."""

    def __init__(
        self, store: TableStore, dump: Dump, request: BuildState, before: BuildState | None, progress: Progress
    ) -> None:
        self.store, self.dump, self.progress = store, dump, progress
        self.before, self.after = before, replace(request, builds=1 if before is None else before.builds + 1)
        self.spark = dump.spark
        self.rows: dict[str, int] = {}
        self.newest: dict[str, int | None] = {}
        """How many were delivered of each table, and the time of the newest in microseconds."""
        self.frames: dict[str, dict[int, DataFrame]] = {}
        """Of each table the frames that they are in."""
        files = dump.files or {}
        self.files = {
            name: None if before is None else [f for f in marks if before.files.get(name, {}).get(f) != marks[f]]
            for name, marks in files.items()
        } or dict.fromkeys(("records", "ends", "samples", "topics"))
        """Of each table of the dump the new files; None: all of them."""
        self.replaced: set[str] = set()
        """Tables of silver of which all rows were read again."""
        self._stage = f"+{self.after.builds}"
        self._kept: list[DataFrame] = []

    def run(self, why: str) -> Built:
        """All jobs, and all tables in the order in which they depend on each other."""
        new_rows = self.dump.count(self.files["records"])
        self.after = replace(self.after, rows=new_rows + (0 if self.before is None else self.before.rows))
        at_once = new_rows + (0 if self.before is None else self.before.places)
        self.buckets = _buckets(at_once)
        state = None
        if self.before is not None:
            self.buckets = min(self.buckets, self.before.buckets)
            bucket = sql.col("bucket").bitwiseAND(self.buckets - 1)
            state = self._published(STATE).withColumn("bucket", bucket.cast("int"))
        self.state_buckets = self.buckets if self.before is None else self.before.buckets
        self.progress("decoding records")
        decoded, facts = self._decoded()
        runs = _runs(facts)
        if self.before is not None and (decode.stand_twice(runs) or decode.come_late(runs, self._read)):
            raise _Anew("records that were read before are there twice, or came late")
        if decode.stand_twice(runs):
            self.store.begin_again()
            self.rows.clear()
            self.newest.clear()
            self.frames.clear()
            decoded, facts = self._decoded(once=True)
            runs = _runs(facts)
        new = int(pc.sum(pc.subtract(pc.add(runs["last"], 1), runs["first"])).as_py() or 0)
        common = self._common(facts, runs, state)
        self.progress("gathering log ends")
        logs = self._logs(decoded, facts, state, common)
        of_logs = self._collected(logs)
        self._note(runs, common, new, of_logs)
        self.progress("making rows of groups")
        folded = None if state is None else self._folded(facts, of_logs, state)
        groups = self._groups(decoded, folded, logs, state, common)
        touched, planned = self._summary(groups)
        self.progress(f"{count(len(planned), 'group')} to plan")
        if len(planned):
            self._plans(groups, folded, planned)
        self._write(folded is None or bool(folded), bool(planned))
        built = Built(self.after.records, whole=why, new_records=new)
        if self.before is None:
            return built
        return replace(built, touched_groups=touched, planned_groups=len(planned), written=tuple(self.written))

    def _keep(self, frame: DataFrame) -> DataFrame:
        """Computed once, on disk, until the build ends."""
        self._kept.append(frame.persist(StorageLevel.DISK_ONLY))
        return self._kept[-1]

    def let_go(self) -> None:
        """Forget all computed values; a session may be another's, and goes on."""
        with suppress(Exception):  # a JVM that died has nothing to forget
            for frame in self._kept:
                frame.unpersist()

    # -- records

    @property
    def _planners(self) -> int:
        return 1 if self.buckets == 1 else min(PLANNERS, 2 * self.buckets)

    @property
    def _read(self) -> dict[int, int]:
        return {} if self.before is None else {int(number): offset for number, offset in self.before.read.items()}

    def _decoded(self, once: bool = False) -> tuple[DataFrame, dict[str, pa.Table]]:
        """Rows of groups from the new records, and the driver's facts about them.

        once
            Each place once.
        """
        records = self.dump.read("records", self.files["records"])
        if once:
            records = _each_once(records)
        delivery, personal = self.store.deliver(f"d{self._stage}"), self._personal(records)
        run = partial(build_tasks.decoded, delivery=delivery, buckets=self.buckets, personal=personal)
        frame = self._keep(records.select(*decode.COLUMNS).mapInArrow(run, ROW))
        return frame, self._collected(frame)

    def _personal(self, records: DataFrame) -> Personal | None:
        days = self.after.settings.get("personal_days")
        if days is None:
            return None
        newest = records.agg(sql.max(sql.unix_micros("timestamp"))).collect()[0][0]
        return Personal((newest or 0) - days * DAY_US, self.after.settings["personal"])

    def _collected(self, frame: DataFrame) -> dict[str, pa.Table]:
        facts = collected(frame)
        for fact in facts["written"].to_pylist() if "written" in facts else ():
            name = fact["name"]
            self.rows[name] = self.rows.get(name, 0) + fact["rows"]
            self.newest[name] = latest(self.newest.get(name), fact["newest"])
            self.frames.setdefault(name, {})[id(frame)] = frame
        return facts

    def _note(self, runs: pa.Table, common: _Common, new: int, of_logs: Mapping[str, pa.Table]) -> None:
        """The facts that the next build must know."""
        sampled = [*of_logs["newest"]["at"].to_pylist()] if "newest" in of_logs else []
        self.after = replace(
            self.after, files={name: dict(files) for name, files in (self.dump.files or {}).items()},
            read={str(number): offset for number, offset in decode.last_offsets(runs, self._read).items()},
            records=new + (0 if self.before is None else self.before.records),
            ends_at=max([*sampled, *([] if common.known_at is None else [common.known_at])], default=None),
            names=dict(sorted(common.names.items())), buckets=self.state_buckets,
        )  # fmt: skip

    # -- what is found out before groups are made

    def _common(self, facts: Mapping[str, pa.Table], runs: pa.Table, state: DataFrame | None) -> _Common:
        before = self.before
        ends_whole = before is None or self._ends_are_others(before)
        ends = self._ends(None if ends_whole else [*(self.files["ends"] or ()), *(self.files["samples"] or ())])
        known_at = None if ends_whole or before is None else before.ends_at
        return _Common(ends, ends_whole, known_at, decode.gaps(runs, self._read), self._names(facts, state))

    def _published(self, name: str) -> DataFrame:
        rows = self.store.read(name)
        assert rows is not None  # noqa: S101 - a build that goes on has all tables
        return rows

    def _ends(self, files: Sequence[str] | None) -> DataFrame:
        return self.dump.read("ends", files).unionByName(self.dump.read("samples", files))

    def _ends_are_others(self, before: BuildState) -> bool:
        """Whether samples that were read before are gone or others, or new ones are not newer than those."""
        files = self.dump.files or {}
        old, now = before.files.get("samples", {}), files.get("samples", {})
        if any(now.get(file) != mark for file, mark in old.items()):
            return True
        if not now and any(files["ends"].get(file) != mark for file, mark in before.files.get("ends", {}).items()):
            return True  # without samples the newest log ends are all there are, and these were replaced
        new = [*(self.files["samples"] or ()), *([] if now else self.files["ends"] or ())]
        if not new:
            return False
        at = sql.unix_micros("at")
        late = self._ends(new).where(
            at.isNull() | (at <= sql.lit(before.ends_at if before.ends_at is not None else -(2**62)))
        )
        return not late.isEmpty()

    def _names(self, facts: Mapping[str, pa.Table], state: DataFrame | None) -> dict[str, str | None]:
        """Each topic id that epochs speak of, and its name.

        Raises
            _Anew: one that was spoken of before has another name now.
        """
        before = {} if self.before is None else self.before.names
        spoken = {*before, *(facts["spoken"]["topic_id"].to_pylist() if "spoken" in facts else ())}
        if not spoken:
            return {}
        topics = self.dump.read("topics").where("topic_id is not null").select("topic_id", "topic").distinct()
        of_state = {} if state is None else collected(of_kinds(state, "pairs").withColumn("bucket", sql.lit(DRIVER)))
        pairs = build_tasks.joined_pairs(facts, of_state)
        named = topic_names(
            zip(*(pairs[name].to_pylist() for name in ("topic_id", "topic")), strict=True),
            [(row["topic_id"], row["topic"]) for row in topics.collect()],
        )
        names = {topic_id: named.get(topic_id) for topic_id in sorted(spoken)}
        if any(names[spoken_id] != name for spoken_id, name in before.items()):
            raise _Anew("a topic id that epochs speak of has another name")
        return names

    # -- logs

    def _logs(
        self, decoded: DataFrame, facts: Mapping[str, pa.Table], state: DataFrame | None, common: _Common
    ) -> DataFrame:
        """Rows of logs for the buckets of groups."""
        deal = partial(distributed_by, by="topic", buckets=self.buckets)
        frames = [of_kinds(decoded, "readers"), cells(common.ends, partial(deal, "ends"))]
        kinds = ["readers", "shapes", "pairs", "counts", *([] if common.ends_whole else ["known_ends"])]
        files = self.dump.files or {}
        if self.before is None or files.get("topics") != self.before.files.get("topics"):
            frames.append(cells(self.dump.read("topics"), partial(deal, "topics")))
            self.replaced.add("silver/topics")
        else:
            kinds.append("known_topics")
        if state is not None:
            frames.append(of_kinds(state, *kinds))
        if common.ends_whole:
            self.replaced.add("silver/ends")
        of_driver = {"gaps": common.gaps, **{name: facts[name] for name in ("counts", "pairs") if name in facts}}
        run = partial(
            build_tasks.log_rows, delivery=self.store.deliver(f"l{self._stage}"), buckets=self.buckets,
            state_buckets=self.state_buckets, known=common.known_at,
            readers=_named_readers(facts, common.names, self.buckets), of_driver=of_driver,
        )  # fmt: skip
        frames.append(self.spark.createDataFrame([("begin", 0, b"")], ROW))  # a task that has what is the driver's
        return self._keep(met(united(frames), self.buckets, run))

    # -- groups

    def _folded(self, facts: Mapping[str, pa.Table], of_logs: Mapping[str, pa.Table], state: DataFrame) -> list[str]:
        """Groups whose history is rebuilt: with new records of their own, or whose topics have another shape.

        Raises
            _Anew: their records are too many for the tasks that there are.
        """
        folded = set(facts["recorded"]["group"].to_pylist() if "recorded" in facts else ())
        if "reshaped" in of_logs:
            run = partial(build_tasks.wanting, topics=frozenset(of_logs["reshaped"]["topic"].to_pylist()))
            folded |= {row["group"] for row in of_kinds(state, "wanted").mapInArrow(run, "group string").collect()}
        before = self.before
        if before and _buckets(before.records * len(folded) // max(1, before.groups)) >= 4 * self.buckets:
            raise _Anew("the history of many groups is to be made again")
        return sorted(folded)

    def _groups(
        self, decoded: DataFrame, folded: list[str] | None, logs: DataFrame, state: DataFrame | None, common: _Common
    ) -> DataFrame:
        """Rows of groups; of their histories if some are folded."""
        frames = [of_kinds(decoded, *build_tasks.OF_GROUPS), of_kinds(logs, "logs")]
        missing: dict[int, int] = {}
        if state is not None:
            frames.append(of_kinds(state, *group_rows.KEPT))
        if folded:
            names = sql.broadcast(self.spark.createDataFrame(pa.table({"group": folded})))
            for name in build_tasks.OF_GROUPS:
                rows = self._published(f"silver/{name}").join(names, "group", "left_semi")
                columns = newest_commits.COLUMNS if name == "commits" else group_rows.read_by_compact(name)
                frames.append(cells(rows.select(*columns), partial(build_tasks.past, kind=name, buckets=self.buckets)))
            gaps = self._published("silver/gaps").groupBy("source_partition").agg(sql.sum("missing"))
            missing = dict(row[:] for row in gaps.collect())
        holes = decode.holes(common.gaps, missing, self._read)
        named = {topic_id: name for topic_id, name in common.names.items() if name is not None}
        now_ms = max(0, (self.after.ends_at or 0) // 1000)
        rules = BuildFacts(now_ms, self.after.settings["allowed_lag"], holes, named, self._planners)
        delivered = [name for name in TABLES if folded != [] or name not in group_rows.FOLDED]
        run = partial(
            build_tasks.rows_of_groups, build=rules, buckets=self.state_buckets,
            delivery=self.store.deliver(f"g{self._stage}"), delivered=delivered,
        )  # fmt: skip
        return self._keep(met(united(frames), self.buckets, run))

    def _carried(self, name: str, rows: DataFrame) -> DataFrame:
        """Published rows of a table once more."""
        columns = [sql.col(f"`{column.name}`") for column in TABLES[name].columns.columns]
        run = partial(build_tasks.carried, delivery=self.store.deliver(f"c{self._stage}"), name=name)
        return rows.select(*columns).mapInArrow(run, ROW)

    def _summary(self, groups: DataFrame) -> tuple[int, pa.Array]:
        """How many groups have new records, and which are to be planned."""
        facts = self._collected(groups)
        if "astray" in facts and self.before is not None:
            raise _Anew("a group's commits are not in the order of their offsets")
        touched = int(pc.sum(facts["touched"]["groups"]).as_py()) if "touched" in facts else 0
        return touched, piece_of(facts["planned"]["group"]) if "planned" in facts else pa.array([], pa.string())

    # -- plans

    def _plans(self, groups: DataFrame, folded: list[str] | None, planned: pa.Array) -> None:
        """Rows of ``gold/whatif``: of groups that are planned, and of the others."""
        delivery, assignors = self.store.deliver(f"p{self._stage}"), self.after.settings["assignors"]
        run = partial(build_tasks.planned, assignors=assignors, delivery=delivery)
        frames = [met(of_kinds(groups, "asked"), self._planners, run)]
        if folded is not None:
            # Rows of a group's past stay unless it is folded, those of its present unless it is planned.
            past = np.repeat([True, False], [len(folded), len(planned)])
            anew = pa.table({"group": pa.concat_arrays([pa.array(folded, pa.string()), planned]), "past": past})
            rows = self._published("gold/whatif").withColumn("past", sql.col("scenario") == REPLAY)
            names = sql.broadcast(self.spark.createDataFrame(anew))
            frames.append(self._carried("gold/whatif", rows.join(names, ["group", "past"], "left_anti")))
        self._collected(self._keep(united(frames)))

    # -- tables

    def _write(self, folded: bool, planned: bool) -> None:
        """Every table that changes, in one commit each, by its keys."""
        self.written: list[str] = []
        appended: dict[str, int] = {}
        for name, table in TABLES.items():
            times = 0 if self.before is None else self.before.appended.get(name, 0)
            rows = self.rows.get(name, 0)
            follows = {
                "records": bool(rows) or name in self.replaced, "generations": folded,
                "commits and ends": name != "gold/whatif" or planned,
            }  # fmt: skip
            changes = self.before is None or follows[table.follows]
            whole = self.before is None or table.follows != "records" or name in {"silver/counts", *self.replaced}
            if changes and not whole and times >= APPENDED_MAX:
                self._collected(self._keep(self._carried(name, self._published(name))))
                whole = True
            if changes:
                self.progress(f"{'making' if whole else 'adding to'} {name}")
                self._complete(name, whole)
                self.written.append(name)
            appended[name] = 0 if whole and changes else times + (1 if changes else 0)
        self._complete(STATE, True)
        places, groups = (self.rows.get(name, 0) for name in ("gold/commits", "gold/group_state"))
        self.after = replace(self.after, appended=appended, places=places, groups=groups)

    def _complete(self, name: str, whole: bool) -> None:
        frames = list(self.frames.get(name, {}).values())
        self.store.write(name, frames, self.rows.get(name, 0), self.newest.get(name), whole)


@dataclass(frozen=True)
class _Common:
    """The findings before groups are made.

    ends, ends_whole
        Samples of log ends, and whether these are all there are.
    known_at
        The newest sample (microseconds) that was known before; None: none.
    gaps
        New rows of ``silver/gaps``.
    names
        Topic ids that epochs speak of, and their names.
    """

    ends: DataFrame
    ends_whole: bool
    known_at: int | None
    gaps: pa.Table
    names: Mapping[str, str | None]


def _runs(facts: Mapping[str, pa.Table]) -> pa.Table:
    return decode.joined_runs(facts.get("runs", decode.RUNS.empty_table()))


def _named_readers(facts: Mapping[str, pa.Table], names: Mapping[str, str | None], buckets: int) -> pa.Table:
    """(topic, bucket) of topics that new epochs speak of by their ids."""
    if "spoken" not in facts:
        return end_samples.READERS.empty_table()
    spoken = facts["spoken"]
    topics = pa.array([names.get(topic_id) for topic_id in spoken["topic_id"].to_pylist()], pa.string())
    return pa.table([topics, spoken["bucket"]], schema=end_samples.READERS).filter(pc.is_valid(topics))


def _each_once(records: DataFrame) -> DataFrame:
    """Each (partition, offset) once.

    Raises
        BadInput: two records of one place differ, so the folder holds records of two clusters.
    """
    content = sql.xxhash64("key", "value", sql.isnull("key"))  # a hash passes over nulls
    places = records.groupBy("partition", "offset").agg(sql.min(content).alias("a"), sql.max(content).alias("b"))
    if differ := places.where("a != b").count():
        raise BadInput("records", f"{differ} offsets with two different records", "records of one cluster alone")
    return records.dropDuplicates(["partition", "offset"])

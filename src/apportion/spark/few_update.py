"""An incremental build of a few groups: their rows are made in this process, and Spark does what is left.

``incremental.Update`` asks Spark for every table; for a few groups the jobs cost more than the rows. Here new records
are decoded, and the rows of touched groups made, without a job, as long as they are few. So are the tables that follow
the log ends, some groups at a time, as long as one process is enough for them. Of plain files on this machine, where
that is not so, gold is made anew: with 2,857 of 20,000 groups touched Spark's comparing took 2.2 times the CPU time of
a full build, this 0.95 of it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from apportion.arrays import Ints
from apportion.spark import by_group, dump_sums, few_records, groups, incremental, kept_ends, log_ends, logs, standing
from apportion.spark import few_groups as few
from apportion.spark.dump_sums import BROKEN, behind
from apportion.spark.files import nulls_first
from apportion.spark.kept_ends import KeptEnds
from apportion.spark.log_ends import since
from apportion.spark.schemas import TABLES, arrow_schema
from apportion.spark.sinks import as_frame, frame_of
from apportion.spark.sorted_rows import flattened, one, spans
from apportion.wording import count

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

GROUPS_MAX: Final = 2_000
ROWS_MAX: Final = 300_000
BYTES_MAX: Final = 256 << 20
"""More touched groups, or rows or bytes of theirs in a silver table, are Spark's."""
WHOLE_MAX: Final = 10_000_000
WHOLE_BYTES_MAX: Final = 512 << 20
"""Records, samples of log ends, and bytes of a table; with more, the tables that follow log ends are not made here."""
COMMITS_AT_ONCE: Final = 200_000
"""Commits of groups whose rows are made together; a group of more is made by itself."""

_IDS: Final = ("topic_id", "topic")
_SOURCE: Final = ("source_partition", "source_offset")
_WHOLE: Final = {
    "silver/commits": standing.ASKED,
    "silver/generations": ("group", "members.topics", "at"),
    "silver/epochs": ("group", "key_type", "body", "at"),
    "silver/topics": None,
}
"""Columns that the tables of log ends are made from, beside the log ends themselves; None: all."""
KEPT: Final = "ends.kept.parquet"
"""The samples of log ends that are kept for the next builds."""

Known = tuple[few.Silver, Mapping[str, pa.Table]]
"""What the silver tables hold of some groups, and what ``few_groups.left`` makes of it."""


class FewUpdate(incremental.Update):
    """One incremental build, in this process as far as it is small."""

    fresh: dict[str, pa.Table] | None = None
    """New rows of the silver tables, where they are few."""
    ends: KeptEnds | None = None
    """The samples that the tables of log ends were made from, where some are left out."""
    followed: dict[str, pa.Table] | None = None
    """What those tables were made from, and the new rows of ``gold/group_state``, by the tables' names."""

    def run(self, allowed_lag: int, assignors: Sequence[str] | None) -> None:
        """Every table that changes, each in one commit."""
        topics = self._all("silver/topics", _IDS) if self.news.topics else None
        self._silver()
        if self.fresh is None:
            if self._made_anew(None):
                return
            self._gold_by_spark(*self._touched(self._before["silver/topics"]), allowed_lag, assignors)
            return
        committed = _names(self.fresh["silver/commits"])
        recorded = _names(self.fresh["silver/generations"]) | _names(self.fresh["silver/epochs"])
        recorded |= self._renamed_groups(topics)
        touched = sorted(recorded | committed)
        if not touched and not (self.news.ends or self.news.topics):
            return
        silver = self._silver_of(touched) if len(touched) <= GROUPS_MAX else None
        if (silver is None or self._are_too_many()) and self._made_anew(len(touched)):
            return
        if silver is None:
            self.new = {name: as_frame(self.spark, self.fresh[name], TABLES[name]) for name in incremental.SILVER}
            self._gold_by_spark(self._frame(recorded), self._frame(committed), allowed_lag, assignors)
            return
        self.touched_groups = len(touched)
        self.progress(f"{count(self.touched_groups, 'group')} with something new")
        self._few_gold(silver, touched, recorded, committed, allowed_lag, assignors)

    # -- silver

    def _decode(self) -> None:
        """New rows of the silver tables; Spark's where they are many."""
        read = {int(partition): offset for partition, offset in self.news.before.read.items()}
        records = self._new_records(read)
        if records is None:
            self.fresh = None
            super()._decode()
            return
        self.fresh = few_records.silver(records, read)
        for name in (*incremental.SILVER, "silver/gaps"):
            if self.fresh[name].num_rows:
                self._append(name, self.fresh[name])
        counts = pa.concat_tables([self._all("silver/counts"), self.fresh["silver/counts"]])
        self._write("silver/counts", few_records.added_up(counts))

    def _new_records(self, read: Mapping[int, int]) -> pa.Table | None:
        """The new records, each place once; None where they are too many, or a file is broken: Spark says how."""
        files, count = self.source.at_hand, self.news.new_records
        if files is None:
            return few_records.new_records_by_spark(self.source.records.where(incremental.behind(read)), count)
        with suppress(*BROKEN):
            return few_records.new_records(files, read, count, self.news.settled)
        return None

    def _no_records(self) -> None:
        self.fresh = {name: arrow_schema(TABLES[name]).empty_table() for name in incremental.SILVER}

    def _newer_ends(self) -> DataFrame | pa.Table:
        """Samples of log ends that were taken since the last build."""
        if self.news.newer_ends is not None:
            return self.news.newer_ends
        if self.source.at_hand is not None and self.news.now.ends <= WHOLE_MAX:
            with suppress(*BROKEN):
                return dump_sums.newer_ends(self.source.at_hand, self.news.before.ends_at)
        return super()._newer_ends()

    def _renamed_groups(self, topics_before: pa.Table | None) -> set[str]:
        """Groups whose epochs speak of a topic id that has another name now, or has one now.

        topics_before
            (topic_id, topic) of ``silver/topics`` as it was, where it is another now.
        """
        assert self.fresh is not None  # noqa: S101 - asked only then
        new_ids = set(self.fresh["silver/commits"]["topic_id"].drop_null().unique().to_pylist())
        if not new_ids and topics_before is None:
            return set()
        of_new = topics_before is None  # then no other id has another name
        now = self._rows("silver/topics", "topic_id", new_ids, _IDS) if of_new else self._all("silver/topics", _IDS)
        before = now if topics_before is None else topics_before
        sure = [few.names_among(one.slice(0, 0), one) for one in (before, now)]
        doubtful = {one for one in new_ids if one not in sure[1]}
        doubtful |= {one for one in {*sure[0], *sure[1]} if sure[0].get(one) != sure[1].get(one)}
        if not doubtful:
            return set()
        commits = self._rows("silver/commits", "topic_id", doubtful, (*_IDS, *_SOURCE))
        read = {int(partition): offset for partition, offset in self.news.before.read.items()}
        partition, offset = (commits[name].to_numpy() for name in _SOURCE)
        old = commits.filter(pa.array(~behind(partition, offset, read)))
        names = few.names_among(old, before), few.names_among(commits, now)
        changed = {one for one in doubtful if names[0].get(one) != names[1].get(one)}
        if not changed:
            return set()
        spoken = few.spoken_ids(self._all("silver/epochs", ("group", "key_type", "body")))
        return {group for group, ids in spoken.items() if ids & changed}

    def _silver_of(self, some: Collection[str]) -> few.Silver | None:
        """What the silver tables hold of some groups; None where that is too much."""
        tables = {}
        for name in ("silver/commits", "silver/generations", "silver/epochs"):
            rows = self._commits_of(some) if name == "silver/commits" else None
            if rows is None:
                asked = standing.ASKED if name == "silver/commits" else None
                rows = self.sink.rows_with(name, "group", some, asked, bytes_max=BYTES_MAX)
            if rows is None or rows.num_rows > ROWS_MAX:
                return None
            tables[name] = rows
        commits, generations, epochs = tables.values()
        partitions = {
            number for rows in (generations, epochs) for number in rows["source_partition"].unique().to_pylist()
        }
        ids = set().union(*few.spoken_ids(epochs).values())
        names: dict[str, str] = {}
        if ids:
            known = [self._rows(f"silver/{name}", "topic_id", ids, _IDS) for name in ("commits", "topics")]
            names = few.names_among(*known)
        gaps = self._rows("silver/gaps", "source_partition", partitions)
        return few.Silver(commits, generations, epochs, gaps, names)

    def _commits_of(self, some: Collection[str]) -> pa.Table | None:
        """The commits of some groups out of those of all, where these are asked for anyhow; None where they are not.

        Columns are those that are looked at.
        """
        whole = self._whole if self.news.ends or self.news.topics else None
        if whole is None:
            return None
        rows = _with_words(whole[0], "group", some)
        if rows.num_rows > ROWS_MAX:  # reading them again shows whether they are too much
            return None
        return rows.cast(arrow_schema(TABLES["silver/commits"], standing.ASKED))

    # -- gold

    def _few_gold(
        self, silver: few.Silver, touched: list[str], recorded: set[str], committed: set[str], allowed_lag: int,
        assignors: Sequence[str] | None,
    ) -> None:  # fmt: skip
        left = few.left(silver, self.now_ms)
        self._swap("gold/commits", _of(standing.newest(left["places"]), committed), committed)
        self._swap("gold/rebalances", _of(left["rebalances"], recorded), recorded)
        self._swap("gold/epochs", _of(left["epochs"], recorded), recorded)
        self._swap("gold/groups", by_group.groups_of(left["present"]), touched)
        if self.news.ends or self.news.topics:
            planned = self._follow(left["present"], recorded, touched, allowed_lag)
            if planned is None:
                planned = self._follow_by_spark(left["present"], recorded, touched, allowed_lag)
            self._plan_some(planned, touched, (silver, left), assignors)
            return
        ends, topics = self._logs_of(left["named"]["topic"])
        tables = few.follow({**left, "logs": logs.described(ends, topics)}, self.now_ms, allowed_lag)
        for name, rows in tables.items():
            self._swap(f"gold/{name}", rows, touched)
        self._few_plans([(silver, left)], tables["group_state"], ends, topics, touched, assignors)

    def _follow(
        self, living: pa.Table, recorded: set[str], touched: list[str], allowed_lag: int
    ) -> DataFrame | set[str] | None:
        """The tables that follow the log ends, of all groups, some at a time; gives the groups to be planned.

        None, and nothing is done, where that is too much for one process.

        living
            The touched groups that are there, as ``by_group.left`` tells ``present``.
        """
        whole = self._whole
        if whole is None:
            return None
        commits, generations, epochs, topics = whole
        ends, is_due = self._ends_asked(topics.num_rows)
        before = self._all("gold/group_state", groups.PRESENT)
        stayed = before.filter(pc.invert(pc.is_in(before["group"], pa.array(touched, pa.string()))))
        present = nulls_first(pa.concat_tables([stayed, living.cast(stayed.schema)]), ["group"])
        names = few.names_of(epochs, few.names_among(commits, topics) if epochs.num_rows else {})
        tables = {
            "present": present, "commits": commits, "generations": generations.select(["group", "at"]),
            "epochs": epochs.select(["group", "at"]), "names": names, "wanted": by_group.topics_of(generations),
        }  # fmt: skip
        of_group = {name: _RowsByName.of(rows, "group") for name, rows in tables.items()}
        followed = _Followed(
            of_group,
            _RowsByName.of(topics, "topic"),
            self.now_ms,
            allowed_lag,
            self.news.before.ends_at // 1000,
            is_due,
        )
        every = {*present["group"].to_pylist(), *followed.counts}
        late, doubtful = followed.make(every, ends, ends if self.kept and isinstance(ends, KeptEnds) else None)
        self.followed = {"silver/topics": topics}
        if isinstance(ends, KeptEnds):
            if late:
                ends = ends.with_every(doubtful, self._rows("silver/ends", "topic", doubtful))
                followed.make(late, ends, None)
            if is_due:
                self._keep_ends(ends.few(pa.concat_tables(followed.asked), since(self.now_ms)))
            self.ends = ends
        else:
            self.followed["silver/ends"] = ends
        for name, pieces in followed.pieces.items():
            empty = arrow_schema(TABLES[f"gold/{name}"]).empty_table()
            rows = pa.concat_tables([empty, *(piece.cast(empty.schema) for piece in pieces)])
            self._write(f"gold/{name}", rows)
            if name == "group_state":
                self.followed[f"gold/{name}"] = rows
        planned = recorded | followed.moved | set(touched)
        if self.news.topics or not self.news.appended or len(planned) > incremental.NOT_COMPARED:
            return self._planned(self._frame(recorded), self._frame(touched), kept_samples(self))
        return planned

    def _are_too_many(self) -> bool:
        """Whether log ends moved, and one process is not enough for the tables that follow them."""
        samples = self.news.now.ends - self.kept["of"] + self.kept["rows"] if self.kept else self.news.now.ends
        return (self.news.ends or self.news.topics) and max(self.source.count, samples) > WHOLE_MAX

    def _ends_asked(self, logs: int) -> tuple[KeptEnds | pa.Table, bool]:
        """The samples of log ends that were kept, and the newer ones; all of ``silver/ends`` where none were.

        Whether they are so many that those to be kept should be chosen anew.

        logs
            How many logs there are, about.
        """
        keeper = self.sink.keeper
        known = keeper.kept_rows(KEPT) if keeper is not None and self.kept else None
        if keeper is not None and known is not None and known.num_rows == self.kept["rows"]:
            ends = KeptEnds.of(known, keeper.rows_after("silver/ends", "at", self.kept["at"]))
            return ends, ends.rows.num_rows > 2 * known.num_rows
        self.kept = {}
        every = self.sink.rows_with("silver/ends", "", None, words=True)
        assert every is not None  # noqa: S101 - no limit was given
        if keeper is None or every.num_rows <= max(kept_ends.FEW_ROWS, kept_ends.FEW * logs):
            return every, False
        return KeptEnds.of(kept_ends.columns().empty_table(), every), True

    def _keep_ends(self, ends: pa.Table) -> None:
        """Keep some samples for the next builds."""
        keeper = self.sink.keeper
        assert keeper is not None  # noqa: S101 - else nothing is due to be kept
        keeper.keep_rows(KEPT, ends)
        self.kept = {"at": self.news.now.ends_at, "rows": ends.num_rows, "of": self.news.now.ends}

    @cached_property
    def _whole(self) -> list[pa.Table] | None:
        """The columns that the tables of log ends are made from, of all groups; None where they are too many."""
        if self._are_too_many():
            return None
        tables = []
        for name, columns in _WHOLE.items():
            rows = self.sink.rows_with(name, "", None, columns, bytes_max=WHOLE_BYTES_MAX, words=True)
            if rows is None:
                return None
            tables.append(rows)
        return tables

    def _follow_by_spark(
        self, living: pa.Table, recorded: set[str], touched: list[str], allowed_lag: int
    ) -> DataFrame | set[str]:
        """Follow the log ends by Spark, where the groups are too many for one process."""
        some = self._frame(touched)
        left = self._left_of_all(frame_of(self.spark, living, incremental.PRESENT), some)
        self._follow_log_ends(left, None, allowed_lag)
        return self._planned(self._frame(recorded), some, kept_samples(self))

    def _plan_some(
        self, planned: DataFrame | set[str], touched: list[str], known: Known, assignors: Sequence[str] | None
    ) -> None:
        """The plans of groups that see something else, here if they are few.

        known
            What the touched groups left.
        """
        if isinstance(planned, set):
            names = planned
        else:
            names = {row["group"] for row in planned.limit(GROUPS_MAX + 1).collect()}
        every = [known]
        if others := names.difference(touched):
            silver = self._silver_of(others) if len(names) <= GROUPS_MAX else None
            if silver is None:
                frame = self._frame(planned) if isinstance(planned, set) else planned
                self._plan(frame, kept_samples(self), assignors)
                return
            every.append((silver, few.left(silver, self.now_ms)))
        state = self._followed_rows("gold/group_state", "group", names)
        ends, topics = self._logs_of(flattened(state, "topics", "topic")["topic"], self.ends)
        self.followed = None  # plans take memory of their own
        self.__dict__.pop("_whole", None)
        self._few_plans(every, state, ends, topics, sorted(names), assignors)

    def _few_plans(
        self, known: Sequence[Known], state: pa.Table, ends: pa.Table, topics: pa.Table, some: list[str],
        assignors: Sequence[str] | None,
    ) -> None:  # fmt: skip
        self.planned_groups = len(some)
        if not some:
            return
        self.progress(f"{count(self.planned_groups, 'group')} to plan anew")
        heard = pa.concat_tables([
            few.last_heard(silver.generations, silver.epochs, standing.newest(left["places"])) for silver, left in known
        ])  # fmt: skip
        histories = _of(pa.concat_tables([left["histories"] for _, left in known]), some)
        every_end = partial(self._rows, "silver/ends", "topic")
        planned = few.as_planned(state, heard, ends, topics, every_end)
        self._swap("gold/whatif", few.gold_whatif(planned, histories, assignors), some)

    def _logs_of(self, topics: pa.ChunkedArray, kept: KeptEnds | None = None) -> tuple[pa.Table, pa.Table]:
        """Rows of ``silver/ends`` and ``silver/topics`` of some topics.

        kept
            Where given, of the samples only those here.
        """
        names = topics.drop_null().unique().to_pylist()
        ends = self._followed_rows("silver/ends", "topic", names) if kept is None else kept.of_topics(names)
        return ends, self._followed_rows("silver/topics", "topic", names)

    def _followed_rows(self, name: str, column: str, values: Collection[str]) -> pa.Table:
        """Rows as ``_rows`` gives them, maybe coded; those that are at hand are not read again."""
        if self.followed is None or name not in self.followed:
            return self._rows(name, column, values)
        return _with_words(self.followed[name], column, values)

    def _swap(self, name: str, rows: pa.Table, some: Collection[str]) -> None:
        """Replace the rows of some groups, if there are any."""
        if some:
            self._replace(name, rows, pa.table({"group": pa.array(sorted(some), pa.string())}))

    def _all(self, name: str, columns: Sequence[str] | None = None) -> pa.Table:
        return self._rows(name, "", None, columns)

    def _rows(
        self, name: str, column: str, values: Collection[Any] | None, columns: Sequence[str] | None = None
    ) -> pa.Table:
        rows = self.sink.rows_with(name, column, values, columns)
        assert rows is not None  # noqa: S101 - no limit was given
        return rows

    def _frame(self, some: Collection[str]) -> DataFrame:
        return self.spark.createDataFrame([(name,) for name in sorted(some)], "group string")


def _names(rows: pa.Table) -> set[str]:
    return set(rows["group"].unique().to_pylist())


@dataclass(frozen=True)
class _RowsByName:
    """Rows by the names in a column, each of which is looked up once, however often rows are asked for."""

    rows: pa.Table
    names: pa.Array
    order: Ints
    """(N,) the rows name by name, those of one as they come; without a name last."""
    start: Ints
    """(names + 1,) where those of each name begin in ``order``."""

    @classmethod
    def of(cls, rows: pa.Table, column: str) -> _RowsByName:
        codes = one(rows[column])
        codes = codes if pa.types.is_dictionary(codes.type) else codes.dictionary_encode()
        count = len(codes.dictionary)
        code = np.asarray(codes.indices.fill_null(count))
        # NumPy sorts numbers of 16 bits by their digits, in a tenth of the time.
        order = np.argsort(code.astype(np.uint16) if count < 2**16 else code, kind="stable")
        start = np.concatenate(([0], np.cumsum(np.bincount(code, minlength=count)[:count])))
        return cls(rows, codes.dictionary, order, start)

    def some(self, some: Collection[str] | pa.Array) -> pa.Table:
        """Rows with one of some names, name by name."""
        names = some if isinstance(some, pa.Array) else pa.array(sorted(some), pa.string())
        which = np.asarray(pc.index_in(names, value_set=self.names).drop_null())
        rows = self.order[spans(self.start[which], self.start[which + 1] - self.start[which])]
        return self.rows.take(pa.array(rows)).combine_chunks()

    def counted(self) -> dict[str, int]:
        """Each name, and how many rows have it."""
        return dict(zip(self.names.to_pylist(), np.diff(self.start).tolist(), strict=True))


@dataclass(eq=False)
class _Followed:
    """The tables that follow the log ends, made some groups at a time.

    of_group
        Rows of groups, by what they tell.
    of_topics
        Rows of ``silver/topics``.
    sampled_ms
        When log ends were sampled last before this build.
    remembers
        Whether what is asked of the log ends is kept in ``asked``, from which samples are chosen.
    moved
        Groups that must be planned again, since the log ends that plans are made with are others now.
    """

    of_group: Mapping[str, _RowsByName]
    of_topics: _RowsByName
    now_ms: int
    allowed_lag: int
    sampled_ms: int
    remembers: bool
    pieces: dict[str, list[pa.Table]] = field(default_factory=lambda: {name: [] for name in few.FOLLOW})
    moved: set[str] = field(default_factory=set)
    asked: list[pa.Table] = field(default_factory=list)

    @cached_property
    def counts(self) -> dict[str, int]:
        """Groups with commits, and how many each has."""
        return self.of_group["commits"].counted()

    def make(
        self, every: Collection[str], ends: KeptEnds | pa.Table, doubted: KeptEnds | None
    ) -> tuple[set[str], set[str]]:
        """The rows of some groups from samples of log ends.

        doubted
            The samples, if some were left out where a row may ask for them.
        Returns
            Groups that were left out, since their rows may need other samples, and the topics that these are of.
        """
        late: set[str] = set()
        doubtful: set[str] = set()
        of_ends = _RowsByName.of(ends.counted() if isinstance(ends, KeptEnds) else ends, "topic")
        for some in few.chunks(every, self.counts, COMMITS_AT_ONCE):
            mine = {name: rows.some(some) for name, rows in self.of_group.items()}
            places = standing.places(standing.sorted_commits(mine["commits"]), since(self.now_ms))
            again = doubted.uncertain(_asked(places)) if doubted is not None else set()
            if again:
                doubtful |= again
                others = set(_with(places, "topic", again)["group"].unique().to_pylist())
                late |= others
                places = _with(places, "group", others, no=True)
                mine = {name: _with(rows, "group", others, no=True) for name, rows in mine.items()}
            if self.remembers:
                self.asked.append(_asked(places))
            named = by_group.named_topics(mine["wanted"], mine["names"], mine["present"], places)
            known = logs.described(*[rows.some(named["topic"].unique()) for rows in (of_ends, self.of_topics)])
            asked = {"places": places, "present": mine["present"], "named": named, "logs": known}
            followed = few.follow(asked, self.now_ms, self.allowed_lag)
            for name in few.FOLLOW:
                self.pieces[name].append(followed[name])
            commits = places.select(["group", "commit_time"]).filter(places["standing"])
            heard = few.last_heard(mine["generations"], mine["epochs"], commits)
            self.moved |= few.unsettled(followed["group_state"], heard, known, self.sampled_ms)
        return late, doubtful


def _asked(places: pa.Table) -> pa.Table:
    """What rows ask of the samples of log ends, as ``KeptEnds`` takes it."""
    return places.select(kept_ends.ASKED).filter(places["standing"])


def _of(rows: pa.Table, some: Collection[str]) -> pa.Table:
    """Rows of some groups."""
    return _with(rows, "group", some)


def _with_words(rows: pa.Table, column: str, some: Collection[str]) -> pa.Table:
    """Rows with one of some texts in a column, in their order: each different text is looked at once."""
    codes = one(rows[column])
    codes = codes if pa.types.is_dictionary(codes.type) else codes.dictionary_encode()
    is_one = pc.is_in(codes.dictionary, value_set=pa.array(sorted(some), codes.dictionary.type))
    return rows.filter(pc.fill_null(is_one.take(codes.indices), False)).combine_chunks()


def _with(rows: pa.Table, column: str, some: Collection[str], no: bool = False) -> pa.Table:
    """Rows with one of some names in a column; with no one of them, if that is wanted."""
    is_one = pc.is_in(one(rows[column]).cast(pa.string()), value_set=pa.array(sorted(some), pa.string()))
    return rows.filter(pc.invert(is_one) if no else is_one).combine_chunks()


def kept_samples(update: FewUpdate) -> DataFrame:
    """``log_ends.samples`` of the table as it is now."""
    return incremental.kept(log_ends.samples(update.table("silver/ends")))

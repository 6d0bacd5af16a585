"""Groups of one structure found on Arrow's columns, so that most groups are never made into Python objects.

A row of ``whatif``'s input has a key here: everything that its plans depend on, with names replaced by their ranks
among the group's own. Rows of one key fold to groups of one ``Structure``, whose names and lags alone differ; that is
looked at where the first of them is planned. A key may tell apart what a structure does not, never the other way round.
What cannot be said in ranks (see ``history.structure``), and groups whose records are KIP-848's, have no key: they are
read row by row.

A build's what-ifs take 1.5 ms a group with it and 2.8 without (CPU time, the mix of ``bench.like_groups``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from apportion.arrays import UNKNOWN, Ints, Longs
from apportion.history.shared_plans import Template
from apportion.history.structure import JOINS, Places, Structure, told_by_ranks
from apportion.model.lag import lag_of
from apportion.model.protocols import OTHERS
from apportion.model.topic_columns import TopicColumns
from apportion.pipeline.columns import values_of

_ENTRY: Final = np.dtype([("partition", "<i4"), ("racks", "<i4"), ("known", "u1")])
"""What a key has of a partition: its id, how many racks it is in, and which ends of its log are known."""


@dataclass(frozen=True)
class Likeness:
    """One group on columns: its key, its names by rank, and the place of its numbers in the batch.

    described, entries, commits
        Spans of its topics, of their partitions, and of its commits.
    """

    key: tuple[Any, ...]
    members: Sequence[str]
    topics: Sequence[str]
    described: slice
    entries: slice
    commits: slice

    @property
    def size(self) -> int:
        """Partitions."""
        return int(self.entries.stop - self.entries.start)


class Lists:
    """A column of lists: the start of each one, and all their values."""

    def __init__(self, column: pa.Array) -> None:
        """Take a list column; nulls are empty lists, as Arrow's writers leave them."""
        self.values: pa.Array = column.values
        self.at: list[int] = column.offsets.to_pylist()


def _coded(column: pa.Array) -> tuple[list[Any], Ints]:
    """The different texts of a column in an order of their own, None last, and which one each value is."""
    encoded = column.dictionary_encode()
    words = encoded.dictionary.to_pylist()
    order = sorted(range(len(words)), key=words.__getitem__)
    rank = np.empty(len(words) + 1, dtype=np.int64)
    rank[order], rank[-1] = np.arange(len(words)), len(words)
    places = encoded.indices.fill_null(len(words)).to_numpy(zero_copy_only=False)
    return [*(words[at] for at in order), None], rank[places]


class Structs:
    """The fields of a column of structs as Python lists or arrays, each made when it is asked for."""

    def __init__(self, column: pa.Array) -> None:
        """Take a column of structs that is no slice of another."""
        self._column = column

    def words(self, name: str) -> list[Any]:
        """A field's values."""
        return values_of(self._column.field(name))

    def lists(self, name: str) -> Lists:
        """A field of lists."""
        return Lists(self._column.field(name))

    def numbers(self, name: str) -> tuple[Longs, np.ndarray[Any, Any]]:
        """A field's whole numbers, ``UNKNOWN`` for null, and whether each is there."""
        field = self._column.field(name)
        return (
            field.fill_null(UNKNOWN).to_numpy(zero_copy_only=False).astype(np.int64),
            field.is_valid().to_numpy(zero_copy_only=False),
        )


class _Seats:
    """Members of generations, or of the present, with their topics and partitions."""

    def __init__(self, column: Lists, plain: Sequence[str] = ()) -> None:
        self.at = column.at
        structs = Structs(column.values)
        self.ids, self.instances, self.racks = (structs.words(name) for name in ("member_id", "instance_id", "rack"))
        self.plain = [structs.words(name) for name in plain]
        wants = structs.lists("topics")
        self.wants_at, self.wants = wants.at, values_of(wants.values)
        held = structs.lists("assigned")
        self.held_at = held.at
        held_structs = Structs(held.values)
        self.held = held_structs.words("topic")
        ids = held_structs.lists("partitions")
        self.ids_at, self.partitions = ids.at, ids.values.to_numpy(zero_copy_only=False)

    def topics(self, first: int, last: int) -> list[str]:
        """All topics that some seats want or hold."""
        wanted: list[str] = self.wants[self.wants_at[first] : self.wants_at[last]]
        return wanted + self.held[self.held_at[first] : self.held_at[last]]

    def key(self, first: int, last: int, names: _GroupRanks) -> tuple[Any, ...]:
        """Some seats with ranks for names."""
        w0, w1 = self.wants_at[first], self.wants_at[last]
        h0, h1 = self.held_at[first], self.held_at[last]
        p0, p1 = self.ids_at[h0], self.ids_at[h1]
        return (
            tuple(map(names.members.__getitem__, self.ids[first:last])),
            tuple(map(names.instances.__getitem__, self.instances[first:last])),
            tuple(self.racks[first:last]),
            *(tuple(column[first:last]) for column in self.plain),
            tuple([at - w0 for at in self.wants_at[first : last + 1]]),
            tuple(map(names.topics.__getitem__, self.wants[w0:w1])),
            tuple([at - h0 for at in self.held_at[first : last + 1]]),
            tuple(map(names.topics.__getitem__, self.held[h0:h1])),
            tuple([at - p0 for at in self.ids_at[h0 : h1 + 1]]),
            self.partitions[p0:p1].tobytes(),
        )


@dataclass(frozen=True)
class _GroupRanks:
    """Names to their ranks, each kind by itself."""

    members: Mapping[str, int]
    instances: Mapping[str | None, int]
    topics: Mapping[str, int]

    @classmethod
    def of(cls, members: Iterable[str], instances: Iterable[str | None], topics: Iterable[str]) -> _GroupRanks | None:
        """All names of a group; None if an order of ranks does not say all that the names do."""
        ids, named, wanted = sorted(set(members)), sorted({i for i in instances if i is not None}), sorted(set(topics))
        if not told_by_ranks(ids, named, wanted):
            return None
        by_instance: dict[str | None, int] = {name: rank for rank, name in enumerate(named)}
        by_instance[None] = -1
        return cls(
            {name: rank for rank, name in enumerate(ids)}, by_instance, {name: rank for rank, name in enumerate(wanted)}
        )


class Batch:
    """Rows of ``whatif``'s input on columns."""

    def __init__(self, rows: pa.RecordBatch) -> None:
        """Look at the columns; nothing is made of single rows."""
        self.rows = rows
        self.groups: list[str] = rows.column("group").to_pylist()
        self._epochs = rows.column("epochs").offsets.to_pylist()
        generations = Lists(rows.column("generations"))
        structs = Structs(generations.values)
        self._generations_at = generations.at
        self._tombstone, self._protocol = structs.words("tombstone"), structs.words("protocol_type")
        self._number = [number or 0 for number in structs.words("generation")]
        self._past = _Seats(structs.lists("members"), ["unreadable"])
        self._present = _Seats(Lists(rows.column("members")))
        self._readable, self._type = rows.column("readable").to_pylist(), rows.column("type").to_pylist()
        self._generation = rows.column("generation").to_pylist()
        self._topics(Lists(rows.column("topics")))
        commits = Lists(rows.column("commits"))
        self._commits_at, fields = commits.at, Structs(commits.values)
        self._commit_topic = fields.words("topic")
        self._commit_partition = fields.numbers("partition")[0].astype(np.int32)
        self.committed, known = fields.numbers("committed")
        self._strange_commits = _counts(~known | (self.committed < 0))

    def _topics(self, topics: Lists) -> None:
        self._topics_at, fields = topics.at, Structs(topics.values)
        self._topic = fields.words("topic")
        partitions = fields.lists("partitions")
        self._entries_at, entry = partitions.at, Structs(partitions.values)
        self._partition = entry.numbers("partition")[0].astype(np.int32)
        self.begin, self._begins = entry.numbers("begin")
        self.end, self._ends = entry.numbers("end")
        self._strange_entries = _counts((self._begins & (self.begin < 0)) | (self._ends & (self.end < 0)))
        racks = entry.lists("racks")
        self._racks_at = np.array(racks.at)
        self._racks, self._rack_codes = _coded(racks.values)
        self._rack_names = sha256(repr(self._racks).encode()).digest()  # codes mean nothing without the names
        self._entry = np.empty(len(self._partition), dtype=_ENTRY)
        self._entry["partition"], self._entry["racks"] = self._partition, np.diff(self._racks_at)
        self._entry["known"] = self._begins + 2 * self._ends

    def row(self, row: int) -> dict[str, Any]:
        """A row as Python's, but for partitions and commits."""
        names = [name for name in self.rows.schema.names if name not in ("topics", "commits")]
        rows: list[dict[str, Any]] = self.rows.select(names).slice(row, 1).to_pylist(maps_as_pydicts="strict")
        return rows[0]

    def stands(self, row: int) -> bool:
        """Whether a strategy can be asked about the group's present."""
        return bool(self._readable[row]) and self._type[row] not in OTHERS

    def likeness(self, row: int) -> Likeness | None:
        """One group; None if it has no key."""
        try:
            return self._likeness(row)
        except (TypeError, KeyError, AttributeError):  # a null where there should be a name
            return None

    def _likeness(self, row: int) -> Likeness | None:
        if self._epochs[row] != self._epochs[row + 1]:
            return None
        g0, g1 = self._generations_at[row : row + 2]
        s0, s1 = self._past.at[g0], self._past.at[g1]
        m0, m1 = self._present.at[row : row + 2]
        t0, t1 = self._topics_at[row : row + 2]
        e0, e1 = self._entries_at[t0], self._entries_at[t1]
        c0, c1 = self._commits_at[row : row + 2]
        number = self._number[g0:g1]
        generation = self._generation[row]
        if not e1 - e0 or min(number, default=0) < 0 or (generation or 0) < 0:
            return None
        if (
            self._strange_entries[e0] < self._strange_entries[e1]
            or self._strange_commits[c0] < self._strange_commits[c1]
        ):
            return None
        past, present = self._past, self._present
        names = _GroupRanks.of(
            past.ids[s0:s1] + present.ids[m0:m1],
            past.instances[s0:s1] + present.instances[m0:m1],
            past.topics(s0, s1) + present.topics(m0, m1) + self._topic[t0:t1] + self._commit_topic[c0:c1],
        )
        if names is None:
            return None
        key = (
            tuple(self._tombstone[g0:g1]),
            tuple(self._protocol[g0:g1]),
            tuple([at - s0 for at in past.at[g0 : g1 + 1]]),
            tuple(map(int.__eq__, number[1:], number)),
            past.key(s0, s1, names),
            (self.stands(row), generation is None, present.key(m0, m1, names)),
            sum(name < JOINS for name in names.members),  # where a member that joins comes among them
            self._described(t0, t1, names),
            tuple(map(names.topics.__getitem__, self._commit_topic[c0:c1])),
            self._commit_partition[c0:c1].tobytes(),
        )
        return Likeness(key, list(names.members), list(names.topics), slice(t0, t1), slice(e0, e1), slice(c0, c1))

    def _described(self, first: int, last: int, names: _GroupRanks) -> tuple[Any, ...]:
        """Topics with their partitions and racks, and which offsets are known."""
        e0, e1 = self._entries_at[first], self._entries_at[last]
        r0, r1 = self._racks_at[e0], self._racks_at[e1]
        return (
            tuple(map(names.topics.__getitem__, self._topic[first:last])),
            tuple([at - e0 for at in self._entries_at[first : last + 1]]),
            self._entry[e0:e1].tobytes(),
            self._rack_names,
            self._rack_codes[r0:r1].tobytes(),
        )

    def places(self, row: Likeness) -> Places:
        """The group's partitions in the order of its columns."""
        t0, t1 = row.described.start, row.described.stop
        sizes = np.diff(self._entries_at[t0 : t1 + 1])
        return Places(
            self._topic[t0:t1], np.arange(t1 - t0).repeat(sizes), self._partition[row.entries].astype(np.int64)
        )

    def columns(self, row: Likeness, committed: bool) -> dict[str, TopicColumns] | None:
        """The group's topics with the known facts about their partitions, and their commits if these count.

        None where a topic or a partition stands twice, or has no number.
        """
        places = self.places(row)
        if not places.distinct or len(set(places.topics)) < len(places.topics) or (places.number < 0).any():
            return None
        lists, racks_of = self._racks_of(row.entries)
        offsets = np.full(len(places) + 1, UNKNOWN)
        if committed:
            offsets[self.commit_places(row, places)] = self.committed[row.commits]
        columns = TopicColumns(
            number=places.number,
            begin=self.begin[row.entries],
            end=self.end[row.entries],
            committed=offsets[:-1],
            rack_lists=lists,
            racks_of=racks_of,
        )
        spans = self._entries_at[row.described.start : row.described.stop + 1]
        return {
            topic: columns.take(np.arange(first, last) - spans[0])
            for topic, (first, last) in zip(places.topics, pairwise(spans), strict=True)
        }

    def committed_topics(self, row: Likeness) -> list[str]:
        """Topics that the group has committed offsets of."""
        return list(dict.fromkeys(self._commit_topic[row.commits]))

    def _racks_of(self, entries: slice) -> tuple[list[tuple[str, ...]], Ints]:
        """The different lists of racks of some partitions, and which one each has."""
        at = self._racks_at[entries.start : entries.stop + 1]
        octets, bounds = self._rack_codes[at[0] : at[-1]].tobytes(), (at - at[0]) * self._rack_codes.itemsize
        lists: dict[bytes, int] = {}
        spelled = [lists.setdefault(octets[a:b], len(lists)) for a, b in pairwise(bounds.tolist())]
        codes = [np.frombuffer(piece, self._rack_codes.dtype) for piece in lists]
        return [tuple(map(self._racks.__getitem__, of_list)) for of_list in codes], np.array(spelled, dtype=np.int64)

    def commit_places(self, row: Likeness, entries: Places) -> Ints:
        """(commits,) the place of each of the group's commits among its partitions; behind them if it has none."""
        topics = self._commit_topic[row.commits]
        at = {topic: n for n, topic in enumerate(dict.fromkeys(topics))}
        topic_of = np.array([at[topic] for topic in topics], dtype=np.int64)
        return entries.find(list(at), topic_of, self._commit_partition[row.commits].astype(np.int64))


def _counts(flags: np.ndarray[Any, Any]) -> list[int]:
    """How many flags are set before each place, and in all."""
    counts: list[int] = np.concatenate([[0], np.cumsum(flags)]).tolist()
    return counts


class Pattern:
    """All facts about the groups of one key: their plans, and the source columns of their lags."""

    def __init__(
        self, batch: Batch, row: Likeness, like_structure: Structure, template: Template, committed: bool
    ) -> None:
        """Of the first group; ``committed`` says whether commits count, as they do for a group that exists."""
        self.template = template
        entries = batch.places(row)
        commits = row.commits.stop - row.commits.start
        self._commit = np.full(len(entries) + 1, commits)
        if committed:
            self._commit[batch.commit_places(row, entries)] = np.arange(commits)
        self._commit = self._commit[:-1]
        where = entries.find(like_structure.places.topics, like_structure.places.topic_of, like_structure.places.number)
        self._entry: Ints | None = where if entries.distinct and (where < len(entries)).all() else None
        topic_of = {topic: n for n, topic in enumerate(row.topics)}
        self._topic = [topic_of[topic] for topic in like_structure.topics]
        self.right = (
            self._entry is not None
            and tuple(row.members) == like_structure.members
            and bool(np.array_equal(self.lags(batch, [row])[0], like_structure.lag))
        )

    def lags(self, batch: Batch, rows: Sequence[Likeness]) -> Longs:
        """(G, places) of groups of the key."""
        begin = np.stack([batch.begin[row.entries] for row in rows])
        end = np.stack([batch.end[row.entries] for row in rows])
        offsets = np.stack([batch.committed[row.commits] for row in rows])
        none = np.full((len(rows), 1), UNKNOWN)
        committed = np.concatenate([offsets, none], axis=1)[:, self._commit]
        lag: Longs = lag_of(begin, end, committed, "latest")[:, self._entry]
        return lag

    def topics(self, row: Likeness) -> list[str]:
        """The topics' names as the structure ranks them."""
        return [row.topics[at] for at in self._topic]

"""Classic groups that went through the same but for names, numbers and times: one is folded, the others are its like.

A group's history has a key here: all that says what changed in its rebalances, with names replaced by their ranks among
the group's own, as in ``history.structure``. Of one key the first group is folded record by record (``groups``); what
the others have of their own, which is names, offsets, times and numbers, is read from Arrow's columns. A key may tell
apart what makes no difference, never the other way round. Groups without a key are folded by themselves: with KIP-848's
records, tombstones, members that cannot be read, names that an order of ranks does not tell, commits that tell a crash
from a leave, or many partitions, for then hardly two are alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from apportion.arrays import Bools, Ints, Longs
from apportion.history.fold import state_of
from apportion.history.rebalances import duration, is_complete, skipped
from apportion.history.records import CLASSIC
from apportion.history.structure import told_by_ranks
from apportion.spark import schemas
from apportion.spark.sorted_rows import listed, longs, ranked, spans, starts_of, there, united

LARGEST: Final = 1000
"""Partitions that were given in all generations of a group that may have its like."""
_CHANGE: Final = ("cause", "moved", "kept", "given", "handed", "dropped", "needless")
"""Columns of a rebalance that are the same in groups of one key."""


@dataclass(frozen=True, eq=False)
class _ClassicSeats:
    """Members of generations on columns.

    at
        (rows + 1,) where the members of each generation begin; ``held_at``, ``wants_at`` and ``ids_at`` likewise.
    member, instance, want, held
        Each name's rank among all of its kind; -1 for null.
    names, instances, topics
        Those names.
    """

    column: pa.StructArray
    at: Longs
    member: Longs
    names: pa.Array
    instance: Longs
    instances: pa.Array
    wants_at: Longs
    want: Longs
    held_at: Longs
    held: Longs
    topics: pa.Array
    ids_at: Longs
    ids: pa.Array

    @classmethod
    def of(cls, lists: pa.ListArray) -> _ClassicSeats:
        structs = lists.values
        (member,), names = ranked(structs.field("member_id"))
        (instance,), instances = ranked(structs.field("instance_id"))
        wants, held = structs.field("topics"), structs.field("assigned")
        (want, hold), topics = ranked(wants.values, held.values.field("topic"))
        ids = held.values.field("partitions")
        return cls(
            structs, _at(lists), member, names, instance, instances, _at(wants), want, _at(held), hold, topics,
            _at(ids), ids.values,
        )  # fmt: skip

    def strange(self) -> Bools:
        """(seats,) whether something of a member is not what ranks tell, or is no consumer's."""
        seats, held = self.column, self.column.field("assigned").values
        if seats.null_count or held.null_count:
            return np.ones(len(seats), dtype=np.bool_)
        strange = there(seats.field("unreadable")) | (self.member < 0)
        strange |= _strange(self.names, members=True)[self.member]
        strange |= (self.instance >= 0) & _strange(self.instances, instances=True)[self.instance]
        strange |= np.asarray(pc.equal(seats.field("rack"), "").fill_null(False))
        topics = _strange(self.topics)
        strange |= _any((self.want < 0) | topics[self.want], self.wants_at)
        odd = (self.held < 0) | topics[self.held]
        odd |= _any(~there(self.ids), self.ids_at)
        strange |= _any(odd, self.held_at)
        topic_of = np.repeat(np.arange(len(seats)), np.diff(self.held_at)) * len(self.topics) + self.held
        again = np.ones(len(held), dtype=np.bool_)
        again[np.unique(topic_of, return_index=True)[1]] = False  # one topic in two entries of a member
        return strange | _any(again, self.held_at)

    def rows(self, seats: Longs, kind: pa.StructType) -> pa.StructArray:
        """Some members as ``stored.member_row`` tells of them; none of them is strange."""
        taken = self.column.take(pa.array(seats))
        columns = {name: taken.field(name) for name in ("member_id", "instance_id", "client_id", "host", "rack")}
        columns["session_timeout_ms"] = taken.field("session_timeout_ms").fill_null(0)
        columns["process_id"] = pa.nulls(len(seats), pa.string())
        columns["roles"] = pa.array([[]] * len(seats), kind.field("roles").type)
        width = max(1, len(self.topics))

        counts = np.diff(self.wants_at)[seats]
        want = self.want[spans(self.wants_at[seats], counts)]
        wanted = united(np.repeat(np.arange(len(seats)), counts) * width + want)
        columns["topics"] = listed(np.bincount(wanted // width, minlength=len(seats)), self._names(wanted % width))

        counts = np.diff(self.held_at)[seats]
        seat, entry = np.repeat(np.arange(len(seats)), counts), spans(self.held_at[seats], counts)
        entry = entry[np.lexsort((self.held[entry], seat))]
        sizes = np.diff(self.ids_at)[entry]
        ids = longs(self.ids)[spans(self.ids_at[entry], sizes)]
        ids = ids[np.lexsort((ids, np.repeat(np.arange(len(entry)), sizes)))]
        partitions = listed(sizes, pa.array(ids, pa.int32()))
        held = kind.field("assigned").type
        assigned = pa.StructArray.from_arrays([self._names(self.held[entry]), partitions], fields=list(held.value_type))
        columns["assigned"] = listed(counts, assigned)
        return pa.StructArray.from_arrays([columns[one.name].cast(one.type) for one in kind], fields=list(kind))

    def _names(self, topic: Longs) -> pa.Array:
        return self.topics.take(pa.array(topic))


class ClassicAlike:
    """Groups of one task whose classic generations are on columns, group after group, by offset.

    like
        (groups,) the group that is folded for it: itself, or the first of its key.
    """

    def __init__(self, generations: pa.Table, start: Longs, groups: pa.Array, alone: Bools) -> None:
        """Find the keys.

        generations
            The columns that ``by_group`` folds, times as ``at_ms`` and ``state_ms``, and ``holes``.
        start
            (groups + 1,) where the rows of each begin.
        alone
            (groups,) those that are folded by themselves whatever their generations are.
        """
        self._rows, self._start, self._groups = generations, start, groups
        self._seats = _ClassicSeats.of(generations["members"].combine_chunks())
        self._number = longs(generations["generation"])
        self.like: Ints = np.arange(len(groups))
        first: dict[tuple[bytes, ...], int] = {}
        for group, key in self._keys(~alone):
            self.like[group] = first.setdefault(key, group)

    def _keys(self, asked: Bools) -> Iterator[tuple[int, tuple[bytes, ...]]]:
        """Groups that have a key, with it."""
        rows, seats, start = self._rows, self._seats, self._start
        strange = ~there(rows["at_ms"]) | ~there(rows["generation"]) | (self._number < 0)
        strange |= np.asarray(rows["tombstone"].fill_null(True))
        strange |= ~np.asarray(pc.is_in(rows["protocol_type"], pa.array(["consumer", ""])))
        strange |= _any(seats.strange(), seats.at)
        seat_at = seats.at[start]
        wants_at, held_at = seats.wants_at[seat_at], seats.held_at[seat_at]
        ids_at = seats.ids_at[held_at]
        asked = asked & (np.diff(start) > 0) & ~_any(strange, start) & (np.diff(ids_at) <= LARGEST)

        numbers = np.arange(len(start) - 1)
        of_seat, of_want, of_held = (np.repeat(numbers, np.diff(at)) for at in (seat_at, wants_at, held_at))
        repeats = np.zeros(len(self._number), dtype=np.int64)
        repeats[1:] = self._number[1:] == self._number[:-1]
        repeats[start[:-1][np.diff(start) > 0]] = 0
        (rack,), _ = ranked(seats.column.field("rack"))
        [member] = _dense((seats.member, of_seat))
        [instance] = _dense((seats.instance, of_seat))
        want, held = _dense((seats.want, of_want), (seats.held, of_held))
        parts = (
            (start, np.column_stack((np.diff(seats.at), repeats))),
            (seat_at, np.column_stack((member, instance, rack, np.diff(seats.wants_at), np.diff(seats.held_at)))),
            (wants_at, want),
            (held_at, np.column_stack((held, np.diff(seats.ids_at)))),
            (ids_at, longs(seats.ids).astype(np.int32)),
        )
        cut = [(at.tolist(), np.ascontiguousarray(values)) for at, values in parts]
        for group in np.flatnonzero(asked).tolist():
            yield group, tuple([values[at[group] : at[group + 1]].tobytes() for at, values in cut])

    @property
    def folded(self) -> Bools:
        """(groups,) those that are to be folded."""
        return np.asarray(self.like == np.arange(len(self.like)))

    def laid(self, present: pa.Table, rebalances: pa.Table) -> tuple[dict[str, pa.Table], Ints]:
        """``present`` and ``rebalances`` of the groups that are like another one.

        present, rebalances
            Of the groups that were folded, by group and offset.
        Returns
            Beside the rows the groups that have none: the first of their key could not be folded.
        """
        others = np.flatnonzero(~self.folded)
        failed = present["group"].filter(pc.invert(present["readable"].fill_null(True)))
        unlike = np.isin(self.like[others], longs(pc.index_in(failed, self._groups)))
        others, left_out = others[~unlike], others[unlike]
        begin = np.searchsorted(longs(pc.index_in(rebalances["group"], self._groups)), self.like[others])
        same = rebalances.select(_CHANGE).take(pa.array(spans(begin, np.diff(self._start)[others] - 1)))
        return {"present": self._present(others), "rebalances": self._rebalances(others, same)}, left_out

    def _present(self, groups: Ints) -> pa.Table:
        """The groups as their last generation left them, as ``fold`` tells it."""
        last = self._start[groups + 1] - 1
        first, counts = self._seats.at[last], np.diff(self._seats.at)[last]
        schema = schemas.arrow_schema(schemas.GROUP_STATE)
        members = schema.field("members").type
        rows = self._rows.take(pa.array(last))
        columns = {
            "group": self._groups.take(pa.array(groups)),
            "type": pa.array([CLASSIC] * len(groups), pa.string()),
            "state": pa.array(list(map(state_of, counts.tolist())), pa.string()),
            "protocol": pc.if_else(pa.array(counts > 0), rows["protocol"].combine_chunks(), None),
            "generation": rows["generation"],
            "readable": pa.array([True] * len(groups), pa.bool_()),
            "members": listed(counts, self._seats.rows(spans(first, counts), members.value_type)),
        }
        return pa.table({name: column.cast(schema.field(name).type) for name, column in columns.items()})

    def _rebalances(self, groups: Ints, same: pa.Table) -> pa.Table:
        """The rows of ``rebalances.rebalances``; ``same`` has what the columns do not tell."""
        counts = np.diff(self._start)[groups] - 1
        now = spans(self._start[groups] + 1, counts)
        before = now - 1
        at, started = (self._rows[name].take(pa.array(now)) for name in ("at_ms", "state_ms"))
        holes = longs(self._rows["holes"])
        numbers = [self._number[rows].tolist() for rows in (before, now)]
        joined, left = self._came_and_went(before, now)
        columns = {
            "group": self._groups.take(pa.array(np.repeat(groups, counts))),
            "source_offset": self._rows["source_offset"].take(pa.array(now)),
            "at": pc.multiply(at, 1000),
            "kind": pa.array([CLASSIC] * len(now), pa.string()),
            "generation": pa.array(numbers[1]),
            "previous_generation": pa.array(numbers[0]),
            "members": pa.array(np.diff(self._seats.at)[now]),
            "joined": joined,
            "left": left,
            "skipped": pa.array(list(map(skipped, *numbers))),
            "duration_ms": pa.array(list(map(duration, *numbers, started.to_pylist(), at.to_pylist())), pa.int64()),
            "complete": pa.array(list(map(is_complete, *numbers, holes[before].tolist(), holes[now].tolist()))),
            **{name: same[name] for name in _CHANGE},
        }
        schema = schemas.arrow_schema(schemas.REBALANCES)
        return pa.Table.from_arrays([columns[one.name].cast(one.type) for one in schema], schema=schema)

    def _came_and_went(self, before: Longs, now: Longs) -> tuple[pa.Array, pa.Array]:
        """For each pair of rows the members that the one has and the other has not, by name, and the other way."""
        width = max(1, len(self._seats.names))
        had, has = (self._members_of(rows) for rows in (before, now))
        lists = []
        for some, without in ((has, had), (had, has)):
            few = some[~np.isin(some, without)]
            names = self._seats.names.take(pa.array(few % width))
            lists.append(listed(np.bincount(few // width, minlength=len(now)), names))
        return lists[0], lists[1]

    def _members_of(self, rows: Longs) -> Longs:
        """The members of some generations as numbers that tell the place among these and the name, each once."""
        counts = np.diff(self._seats.at)[rows]
        member = self._seats.member[spans(self._seats.at[rows], counts)]
        return united(np.repeat(np.arange(len(rows)), counts) * max(1, len(self._seats.names)) + member)


def _at(lists: pa.ListArray) -> Longs:
    """Where each list begins among all values, and where the last one ends; nulls are empty, as Arrow leaves them."""
    return np.asarray(lists.offsets, dtype=np.int64)


def _any(flags: Bools, at: Longs) -> Bools:
    """For each run of flags whether one of them is set."""
    counts = np.concatenate(([0], np.cumsum(flags)))
    return np.asarray(counts[at[1:]] > counts[at[:-1]])


def _strange(names: pa.Array, members: bool = False, instances: bool = False) -> Bools:
    """(names + 1,) whether the order of ranks does not tell all that a name does; of null, the last one, False."""
    words = names.to_pylist()
    if told_by_ranks(words if members else (), words if instances else (), words):
        return np.zeros(len(words) + 1, dtype=np.bool_)
    by_ranks = [told_by_ranks([word] if members else (), [word] if instances else (), [word]) for word in words]
    return ~np.array([*by_ranks, True], dtype=np.bool_)


def _dense(*columns: tuple[Longs, Longs]) -> list[Longs]:
    """Ranks of names, each with its group, as ranks among the group's own; -1 stays."""
    width = 2 + max(int(code.max(initial=0)) for code, _ in columns)
    keys = [group * width + code + 1 for code, group in columns]
    every = united(*keys)
    group, code = every // width, every % width
    start = starts_of(group)
    first = np.repeat(start[:-1], np.diff(start))
    rank = np.arange(len(every)) - first
    nulls = np.zeros(len(every), dtype=np.int64)
    nulls[start[:-1][code[start[:-1]] == 0]] = 1
    rank -= np.repeat(nulls[start[:-1]], np.diff(start))
    return [rank[np.searchsorted(every, key)] for key in keys]
